package query

import (
	"cqld/internal/wire"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// operation is the effect of one element of SET, VALUES or DELETE on a row.
type operation interface {
	// apply adds the cells and deletions of the operation to r.
	apply(w *write, r *row.Row) error
	// column returns the changed column.
	column() *schema.Column
	// reads reports whether the operation needs the current contents of the column.
	reads() bool
}

// target is the column of an operation.
type target struct{ col *schema.Column }

func (t target) column() *schema.Column { return t.col }
func (t target) reads() bool            { return false }

// readingTarget is the column of an operation that depends on the current contents.
type readingTarget struct{ target }

func (readingTarget) reads() bool { return true }

// cell returns a cell with the statement's timestamp and TTL.
func (w *write) cell(col *schema.Column, path, value []byte) row.Cell {
	c := row.Cell{Column: col.ID, Path: path, Timestamp: w.timestamp, Value: term.NotNil(value)}
	if w.ttl > 0 {
		c.TTL, c.LocalTime = w.ttl, w.now+int64(w.ttl)
	}
	return c
}

func (w *write) tombstone(col *schema.Column, path []byte) row.Cell {
	return row.Cell{Column: col.ID, Path: path, Timestamp: w.timestamp, LocalTime: w.now, Tombstone: true}
}

// setValue sets a column that is stored in one cell.
type setValue struct {
	target
	value term.Term
}

func (o *setValue) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, w.cell(o.col, nil, v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, w.tombstone(o.col, nil))
	}
	return nil
}

// setParts sets a multi-cell column: the previous contents are deleted just before.
type setParts struct {
	target
	value term.Term
}

func (o *setParts) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return err
	}
	r.Complex = append(r.Complex, row.ComplexDeletion{Column: o.col.ID,
		Deletion: row.Deletion{Timestamp: w.timestamp - 1, LocalTime: w.now}})
	if v.Kind == wire.ValueNull {
		return nil
	}
	return w.addParts(o.col, v.Bytes, r)
}

// addParts adds the elements of a value to a multi-cell column.
func (w *write) addParts(col *schema.Column, b []byte, r *row.Row) error {
	t := col.Type
	if t.Kind() == types.UDT {
		for i, f := range term.SplitFields(b, t) {
			if f != nil { // the deletion of the previous contents makes the others null
				r.Cells = append(r.Cells, w.cell(col, rowview.FieldPath(i), f))
			}
		}
		return nil
	}
	for p := t.Parts(b); p.Next(); {
		if p.Bytes() == nil {
			return invalidf("null is not supported inside collections")
		}
		switch t.Kind() {
		case types.List:
			r.Cells = append(r.Cells, w.cell(col, w.p.ids.ListPath(w.env.millis), p.Bytes()))
		case types.Set:
			r.Cells = append(r.Cells, w.cell(col, rowview.ElementPath(t, p.Bytes()), nil))
		case types.Map:
			key := p.Bytes()
			if !p.Next() || p.Bytes() == nil {
				return invalidf("null is not supported inside collections")
			}
			r.Cells = append(r.Cells, w.cell(col, rowview.ElementPath(t, key), p.Bytes()))
		}
	}
	return nil
}

// addElements is c = c + value for sets, maps and lists.
type addElements struct {
	target
	value term.Term
}

func (o *addElements) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	return w.addParts(o.col, v.Bytes, r)
}

// prependElements is c = value + c for lists.
type prependElements struct {
	target
	value term.Term
}

func (o *prependElements) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	elements := term.SplitCollection(v.Bytes, 1)
	for i := len(elements) - 1; i >= 0; i-- {
		r.Cells = append(r.Cells, w.cell(o.col, w.p.ids.ListFrontPath(w.env.millis), elements[i]))
	}
	return nil
}

// removeKeys is c = c - value for sets, and for maps with a set of keys.
type removeKeys struct {
	target
	value term.Term
}

func (o *removeKeys) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	for _, key := range term.SplitCollection(v.Bytes, 1) {
		r.Cells = append(r.Cells, w.tombstone(o.col, rowview.ElementPath(o.col.Type, key)))
	}
	return nil
}

// removeElements is c = c - value for lists: it removes all elements that are equal to one in value.
type removeElements struct {
	readingTarget
	value term.Term
}

