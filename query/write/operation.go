package write

import (
	"bytes"
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

// operation is the effect of one element of SET, VALUES or DELETE on a row.
type operation interface {
	// Apply adds the cells and deletions of the operation to r.
	Apply(x *operationContext, r *row.Row) error
	// Column returns the changed column.
	Column() *schema.Column
	// Reads reports whether the operation needs the current contents of the column.
	Reads() bool
}

// target is the column of an operation.
type target struct{ col *schema.Column }

func (t target) Column() *schema.Column { return t.col }
func (t target) Reads() bool            { return false }

// readingTarget is the column of an operation that depends on the current contents.
type readingTarget struct{ target }

func (readingTarget) Reads() bool { return true }

// operationContext is the input of operations: the values of a statement, and the row that it changes.
type operationContext struct {
	Scope     term.Scope
	Positions *uuid.Positions // of elements that are added to lists
	Millis    int64           // the time at which the statement began
	Timestamp int64           // of the written cells, µs
	Now       int64           // seconds
	TTL       int32           // seconds; 0 means no expiry
	Found     *rowview.View   // the current row, for operations that read it
	Memory    operationMemory // nil means no bound
}

// operationMemory is the memory of a request.
type operationMemory interface {
	// Reserve reserves n bytes for the cells of the present row.
	Reserve(n int) error
}

const (
	// elementBytes is what an element of a multi-cell column takes as a cell, in a slice that doubles, with its path.
	elementBytes = 3*int(unsafe.Sizeof(row.Cell{})) + 64
	// elementsFree is the number of elements that need no reservation.
	elementsFree = 32
)

// reserve reserves memory for the elements of a value.
func (x *operationContext) reserve(b []byte) error {
	if x.Memory == nil || len(b) < 4 {
		return nil
	}
	c := wire.NewCursor(b)
	n := min(max(int(c.Int32()), 0), len(b)/4)
	if n <= elementsFree {
		return nil
	}
	return x.Memory.Reserve(n*elementBytes + 2*len(b))
}

// cell returns a cell with the statement's timestamp and TTL.
func (x *operationContext) cell(col *schema.Column, path, value []byte) row.Cell {
	c := row.Cell{Column: col.ID, Path: path, Timestamp: x.Timestamp, Value: term.NotNil(value)}
	if x.TTL > 0 {
		c.TTL, c.LocalTime = x.TTL, x.Now+int64(x.TTL)
	}
	return c
}

func (x *operationContext) tombstone(col *schema.Column, path []byte) row.Cell {
	return row.Cell{Column: col.ID, Path: path, Timestamp: x.Timestamp, LocalTime: x.Now, Tombstone: true}
}

// setValue sets a column that is stored in one cell.
type setValue struct {
	target
	value term.Term
}

func (o *setValue) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, nil, v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, nil))
	}
	return nil
}

// setOperation returns the operation that sets a column.
func setOperation(col *schema.Column, t term.Term) operation {
	if col.Type.MultiCell() {
		return &setParts{target{col}, t}
	}
	return &setValue{target{col}, t}
}

// setParts sets a multi-cell column: the previous contents are deleted just before.
type setParts struct {
	target
	value term.Term
}

func (o *setParts) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return err
	}
	r.Complex = append(r.Complex, row.ComplexDeletion{Column: o.col.ID,
		Deletion: row.Deletion{Timestamp: x.Timestamp - 1, LocalTime: x.Now}})
	if v.Kind == wire.ValueNull {
		return nil
	}
	return x.addParts(o.col, v.Bytes, r)
}

// addParts adds the elements of a value to a multi-cell column.
func (x *operationContext) addParts(col *schema.Column, b []byte, r *row.Row) error {
	t := col.Type
	if t.Kind() == types.UDT {
		for i, f := range term.SplitFields(b, t) {
			if f != nil { // the deletion of the previous contents makes the others null
				r.Cells = append(r.Cells, x.cell(col, rowview.FieldPath(i), f))
			}
		}
		return nil
	}
	if err := x.reserve(b); err != nil {
		return err
	}
	for p := t.Parts(b); p.Next(); {
		if p.Bytes() == nil {
			return invalid.Errorf("null is not supported inside collections")
		}
		switch t.Kind() {
		case types.List:
			r.Cells = append(r.Cells, x.cell(col, x.Positions.Append(), p.Bytes()))
		case types.Set:
			r.Cells = append(r.Cells, x.cell(col, rowview.ElementPath(t, p.Bytes()), nil))
		case types.Map:
			key := p.Bytes()
			if !p.Next() || p.Bytes() == nil {
				return invalid.Errorf("null is not supported inside collections")
			}
			r.Cells = append(r.Cells, x.cell(col, rowview.ElementPath(t, key), p.Bytes()))
		}
	}
	return nil
}

// addElements is c = c + value for sets, maps and lists.
type addElements struct {
	target
	value term.Term
}

func (o *addElements) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	return x.addParts(o.col, v.Bytes, r)
}

// prependElements is c = value + c for lists.
type prependElements struct {
	target
	value term.Term
}

func (o *prependElements) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	if err := x.reserve(v.Bytes); err != nil {
		return err
	}
	elements := term.SplitCollection(v.Bytes, 1)
	for i := len(elements) - 1; i >= 0; i-- {
		r.Cells = append(r.Cells, x.cell(o.col, x.Positions.Prepend(), elements[i]))
	}
	return nil
}

// removeKeys is c = c - value for sets, and for maps with a set of keys.
type removeKeys struct {
	target
	value term.Term
}

func (o *removeKeys) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	if err := x.reserve(v.Bytes); err != nil {
		return err
	}
	for _, key := range term.SplitCollection(v.Bytes, 1) {
		r.Cells = append(r.Cells, x.tombstone(o.col, rowview.ElementPath(o.col.Type, key)))
	}
	return nil
}

