package contention

import (
	"cqld/row"
	"cqld/schema"
)

// Partition returns the string that identifies a partition of a table. Changes are serialized by it: at a coordinator,
// at the partition's arbiter, and at each acceptor.
func Partition(table schema.StorageID, key row.PartitionKey) string {
	b := make([]byte, 4, 64) // on the stack, for most keys
	b[0], b[1], b[2], b[3] = byte(table>>24), byte(table>>16), byte(table>>8), byte(table)
	return string(append(b, key.Bytes...))
}

// Hash returns the hash of such a string, for a slot in a table (FNV-1a).
func Hash(partition string) uint32 {
	h := uint32(2166136261)
	for i := range len(partition) {
		// The multiplier is the FNV prime of 32 bits.
		h = (h ^ uint32(partition[i])) * 16777619
	}
	return h
}
