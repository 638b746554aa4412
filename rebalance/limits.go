package rebalance

import (
	"cmp"
	"time"
)

// Limits are the bounds of Streams. Zero means the default.
type Limits struct {
	// BlockBytes is how much one answer carries: it is read and sent in a few ms, so that requests of
	// clients on the same connection do not wait.
	BlockBytes int
	// FileBytes is when an sstable is complete: at 24 MiB/s it is two thirds of a second that a crash
	// makes fetch again, and a GiB is 64 files.
	FileBytes int64
	// BytesPerSecond is what this node sends in all: stream_throughput_outbound, Cassandra's 24 MiB/s.
	BytesPerSecond int64
	// SessionsMax is how many pulls of this node are under way at once; the others wait. Each holds a block
	// and the buffers of an sstable, about a MiB.
	SessionsMax int
	// HeldMax is how many blocks may wait for BytesPerSecond before who asks is told to come again.
	HeldMax int
	// Timeout is how long a block may take.
	Timeout time.Duration
	// RetryMin and RetryMax are the pauses after failures, which double; after RetryFor without an
	// answer the pull fails.
	RetryMin, RetryMax, RetryFor time.Duration
	// TruncationWait is how long after a truncation of a table here a source must have made it too: more than the time
	// that TRUNCATE gives to nodes.
	TruncationWait time.Duration
}

func (l Limits) withDefaults() Limits {
	l.BlockBytes = cmp.Or(l.BlockBytes, 256<<10)
	l.FileBytes = cmp.Or(l.FileBytes, 16<<20)
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, 24<<20)
	l.SessionsMax = cmp.Or(l.SessionsMax, 4)
	l.HeldMax = cmp.Or(l.HeldMax, 64)
	l.Timeout = cmp.Or(l.Timeout, 10*time.Second)
	l.RetryMin = cmp.Or(l.RetryMin, 100*time.Millisecond)
	l.RetryMax = cmp.Or(l.RetryMax, 5*time.Second)
	l.RetryFor = cmp.Or(l.RetryFor, 2*time.Minute)
	l.TruncationWait = cmp.Or(l.TruncationWait, 2*time.Minute)
	return l
}
