package batchlog

import (
	"cmp"
	"time"
)

// Limits are the bounds of the batch log. Zero means the default.
type Limits struct {
	// Bytes bounds the stored batches: at 10 KiB each and two holders, 64 MiB cover 3,000 batches a second from each of
	// as many nodes as hold them, for the second that they are stored.
	Bytes int64
	// BytesPerSecond limits the replay of batches whose coordinator died, like Cassandra's batchlog_replay_throttle.
	BytesPerSecond int64
	// Retry is the pause before a batch that could not be written or handed over is tried again.
	Retry time.Duration
	// Spare is how long a holder may take to store a batch before a request goes to a further node: several times a
	// sync of a slow disk, and a tenth of the default write timeout.
	Spare time.Duration
	// HandOvers is how many batches a node that leaves hands over at a time: at 5 ms for the syncs of two holders,
	// 3,000 a second; at 50 KiB, the largest that clients may send, 800 KiB are in flight.
	HandOvers int
	// Release is how long removals of batches are collected: 50 messages a second to each holder.
	Release time.Duration
}

// BytesMax is the default of Limits.Bytes.
const BytesMax = 64 << 20

// withDefaults replaces zero by the defaults.
func (l Limits) withDefaults() Limits {
	l.Bytes = cmp.Or(l.Bytes, BytesMax)
	l.BytesPerSecond = cmp.Or(l.BytesPerSecond, 1<<20)
	l.Retry = cmp.Or(l.Retry, 5*time.Second)
	l.Spare = cmp.Or(l.Spare, 200*time.Millisecond)
	l.HandOvers = cmp.Or(l.HandOvers, 16)
	l.Release = cmp.Or(l.Release, 20*time.Millisecond)
	return l
}