func (o *removeElements) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind != wire.ValueSet {
		return err
	}
	unwanted := term.SplitCollection(v.Bytes, 1)
	for _, c := range w.existing(o.col, r) {
		for _, u := range unwanted {
			if term.EqualValue(o.col.Type.Elems()[0], term.NotNil(c.Value), u) {
				r.Cells = append(r.Cells, w.tombstone(o.col, c.Path))
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

func (o *setKey) apply(w *write, r *row.Row) error {
	path, err := mapKey(w, o.col, o.key)
	if err != nil {
		return err
	}
	v, err := o.value.Eval(&w.scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, w.cell(o.col, path, v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, w.tombstone(o.col, path))
	}
	return nil
}

func mapKey(w *write, col *schema.Column, key term.Term) ([]byte, error) {
	k, err := key.Eval(&w.scope)
	if err != nil {
		return nil, err
	}
	what := "map key"
	if col.Type.Kind() == types.Set {
		what = "set element"
	}
	switch k.Kind {
	case wire.ValueUnset:
		return nil, invalidf("Invalid unset %s", what)
	case wire.ValueNull:
		return nil, invalidf("Invalid null %s", what)
	}
	return rowview.ElementPath(col.Type, k.Bytes), nil
}

// setIndex is l[index] = value.
type setIndex struct {
	readingTarget
	index, value term.Term
}

func (o *setIndex) apply(w *write, r *row.Row) error {
	i, unset, err := listIndex(w, o.index)
	if err != nil {
		return err
	}
	if unset {
		return invalidf("Invalid unset value for list index")
	}
	v, err := o.value.Eval(&w.scope)
	if err != nil || v.Kind == wire.ValueUnset {
		return err
	}
	cells := w.existing(o.col, r)
	if len(cells) == 0 {
		return invalidf("Attempted to set an element on a list which is null")
	}
	if i < 0 || i >= len(cells) {
		return invalidf("List index %d out of bound, list has size %d", i, len(cells))
	}
	if v.Kind == wire.ValueNull {
		r.Cells = append(r.Cells, w.tombstone(o.col, cells[i].Path))
		return nil
	}
	r.Cells = append(r.Cells, w.cell(o.col, cells[i].Path, v.Bytes))
	return nil
}

func listIndex(w *write, index term.Term) (i int, unset bool, err error) {
	v, err := index.Eval(&w.scope)
	if err != nil {
		return 0, false, err
	}
	switch {
	case v.Kind == wire.ValueUnset:
		return 0, true, nil
	case v.Kind == wire.ValueNull || len(v.Bytes) != 4:
		return 0, false, invalidf("Invalid null value for list index")
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

func (o *setField) apply(w *write, r *row.Row) error {
	v, err := o.value.Eval(&w.scope)
	if err != nil {
		return err
	}
	switch v.Kind {
	case wire.ValueSet:
		r.Cells = append(r.Cells, w.cell(o.col, rowview.FieldPath(o.field), v.Bytes))
	case wire.ValueNull:
		r.Cells = append(r.Cells, w.tombstone(o.col, rowview.FieldPath(o.field)))
	}
	return nil
}

// deleteColumn is DELETE c.
type deleteColumn struct{ target }

func (o *deleteColumn) apply(w *write, r *row.Row) error {
	if o.col.Type.MultiCell() || o.col.IsCounter() {
		r.Complex = append(r.Complex, row.ComplexDeletion{Column: o.col.ID,
			Deletion: row.Deletion{Timestamp: w.timestamp, LocalTime: w.now}})
		return nil
	}
	r.Cells = append(r.Cells, w.tombstone(o.col, nil))
	return nil
}

// deleteKey is DELETE c[key] of a set or map.
type deleteKey struct {
	target
	key term.Term
}

func (o *deleteKey) apply(w *write, r *row.Row) error {
	path, err := mapKey(w, o.col, o.key)
	if err != nil {
		return err
	}
	r.Cells = append(r.Cells, w.tombstone(o.col, path))
	return nil
}

// deleteIndex is DELETE l[index].
type deleteIndex struct {
	readingTarget
	index term.Term
}

func (o *deleteIndex) apply(w *write, r *row.Row) error {
	i, unset, err := listIndex(w, o.index)
	if err != nil || unset {
		return err
	}
	cells := w.existing(o.col, r)
	if len(cells) == 0 {
		return invalidf("Attempted to delete an element from a list which is null")
	}
	if i < 0 || i >= len(cells) {
		return invalidf("List index %d out of bound, list has size %d", i, len(cells))
	}
	r.Cells = append(r.Cells, w.tombstone(o.col, cells[i].Path))
	return nil
}

// deleteField is DELETE u.field.
type deleteField struct {
	target
	field int
}

func (o *deleteField) apply(w *write, r *row.Row) error {
	r.Cells = append(r.Cells, w.tombstone(o.col, rowview.FieldPath(o.field)))
	return nil
}
