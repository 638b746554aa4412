package reading

const (
	// tombstonesWarn is the number of tombstones from which a read is logged, as Cassandra's tombstone_warn_threshold.
	// It counts each cell that is deleted or expired, and two for a range tombstone.
	tombstonesWarn = 1_000
	// filterBytesMax ends a page of a filtered read that omits this many bytes: as long as 16,384 rows of 1 KiB.
	filterBytesMax = 16 << 20
	// cellsKept is the number of decoded cells, of 72 bytes, for which an idle reader keeps memory.
	cellsKept = 4096
	// headerKept is the largest copy of a partition's header for which an idle reader keeps memory, and headerFree
	// the largest copy that is not counted in addition to the header in the page.
	headerKept = 64 << 10
	headerFree = 1 << 10
	// probeBytesKept is the largest scratch memory that a Prober keeps from one partition to the next.
	probeBytesKept = 256 << 10
	// cancelEvery is the number of entries that a read scans between two checks for cancellation: 100 µs.
	cancelEvery = 256
)
