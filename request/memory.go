package request

import (
	"errors"
	"math"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/row"
)

// size is the size of the page of an operation on one row, and the memory that is reserved for it.
type size struct {
	// bytes is the bound of the page.
	bytes int
	// copies is how many copies of the page exist at the same time.
	copies int
	// merge is the number of bytes, in addition to the copies, for merging pages that differ.
	merge int
}

// casHeld is the first reservation of an operation of package paxos, in bytes. It is small enough for package memory
// to treat the request as small.
const casHeld = 48 << 10

// sizeOf returns the size with which an operation begins. serial means that package paxos executes it.
func sizeOf(serial bool) size {
	if serial {
		return size{bytes: casHeld / paxos.Pages, copies: paxos.Pages}
	}
	return size{bytes: pageFirst, copies: pageCopies}
}

// held returns the memory to reserve.
func (s *size) held() int { return s.copies*s.bytes + s.merge }

// limit returns the bound of the page in bytes, which has 32 bits in commands.
func (s *size) limit() uint32 { return uint32(min(s.bytes, math.MaxUint32)) }

// enlarge reports whether an operation must be repeated because of err, and grows s for the repetition. Because s
// grows each time, the repetition ends with success or when memory is exhausted.
func (s *size) enlarge(err error) bool {
	var small *row.PageTooSmall
	var needs *coordinator.NeedsMemory
	switch {
	// The row is larger than the page: the replica reports how large it is.
	case errors.As(err, &small) && small.Bytes > s.bytes:
		s.bytes = small.Bytes
	// The Paxos round needs more memory for all of its pages together.
	case errors.As(err, &needs) && s.copies == paxos.Pages:
		s.bytes = max(2*s.bytes, needs.Bytes/s.copies)
	// Replicas differ, and merging their pages takes more than the copies.
	case errors.As(err, &needs) && needs.Bytes > s.held():
		s.merge = needs.Bytes - s.copies*s.bytes
	default:
		return false
	}
	return true
}

// keyBytes is the memory overhead of a listed key, in bytes.
const keyBytes = 2 * 24

// repeat calls do with a function that reserves memory without waiting. If the memory did not suffice, repeat waits
// for more and calls do again. The request keeps the number of bytes that do returns. Memory is reserved without
// waiting inside do, because it runs in callbacks of the coordinator, which must not block.
func (r *Request) repeat(do func(coordinator.Grow) (kept int, err error)) error {
	if r.Memory == nil {
		_, err := do(nil)
		return err
	}
	for first := 0; ; {
		if err := r.Grow(first); err != nil {
			return err
		}
		// held is what this attempt has reserved in total, and spare the part of it that do has not used.
		held, spare := first, first
		kept, err := do(func(n int) bool {
			if n > spare {
				if !r.Memory.TryGrow(int64(n - spare)) {
					return false
				}
				held, spare = held+n-spare, n
			}
			spare -= n
			return true
		})
		var needs *coordinator.NeedsMemory
		if !errors.As(err, &needs) {
			r.Memory.Shrink(int64(held - min(held, kept)))
			return err
		}
		// Return all memory before requesting more: two requests that each hold a part and wait for the rest would
		// deadlock.
		r.Memory.Shrink(int64(held))
		// Doubling bounds the number of repetitions if needs is an estimate.
		first = max(2*first, needs.Bytes)
	}
}
