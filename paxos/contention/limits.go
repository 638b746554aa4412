package contention

import "time"

const (
	// kept is how long a turn is kept for a node that does not give it back, because it died or its round takes longer
	// than any that goes well: keptTurns times what turns last on average, within bounds; kept before any was measured.
	kept                = 250 * time.Millisecond
	keptTurns           = 8
	keptLeast, keptMost = 100 * time.Millisecond, time.Second
	// patienceWaits times what an arbiter's answers take on average, and at least patienceLeast, is how long its answer
	// is waited for.
	patienceWaits = 4
	patienceLeast = 50 * time.Millisecond
	// avoided is how long an arbiter is not asked that was silent. Then one request tries it again.
	avoided = 500 * time.Millisecond
	// silentMax bounds the arbiters that are avoided.
	silentMax = 256
	// WaitMax is how long a turn is waited for: some turns of others.
	WaitMax = 500 * time.Millisecond
	// contestedFor is how long a partition is known for being changed by several.
	contestedFor = 5 * time.Second
	// linesMax bounds the partitions that are ordered at once, waitersMax the nodes that wait for one.
	linesMax, waitersMax = 4096, 256
	// slots is how many partitions are remembered, by a coordinator and by a home.
	slots = 1024
)
