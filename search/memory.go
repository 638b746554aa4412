package search

import (
	"errors"
	"unsafe"

	"cqld/coordinator"
	"cqld/row"
	"cqld/storage/index"
)

// The memory of a search.
const (
	// candidateBytes is what a candidate of a node takes besides its page: in the node's list, as a position that is
	// sorted, and in the queue.
	candidateBytes = int(unsafe.Sizeof(index.Candidate{})) + 4*int(unsafe.Sizeof(candidate{}))
	// pageCopies counts the page of a candidate, and its place in the result, which doubles its memory.
	pageCopies, resultCopies = 3, 2
	// readCopies is the memory of a read by key, in the size of its page: with the pages of the replicas, and a merge.
	readCopies = 8
	// rowFirst and partitionFirst are the sizes of the first pages of reads by key.
	rowFirst       = 4 << 10
	partitionFirst = 32 << 10
)

// bytesOf returns the memory of a node's candidates.
func bytesOf(list []index.Candidate) (n int) {
	for i := range list {
		n += candidateBytes + len(list[i].At) + pageCopies*len(list[i].Page)
	}
	return n
}

// usedLocked returns the memory that the search uses.
func (op *searchOp) usedLocked() (n int) {
	for _, x := range op.plan.Nodes() {
		n += bytesOf(x.Entries)
	}
	for _, c := range op.queue {
		n += candidateBytes + len(c.at.Key) + pageCopies*len(c.page)
	}
	return n + resultCopies*op.out.writer.Len() + op.reading*readCopies*op.readBytes
}

// holdLocked reserves memory for what the search uses, and for more bytes.
func (op *searchOp) holdLocked(more int) error {
	if op.memory.Grow == nil {
		return nil
	}
	return op.memory.Hold(op.usedLocked() + more)
}

// startReadLocked reports whether there is memory for one more read by key. The first one always starts, or fails the
// search.
func (op *searchOp) startReadLocked() (ok bool, err error) {
	if op.memory.Grow == nil {
		return true, nil
	}
	if op.readBytes == 0 {
		if op.readBytes = rowFirst; op.def.Partitions {
			op.readBytes = partitionFirst
		}
	}
	err = op.holdLocked(readCopies * op.readBytes)
	if err != nil && op.reading > 0 {
		return false, nil
	}
	return err == nil, err
}

// enlargeLocked makes reads by key larger if err means that their pages or merges were too small, and reports whether
// the read must be repeated.
func (op *searchOp) enlargeLocked(err error, size int) bool {
	var small *row.PageTooSmall
	var needs *coordinator.NeedsMemory
	switch {
	case op.memory.Grow == nil:
		return false
	case errors.As(err, &small):
		op.readBytes = max(op.readBytes, small.Bytes)
	case errors.As(err, &needs):
		op.readBytes = max(op.readBytes, 2*size, needs.Bytes/readCopies)
	default:
		return false
	}
	return true
}
