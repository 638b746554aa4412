package database

const (
	// corruptionsMax bounds the corruptions that are remembered.
	corruptionsMax = 256
	// LogBytesPerSync is the number of bytes of the log after which the kernel is asked to write them in the
	// background. When a memtable is full, all writes wait until the rest of its log is on disk: 3 MiB instead of all
	// of it.
	LogBytesPerSync = 2 << 20
	// indexBlocks is the size of an index block of an sstable, as a multiple of the size of a data block. An index of
	// several blocks has two levels, and each seek searches both; with blocks as small as data blocks, nearly all
	// files had two. 256 KiB describe about 60 MB of rows.
	indexBlocks = 16
	// memTablesMax memtables may exist, of which one accepts writes and the others wait for a flush.
	memTablesMax = 4
)
