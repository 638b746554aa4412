package contention

import "time"

const (
	// kept is how long a turn lasts if the node does not return it, because the node died or its round takes unusually
	// long: keptTurns times the average duration, within bounds; kept before there is an average.
	kept                = 250 * time.Millisecond
	keptTurns           = 8
	keptLeast, keptMost = 100 * time.Millisecond, time.Second
	// A coordinator waits timeoutTrips times the average response time of an arbiter, and at least timeoutLeast, for
	// its answer.
	timeoutTrips = 4
	timeoutLeast = 50 * time.Millisecond
	// avoided is how long an unresponsive arbiter is not asked. Then one request tries it again.
	avoided = 500 * time.Millisecond
	// silentMax bounds the avoided arbiters, heardMax those with a known time of the last answer.
	silentMax, heardMax = 256, 4096
	// WaitMax bounds the wait for a turn: several turns of others.
	WaitMax = 500 * time.Millisecond
	// contestedFor is how long a partition counts as contended.
	contestedFor = 5 * time.Second
	// partitionsMax bounds the partitions with turns at a time, waitersMax the nodes that wait for one partition.
	partitionsMax, waitersMax = 4096, 256
	// slots is the number of partitions that a coordinator, and an arbiter, remember.
	slots = 1024
)
