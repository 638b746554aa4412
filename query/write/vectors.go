package write

import (
	"cqld/query/restriction"
	"cqld/row"
	"cqld/schema"
	"cqld/types/similarity"
)

// setVector is an operation on a column with a vector index. It rejects vectors that the similarity function cannot
// compare, because a search could never return them. It embeds the checked operation, which provides Column and
// Reads.
type setVector struct {
	operation
	function similarity.Function
}

// checkVector returns o, or an operation that checks the vectors that o writes if the column has a vector index.
func checkVector(t *schema.Table, o operation) operation {
	ix := restriction.VectorIndex(t, o.Column())
	if ix == nil {
		return o
	}
	// The options were checked when the index was created.
	f, _ := similarity.Of(ix.Options)
	return &setVector{o, f}
}

// Apply implements operation.
func (o *setVector) Apply(x *operationContext, r *row.Row) error {
	before := len(r.Cells)
	if err := o.operation.Apply(x, r); err != nil {
		return err
	}
	// Check only the cells of this operation.
	for i := range r.Cells[before:] {
		if c := &r.Cells[before+i]; !c.Tombstone {
			if v := similarity.Decode(nil, c.Value); !o.function.Comparable(v) {
				return restriction.Incomparable(o.function, v)
			}
		}
	}
	return nil
}
