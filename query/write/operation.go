package write

import (
	"slices"
	"unsafe"

	"cqld/internal/uuid"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// operation is the effect of one element of SET, VALUES or DELETE on a row. Operations are part of plans: immutable,
// and without state of an execution. Column and Reads come from the embedded target or readingTarget.
//
//	c = v           setValue, setParts      c[k] = v     setKey, setIndex
//	c = c + v       addElements             c.f = v      setField
//	c = v + c       prependElements         DELETE c     deleteColumn
//	c = c - v       removeKeys,             DELETE c[k]  deleteKey, deleteIndex
//	                removeElements          DELETE c.f   deleteField
//	counters        addToCounter            vectors      setVector, around another one
type operation interface {
	// Apply adds the cells and deletions of the operation to r. It appends and does not change cells of earlier
	// operations, except for addends of a counter. An unset value adds nothing. Cells may point into values of the
	// scope.
	Apply(x *operationContext, r *row.Row) error
	// Column returns the changed column.
	Column() *schema.Column
	// Reads reports whether the operation needs the current contents of the column.
	Reads() bool
}

// target is the column of an operation that needs no read. It implements two methods of operation.
type target struct{ col *schema.Column }

// Column implements operation.
func (t target) Column() *schema.Column { return t.col }

// Reads implements operation.
func (t target) Reads() bool { return false }

// readingTarget is the column of an operation that depends on the current contents: the paths of list elements are only
// known from a read.
type readingTarget struct{ target }

// Reads implements operation.
func (readingTarget) Reads() bool { return true }

// operationContext is the input of operations: the values of a statement, and the row that it changes. Found is nil
// unless some operation of the statement reads.
type operationContext struct {
	Scope     term.Scope
	Positions *uuid.Positions // generates paths of new list elements
	Millis    int64           // start of the statement, in ms since 1970
	Timestamp int64           // timestamp of the written cells, in µs
	Now       int64           // start of the statement, in seconds since 1970
	TTL       int32           // in seconds; 0 means no expiry
	Found     *rowview.View   // the current row, for operations that read it
	Memory    operationMemory // nil means no bound
	elements  []elementList   // lists of the current row that operations have read
}

// operationMemory is the memory of a request. A writing implements it.
type operationMemory interface {
	// Reserve reserves n bytes for the cells of the current row. It may wait, and fails if the request's context
	// ends.
	Reserve(n int) error
}

const (
	// elementBytes is the memory of an element of a multi-cell column, in bytes: a cell, in a slice that doubles, and
	// its path.
	elementBytes = 3*int(unsafe.Sizeof(row.Cell{})) + 64
	// elementsFree is the number of elements that need no reservation: most collections are small.
	elementsFree = 32
)

// reserve reserves memory for the elements of a value in wire form. It is called before the cells are appended.
func (x *operationContext) reserve(b []byte) error {
	if x.Memory == nil || len(b) < 4 {
		return nil
	}
	c := wire.NewCursor(b)
	// The client sends the number of elements. Each element has at least 4 bytes, so the length of the value bounds
	// it.
	n := min(max(int(c.Int32()), 0), len(b)/4)
	if n <= elementsFree {
		return nil
	}
	return x.Memory.Reserve(n*elementBytes + 2*len(b))
}

// cell returns a cell with the statement's timestamp and TTL. path is nil for a column of one cell. It replaces a nil
// value by an empty one.
func (x *operationContext) cell(col *schema.Column, path, value []byte) row.Cell {
	c := row.Cell{Column: col.ID, Path: path, Timestamp: x.Timestamp, Value: term.NotNil(value)}
	if x.TTL > 0 {
		c.TTL, c.LocalTime = x.TTL, x.Now+int64(x.TTL)
	}
	return c
}

// tombstone returns the deletion of a cell, which is null in CQL.
func (x *operationContext) tombstone(col *schema.Column, path []byte) row.Cell {
	return row.Cell{Column: col.ID, Path: path, Timestamp: x.Timestamp, LocalTime: x.Now, Tombstone: true}
}

// setValue sets a column that is stored in one cell: a native or frozen type.
type setValue struct {
	target
	value term.Term
}

// Apply implements operation.
func (o *setValue) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	// An unset value adds no cell, so the column keeps its value.
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, nil, v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, nil))
	}
	return nil
}

