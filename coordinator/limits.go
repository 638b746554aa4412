package coordinator

import "time"

// Limits are the coordinator's bounds. Zero means the default.
type Limits struct {
	// WritesInFlight is how many writes may wait for replicas: at 2 s write timeout and 1 KiB a
	// mutation, 16,384 hold about 16 MiB and admit 8,000 writes a second that all time out.
	WritesInFlight int64
	// WriteBytesInFlight bounds the same in bytes: one eighth of a node of 1 GiB.
	WriteBytesInFlight int64
	// ReadsInFlight is how many reads may wait: each keeps at most a page (≤ 1 MiB, mostly a few
	// KiB) for each replica it asked; 8,192 of 8 KiB and 3 replicas are 192 MiB.
	ReadsInFlight int64
	// RangesInFlight is how many ranges one range read asks for at once: every one may hold a page
	// of the whole limit; see ResultBytes.
	RangesInFlight int
	// RoundsMax is how often a read is continued because replicas ended their pages early, or asked
	// again: every round asks for at least twice the rows of the one before, up to RoundRowsMax.
	RoundsMax int
	// RoundRowsMax is the most rows one continuation asks for.
	RoundRowsMax uint32
	// ResultBytes ends a merged answer early, as storage ends a page: it says that there is more.
	// Eight ranges of such pages from three replicas are 96 MiB, for the widest read there can be.
	ResultBytes int
	// PlansMax is how often a request is planned when replicas refuse it for their epoch. With
	// pauses of 10, 20, 40, … 640 ms it waits 1.3 s, and metadata reaches every node in a few ms.
	PlansMax int

	// TruncationMost is how long after it prepared a truncation a node waits for its end: longer than TRUNCATE takes at most.
	TruncationMost time.Duration
}

// withDefaults fills in what is zero.
func (l Limits) withDefaults() Limits {
	setDefault(&l.WritesInFlight, 16_384)
	setDefault(&l.WriteBytesInFlight, 128<<20)
	setDefault(&l.ReadsInFlight, 8_192)
	setDefault(&l.RangesInFlight, 8)
	setDefault(&l.RoundsMax, 1_000)
	setDefault(&l.RoundRowsMax, 10_000)
	setDefault(&l.ResultBytes, 4<<20)
	setDefault(&l.PlansMax, 8)
	setDefault(&l.TruncationMost, 2*time.Minute)
	return l
}

func setDefault[T ~int | ~int64 | ~uint32](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
