package watermark

import "bytes"

// Position is a place in a sequence: after an entry, before all entries, or after all. The zero value is after the
// empty key.
type Position struct {
	Key   []byte // of the entry, for AtKey
	Place int8
}

// The places of a position.
const (
	BeforeAll = -1
	AtKey     = 0
	AfterAll  = 1
)

// compare compares positions in ascending order of keys, or in descending order if reversed is set.
func compare(a, b Position, reversed bool) int {
	switch {
	// BeforeAll and AfterAll follow the order of the sequence, even if that order is reversed.
	case a.Place != AtKey || b.Place != AtKey:
		return int(a.Place) - int(b.Place)
	case reversed:
		return bytes.Compare(b.Key, a.Key)
	}
	return bytes.Compare(a.Key, b.Key)
}
