package restriction

import (
	"math"

	"cqld/query/invalid"
	"cqld/schema"
	"cqld/types"
	"cqld/types/similarity"
)

// VectorIndex returns the index that finds the nearest vectors of a column, or nil.
func VectorIndex(t *schema.Table, col *schema.Column) *schema.Index {
	if col.Type.Kind() != types.Vector {
		return nil
	}
	for _, ix := range t.Indexes() {
		if ix.Column == col.ID && ix.Class == schema.SAI {
			return ix
		}
	}
	return nil
}

// Incomparable returns the error for a vector that the similarity function cannot compare: one with an element that
// is not finite or, for cosine, the zero vector. Cassandra returns a read failure of the replicas instead.
func Incomparable(f similarity.Function, v []float32) error {
	// The error names the first element that is not finite.
	for i, e := range v {
		if e := float64(e); math.IsNaN(e) || math.IsInf(e, 0) {
			return invalid.Errorf("non-finite value at vector[%d]=%v", i, e)
		}
	}
	return invalid.Errorf("Zero vectors cannot be indexed or queried with %s similarity", f)
}
