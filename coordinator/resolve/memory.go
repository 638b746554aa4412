package resolve

import (
	"fmt"
	"unsafe"

	"cqld/row"
)

// NeedsMemory means that a merge needs more memory than it may use. Nothing was repaired.
type NeedsMemory struct {
	Bytes int // with which the read should be repeated
}

// Error contains the size.
func (e *NeedsMemory) Error() string {
	return fmt.Sprintf("the answers of the replicas differ, and their merge needs %d bytes of memory", e.Bytes)
}

// Bytes that a merge allocates in addition to the pages.
const (
	// The sizes of structs without what they point to, which is in pages or in chunks.
	rowBytes       = int(unsafe.Sizeof(Row{}))
	partitionBytes = int(unsafe.Sizeof(Partition{})) + 4*int(unsafe.Sizeof(uintptr(0))) // and the pointers to it
	// with their bounds and heap, and of the difference
	tombstoneBytes = 12 * int(unsafe.Sizeof(row.RangeTombstone{}))
	// mutationCopies counts a mutation that doubles its memory, what it had before, and the request to the replica.
	mutationCopies = 4
	// resultCopies counts the answer and its copy for the request.
	resultCopies = 2
	// interleaved is the factor by which rows grow when they are merged, because each cell may then need its own
	// timestamp. Cells of a few bytes, which also need their own time to live, may grow more; that is counted when it
	// is seen.
	interleaved = 4
	// usual is the memory of a typical merge as a multiple of the size of its pages. A read that had too little
	// memory is repeated with that much.
	usual = 8
)

// SetMemory bounds the memory of the resolver, with all pages of the replicas; zero means no bound.
func (s *Resolver) SetMemory(most int) { s.most = most }

// Hold counts a page that is kept for Parse. It fails with NeedsMemory.
//
// Only the page itself is counted here; Parse and Round count what the merge allocates.
func (s *Resolver) Hold(bytes int) error {
	s.pages += bytes
	s.reserve(bytes)
	return s.err
}

// Err returns the error of a merge, after which its results are void.
func (s *Resolver) Err() error { return s.err }

// reserve counts n bytes before they are allocated, and reports whether they fit into the bound of the resolver.
func (s *Resolver) reserve(n int) bool {
	s.used += n
	if s.err == nil && s.most > 0 && s.used > s.most {
		// At least twice the bound, so that a read is repeated only a few times.
		s.err = &NeedsMemory{max(2*s.most, s.used+usual*s.pages)}
	}
	return s.err == nil
}

// reservePage counts what Parse allocates for a page, and what a merge allocates for its partitions and rows.
func (s *Resolver) reservePage(n row.Contents) bool {
	return s.reserve(3*n.Rows*rowBytes + 2*n.Partitions*partitionBytes + n.RangeTombstones*tombstoneBytes)
}

// scratchFor gives scratch a capacity of n bytes.
func (s *Resolver) scratchFor(n int) bool {
	n += headBytes
	if s.err != nil || cap(s.scratch) >= n {
		return s.err == nil
	}
	// The old scratch is garbage, and stays counted.
	n = max(n, 2*cap(s.scratch))
	if !s.reserve(n) {
		return false
	}
	s.scratch = make([]byte, 0, n)
	return true
}

// grown counts the bytes by which the capacity of scratch exceeds n.
func (s *Resolver) grown(n int) {
	if more := cap(s.scratch) - n; more > 0 {
		s.reserve(more)
	}
}

// headBytes bounds the encoded size of a row in front of its cells, without column deletions.
const headBytes = 64

// chunkBytes is the size of a chunk, the unit in which memory for merged rows is allocated.
const chunkBytes = 16 << 10

// keep returns a copy of encoded in the memory of merged rows.
func (s *Resolver) keep(encoded []byte) []byte {
	// Rows of the full chunk still point into it. Chunks grow, so that a small merge takes little memory.
	if n := len(encoded); cap(s.chunk)-len(s.chunk) < n {
		size := max(n, min(chunkBytes, 2*cap(s.chunk)))
		if !s.reserve(size) {
			return nil
		}
		s.chunk = make([]byte, 0, size)
	}
	at := len(s.chunk)
	s.chunk = append(s.chunk, encoded...)
	// With its capacity bounded, an append to the row cannot overwrite the next one.
	return s.chunk[at:len(s.chunk):len(s.chunk)]
}
