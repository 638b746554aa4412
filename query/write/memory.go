package write

import (
	"slices"

	"cqld/query/function"
	"cqld/row"
)

// The memory of changes while they are built.
const (
	// mutationCopies is the memory for each byte of a value in a conditional statement, until the change is decided:
	// the changes while they are built, and the proposal.
	mutationCopies = 3
	// mutationOverhead is the memory of a mutation in bytes, without its changes but with its place in a batch.
	mutationOverhead = 128
	// changesFree is the size in bytes of changes that need no reservation: the request has already reserved twice
	// the size of its body.
	changesFree = 4 << 10
	// decodedCopies is the memory of a decoded row, as a multiple of its encoded size: a cell with 5 encoded bytes
	// takes 72 bytes, twice.
	decodedCopies = 30
	// cellsKept and changesKept bound the buffers that a pooled writing keeps: a number of cells, and bytes of
	// changes. Larger buffers from unusual requests are dropped.
	cellsKept, changesKept = 512, 64 << 10
)

// Reserve implements operationMemory. Operations call it before they add many cells to the current row.
func (w *writing) Reserve(n int) error {
	// n is an estimate in bytes, which the row may not reach.
	w.rowBytes += n
	// The next row reuses the memory, so the largest row determines the reservation.
	w.cellBytes = max(w.cellBytes, w.rowBytes)
	return w.hold(0)
}

// reserveRead reserves copies times n bytes for data that a statement reads from n bytes and keeps while its rows are
// built.
func (w *writing) reserveRead(copies, n int) error {
	// Memory is nil if the request has no bound (begin).
	if n <= changesFree || w.Memory == nil {
		return nil
	}
	// A statement reads rows one after the other, and frees the memory of the previous one.
	w.readBytes = max(w.readBytes, copies*n)
	return w.hold(0)
}

// reserve reserves memory for the changes of a conditional change, before the proposer evaluates it: its values, and
// a cell for each element that they can have. Functions cannot reserve memory during the evaluation, so reserve
// includes the values that they decode. reserve may wait for memory; update must not. The estimate is an upper bound:
// it treats the bytes of every marker as a collection.
func (x *cas) reserve() error {
	n := 0
	// The statements of BATCH in CQL share their values, so counting them for each statement overestimates.
	for _, s := range x.statements {
		size, m := 0, s.Modification
		for i := range s.Values {
			size += len(s.Values[i].Bytes)
		}
		// JSON texts are decoded into values, which become cells.
		for _, i := range m.decoded {
			n += function.JSONBytes(s.Values[i].Bytes)
		}
		// A collection of the smallest elements becomes the most cells. Values of INSERT … JSON are counted above.
		if m.json == nil && (slices.ContainsFunc(m.static, multiCell) || slices.ContainsFunc(m.regular, multiCell)) {
			n += elementBytes / elementMin * size
		}
		n += mutationCopies * size
	}
	if n <= changesFree {
		return nil
	}
	return x.request.Grow(n)
}

// unbounded hides the memory of the request from functions.
type unbounded struct{ function.Env }

// elementMin is the least size in bytes of an element of a collection in wire form: 4 of its length, and one of its
// value.
const elementMin = 5

// multiCell reports whether an operation changes a multi-cell column. Such an operation may turn few bytes into many
// cells.
func multiCell(o operation) bool { return o.Column().Type.MultiCell() }

// beginRow begins a row, which reuses the memory of the previous one. The row before must have been added to the
// builder, which copies it.
func (w *writing) beginRow() {
	clear(w.elements)
	w.rowBytes, w.elements = 0, w.elements[:0]
	w.row.Reset()
}

// hold reserves memory for the finished mutations, and for the current one including more bytes that are about to be
// encoded. The conditions of a conditional change are evaluated in goroutines of package paxos, which must not wait,
// so their memory was reserved before.
func (w *writing) hold(more int) error {
	n := w.cellBytes + w.readBytes + w.built + w.builder.Size() + more
	if w.known != nil || n <= max(w.reserved, changesFree) {
		return nil
	}
	// Reserve up to half more than needed, but at most twice the previous reservation, so that a growing change waits
	// for memory only a few times. Do not reserve beyond changesBytesMax in advance, so that a request which is too
	// large fails with the error for its size and not for its memory.
	n = max(n, min(2*w.reserved, n+n/2, changesBytesMax))
	if err := w.request.Grow(n - w.reserved); err != nil {
		return err
	}
	// Reservations only grow. They end with the request.
	w.reserved = n
	return nil
}

// finished counts the copy of a mutation that add makes.
func (w *writing) finished(m *row.Mutation) error {
	w.built += m.Size() + mutationOverhead
	return w.hold(0)
}

// putWriting returns w to the pool, without large memory. The reservation belongs to the request and ends with it. w
// keeps references to the request until the next begin.
func (writer *Writer) putWriting(w *writing) {
	w.known, w.Memory, w.Found, w.elements = nil, nil, nil, nil
	w.rowBytes, w.cellBytes, w.readBytes, w.built, w.reserved = 0, 0, 0, 0, 0
	if cap(w.row.Cells) > cellsKept {
		w.row.Cells = nil
	}
	w.builder.Trim(changesKept)
	writer.writings.Put(w)
}