// setOperation returns the operation that sets a column. The storage of the type determines the operation, not the
// value.
func setOperation(col *schema.Column, t term.Term) operation {
	if col.Type.MultiCell() {
		return &setParts{target{col}, t}
	}
	return &setValue{target{col}, t}
}

// setParts sets a multi-cell column. It deletes the previous contents with a timestamp 1 µs before the statement's,
// so that the deletion does not affect the new cells. Two such writes with the same timestamp merge their elements,
// as in Cassandra.
type setParts struct {
	target
	value term.Term
}

// Apply implements operation. The deletion of the previous contents is added even if the value is empty or null.
func (o *setParts) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return err
	}
	r.Complex = append(r.Complex, row.ComplexDeletion{Column: o.col.ID,
		Deletion: row.Deletion{Timestamp: x.Timestamp - 1, LocalTime: x.Now}})
	// Null writes only the deletion.
	if v.Kind == wire.ValueNull {
		return nil
	}
	return x.addParts(o.col, v.Bytes, r)
}

// addParts adds the elements of a value to a multi-cell column. b is in wire form. Null elements are errors, but null
// fields are not.
func (x *operationContext) addParts(col *schema.Column, b []byte, r *row.Row) error {
	t := col.Type
	if t.Kind() == types.UDT {
		for i, f := range term.SplitFields(b, t) {
			if f != nil { // other fields are null because of the deletion
				// The path of a field is its index.
				r.Cells = append(r.Cells, x.cell(col, rowview.FieldPath(i), f))
			}
		}
		return nil
	}
	if err := x.reserve(b); err != nil {
		return err
	}
	// The value was validated, so it has no part of a wrong type.
	for p := t.Parts(b); p.Next(); {
		if p.Bytes() == nil {
			return invalid.Errorf("null is not supported inside collections")
		}
		switch t.Kind() {
		case types.List:
			// Each element gets a position after all existing ones.
			r.Cells = append(r.Cells, x.cell(col, x.Positions.Append(), p.Bytes()))
		case types.Set:
			// The path is the element; the value is empty.
			r.Cells = append(r.Cells, x.cell(col, rowview.ElementPath(t, p.Bytes()), nil))
		case types.Map:
			// Parts alternate between keys and values.
			key := p.Bytes()
			if !p.Next() || p.Bytes() == nil {
				return invalid.Errorf("null is not supported inside collections")
			}
			r.Cells = append(r.Cells, x.cell(col, rowview.ElementPath(t, key), p.Bytes()))
		}
	}
	return nil
}

// addElements is c = c + value for sets, maps and lists. Null adds nothing.
type addElements struct {
	target
	value term.Term
}

// Apply implements operation. It only appends cells, so it needs no read.
func (o *addElements) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	return x.addParts(o.col, v.Bytes, r)
}

// prependElements is c = value + c for lists. The result begins with value in its order.
type prependElements struct {
	target
	value term.Term
}

// Apply implements operation. Existing elements keep their positions.
func (o *prependElements) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	if err := x.reserve(v.Bytes); err != nil {
		return err
	}
	elements := term.SplitCollection(v.Bytes, 1)
	// Each position is before all earlier ones, so that the last element comes first.
	for i := len(elements) - 1; i >= 0; i-- {
		r.Cells = append(r.Cells, x.cell(o.col, x.Positions.Prepend(), elements[i]))
	}
	return nil
}

// removeKeys is c = c - value for sets, and for maps with a set of keys. It needs no read: the deletion of an element
// that does not exist does nothing.
type removeKeys struct {
	target
	value term.Term
}

