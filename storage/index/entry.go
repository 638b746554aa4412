package index

import (
	"encoding/binary"

	"cqld/row"
	"cqld/schema"
)

// entryOf is an entry of Values.
type entryOf struct {
	index      schema.StorageID
	term       []byte // escaped, with its end
	place      []byte
	key        row.PartitionKey
	kind       row.EntryKind
	clustering []byte
}

// parseEntry splits the key of an entry. The parts point into key.
func parseEntry(key []byte) (e entryOf, ok bool) {
	if len(key) < indexSize {
		return e, false
	}
	n, ok := splitTerm(key[indexSize:])
	if !ok {
		return e, false
	}
	e.index = schema.StorageID(binary.BigEndian.Uint32(key))
	e.term, e.place = key[indexSize:indexSize+n], key[indexSize+n:]
	e.key, e.kind, e.clustering, ok = ParsePlace(e.place)
	return e, ok
}
