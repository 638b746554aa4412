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
	bytes  int // its bound
	copies int // of the page
	merge  int // bytes for a merge of differing pages beyond that
}

// casHeld is what a request of package paxos reserves first: with it, it is a small request (package memory).
const casHeld = 48 << 10

func sizeOf(serial bool) size {
	if serial {
		return size{bytes: casHeld / paxos.Pages, copies: paxos.Pages}
	}
	return size{bytes: pageFirst, copies: pageCopies}
}

// held returns the memory to reserve.
func (s *size) held() int { return s.copies*s.bytes + s.merge }

// limit returns the bound of the page.
func (s *size) limit() uint32 { return uint32(min(s.bytes, math.MaxUint32)) }

// enlarge reports whether an operation must be repeated because of err, with the size that s then is.
func (s *size) enlarge(err error) bool {
	var small *row.PageTooSmall
	var needs *coordinator.NeedsMemory
	switch {
	case errors.As(err, &small) && small.Bytes > s.bytes:
		s.bytes = small.Bytes
	case errors.As(err, &needs) && s.copies == paxos.Pages:
		s.bytes = max(2*s.bytes, needs.Bytes/s.copies)
	case errors.As(err, &needs) && needs.Bytes > s.held():
		s.merge = needs.Bytes - s.copies*s.bytes
	default:
		return false
	}
	return true
}

// keyBytes is what a key of a listing takes besides its bytes.
const keyBytes = 2 * 24

// repeat calls do with a function that reserves memory without waiting, and calls it again if that did not suffice,
// after it has waited for more. The request keeps what do returns.
func (r *Request) repeat(do func(coordinator.Grow) (kept int, err error)) error {
	if r.Memory == nil {
		_, err := do(nil)
		return err
	}
	for first := 0; ; {
		if err := r.Grow(first); err != nil {
			return err
		}
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
		r.Memory.Shrink(int64(held))
		first = max(2*first, needs.Bytes)
	}
}
