package storage

import "time"

// The bounds of this package. Each is the default of the field with the same name in Options, if there is one.
const (
	// hostRowsBytes ends a step of Host.Rows.
	hostRowsBytes = 4 << 20
	// cacheBytesDefault is the size of the block cache: small, for a node whose configuration does not set it.
	cacheBytesDefault = 32 << 20
	// memTableBytesDefault is the size of a memtable. Several may wait for a flush (package database). Four nodes on
	// one machine stay below 1 GB even if they all write at full speed.
	memTableBytesDefault = 64 << 20
	// groupBytesMax bounds one commit: large enough that its fixed costs are negligible, and small enough that it is
	// copied in well under a millisecond and never becomes a flushable batch of its own.
	groupBytesMax = 4 << 20
	// groupsKept groups are reused: one being committed, one being filled and a spare one. Each keeps up to
	// groupBytesKept, enough for a round of conditional changes (1 MiB and the last change). Together they keep at
	// most 6 MiB.
	groupsKept     = 3
	groupBytesKept = 2 << 20
	// compactPartBytes is the size of the parts in which an operator's compaction of a table works and reports
	// progress: about a second of work. Files at the borders of parts are compacted twice.
	compactPartBytes = 128 << 20
	compactPartsMax  = 1000
	// slowSync is the duration from which a slow sync of the log is logged: requests time out after 2 s.
	slowSync = time.Second
	// PendingBytesMax is the default of Options.PendingBytes: one second of a disk with 64 MB/s.
	PendingBytesMax = 64 << 20
	// pageBytesMax ends a page early: 5000 rows (the usual page) of 800 bytes.
	pageBytesMax = 4 << 20
	// filterRowsMax ends a page of a filtered read that omits this much: 16,384 small rows take about 5 ms, at 0.25 µs
	// each.
	filterRowsMax = 16 << 10
	// foldQueueMax bounds the rows that wait to be collapsed; the next read finds further ones again.
	foldQueueMax = 64
	// blockBytes is the size of a block of a file before compression.
	blockBytes = 16 << 10
	// reclaimAfter is how long removals of data wait for others before their space is freed: each flush of a memtable
	// makes a file. reclaimSpansMax bounds how many wait.
	reclaimAfter    = 500 * time.Millisecond
	reclaimSpansMax = 256
	// localAlwaysBytes is the size of the longest local value that is accepted while the disk is full. Such notes,
	// for example of a truncation, are necessary to remove data. Hints and batches are longer.
	localAlwaysBytes = 32
	// ballastBytesDefault is the size of the ballast file, which is deleted when the disk is full: enough to flush a
	// memtable or two.
	ballastBytesDefault = 64 << 20
	// syncPeriodDefault is Cassandra's commitlog_sync_period.
	syncPeriodDefault = 10 * time.Second
	// shadowedMax is the number of shadowed rows from which a read reports a partition to the purger: they cost the
	// read 0.3 ms, and the purger 1 ms. deadPartitionsMax bounds the reported partitions that wait; the next read
	// finds further ones again.
	shadowedMax       = 1_000
	deadPartitionsMax = 64
	// ceilingSlack (µs) is how far a table's ceiling is ahead of its rows, so that one more key is written every 10
	// s. After a restart, bounds do not help with deletions that are older than the ceiling.
	ceilingSlack = 10_000_000
	// skipAfter is the number of shadowed rows from which a read tries to skip the rest of a range tombstone: reading
	// them costs as much as the seek.
	skipAfter = 16
)
