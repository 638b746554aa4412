package write

import (
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/term"
	"cqld/schema"
	"cqld/types"
)

// operationCompiler compiles operations. Its methods check the column before the value, or the value before the
// column, in Cassandra's order, so that clients see the same error.
type operationCompiler struct{ *term.Compiler }

// compileAssignment compiles one element of SET. Each kind of cql.Assignment becomes one operation. Errors have
// Cassandra's messages, with the element as term.AssignmentText formats it.
func compileAssignment(in *term.Compiler, a cql.Assignment) (operation, error) {
	c := operationCompiler{in}
	col, err := c.Column(assignedColumn(a))
	if err != nil {
		return nil, err
	}
	// Check before compiling the value, whose errors would hide this one.
	if col.Kind == schema.PartitionKey || col.Kind == schema.Clustering {
		return nil, invalid.Errorf("PRIMARY KEY part %s found in SET part", col.Name)
	}
	switch a := a.(type) {
	// The value is compiled before the check for counters: an invalid value of a counter column is reported as such.
	case *cql.SetColumn:
		t, err := compileValue(c.Compiler, a.Value, col)
		if err != nil {
			return nil, err
		}
		if col.IsCounter() {
			return nil, invalid.Errorf("Cannot set the value of counter column %s (counters can only be "+
				"incremented/decremented, not set)", col.Name)
		}
		return setOperation(col, t), nil
	case *cql.AddToColumn:
		return c.addition(a, col)
	case *cql.PrependToColumn:
		return c.prepending(a, col)
	case *cql.SubtractFromColumn:
		return c.subtraction(a, col)
	case *cql.SetElement:
		return c.elementAssignment(a, col)
	case *cql.SetField:
		return c.fieldAssignment(a, col)
	}
	// The parser produces no other kinds.
	return nil, invalid.NotSupported("This assignment")
}

// compileValue compiles the value that INSERT or SET assigns to a column that is not in the primary key. A tuple
// cannot be assigned to such a column with a user-defined type. Cassandra returns a server error when it executes the
// operation: after all other errors, and not if a condition does not hold.
func compileValue(c *term.Compiler, value cql.Term, col *schema.Column) (term.Term, error) {
	t, err := c.ColumnTerm(value, col)
	if err == nil && col.Type.Kind() == types.UDT && isTuple(value) {
		return refusedTuple{col}, nil
	}
	return t, err
}

// refusedTuple is a tuple that is assigned to a column with a user-defined type. It compiles, and fails when it is
// evaluated.
type refusedTuple struct{ col *schema.Column }

// Eval returns an error. compileValue explains why the error comes this late.
func (t refusedTuple) Eval(*term.Scope) (wire.Value, error) {
	return wire.Value{}, invalid.Errorf("Invalid tuple type literal for %s of type %s", t.col.Name, t.col.Type)
}

// isTuple reports whether a term is a tuple, perhaps with type hints.
func isTuple(t cql.Term) bool {
	switch t := t.(type) {
	// Hints nest: (type)(type)(1, 2).
	case *cql.TupleLiteral:
		return true
	case *cql.TypeHint:
		return isTuple(t.Value)
	}
	return false
}

// assignedColumn returns the name of the column that an element of SET changes, or "" for a kind that compileAssignment
// does not know.
func assignedColumn(a cql.Assignment) string {
	switch a := a.(type) {
	case *cql.SetColumn:
		return a.Column
	case *cql.AddToColumn:
		return a.Column
	case *cql.SubtractFromColumn:
		return a.Column
	case *cql.PrependToColumn:
		return a.Column
	case *cql.SetElement:
		return a.Column
	case *cql.SetField:
		return a.Column
	}
	return ""
}

// checkMutable refuses + and - for columns that are not multi-cell collections. The caller handles counters, for
// which both are valid.
func checkMutable(a cql.Assignment, col *schema.Column) error {
	if !col.Type.Kind().IsCollection() {
		return invalid.Errorf("Invalid operation (%s) for non counter column %s", term.AssignmentText(a), col.Name)
	}
	if !col.Type.MultiCell() {
		return invalid.Errorf("Invalid operation (%s) for frozen collection column %s", term.AssignmentText(a),
			col.Name)
	}
	return nil
}

// addition compiles c = c + value: an addend of a counter, or new elements of a multi-cell collection.
func (c operationCompiler) addition(a *cql.AddToColumn, col *schema.Column) (operation, error) {
	switch col.Type.Kind() {
	// Tuples and user-defined types have a special error here; subtraction reports that they are not counters.
	case types.Tuple, types.UDT:
		return nil, invalid.Errorf("Invalid operation (%s) for tuple column %s", term.AssignmentText(a), col.Name)
	}
	// Handle counters before checkMutable, which rejects all types other than collections.
	if col.IsCounter() {
		return c.counterAddition(col, a.Value, false)
	}
	if err := checkMutable(a, col); err != nil {
		return nil, err
	}
	t, err := c.ColumnTerm(a.Value, col)
	if err != nil {
		// Cassandra has the same message for every value that is not a map.
		if col.Type.Kind() == types.Map {
			err = invalid.Errorf("Value for a map addition has to be a map, but was: '%s'", term.Text(a.Value))
		}
		return nil, err
	}
	// Sets, maps and lists share one operation, which distinguishes the types when it is applied.
	return &addElements{target{col}, t}, nil
}

