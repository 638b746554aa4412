package turn

import "time"

const (
	// Kept is how long a turn is kept for a node that does not give it back: it died, or its round takes longer than
	// any that goes well.
	Kept = 250 * time.Millisecond
	// WaitMax is how long a turn is waited for: some turns of others.
	WaitMax = 500 * time.Millisecond
	// contestedFor is how long a partition is known for being changed by several.
	contestedFor = 5 * time.Second
	// linesMax bounds the partitions that are ordered at once, waitersMax the nodes that wait for one.
	linesMax, waitersMax = 4096, 256
	// slots is how many partitions are remembered, by a coordinator and by a home.
	slots = 1024
)
