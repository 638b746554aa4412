package write

import (
	"slices"

	"cqld/query/function"
	"cqld/row"
)

// The memory of changes in construction.
const (
	// mutationCopies counts the changes of a conditional statement in construction, and the proposal that they become:
	// what a byte of a value takes until the change is decided.
	mutationCopies = 3
	// mutationOverhead is what a mutation takes in bytes besides its changes, with its place in a batch.
	mutationOverhead = 128
	// changesFree is the size in bytes of changes that need no reservation: a request reserves its body twice.
	changesFree = 4 << 10
	// decodedCopies is what a row takes in which the cells are decoded, in its encoded size: a cell of 5 bytes has
	// 72, twice.
	decodedCopies = 30
	// cellsKept and changesKept are how much memory a writing keeps for the next request: a number of cells, and bytes
	// of changes. Larger buffers would stay in the pool for one unusual request.
	cellsKept, changesKept = 512, 64 << 10
)

// Reserve implements operationMemory. Operations call it before they add many cells to the present row.
func (w *writing) Reserve(n int) error {
	// An estimate in bytes, which the row may not reach.
	w.rowBytes += n
	// The row's memory is reused for the next row: the largest row determines what is taken.
	w.cellBytes = max(w.cellBytes, w.rowBytes)
	return w.hold(0)
}

// reserveRead reserves memory for what a statement reads from n bytes, which is kept while its rows are built: copies
// times their number.
func (w *writing) reserveRead(copies, n int) error {
	// Memory is nil if the request has no bound, as begin has found.
	if n <= changesFree || w.Memory == nil {
		return nil
	}
	// A statement reads for one row after the other, and the memory of the previous one is free then.
	w.readBytes = max(w.readBytes, copies*n)
	return w.hold(0)
}

// reserve reserves memory for the changes of a conditional change, before the proposer evaluates it: its values, and a
// cell for each element that they can have. Functions cannot reserve memory meanwhile, so what they decode is reserved,
// too. It may wait for memory, which update must not. The estimate is an upper bound: a marker's bytes are counted
// whether or not they are a collection.
func (x *cas) reserve() error {
	n := 0
	// The statements of BATCH in CQL share their values: they are counted once for each, which is more than enough.
	for _, s := range x.statements {
		size, m := 0, s.Modification
		for i := range s.Values {
			size += len(s.Values[i].Bytes)
		}
		// Texts are decoded into values, which become cells.
		for _, i := range m.decoded {
			n += function.JSONBytes(s.Values[i].Bytes)
		}
		// A collection of the smallest elements becomes the most cells. The values of INSERT … JSON count as decoded.
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

// unbounded is an environment of functions without the memory of the request.
type unbounded struct{ function.Env }

// elementMin is the least size in bytes of an element of a collection in wire form: 4 of its length, and one of its
// value.
const elementMin = 5

// multiCell reports whether an operation changes a column of several cells. Such an operation may turn few bytes into
// many cells.
func multiCell(o operation) bool { return o.Column().Type.MultiCell() }

// beginRow begins a row, which reuses the memory of the previous one. The row before must have been added to the
// builder, which copies it.
func (w *writing) beginRow() {
	clear(w.elements)
	w.rowBytes, w.elements = 0, w.elements[:0]
	w.row.Reset()
}

// hold reserves memory for what the statements have built, and for the change in construction with more bytes that are
// about to be encoded. The garbage of a growing change is in the part for the collector. The conditions of a
// conditional change are evaluated in goroutines of package paxos, which must not wait: memory for its changes was
// reserved before.
func (w *writing) hold(more int) error {
	n := w.cellBytes + w.readBytes + w.built + w.builder.Size() + more
	if w.known != nil || n <= max(w.reserved, changesFree) {
		return nil
	}
	// It reserves up to half more than is needed, but not more than twice the previous reservation: a growing change
	// waits for memory only a few times. What is above the bound of all changes is not reserved beforehand: the request
	// would be refused for its memory before it is refused for its size.
	n = max(n, min(2*w.reserved, n+n/2, changesBytesMax))
	if err := w.request.Grow(n - w.reserved); err != nil {
		return err
	}
	// Reservations only grow. They end with the request.
	w.reserved = n
	return nil
}

// finished counts the copy of a mutation that is passed on. add, which receives it, makes the copy.
func (w *writing) finished(m *row.Mutation) error {
	w.built += m.Size() + mutationOverhead
	return w.hold(0)
}

// putWriting returns w to the pool, without large memory. Its reservation needs no return: it belongs to the request
// and ends with it. References to the request stay until the next begin replaces them.
func (writer *Writer) putWriting(w *writing) {
	w.known, w.Memory, w.Found, w.elements = nil, nil, nil, nil
	w.rowBytes, w.cellBytes, w.readBytes, w.built, w.reserved = 0, 0, 0, 0, 0
	if cap(w.row.Cells) > cellsKept {
		w.row.Cells = nil
	}
	w.builder.Trim(changesKept)
	writer.writings.Put(w)
}
