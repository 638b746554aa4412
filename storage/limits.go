package storage

import "time"

// The bounds of this package. Each is the default of the Options field of that name, if there is one.
const (
	// cacheBytesDefault is the block cache: small, for a node that was told nothing about its machine.
	cacheBytesDefault = 32 << 20
	// memTableBytesDefault: several may wait for a flush (memTablesMax), so that four nodes on one
	// machine stay below a GB even when they all write as fast as they can.
	memTableBytesDefault = 64 << 20
	memTablesMax         = 4
	// keyBytesMax is what the length field of a key can say.
	keyBytesMax = 1<<16 - 1
	// groupBytesMax bounds one commit: large enough that its fixed costs vanish, small enough that
	// it is copied in well under a millisecond and never becomes a flushable batch of its own.
	groupBytesMax = 4 << 20
	// groupsKept groups are used again, with up to groupBytesKept each: one that is committed, one that fills
	// and a spare one, for a round of conditional changes (1 MiB and the last of them): 6 MiB at most.
	groupsKept     = 3
	groupBytesKept = 2 << 20
	// logAhead is how many zeros are written ahead in a log at a time: with 1 KB a write, one sync of two hundred
	// takes a millisecond more.
	logAhead = 256 << 10
	// slowSync is from how long on the operator hears of a sync of the log: requests time out after 2 s.
	slowSync = time.Second
	// pendingBytesMax bounds what waits for the committer: one second of a disk that takes 64 MB/s.
	pendingBytesMax = 64 << 20
	// pageBytesMax ends a page early: 5000 rows (the usual page) of 800 bytes.
	pageBytesMax = 4 << 20
	// A read that meets this many tombstones is remarked on, or refused; Cassandra's thresholds.
	tombstonesWarn = 1_000
	tombstonesFail = 100_000
	// foldOperandsMin is from how many merge operands on a row is folded into one: at 0.4 µs each, a
	// read then spends some 10 µs on merging, as much as the fold costs once.
	foldOperandsMin = 32
	// foldQueueMax bounds the rows that wait to be folded; more are found again by the next read.
	foldQueueMax = 64
	// mergeArenaBytes is how much a merge gathers before it merges what it has.
	mergeArenaBytes = 64 << 10
	// mergeLargeBytes is from how many bytes on an operand is merged at once: copying it costs more then than
	// finding out whether it changes anything.
	mergeLargeBytes = 4 << 10
	// probeBytesKept is the largest scratch memory that a Prober keeps from one partition to the next.
	probeBytesKept = 256 << 10
	// quarantineMax bounds the corruptions that are remembered.
	quarantineMax = 256
	// freeSpaceMin and freeSpaceResume are the parts of the disk that must be free: below the first
	// writes are refused, above the second they are taken again.
	freeSpaceMin    = 0.05
	freeSpaceResume = 0.06
	// reclaimAfter is how long removals of data wait for others before their space is freed: each flush of a memtable
	// makes a file. reclaimSpansMax bounds how many wait.
	reclaimAfter    = 500 * time.Millisecond
	reclaimSpansMax = 256
	// localAlwaysBytes is the longest local value that a full disk takes: notes such as when a table was truncated,
	// without which nothing could be removed. Hints and batches are longer.
	localAlwaysBytes = 32
	// freeSpaceEvery is how often the free space is looked at: a refusal comes within a second.
	freeSpaceEvery = 250 * time.Millisecond
	// ballastBytesDefault is given back to the disk when it is really full: enough to flush a
	// memtable or two.
	ballastBytesDefault = 64 << 20
	// syncPeriodDefault is Cassandra's commitlog_sync_period.
	syncPeriodDefault = 10 * time.Second
	// sweepEvery is how long the sweeper rests after it has seen everything; sweepRows is how much
	// it looks at before it pauses for sweepPause, which keeps it at a few percent of one core.
	sweepEvery = 10 * time.Minute
	sweepRows  = 2_000
	sweepPause = 20 * time.Millisecond
	// sweepBatch is how many entries are overwritten under one latch: some 100 µs.
	sweepBatch = 64
	// cancelEvery is how many entries a read looks at before it looks whether it is canceled: 100 µs.
	cancelEvery = 256
)
