package write

import (
	"slices"

	"cqld/row"
)

// The memory of changes in construction.
const (
	// mutationCopies counts the changes of a conditional statement in construction, and the proposal that they become.
	mutationCopies = 3
	// mutationOverhead is what a mutation takes besides its changes, with its place in a batch.
	mutationOverhead = 128
	// changesFree is the size of changes that need no reservation: a request reserves its body twice.
	changesFree = 4 << 10
	// decodedCopies is what a row takes in which the cells are decoded, in its encoded size: a cell of 5 bytes has
	// 72, twice.
	decodedCopies = 30
	// jsonCopies is the same for a text with JSON: an element of 2 bytes becomes a value of 16, and one of 8.
	jsonCopies = 20
	// kept is the size of the memory that a writing keeps for the next request.
	cellsKept, changesKept = 512, 64 << 10
)

// Reserve implements operationMemory.
func (w *writing) Reserve(n int) error {
	w.rowBytes += n
	w.cellBytes = max(w.cellBytes, w.rowBytes)
	return w.hold()
}

// reserveRead reserves memory for what a statement reads from n bytes, which is kept while its rows are built: copies
// times their number.
func (w *writing) reserveRead(copies, n int) error {
	if n <= changesFree || w.Memory == nil {
		return nil
	}
	w.readBytes = max(w.readBytes, copies*n)
	return w.hold()
}

// reserve reserves memory for the changes of a conditional change, before the proposer evaluates it: its values, and a
// cell for each element that they can have.
func (x *cas) reserve() error {
	n := 0
	for _, s := range x.statements {
		size := 0
		for i := range s.Values {
			size += len(s.Values[i].Bytes)
		}
		switch m := s.Modification; {
		case m.json != nil:
			n += (jsonCopies + mutationCopies) * size
		case slices.ContainsFunc(m.static, multiCell) || slices.ContainsFunc(m.regular, multiCell):
			n += (elementBytes/elementMin + mutationCopies) * size
		default:
			n += mutationCopies * size
		}
	}
	if n <= changesFree {
		return nil
	}
	return x.request.Grow(n)
}

// elementMin is the size of an element of a collection.
const elementMin = 5

// multiCell reports whether an operation changes a column of several cells.
func multiCell(o operation) bool { return o.Column().Type.MultiCell() }

// beginRow begins a row, which reuses the memory of the previous one.
func (w *writing) beginRow() {
	w.rowBytes = 0
	w.row.Reset()
}

// hold reserves memory for what the statements have built, and for the change in construction. The garbage of a growing
// change is in the part for the collector. The conditions of a conditional change are evaluated in goroutines of
// package paxos, which must not wait: memory for its changes was reserved before.
func (w *writing) hold() error {
	n := w.cellBytes + w.readBytes + w.built + w.builder.Size()
	if w.known != nil || n <= max(w.reserved, changesFree) {
		return nil
	}
	n = max(n, min(2*w.reserved, n+n/2))
	if err := w.request.Grow(n - w.reserved); err != nil {
		return err
	}
	w.reserved = n
	return nil
}

// finished counts the copy of a mutation that is passed on.
func (w *writing) finished(m *row.Mutation) error {
	w.built += m.Size() + mutationOverhead
	return w.hold()
}

// putWriting returns w to the pool, without large memory.
func (writer *Writer) putWriting(w *writing) {
	w.known, w.Memory = nil, nil
	w.rowBytes, w.cellBytes, w.readBytes, w.built, w.reserved = 0, 0, 0, 0, 0
	if cap(w.row.Cells) > cellsKept {
		w.row.Cells = nil
	}
	w.builder.Trim(changesKept)
	writer.writings.Put(w)
}
