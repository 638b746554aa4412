package index

import (
	"encoding/binary"

	"cqld/row"
	"cqld/schema"
)

// entryOf is an entry of Values. Its slices belong to the key from which it was parsed. An entry has no timestamp;
// comparing it with the row shows whether it is stale.
type entryOf struct {
	index schema.StorageID
	term  []byte // escaped, with its end
	// place contains key, kind and clustering, which are split from it below.
	place      []byte
	key        row.PartitionKey
	kind       row.EntryKind
	clustering []byte
}

// parseEntry splits the key of an entry. The parts point into key. ok is false for a key that Values did not write.
// Callers treat such an entry as stale, so that a sweep removes it.
func parseEntry(key []byte) (e entryOf, ok bool) {
	if len(key) < indexSize {
		return e, false
	}
	// The escaped end of the term separates it from the place, so both may contain any bytes.
	n, ok := splitTerm(key[indexSize:])
	if !ok {
		return e, false
	}
	e.index = schema.StorageID(binary.BigEndian.Uint32(key))
	e.term, e.place = key[indexSize:indexSize+n], key[indexSize+n:]
	e.key, e.kind, e.clustering, ok = ParsePlace(e.place)
	return e, ok
}
