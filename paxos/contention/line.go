package contention

import (
	"cqld/row"
	"cqld/schema"
)

// Line identifies a partition of a table. Changes of a partition are serialized by it: at a coordinator, at the partition's
// arbiter, and at each acceptor.
func Line(table schema.StorageID, key row.PartitionKey) string {
	b := make([]byte, 4, 64) // on the stack, for most keys
	b[0], b[1], b[2], b[3] = byte(table>>24), byte(table>>16), byte(table>>8), byte(table)
	return string(append(b, key.Bytes...))
}

// Hash returns the hash of a partition's Line, for a slot in a table (FNV-1a).
func Hash(line string) uint32 {
	h := uint32(2166136261)
	for i := range len(line) {
		h = (h ^ uint32(line[i])) * 16777619
	}
	return h
}
