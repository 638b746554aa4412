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
	// PartitionKeys is the most keys in one answer of Partitions: ten pages of a client; of 1 KiB each,
	// the longest that Azure has, they are over the ResultBytes that bound an answer, too.
	PartitionKeys int
	// PlansMax is how often a request is planned when replicas refuse it for their epoch. With
	// pauses of 10, 20, 40, … 640 ms it waits 1.3 s, and metadata reaches every node in a few ms.
	PlansMax int

	// CounterNames is how many updates of one other node a leader remembers, to count none twice: at
	// 10,000 a second from one coordinator that is 0.4 s, and messages of a connection do not overtake
	// each other. 100 bytes each: 400 KiB for a node.
	CounterNames int
	// CounterGroup is how many updates of one partition are led together: at 1 ms for a sync, a
	// partition takes 128,000 a second.
	CounterGroup int

	// BatchBytes bounds the logged batches kept for other nodes: at 10 KiB each and two holders, 64 MiB
	// cover 3,000 a second from each of as many nodes as hold, for the second that they are kept.
	BatchBytes int64
	// BatchBytesPerSecond paces the replay of batches whose coordinator died, as Cassandra's
	// batchlog_replay_throttle.
	BatchBytesPerSecond int64
	// BatchRetry is how long a batch waits that could not be written, or not be handed over.
	BatchRetry time.Duration
	// BatchSpare is how long a holder may take to store a batch before another is asked too: several times a sync of
	// a slow disk, and a tenth of the default write timeout.
	BatchSpare time.Duration
	// BatchHandOvers is how many batches a node that leaves hands over at a time: at 5 ms for two holders' syncs,
	// 3,000 a second; of 50 KiB, the largest that clients may send, they are 800 KiB under way.
	BatchHandOvers int
	// BatchRelease is how long releases of batches are gathered: 50 messages a second and holder.
	BatchRelease time.Duration

	// HintBytesPerNode bounds the hints for one node: a node that misses 10,000 writes of 100 bytes
	// in a second is covered for two minutes, one that misses 100 a second for three hours.
	HintBytesPerNode int64
	// HintBytes bounds all hints of this node.
	HintBytes int64
	// HintBufferBytes is when gathered hints are written out before HintFlush has passed.
	HintBufferBytes int
	// HintFlush is how long hints are gathered before one sync writes them: 50 syncs a second and
	// dead node at most.
	HintFlush time.Duration
	// HintBytesPerSecond paces replay for each node: 4 MiB/s is 3 % of a 1 Gbit/s link; 128 MiB are
	// delivered in half a minute.
	HintBytesPerSecond int64
	// HintRetry is how long replay pauses after a failure, and how often it looks whether a node
	// with hints is alive.
	HintRetry time.Duration
	// HintWindow is how long a hint is kept. The table's gc_grace_seconds, when smaller, wins: an
	// older hint could bring back what was deleted.
	HintWindow time.Duration
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
	setDefault(&l.PartitionKeys, 10_000)
	setDefault(&l.PlansMax, 8)
	setDefault(&l.CounterNames, 4_096)
	setDefault(&l.CounterGroup, 128)
	setDefault(&l.BatchBytes, 64<<20)
	setDefault(&l.BatchBytesPerSecond, 1<<20)
	setDefault(&l.BatchRetry, 5*time.Second)
	setDefault(&l.BatchSpare, 200*time.Millisecond)
	setDefault(&l.BatchHandOvers, 16)
	setDefault(&l.BatchRelease, 20*time.Millisecond)
	setDefault(&l.HintBytesPerNode, 128<<20)
	setDefault(&l.HintBytes, 512<<20)
	setDefault(&l.HintBufferBytes, 256<<10)
	setDefault(&l.HintFlush, 20*time.Millisecond)
	setDefault(&l.HintBytesPerSecond, 4<<20)
	setDefault(&l.HintRetry, time.Second)
	setDefault(&l.HintWindow, 3*time.Hour)
	setDefault(&l.TruncationMost, 2*time.Minute)
	return l
}

func setDefault[T ~int | ~int64 | ~uint32](v *T, d T) {
	if *v == 0 {
		*v = d
	}
}