// prepending compiles c = value + c. The value is compiled first, so that its errors come before errors of the column.
func (c operationCompiler) prepending(a *cql.PrependToColumn, col *schema.Column) (operation, error) {
	t, err := c.ColumnTerm(a.Value, col)
	if err != nil {
		return nil, err
	}
	// Sets and maps have no beginning, and counters no c = value + c.
	if col.Type.Kind() != types.List {
		return nil, invalid.Errorf("Invalid operation (%s) for non list column %s", term.AssignmentText(a), col.Name)
	}
	if !col.Type.MultiCell() {
		return nil, invalid.Errorf("Invalid operation (%s) for frozen list column %s", term.AssignmentText(a), col.Name)
	}
	return &prependElements{target{col}, t}, nil
}

// subtraction compiles c = c - value. The meaning of value depends on the column: a decrement, keys of a map,
// elements of a set, or elements of a list, which must be read to find their cells.
func (c operationCompiler) subtraction(a *cql.SubtractFromColumn, col *schema.Column) (operation, error) {
	if col.IsCounter() {
		return c.counterAddition(col, a.Value, true)
	}
	if err := checkMutable(a, col); err != nil {
		return nil, err
	}
	switch col.Type.Kind() {
	case types.Map:
		// The value for a map is a set of keys to remove. The set is frozen, like every value in wire form.
		keys := types.NewSet(col.Type.Elems()[0], true)
		t, err := c.Term(a.Value, c.Receiver(col.Name, keys))
		if err != nil {
			return nil, invalid.Errorf("Value for a map substraction has to be a set, but was: '%s'",
				term.Text(a.Value))
		}
		return &removeKeys{target{col}, t}, nil
	case types.Set:
		t, err := c.ColumnTerm(a.Value, col)
		if err != nil {
			return nil, err
		}
		return &removeKeys{target{col}, t}, nil
	}
	// The column is a list. Time UUIDs and not values identify its cells, so the operation must read the list.
	t, err := c.ColumnTerm(a.Value, col)
	if err != nil {
		return nil, err
	}
	return &removeElements{readingTarget{target{col}}, t}, nil
}

// elementAssignment compiles c[key] = value for lists and maps. Elements of a set cannot be assigned.
func (c operationCompiler) elementAssignment(a *cql.SetElement, col *schema.Column) (operation, error) {
	typ := col.Type
	if !typ.Kind().IsCollection() {
		return nil, invalid.Errorf("Invalid operation (%s) for non collection column %s", term.AssignmentText(a),
			col.Name)
	}
	if !typ.MultiCell() {
		return nil, invalid.Errorf("Invalid operation (%s) for frozen collection column %s", term.AssignmentText(a),
			col.Name)
	}
	switch typ.Kind() {
	case types.List:
		// The names of receivers are in the metadata of prepared statements: drivers show idx(c), key(c) and value(c).
		i, err := c.Term(a.Key, c.Receiver("idx("+col.Name+")", types.Native(types.Int)))
		if err != nil {
			return nil, err
		}
		v, err := c.Term(a.Value, c.Receiver("value("+col.Name+")", typ.Elems()[0]))
		if err != nil {
			return nil, err
		}
		// The path of the element at an index is only known after a read.
		return &setIndex{readingTarget{target{col}}, i, v}, nil
	case types.Map:
		k, err := c.Term(a.Key, c.Receiver("key("+col.Name+")", typ.Elems()[0]))
		if err != nil {
			return nil, err
		}
		v, err := c.Term(a.Value, c.Receiver("value("+col.Name+")", typ.Elems()[1]))
		if err != nil {
			return nil, err
		}
		return &setKey{target{col}, k, v}, nil
	}
	return nil, invalid.Errorf("Invalid operation (%s) for set column %s", term.AssignmentText(a), col.Name)
}

// fieldAssignment compiles c.field = value for a user-defined type that is not frozen.
func (c operationCompiler) fieldAssignment(a *cql.SetField, col *schema.Column) (operation, error) {
	typ := col.Type
	if typ.Kind() != types.UDT {
		return nil, invalid.Errorf("Invalid operation (%s) for non-UDT column %s", term.AssignmentText(a), col.Name)
	}
	if !typ.MultiCell() {
		return nil, invalid.Errorf("Invalid operation (%s) for frozen UDT column %s", term.AssignmentText(a), col.Name)
	}
	// The index is the path of the cell. It stays, because new fields are added at the end.
	i := typ.FieldIndex(a.Field)
	if i < 0 {
		return nil, invalid.Errorf("UDT column %s does not have a field named %s", col.Name, a.Field)
	}
	// The receiver is named c.field, as in Cassandra's metadata.
	v, err := c.Term(a.Value, c.Receiver(col.Name+"."+a.Field, typ.Elems()[i]))
	if err != nil {
		return nil, err
	}
	return &setField{target{col}, i, v}, nil
}
