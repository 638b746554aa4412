package coordinator

import (
	"cmp"
	"time"
)

// Limits are the coordinator's bounds. Zero means the default.
type Limits struct {
	// WritesInFlight bounds the writes that wait for replicas: with a write timeout of 2 s and mutations of 1 KiB,
	// 16,384 use about 16 MiB and admit 8,000 writes a second that all time out.
	WritesInFlight int64
	// WriteBytesInFlight bounds the same in bytes: one eighth of a node of 1 GiB.
	WriteBytesInFlight int64
	// ReadsInFlight bounds the reads that wait for replicas: each retains at most a page (≤ 1 MiB, mostly a few KiB)
	// for each replica; 8,192 reads of 8 KiB at 3 replicas use 192 MiB.
	ReadsInFlight int64
	// RangesInFlight bounds the ranges that one range read requests at once: each may retain a page of the whole limit;
	// see ResultBytes.
	RangesInFlight int
	// RoundsMax bounds how often a read is continued because replicas ended their pages early, or is repeated: every
	// round requests at least twice the rows of the previous one, up to RoundRowsMax.
	RoundsMax int
	// RoundRowsMax bounds the rows that one continuation requests.
	RoundRowsMax uint32
	// ResultBytes is the size at which a merged answer ends early, as storage ends a page: the answer then reports that
	// there is more. Eight ranges of such pages from three replicas use 96 MiB, in the widest possible read.
	ResultBytes int
	// PlansMax bounds how often a request is planned if replicas refuse it because of their epoch. With pauses of 10,
	// 20, 40, … 640 ms it waits 1.3 s, and metadata reaches every node in a few ms.
	PlansMax int

	// TruncationMost is how long a node waits for the end of a truncation that it has prepared: longer than the longest
	// TRUNCATE.
	TruncationMost time.Duration
}

// withDefaults replaces zero fields by their defaults.
func (l Limits) withDefaults() Limits {
	l.WritesInFlight = cmp.Or(l.WritesInFlight, 16_384)
	l.WriteBytesInFlight = cmp.Or(l.WriteBytesInFlight, 128<<20)
	l.ReadsInFlight = cmp.Or(l.ReadsInFlight, 8_192)
	l.RangesInFlight = cmp.Or(l.RangesInFlight, 8)
	l.RoundsMax = cmp.Or(l.RoundsMax, 1_000)
	l.RoundRowsMax = cmp.Or(l.RoundRowsMax, 10_000)
	l.ResultBytes = cmp.Or(l.ResultBytes, 4<<20)
	l.PlansMax = cmp.Or(l.PlansMax, 8)
	l.TruncationMost = cmp.Or(l.TruncationMost, 2*time.Minute)
	return l
}
