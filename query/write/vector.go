package write

import (
	"cqld/query/operation"
	"cqld/query/vector"
	"cqld/row"
	"cqld/schema"
	"cqld/types/similarity"
)

// setVector is an operation on a column with a vector index. It refuses vectors that have no score.
type setVector struct {
	operation.Operation
	function similarity.Function
}

// checkVector returns o, or an operation that checks the vectors that o writes.
func checkVector(t *schema.Table, o operation.Operation) operation.Operation {
	ix := vector.Index(t, o.Column())
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
				return vector.Incomparable(o.function, v)
			}
		}
	}
	return nil
}
