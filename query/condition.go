package query

import (
	"slices"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/mask"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// conditions are the conditions in IF.
type conditions struct {
	exists, notExists bool
	columns           []*condition
	masking           *mask.Decision
}

// conditional reports whether the statement has an IF.
func (m *modification) conditional() bool { return m.conditions != nil }

// condition compares a column, an element or a field of one.
type condition struct {
	col      *schema.Column
	key      term.Term // of c[key]
	field    int       // of c.field, else -1
	operator cql.Operator
	value    term.Term
	in       []term.Term // of IN; operator is OperatorInvalid
	inMarker *term.MarkerTerm
}

// compileConditions compiles IF.
func (c *compiler) compileConditions(exists, notExists bool, in []cql.Condition, using cql.Using) (*conditions, error) {
	if !exists && !notExists && len(in) == 0 {
		return nil, nil
	}
	out := &conditions{exists: exists, notExists: notExists}
	var restricted []*schema.Column
	for i := range in {
		x, err := c.condition(&in[i])
		if err != nil {
			return nil, err
		}
		out.columns = append(out.columns, x)
		restricted = append(restricted, x.col)
	}
	out.masking = c.masking(restricted)
	if using.Timestamp != nil {
		return nil, invalidf("Cannot provide custom timestamp for conditional updates")
	}
	return out, nil
}

// regular reports whether a condition is on a regular column.
func (c *conditions) regular() bool {
	return slices.ContainsFunc(c.columns, func(x *condition) bool { return x.col.Kind == schema.Regular })
}

func (c *compiler) condition(in *cql.Condition) (*condition, error) {
	col, err := c.Column(in.Column)
	if err != nil {
		return nil, err
	}
	if col.Type.Kind() == types.Counter {
		return nil, invalidf("Conditions on counters are not supported")
	}
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return nil, invalidf("PRIMARY KEY column '%s' cannot have IF conditions", col.Name)
	}
	x := &condition{col: col, field: -1, operator: in.Operator}
	value := c.Receiver(col.Name, col.Type)
	switch {
	case in.Key != nil:
		value, err = c.conditionElement(x, in)
	case in.Field != "":
		value, err = c.conditionField(x, in)
	}
	if err != nil {
		return nil, err
	}
	if in.In != nil {
		return x, c.conditionIn(x, in.In, value)
	}
	switch in.Operator {
	case cql.Contains, cql.ContainsKey:
		if value, err = c.conditionContains(x, value); err != nil {
			return nil, err
		}
	case cql.Less, cql.LessOrEqual, cql.Greater, cql.GreaterOrEqual:
		if value.Type.HasDuration() {
			return nil, durationCondition(in.Operator, value.Type)
		}
	}
	x.value, err = c.Term(in.Value, value)
	return x, err
}

func durationCondition(operator cql.Operator, t *types.Type) error {
	on := "durations"
	switch {
	case t.IsCollection():
		on = "collections containing durations"
	case t.Kind() == types.Tuple:
		on = "tuples containing durations"
	case t.Kind() == types.UDT:
		on = "UDTs containing durations"
	}
	return invalidf("Slice conditions ( %s ) are not supported on %s", operator, on)
}

// conditionElement compiles the key of c[key] and returns the specification of its value.
func (c *compiler) conditionElement(x *condition, in *cql.Condition) (value Column, err error) {
	t := x.col.Type
	switch t.Kind() {
	case types.List:
		x.key, err = c.Term(in.Key, c.Receiver("idx("+x.col.Name+")", types.Native(types.Int)))
		return c.Receiver("value("+x.col.Name+")", t.Elems()[0]), err
	case types.Map:
		x.key, err = c.Term(in.Key, c.Receiver("key("+x.col.Name+")", t.Elems()[0]))
		return c.Receiver("value("+x.col.Name+")", t.Elems()[1]), err
	case types.Set:
		return value, invalidf("Invalid element access syntax for set column %s", x.col.Name)
	}
	return value, invalidf("Invalid element access syntax for non-collection column %s", x.col.Name)
}

func (c *compiler) conditionField(x *condition, in *cql.Condition) (value Column, err error) {
	t := x.col.Type
	if t.Kind() != types.UDT {
		return value, invalidf("Invalid element access syntax for non-UDT column %s", x.col.Name)
	}
	if x.field = t.FieldIndex(in.Field); x.field < 0 {
		return value, invalidf("Unknown field %s for column %s", in.Field, x.col.Name)
	}
	return c.Receiver(x.col.Name+"."+in.Field, t.Elems()[x.field]), nil
}

func (c *compiler) conditionContains(x *condition, of Column) (value Column, err error) {
	t := of.Type
	switch {
	case x.operator == cql.ContainsKey && t.Kind() != types.Map:
		return value, invalidf("Cannot use CONTAINS KEY on non-map column %s", x.col.Name)
	case x.operator == cql.ContainsKey:
		return c.Receiver("key("+x.col.Name+")", t.Elems()[0]), nil
	case !t.IsCollection():
		return value, invalidf("Cannot use CONTAINS on non-collection column %s", x.col.Name)
	}
	return c.Receiver("value("+x.col.Name+")", t.Elems()[len(t.Elems())-1]), nil
}

func (c *compiler) conditionIn(x *condition, in *cql.InList, value Column) (err error) {
	x.operator = cql.OperatorInvalid
	if in.Marker != nil {
		list := types.NewList(value.Type, false)
		c.Bind(in.Marker, c.Receiver("in("+value.Name+")", list), nil)
		x.inMarker = &term.MarkerTerm{Index: in.Marker.Index, Type: list}
		return nil
	}
	x.in = make([]term.Term, len(in.Values))
	for i, v := range in.Values {
		if x.in[i], err = c.Term(v, value); err != nil {
			return err
		}
	}
	return nil
}

