package rebalance

import (
	"cmp"
	"time"
)

// Limits bounds Streams. Zero fields mean the default.
type Limits struct {
	// BlockBytes is the size of one reply. It is small enough to be read and sent within a few ms, so that client
	// requests on the same connection do not wait.
	BlockBytes int
	// FileBytes is the size of an sstable that is ingested. At 24 MiB/s, a crash repeats at most two thirds of a second
	// of streaming, and 1 GiB is 64 files.
	FileBytes int64
	// BytesPerSecond limits what this node sends in total (stream_throughput_outbound); the default is Cassandra's, 24
	// MiB/s.
	BytesPerSecond int64
	// SessionsMax bounds the sessions under way on this node; further ones wait. Each holds a block and the buffers of
	// an sstable, about 1 MiB.
	SessionsMax int
	// HeldMax bounds the blocks that wait for BytesPerSecond. Further requests are refused as overloaded, and retried.
	HeldMax int
	// Timeout bounds the wait for one block.
	Timeout time.Duration
	// RetryMin and RetryMax bound the pause after a failure, which doubles each time. After RetryFor without a reply,
	// the session fails.
	RetryMin, RetryMax, RetryFor time.Duration
	// TruncationWait is how long after a truncation on this node a source must have applied it, too, before it may
	// answer. It is longer than the timeout of TRUNCATE.
	TruncationWait time.Duration
}

// The defaults of the fields with these names.
const (
	// Exported, because package node divides its memory by them.
	BlockBytes = 256 << 10
	HeldMax    = 64
)

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	l.BlockBytes = cmp.Or(l.BlockBytes, BlockBytes)
	l.FileBytes = cmp.Or(l.FileBytes, 16<<20)
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, 24<<20)
	l.SessionsMax = cmp.Or(l.SessionsMax, 4)
	l.HeldMax = cmp.Or(l.HeldMax, HeldMax)
	l.Timeout = cmp.Or(l.Timeout, 10*time.Second)
	l.RetryMin = cmp.Or(l.RetryMin, 100*time.Millisecond)
	l.RetryMax = cmp.Or(l.RetryMax, 5*time.Second)
	l.RetryFor = cmp.Or(l.RetryFor, 2*time.Minute)
	l.TruncationWait = cmp.Or(l.TruncationWait, 2*time.Minute)
	return l
}

// Bounds of range movements.
const (
	// sessionsAhead bounds the sessions of one operation that are started at a time.
	sessionsAhead = 16
	// movementRetry is the pause of an operation when a range has too few live sources, or the log did not take a
	// report.
	movementRetry = time.Second
	// stuckReported is the number of failed attempts after which the operator is informed. A node that has just started
	// does not know yet which nodes are alive.
	stuckReported = 4
	// deadAfter is the default of MovementOptions.DeadAfter: longer than a node takes to restart.
	deadAfter = 30 * time.Second
)

// Bounds of comparisons.
const (
	// compareLeafBytes and compareLeavesMax equal the repairs' limits: scanning dominates the cost, and 4096 leaves are
	// 96 KiB of hashes.
	compareLeafBytes = 256 << 10
	compareLeavesMax = 4096
	// comparesAhead bounds the comparisons of one operation under way: each keeps a core of its source busy.
	comparesAhead = 2
	// compareTimeout bounds one step, which hashes 1 MiB.
	compareTimeout = 10 * time.Second
)

// Bounds of streams.
const (
	// streamBlockMax bounds the bytes that a node can request in one block.
	streamBlockMax = 4 << 20
	// streamBurst is how far the send budget may be overdrawn: a timer for each block would only delay it.
	streamBurst = 20 * time.Millisecond
	// sendingKept is how long a range counts as being sent after a block that is not its last: the peer may have ended.
	sendingKept = 10 * time.Second
	// endedShown is how long a range is shown after its last block: most ranges have one block only.
	endedShown = 2 * time.Second
	// sendingMax bounds the ranges for which statistics are kept: 100 bytes each.
	sendingMax = 1000
)

// Bounds of drops.
const (
	// holdsTimeout bounds a replica's answer about the ranges that it holds.
	holdsTimeout = 2 * time.Second
	// dropRetry is the pause before a failed decision is retried.
	dropRetry = time.Second
	// dropFailuresReported is the number of failures per log entry.
	dropFailuresReported = 60
	// gainedDelay is how long a check of gained ranges waits, so that one check covers many notices of repairs.
	gainedDelay = time.Second
)
