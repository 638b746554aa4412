package restriction

import "math"

// Bounds of what one statement may make the coordinator compute or keep. Except for keyBytesMax, Cassandra has no such
// bounds, or only guardrails that are disabled by default.
const (
	// keysMax bounds the product of the keys or rows in lists of IN: each takes some 100 bytes.
	keysMax = 1 << 17
	// listSearched is the number of values of a filter's IN up to which each of them is compared with each row. Longer
	// lists are sorted and searched by halves.
	listSearched = 8
	// keyBytesMax is the maximum size of partition keys and written clusterings.
	keyBytesMax = math.MaxUint16
	// candidatesMax bounds the indexes among which one is chosen for an execution. entriesCounted is how many entries
	// of each are counted at most, in 0.2 ms; entriesFew are so few that the other indexes are not examined.
	candidatesMax  = 8
	entriesCounted = 1_000
	entriesFew     = 16
	// relationsMax bounds the relations of WHERE that are combined with AND. Some are compared in pairs: a million
	// pairs take 5 ms.
	relationsMax = 1024
	// multiColumnsMax bounds the columns of a relation on several columns. A range of them is a slice for each prefix
	// of the clustering: of 256 columns of 8 bytes, 512 KiB.
	multiColumnsMax = 256
	// unionMax bounds the indexed restrictions of an OR whose rows are found by a union. Beyond, OR filters.
	unionMax = 32
)