// boundCondition is a condition with its values.
type boundCondition struct {
	*condition
	at     []byte // of c[key]
	wanted []byte // nil means null
	among  [][]byte
	// nowhere means that the element does not exist.
	nowhere bool
}

func (x *condition) bind(s *term.Scope) (b boundCondition, err error) {
	b.condition = x
	if x.key != nil {
		v, err := x.key.Eval(s)
		if err != nil {
			return b, err
		}
		switch {
		case v.Kind == wire.ValueUnset && x.col.Type.Kind() == types.Map:
			b.nowhere = true // Cassandra finds no element there
		case v.Kind == wire.ValueUnset:
			return b, invalidf("Invalid unset value for element access on column %s", x.col.Name)
		case v.Kind == wire.ValueNull:
			return b, invalidf("Invalid null value for %s element access", collectionWord(x.col.Type))
		}
		b.at = term.NotNil(v.Bytes)
	}
	if x.value != nil {
		b.wanted, err = conditionValue(s, x.value)
		return b, err
	}
	for _, t := range x.in {
		v, err := t.Eval(s)
		if err != nil {
			return b, err
		}
		if v.Kind != wire.ValueUnset { // Cassandra omits these
			b.among = append(b.among, valueOrNil(v))
		}
	}
	if x.inMarker != nil {
		v, err := x.inMarker.Eval(s)
		if err != nil {
			return b, err
		}
		switch v.Kind {
		case wire.ValueUnset:
			return b, invalidf("Invalid 'unset' value in condition")
		case wire.ValueNull:
			return b, invalidf("Invalid null list in IN condition")
		}
		b.among = term.SplitCollection(v.Bytes, 1)
	}
	return b, nil
}

func conditionValue(s *term.Scope, t term.Term) ([]byte, error) {
	v, err := t.Eval(s)
	if err != nil {
		return nil, err
	}
	if v.Kind == wire.ValueUnset {
		return nil, invalidf("Invalid 'unset' value in condition")
	}
	return valueOrNil(v), nil
}

// valueOrNil returns the bytes of a value; nil for null.
func valueOrNil(v wire.Value) []byte {
	if v.Kind != wire.ValueSet {
		return nil
	}
	return term.NotNil(v.Bytes)
}

// holds reports whether the condition holds for the row.
func (b *boundCondition) holds(v *rowview.View) (bool, error) {
	value, t, err := b.actual(v)
	if err != nil {
		return false, err
	}
	if b.operator == cql.OperatorInvalid {
		for _, w := range b.among {
			if ok, err := compareCondition(t, cql.Equal, value, w); ok || err != nil {
				return ok, err
			}
		}
		return false, nil
	}
	return compareCondition(t, b.operator, value, b.wanted)
}

// actual returns the value to which the condition applies, and its type.
func (b *boundCondition) actual(v *rowview.View) (value []byte, t *types.Type, err error) {
	t = b.col.Type
	if v != nil {
		value = v.Value(b.col)
	}
	switch {
	case b.field >= 0:
		if value != nil {
			value, _ = t.At(value, b.field)
		}
		return value, t.Elems()[b.field], nil
	case b.key == nil:
		return value, t, nil
	case t.Kind() == types.Map:
		if value != nil && !b.nowhere {
			value, _ = t.Lookup(value, b.at)
		} else {
			value = nil
		}
		return value, t.Elems()[1], nil
	}
	c := wire.NewCursor(b.at)
	i := c.Int32()
	if i < 0 {
		return nil, nil, invalidf("Invalid negative list index %d", i)
	}
	if value != nil {
		value, _ = t.At(value, int(i))
	}
	return value, t.Elems()[0], nil
}

// compareCondition compares as IF does: null equals only null, and is not ordered.
func compareCondition(t *types.Type, operator cql.Operator, value, wanted []byte) (bool, error) {
	empty := t.MultiCell() && t.IsCollection() && wanted != nil && len(term.SplitCollection(wanted, 1)) == 0 &&
		operator != cql.Contains && operator != cql.ContainsKey // an empty multi-cell collection is null
	if wanted == nil || empty {
		switch {
		case operator == cql.Equal:
			return value == nil, nil
		case operator == cql.NotEqual:
			return value != nil, nil
		case empty:
			return false, invalidf("Invalid comparison with an empty %s for operator \"%s\"", collectionWord(t), operator)
		}
		return false, invalidf("Invalid comparison with null for operator \"%s\"", operator)
	}
	if value == nil {
		return operator == cql.NotEqual, nil
	}
	switch operator {
	case cql.Contains:
		return t.Contains(value, wanted), nil
	case cql.ContainsKey:
		_, ok := t.Lookup(value, wanted)
		return ok, nil
	}
	n := t.Compare(value, wanted)
	switch operator {
	case cql.Equal:
		return n == 0, nil
	case cql.NotEqual:
		return n != 0, nil
	case cql.Less:
		return n < 0, nil
	case cql.LessOrEqual:
		return n <= 0, nil
	case cql.Greater:
		return n > 0, nil
	}
	return n >= 0, nil
}

// collectionWord returns the kind of a collection as in Cassandra's texts.
func collectionWord(t *types.Type) string {
	switch t.Kind() {
	case types.List:
		return "list"
	case types.Set:
		return "set"
	}
	return "map"
}
