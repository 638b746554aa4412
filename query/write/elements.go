package write

import (
	"bytes"
	"slices"

	"cqld/row"
	"cqld/schema"
)

// listElement is a live element of a list. It shares memory with the cell that it comes from.
type listElement struct{ path, value []byte }

// blockMax is the number of elements at which a block is split. Smaller blocks make at slower, and larger blocks make
// put slower.
const blockMax = 512

// elementList contains the live elements of one column in a row, ascending by path: the stored elements with the
// changes of earlier operations on the row. It is kept between the operations of a row, so the cost of each operation
// is proportional to the block size and the number of blocks, not to the length of the list.
type elementList struct {
	column *schema.Column
	// The number of cells and of deletions of the row that are already applied to the elements.
	cells, deletions int
	deleted          int64 // timestamp of the newest applied deletion of the column
	// No block is empty.
	blocks [][]listElement
}

// find returns the block and the position in it where path is, or where it would be inserted. Both searches are binary:
// the first one by the first paths of the blocks.
func (l *elementList) find(path []byte) (block, at int, found bool) {
	byPath := func(e listElement, path []byte) int { return bytes.Compare(e.path, path) }
	block, found = slices.BinarySearchFunc(l.blocks, path, func(b []listElement, path []byte) int {
		return byPath(b[0], path)
	})
	// The path is the first one of its block, before all blocks, or in the block before.
	if found || block == 0 {
		return block, 0, found
	}
	block--
	at, found = slices.BinarySearchFunc(l.blocks[block], path, byPath)
	return block, at, found
}

// put adds an element, or replaces the value of the element with the same path.
func (l *elementList) put(e listElement) {
	block, at, found := l.find(e.path)
	switch {
	case found:
		l.blocks[block][at] = e
		return
	case len(l.blocks) == 0:
		l.blocks = append(l.blocks, []listElement{e})
		return
	}
	// Only elements of this block move, at most blockMax.
	b := slices.Insert(l.blocks[block], at, e)
	l.blocks[block] = b
	if n := len(b); n > blockMax {
		// Limit the capacity of the first half, because the second half shares its array.
		l.blocks[block] = b[: n/2 : n/2]
		l.blocks = slices.Insert(l.blocks, block+1, b[n/2:])
	}
}

// remove removes the element with a path, if there is one.
func (l *elementList) remove(path []byte) {
	block, at, found := l.find(path)
	// The element was never found, or an earlier operation has removed it.
	if !found {
		return
	}
	if l.blocks[block] = slices.Delete(l.blocks[block], at, at+1); len(l.blocks[block]) == 0 {
		l.blocks = slices.Delete(l.blocks, block, block+1)
	}
}

// size returns the number of elements, for bounds of indexes. It visits each block once.
func (l *elementList) size() (n int) {
	for _, b := range l.blocks {
		n += len(b)
	}
	return n
}

// at returns the element with an index, which must be less than size.
func (l *elementList) at(i int) listElement {
	block := 0
	for ; i >= len(l.blocks[block]); block++ {
		i -= len(l.blocks[block])
	}
	return l.blocks[block][i]
}

// existing returns the live elements of a column: the elements found, as changed by the earlier operations in the same
// statement, which are in r. The result is valid until the next call.
func (x *operationContext) existing(col *schema.Column, r *row.Row) *elementList {
	at := slices.IndexFunc(x.elements, func(l elementList) bool { return l.column == col })
	fresh := at < 0
	// A statement changes few such columns, so search linearly.
	if fresh {
		at = len(x.elements)
		x.elements = append(x.elements, elementList{column: col, deleted: row.NoTimestamp})
	}
	l := &x.elements[at]
	deleted := l.deleted
	// A deletion in r hides stored elements, for example in SET l = [1], l[0] = 2.
	for _, d := range r.Complex[l.deletions:] {
		if d.Column == col.ID {
			deleted = max(deleted, d.Timestamp)
		}
	}
	l.deletions = len(r.Complex)
	if fresh || deleted > l.deleted {
		// All deletions of a statement have the same timestamp, so this happens at most twice for a column.
		l.deleted, l.cells = deleted, 0
		l.build(x, deleted)
	}
	// Each cell of the row is visited once, by the operation after the one that appended it.
	for i := range r.Cells[l.cells:] {
		switch c := &r.Cells[l.cells+i]; {
		case c.Column != col.ID:
		case c.Tombstone:
			l.remove(c.Path)
		default:
			l.put(listElement{c.Path, c.Value})
		}
	}
	l.cells = len(r.Cells)
	return l
}

// build sets the list to the elements found that no deletion hides. Paths are compared as bytes, which is their order
// in the list and in the row.
func (l *elementList) build(x *operationContext, deleted int64) {
	l.blocks = l.blocks[:0]
	var all []listElement
	// Cells are valid only during the callback, but their paths and values remain valid, because find and cas decode
	// rows without row.Run.
	x.Found.Elements(l.column, func(c *row.Cell) {
		if c.Timestamp > deleted {
			all = append(all, listElement{c.Path, c.Value})
		}
	})
	// Fill blocks only by half, so that insertions rarely split them.
	for b := range slices.Chunk(all, blockMax/2) {
		l.blocks = append(l.blocks, b)
	}
}
