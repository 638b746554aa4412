package index

// The bounds of this package.
const (
	// remembered is the number of entries of the partition index that are cached for each of 64 stripes: 16,384
	// recently written partitions, in 40 bytes and a key each. keyRemembered is the maximum length of a cached key in
	// bytes. Together they bound the cache to 3 MiB.
	remembered    = 256
	keyRemembered = 128
	// buildStep is how many entries of the partition index are written at once when it is built: 100 KB of short keys.
	buildStep = 2_000
	// A step of a listing examines up to stepKeys keys or stepBytes bytes of keys: 5 ms, and a page of a client. A
	// step of a search examines up to stepKeys entries, each of which costs a read of a row, or searchBytes bytes of
	// rows. stepDropped bounds the entries of empty partitions, or the stale entries, that a step removes.
	stepKeys    = 1_000
	stepBytes   = 256 << 10
	searchBytes = 1 << 20
	stepDropped = 64
	// A step first allocates memory for candidatesBegun candidates, and copies their rows into pieces of keptMin to
	// keptMax bytes.
	candidatesBegun = 128
	keptMin         = 1 << 10
	keptMax         = 64 << 10
	// cancelEvery is the number of partitions that a listing reads between two checks for cancellation.
	// scanCancelEvery is the number of entries that a search passes over between two checks, without reading rows.
	cancelEvery     = 32
	scanCancelEvery = 4_096
	// buildRows is how many rows one step of the build of a value index reads: 10 ms.
	buildRows = 2_000
	// termMax is the length in bytes at which entries cut terms, unless Definition.Whole: most values are shorter,
	// and a value of 2 MB must not make a key of 2 MB.
	termMax = 1_024
	// mergedTerms is how many single terms a search in the order of tokens reads with an iterator for each: an IN of
	// usual size. Beyond, and for other intervals, it looks at entries and keeps the first ones, up to stepKeys.
	mergedTerms = 64
	// A search of intervals in the order of tokens examines rangeEntries entries, in 0.3 ms, then rangeRows rows of
	// the table or rangeBytes bytes of them, and so on alternately. A step ends when it has examined rangeStep rows:
	// about half a second.
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
	// pendingMax bounds the entries that are not yet in a graph: each search compares them, in 1 ms for 128
	// dimensions. A graph that lacks more is not used until it is complete. compareMax is the number of entries that
	// one step compares. Both bound what graphs.go does in one step.
	pendingMax = 2_000
	compareMax = 20_000
	// GraphBytes bounds the memory of one graph, unless Values.SetGraphBytes does: a million vectors of 128 dimensions.
	// Beyond, searches look at all entries.
	GraphBytes = 1 << 30
	// graphAttempts is how often a search of a graph is tried while entries may leave the graph. Each attempt takes a
	// millisecond, and is discarded if one has left. The attempt after them makes removals wait.
	graphAttempts = 2
	// graphBeam is the minimum number of vectors that a search of a graph considers.
	graphBeam = 128
)
