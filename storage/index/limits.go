package index

// The bounds of this package.
const (
	// remembered is how many entries of the partition index are remembered for each of 64 stripes: 16,384 partitions
	// that are written to now, in 40 bytes and a key each. keyRemembered is the longest key (bytes) that is: 3 MiB in
	// all.
	remembered    = 256
	keyRemembered = 128
	// buildStep is how many entries of the partition index are written at once when it is built: 100 KB of short keys.
	buildStep = 2_000
	// A step of a listing looks at stepKeys keys, or ends with stepBytes bytes of them: 5 ms, and a page of a client. A
	// step of a search looks at as many entries, each of which is a read of a row, or ends with searchBytes bytes of
	// rows. stepDropped is how many entries of empty partitions, or how many stale entries, it removes.
	stepKeys    = 1_000
	stepBytes   = 256 << 10
	searchBytes = 1 << 20
	stepDropped = 64
	// The memory of the candidates of a step begins with candidatesBegun of them, and comes in pieces of keptMin to
	// keptMax bytes.
	candidatesBegun = 128
	keptMin         = 1 << 10
	keptMax         = 64 << 10
	// cancelEvery is how many partitions a listing looks at, of which each is a read, before it looks whether it is
	// canceled. scanCancelEvery is how many entries a search passes over, without a read.
	cancelEvery     = 32
	scanCancelEvery = 4_096
	// buildRows is how many rows one step of the build of a value index reads: 10 ms.
	buildRows = 2_000
	// termMax is how many bytes of a term its entry has, unless Definition.Whole: most values are shorter, and a value
	// of 2 MB must not make a key of 2 MB.
	termMax = 1_024
	// mergedTerms is how many single terms a search in the order of tokens reads with an iterator for each: an IN of
	// usual size. Beyond, and for other intervals, it looks at entries and keeps the first ones, up to stepKeys.
	mergedTerms = 64
	// A search of intervals in the order of tokens looks at rangeEntries entries, in 0.3 ms, then at rangeRows rows of
	// the table or rangeBytes bytes of them, and so on. A step ends when it has looked at rangeStep rows: about half a
	// second.
	rangeEntries = 2_048
	rangeRows    = 500
	rangeBytes   = 256 << 10
	rangeStep    = 256 << 10
	// A sweep for stale entries begins when one entry in sweepShare can be stale, or sweepPatience seconds after the
	// last one if anything has changed: with 10,000 entries a second, changes to a table cost at most sweepShare reads
	// of a row each.
	sweepShare    = 8
	sweepPatience = 3_600
	// ingestChanges is counted for an ingestion, and for other changes of unknown size: a sweep follows.
	ingestChanges = 1 << 40
	// pendingMax is how many entries wait for a graph: they are compared by each search, in 1 ms for 128 dimensions. A
	// graph that is behind by more is not used until it has caught up. compareMax is how many entries one step of that
	// looks at. Both bound what graphs.go does in one step.
	pendingMax = 2_000
	compareMax = 20_000
	// GraphBytes bounds the memory of one graph, unless Values.SetGraphBytes does: a million vectors of 128 dimensions.
	// Beyond, searches look at all entries.
	GraphBytes = 1 << 30
	// graphAttempts is how often a search of a graph is tried while entries may leave the graph. Each attempt takes a
	// millisecond, and is discarded if one has left. The attempt after them makes removals wait.
	graphAttempts = 2
	// graphBeam is the least number of vectors that a search of a graph considers.
	graphBeam = 128
)
