package restriction

import "math"

// Bounds on the computation and memory that one statement may cause on the coordinator. Except for keyBytesMax,
// Cassandra has no such bounds, or only guardrails that are disabled by default.
const (
	// keysMax bounds the product of the keys or rows in IN lists. Each takes about 100 bytes.
	keysMax = 1 << 17
	// listSearched is the number of values of a filter's IN up to which each of them is compared with each row.
	// Longer lists are sorted, and use binary search.
	listSearched = 8
	// keyBytesMax is the maximum size of partition keys and written clusterings.
	keyBytesMax = math.MaxUint16
	// candidatesMax bounds the indexes among which an execution chooses. entriesCounted bounds how many entries of
	// each are counted, which takes 0.2 ms. If an index has at most entriesFew entries, the others are not counted.
	candidatesMax  = 8
	entriesCounted = 1_000
	entriesFew     = 16
	// relationsMax bounds the relations of WHERE that are combined with AND. Some are compared in pairs, and a
	// million pairs take 5 ms.
	relationsMax = 1024
	// multiColumnsMax bounds the columns of a relation on several columns. A range of n columns has a slice for each
	// prefix of the clustering: 512 KiB for 256 columns of 8 bytes.
	multiColumnsMax = 256
	// unionMax bounds the indexes that a union searches for an OR. An OR with more branches filters rows.
	unionMax = 32
)
