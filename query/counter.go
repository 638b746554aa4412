package query

import (
	"encoding/binary"
	"math"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// isCounterTable reports whether a table has counters; such a table has only counters besides its key.
func isCounterTable(t *schema.Table) bool {
	if len(t.Regulars) > 0 {
		return t.Regulars[0].IsCounter()
	}
	return len(t.Statics) > 0 && t.Statics[0].IsCounter()
}

// checkCounterModification refuses clauses that statements on counter tables must not have.
func (c *compiler) checkCounterModification(u cql.Using, exists bool, conditions int) error {
	switch {
	case !isCounterTable(c.Table):
		return nil
	case conditions > 0:
		return invalidf("Conditions on counters are not supported")
	case exists:
		return invalidf("Conditional updates are not supported on counter tables")
	case u.Timestamp != nil:
		return invalidf("Cannot provide custom timestamp for counter updates")
	case u.TTL != nil:
		return invalidf("Cannot provide custom TTL for counter updates")
	}
	return nil
}

// counterAddition compiles c = c + term and c = c - term of a counter.
func (c *compiler) counterAddition(col *schema.Column, value cql.Term, negative bool) (operation, error) {
	t, err := c.ColumnTerm(value, col)
	if err != nil {
		return nil, err
	}
	return &addToCounter{target{col}, t, negative}, nil
}

// addToCounter is c = c + value or, if negative, c = c - value. Its cell contains the addend: the replica that leads
// the update computes the sum.
type addToCounter struct {
	target
	value    term.Term
	negative bool
}

func (o *addToCounter) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return err
	}
	if v.Kind == wire.ValueNull || len(v.Bytes) != 8 {
		return invalidf("Invalid null value for counter increment")
	}
	delta := int64(binary.BigEndian.Uint64(v.Bytes))
	if o.negative && delta == math.MinInt64 {
		return invalidf("The negation of %d overflows supported counter precision (signed 8 bytes integer)", delta)
	}
	if o.negative {
		delta = -delta
	}
	for i := range r.Cells { // SET c = c + 1, c = c + 2
		if c := &r.Cells[i]; c.Column == o.col.ID {
			c.Value = wire.AppendInt64(nil, delta+int64(binary.BigEndian.Uint64(c.Value)))
			return nil
		}
	}
	r.Cells = append(r.Cells, w.cell(o.col, nil, wire.AppendInt64(nil, delta)))
	return nil
}

func checkCounterConsistency(c ring.Consistency) error {
	if c.IsSerial() {
		return invalidf("Counter operations are inherently non-serializable")
	}
	return nil
}

// checkBatchKinds refuses batches that mix counters with other changes.
func checkBatchKinds(kind cql.BatchKind, statements []*modification) error {
	counters := 0
	for _, s := range statements {
		if isCounterTable(s.table) {
			counters++
		}
	}
	switch {
	case kind == cql.BatchCounter && counters < len(statements):
		return invalidf("Cannot include non-counter statement in a counter batch")
	case counters > 0 && counters < len(statements):
		return invalidf("Counter and non-counter mutations cannot exist in the same batch")
	case kind == cql.BatchLogged && counters > 0:
		return invalidf("Cannot include a counter statement in a logged batch")
	}
	return nil
}