// Apply implements operation. The tombstones hide elements with older cells only: a concurrent addition with a later
// timestamp survives.
func (o *removeKeys) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	if err := x.reserve(v.Bytes); err != nil {
		return err
	}
	// For a map, the value is a set of keys: both kinds have one wire form here.
	for _, key := range term.SplitCollection(v.Bytes, 1) {
		r.Cells = append(r.Cells, x.tombstone(o.col, rowview.ElementPath(o.col.Type, key)))
	}
	return nil
}

// removeElements is c = c - value for lists: it removes all elements that are equal to one in value. Equal means equal
// as values of the element type.
type removeElements struct {
	readingTarget
	value term.Term
}

// Apply implements operation. Only elements that the read has found are deleted: a concurrent addition of an equal
// element survives.
func (o *removeElements) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	if err := x.reserve(v.Bytes); err != nil {
		return err
	}
	t := o.col.Type.Elems()[0]
	// Sorted, because each element of the list is searched in it. A null equals no element.
	unwanted := slices.DeleteFunc(term.SplitCollection(v.Bytes, 1), func(u []byte) bool { return u == nil })
	slices.SortFunc(unwanted, t.Compare)
	// Cells appended here affect the list only at its next use (existing).
	for _, block := range x.existing(o.col, r).blocks {
		for _, e := range block {
			if _, found := slices.BinarySearchFunc(unwanted, term.NotNil(e.value), t.Compare); found {
				r.Cells = append(r.Cells, x.tombstone(o.col, e.path))
			}
		}
	}
	return nil
}

// setKey is m[key] = value. A null value deletes the entry.
type setKey struct {
	target
	key, value term.Term
}

// Apply implements operation. The key is evaluated before the value: its errors come first.
func (o *setKey) Apply(x *operationContext, r *row.Row) error {
	path, err := mapKey(x, o.col, o.key)
	if err != nil {
		return err
	}
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	// An unset value changes nothing.
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, path, v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, path))
	}
	return nil
}

// mapKey returns the path of an element: a map's key or a set's element. Null and unset keys are errors with
// Cassandra's messages.
func mapKey(x *operationContext, col *schema.Column, key term.Term) ([]byte, error) {
	k, err := key.Eval(&x.Scope)
	if err != nil {
		return nil, err
	}
	// SET m[key] and DELETE c[key] share this function; a set only occurs in DELETE.
	what := "map key"
	if col.Type.Kind() == types.Set {
		what = "set element"
	}
	switch k.Kind {
	case wire.ValueUnset:
		return nil, invalid.Errorf("Invalid unset %s", what)
	case wire.ValueNull:
		return nil, invalid.Errorf("Invalid null %s", what)
	}
	return rowview.ElementPath(col.Type, k.Bytes), nil
}

// setIndex is l[index] = value. The new cell has the path of the old one, so that the element keeps its place. A null
// value deletes the element. The row must be known.
type setIndex struct {
	readingTarget
	index, value term.Term
}

// Apply implements operation. Errors have Cassandra's messages and order: index, value, contents of the list.
func (o *setIndex) Apply(x *operationContext, r *row.Row) error {
	i, unset, err := listIndex(x, o.index)
	if err != nil {
		return err
	}
	// As in Cassandra, DELETE l[?] accepts an unset index, SET does not.
	if unset {
		return invalid.Errorf("Invalid unset value for list index")
	}
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	list := x.existing(o.col, r)
	n := list.size()
	// An empty multi-cell list is null.
	if n == 0 {
		return invalid.Errorf("Attempted to set an element on a list which is null")
	}
	if i < 0 || i >= n {
		return invalid.Errorf("List index %d out of bound, list has size %d", i, n)
	}
	switch v.Kind {
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, list.at(i).path))
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, list.at(i).path, v.Bytes))
	}
	return nil
}

