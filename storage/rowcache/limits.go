package rowcache

// The bounds of a cache.
const (
	// BytesMin is the size of the smallest cache.
	BytesMin = 64 << 10
	// Locks are held for less than a microsecond, except while a segment is reclaimed (up to 100 µs).
	shardsMax     = 1 << 10
	shardBytesMin = 256 << 10
	// segments of a shard: one is being filled, and the oldest one is reclaimed when it is full.
	segments = 8
	// entryBytesMax is the size of the largest entry: larger rows cost more to copy than to find.
	entryBytesMax = 8 << 10
	// An entry of usual size has 128 bytes. In the index, it has its hash and its place, in a map that may be half
	// empty.
	indexBytes = 32
	indexShare = 4 // a quarter of the bytes is for the index
	// slots are counters of partitions.
	slotsMin, slotsMax = 1 << 8, 1 << 18
	counterBytes       = 12
	// keptMax bounds the memory of a finished write that is kept, in counters: 32 KiB.
	keptMax = 4096
	// tableGroups is the number of counters of tables, which share them.
	tableGroups = 64
)
