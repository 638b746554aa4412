package listing

import (
	"errors"

	"cqld/coordinator"
	"cqld/row"
)

// keyCopies counts a key in the list of its node, in the merge and in the result, where its slice takes keyOverhead.
const (
	keyCopies   = 2
	keyOverhead = 4 * 24
)

// bytesOf returns the memory of keys.
func bytesOf(keys [][]byte) (n int) {
	for _, k := range keys {
		n += keyOverhead + keyCopies*len(k)
	}
	return n
}

// Memory implements watermark.Sequence.
func (s *keySequence) Memory(arrived [][]byte) int {
	n := bytesOf(arrived) + len(s.result.Keys)*keyOverhead + keyCopies*s.bytes
	for _, x := range s.m.Plan.Nodes() {
		n += bytesOf(x.Entries)
	}
	return n
}

const (
	// scanBytes is the size of the first page of a scan: a thousand partitions of 256 bytes. With it, the pages of
	// the ranges, their merge and the keys of a page are scanCopies times as large.
	scanBytes  = 256 << 10
	scanCopies = 8
)

// hold reserves memory for the next page and the keys. There are up to twice as many keys as in the result.
//
// hold is called before each page, and replaces the reservation of the previous one.
func (op *scanOp) hold() error {
	return op.memory.Hold(scanCopies*op.size + 2*len(op.keys)*keyOverhead + keyCopies*op.bytes)
}

// enlarge makes pages larger if err means that a row, or the merge of replicas that differ, did not fit, and reports
// whether the page must be read again.
func (op *scanOp) enlarge(err error) bool {
	var small *row.PageTooSmall
	var needs *coordinator.NeedsMemory
	switch {
	// Memory is not bounded, so no page fails for lack of it.
	case op.size == 0:
		return false
	case errors.As(err, &small):
		op.size = max(small.Bytes, op.size)
	case errors.As(err, &needs):
		// The read had scanCopies-1 pages of memory for its merge.
		op.size = max(2*op.size, needs.Bytes/(scanCopies-1))
	default:
		return false
	}
	return true
}
