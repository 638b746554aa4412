package query

import (
	"math"

	"cqld/query/operation"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
	"cqld/types/similarity"
)

// vectorIndex returns the index that finds the nearest vectors of a column, or nil.
func vectorIndex(t *schema.Table, col *schema.Column) *schema.Index {
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

// setVector is an operation on a column with a vector index. It refuses vectors that have no score.
type setVector struct {
	operation.Operation
	function similarity.Function
}

// checkVector returns o, or an operation that checks the vectors that o writes.
func checkVector(t *schema.Table, o operation.Operation) operation.Operation {
	ix := vectorIndex(t, o.Column())
	if ix == nil {
		return o
	}
	f, _ := similarity.Of(ix.Options)
	return &setVector{o, f}
}

// Apply implements operation.Operation.
func (o *setVector) Apply(x *operation.Context, r *row.Row) error {
	before := len(r.Cells)
	if err := o.Operation.Apply(x, r); err != nil {
		return err
	}
	for i := range r.Cells[before:] {
		if c := &r.Cells[before+i]; !c.Tombstone {
			if v := similarity.Decode(nil, c.Value); !o.function.Comparable(v) {
				return incomparable(o.function, v)
			}
		}
	}
	return nil
}

// incomparable returns the error for a vector that has no score. Cassandra answers a failure of the replicas instead.
func incomparable(f similarity.Function, v []float32) error {
	for i, e := range v {
		if e := float64(e); math.IsNaN(e) || math.IsInf(e, 0) {
			return invalidf("non-finite value at vector[%d]=%v", i, e)
		}
	}
	return invalidf("Zero vectors cannot be indexed or queried with %s similarity", f)
}
