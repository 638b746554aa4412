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
	// candidateBytes is the memory of a candidate of a node without its page: in the node's list, as a position that
	// is sorted, and in the queue.
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

// used returns the memory that the search uses. It is computed from what the search holds, so it cannot drift from
// it. The estimate errs on the high side, because memory beyond a reservation is not accounted for.
func (s *rowSequence) used() (n int) {
	for _, x := range s.m.Plan.Nodes() {
		n += bytesOf(x.Entries)
	}
	for _, c := range s.queue {
		n += candidateBytes + len(c.at.Key) + pageCopies*len(c.page)
	}
	return n + resultCopies*s.out.writer.Len() + s.reading*readCopies*s.readBytes
}

// Memory implements watermark.Sequence.
func (s *rowSequence) Memory(arrived []index.Candidate) int { return s.used() + bytesOf(arrived) }

// NoMemory implements watermark.Sequence: a search continues while a read by key runs. With no read in flight nothing
// would become free, so the search fails with err and the client's request is repeated.
func (s *rowSequence) NoMemory(err error) error {
	if s.reading == 0 {
		return err
	}
	// Further reads wait until a running one has ended and its memory is free.
	s.full = true
	return nil
}

// readMemory returns the memory that must be reserved before one more read by key starts, or 0.
func (s *rowSequence) readMemory() int {
	// The request has no Grow: nothing is reserved, and pages of reads have no bound.
	if !s.m.Bounded {
		return 0
	}
	if s.readBytes == 0 {
		if s.readBytes = rowFirst; s.def.Partitions {
			s.readBytes = partitionFirst
		}
	}
	if need := s.used() + readCopies*s.readBytes; need > s.m.Held {
		return need
	}
	return 0
}

// enlarge makes reads by key larger if err means that their pages or merges were too small, and reports whether
// the read must be repeated.
func (s *rowSequence) enlarge(err error, size int) bool {
	var small *row.PageTooSmall
	var needs *coordinator.NeedsMemory
	switch {
	case !s.m.Bounded:
		return false
	// The replica's error contains the size of a page with the first row.
	case errors.As(err, &small):
		s.readBytes = max(s.readBytes, small.Bytes)
	// The merge of the replicas' pages needs more memory than the read had.
	case errors.As(err, &needs):
		s.readBytes = max(s.readBytes, 2*size, needs.Bytes/readCopies)
	default:
		return false
	}
	return true
}
