package write

import (
	"encoding/binary"
	"math"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
)

// counterAddition compiles c = c + term and c = c - term of a counter.
func (c operationCompiler) counterAddition(col *schema.Column, value cql.Term, negative bool) (operation, error) {
	t, err := c.ColumnTerm(value, col)
	if err != nil {
		return nil, err
	}
	return &addToCounter{target{col}, t, negative}, nil
}

// addToCounter is c = c + value or, if negative, c = c - value. Its cell contains the addend, 8 bytes big-endian: the
// replica that leads the update computes the sum. The operation itself reads nothing.
type addToCounter struct {
	target
	value    term.Term
	negative bool
}

// Apply implements operation. An unset value changes nothing. Null and the empty bigint are errors with Cassandra's
// messages.
func (o *addToCounter) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return err
	}
	if v.Kind == wire.ValueNull || len(v.Bytes) != 8 {
		return invalid.Errorf("Invalid null value for counter increment")
	}
	delta := int64(binary.BigEndian.Uint64(v.Bytes))
	// -MinInt64 is MinInt64 again in two's complement: the subtraction would become an addition. Cassandra rejects
	// it, too.
	if o.negative && delta == math.MinInt64 {
		return invalid.Errorf("The negation of %d overflows supported counter precision (signed 8 bytes integer)",
			delta)
	}
	if o.negative {
		delta = -delta
	}
	// Add up the addends of one statement: cells of the same counter would have equal timestamps, and reconciliation
	// would keep only one of them.
	for i := range r.Cells { // SET c = c + 1, c = c + 2
		if c := &r.Cells[i]; c.Column == o.col.ID {
			c.Value = wire.AppendInt64(nil, delta+int64(binary.BigEndian.Uint64(c.Value)))
			return nil
		}
	}
	// The cell has no TTL, because checkCounterModification rejects USING TTL.
	r.Cells = append(r.Cells, x.cell(o.col, nil, wire.AppendInt64(nil, delta)))
	return nil
}
