package index

// The bounds of this package.
const (
	// remembered is how many entries of the partition index are remembered for each of 64 stripes: 16,384 partitions that
	// are written to now, in 40 bytes and a key each. keyRemembered is the longest key (bytes) that is: 3 MiB in all.
	remembered    = 256
	keyRemembered = 128
	// buildStep is how many entries are written at once when an index is built: 100 KB of short keys.
	buildStep = 2_000
	// A step of a listing looks at stepKeys keys, or ends with stepBytes bytes of them: 5 ms, and a page of a client.
	// stepDropped is how many entries of empty partitions it removes.
	stepKeys    = 1_000
	stepBytes   = 256 << 10
	stepDropped = 64
	// cancelEvery is how many partitions a listing looks at, of which each is a read, before it looks whether it is canceled.
	cancelEvery = 32
)