// listIndex returns the index of a list's element. It does not check it against the list.
func listIndex(x *operationContext, index term.Term) (i int, unset bool, err error) {
	v, err := index.Eval(&x.Scope)
	if err != nil {
		return 0, false, err
	}
	switch {
	case v.Kind == wire.ValueUnset:
		return 0, true, nil
	case v.Kind == wire.ValueNull || len(v.Bytes) != 4:
		return 0, false, invalid.Errorf("Invalid null value for list index")
	}
	// An int has 4 bytes, which was checked above.
	c := wire.NewCursor(v.Bytes)
	return int(c.Int32()), false, nil
}

// setField is u.field = value. A null value deletes the field.
type setField struct {
	target
	field int
	value term.Term
}

// Apply implements operation. Other fields of the value keep their cells.
func (o *setField) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	// An unset value changes nothing.
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, rowview.FieldPath(o.field), v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, rowview.FieldPath(o.field)))
	}
	return nil
}

// deleteColumn is DELETE c. A multi-cell column is deleted with all its elements, at the statement's own timestamp:
// unlike setParts, nothing is written that must survive it.
type deleteColumn struct{ target }

// Apply implements operation.
func (o *deleteColumn) Apply(x *operationContext, r *row.Row) error {
	// A counter is deleted like a column with several cells, not by a tombstone among its cells.
	if o.col.Type.MultiCell() || o.col.IsCounter() {
		r.Complex = append(r.Complex, row.ComplexDeletion{Column: o.col.ID,
			Deletion: row.Deletion{Timestamp: x.Timestamp, LocalTime: x.Now}})
		return nil
	}
	// A frozen collection is a single cell, too.
	r.Cells = append(r.Cells, x.tombstone(o.col, nil))
	return nil
}

// deleteKey is DELETE c[key] of a set or map. It needs no read.
type deleteKey struct {
	target
	key term.Term
}

// Apply implements operation.
func (o *deleteKey) Apply(x *operationContext, r *row.Row) error {
	path, err := mapKey(x, o.col, o.key)
	if err != nil {
		return err
	}
	r.Cells = append(r.Cells, x.tombstone(o.col, path))
	return nil
}

// deleteIndex is DELETE l[index]. An unset index deletes nothing.
type deleteIndex struct {
	readingTarget
	index term.Term
}

// Apply implements operation.
func (o *deleteIndex) Apply(x *operationContext, r *row.Row) error {
	i, unset, err := listIndex(x, o.index)
	if err != nil || unset {
		return err
	}
	// The index refers to the list after the earlier operations of the statement.
	list := x.existing(o.col, r)
	n := list.size()
	if n == 0 {
		return invalid.Errorf("Attempted to delete an element from a list which is null")
	}
	if i < 0 || i >= n {
		return invalid.Errorf("List index %d out of bound, list has size %d", i, n)
	}
	r.Cells = append(r.Cells, x.tombstone(o.col, list.at(i).path))
	return nil
}

// byIndex reports whether an operation finds an element of a list by its index. Its failure reveals the size of the
// list, which a mask may hide.
func byIndex(o operation) bool {
	switch o.(type) {
	case *setIndex, *deleteIndex:
		return true
	}
	return false
}

// deleteField is DELETE u.field.
type deleteField struct {
	target
	field int
}

// Apply implements operation.
func (o *deleteField) Apply(x *operationContext, r *row.Row) error {
	r.Cells = append(r.Cells, x.tombstone(o.col, rowview.FieldPath(o.field)))
	return nil
}

// listRead returns Cassandra's name for an operation that reads a list, for the guardrail against such operations, or
// "" if the operation reads no list.
func listRead(o operation) string {
	switch o.(type) {
	case *setIndex:
		return "Setting of list items by index requiring read before write"
	case *deleteIndex:
		return "Removal of list items by index requiring read before write"
	case *removeElements:
		return "Removal of list items requiring read before write"
	}
	return ""
}

// setsElement reports whether an operation sets one element of a collection, so that its cells do not show the
// collection's size.
func setsElement(o operation) bool {
	switch o.(type) {
	case *setKey, *setIndex:
		return true
	}
	return false
}