// removeElements is c = c - value for lists: it removes all elements that are equal to one in value.
type removeElements struct {
	readingTarget
	value term.Term
}

func (o *removeElements) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	if err := x.reserve(v.Bytes); err != nil {
		return err
	}
	unwanted := term.SplitCollection(v.Bytes, 1)
	for _, c := range x.existing(o.col, r) {
		for _, u := range unwanted {
			if term.EqualValue(o.col.Type.Elems()[0], term.NotNil(c.Value), u) {
				r.Cells = append(r.Cells, x.tombstone(o.col, c.Path))
				break
			}
		}
	}
	return nil
}

// setKey is m[key] = value.
type setKey struct {
	target
	key, value term.Term
}

func (o *setKey) Apply(x *operationContext, r *row.Row) error {
	path, err := mapKey(x, o.col, o.key)
	if err != nil {
		return err
	}
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, path, v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, path))
	}
	return nil
}

func mapKey(x *operationContext, col *schema.Column, key term.Term) ([]byte, error) {
	k, err := key.Eval(&x.Scope)
	if err != nil {
		return nil, err
	}
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

// setIndex is l[index] = value.
type setIndex struct {
	readingTarget
	index, value term.Term
}

func (o *setIndex) Apply(x *operationContext, r *row.Row) error {
	i, unset, err := listIndex(x, o.index)
	if err != nil {
		return err
	}
	if unset {
		return invalid.Errorf("Invalid unset value for list index")
	}
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	cells := x.existing(o.col, r)
	if len(cells) == 0 {
		return invalid.Errorf("Attempted to set an element on a list which is null")
	}
	if i < 0 || i >= len(cells) {
		return invalid.Errorf("List index %d out of bound, list has size %d", i, len(cells))
	}
	switch v.Kind {
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, cells[i].Path))
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, cells[i].Path, v.Bytes))
	}
	return nil
}

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
	c := wire.NewCursor(v.Bytes)
	return int(c.Int32()), false, nil
}

// setField is u.field = value.
type setField struct {
	target
	field int
	value term.Term
}

func (o *setField) Apply(x *operationContext, r *row.Row) error {
	v, err := o.value.Eval(&x.Scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, x.cell(o.col, rowview.FieldPath(o.field), v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, x.tombstone(o.col, rowview.FieldPath(o.field)))
	}
	return nil
}

// deleteColumn is DELETE c.
type deleteColumn struct{ target }

func (o *deleteColumn) Apply(x *operationContext, r *row.Row) error {
	if o.col.Type.MultiCell() || o.col.IsCounter() {
		r.Complex = append(r.Complex, row.ComplexDeletion{Column: o.col.ID,
			Deletion: row.Deletion{Timestamp: x.Timestamp, LocalTime: x.Now}})
		return nil
	}
	r.Cells = append(r.Cells, x.tombstone(o.col, nil))
	return nil
}

// deleteKey is DELETE c[key] of a set or map.
type deleteKey struct {
	target
	key term.Term
}

func (o *deleteKey) Apply(x *operationContext, r *row.Row) error {
	path, err := mapKey(x, o.col, o.key)
	if err != nil {
		return err
	}
	r.Cells = append(r.Cells, x.tombstone(o.col, path))
	return nil
}

// deleteIndex is DELETE l[index].
type deleteIndex struct {
	readingTarget
	index term.Term
}

func (o *deleteIndex) Apply(x *operationContext, r *row.Row) error {
	i, unset, err := listIndex(x, o.index)
	if err != nil || unset {
		return err
	}
	cells := x.existing(o.col, r)
	if len(cells) == 0 {
		return invalid.Errorf("Attempted to delete an element from a list which is null")
	}
	if i < 0 || i >= len(cells) {
		return invalid.Errorf("List index %d out of bound, list has size %d", i, len(cells))
	}
	r.Cells = append(r.Cells, x.tombstone(o.col, cells[i].Path))
	return nil
}

// byIndex reports whether an operation finds an element of a list by its index. Whether it fails shows how many
// elements the list has.
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

func (o *deleteField) Apply(x *operationContext, r *row.Row) error {
	r.Cells = append(r.Cells, x.tombstone(o.col, rowview.FieldPath(o.field)))
	return nil
}

// existing returns the live cells of a column, in order: those found, as changed by the earlier operations in the
// same statement, which are in r.
func (x *operationContext) existing(col *schema.Column, r *row.Row) (cells []*row.Cell) {
	deleted := int64(row.NoTimestamp)
	for _, d := range r.Complex {
		if d.Column == col.ID {
			deleted = max(deleted, d.Timestamp)
		}
	}
	x.Found.Elements(col, func(c *row.Cell) {
		if c.Timestamp > deleted {
			cells = append(cells, c)
		}
	})
	byPath := func(a, b *row.Cell) int { return bytes.Compare(a.Path, b.Path) }
	for i := range r.Cells {
		c := &r.Cells[i]
		if c.Column != col.ID {
			continue
		}
		at, found := slices.BinarySearchFunc(cells, c, byPath)
		switch {
		case found && c.Tombstone:
			cells = slices.Delete(cells, at, at+1)
		case found:
			cells[at] = c
		case !c.Tombstone:
			cells = slices.Insert(cells, at, c)
		}
	}
	return cells
}

// listRead returns what an operation that must read a list is called in the guardrail against such operations, or "".
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

// setsElement reports whether an operation sets one element of a collection.
func setsElement(o operation) bool {
	switch o.(type) {
	case *setKey, *setIndex:
		return true
	}
	return false
}
