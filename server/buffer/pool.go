// Package buffer lends memory for what connections read and write, and reads connections through it.
//
//	quiet connection   buffer of Small bytes, its own
//	busy connection    buffer of Large bytes, lent by Pool
//	large replies      Large << 1, Large << 2, … lent by Pool
//
// A buffer has one user at a time: a caller must not put back a slice that others still use.
package buffer

import (
	"math/bits"
	"sync"
)

const (
	// Small is the size of the read buffer of a quiet connection, which holds a few requests. A connection that fills
	// it gets one of Large bytes until it is quiet again.
	Small = 1 << 10
	// Large is the size of the read buffer of a busy connection, and of the smallest buffer for replies.
	Large = 32 << 10

	// Buffers of Large, twice that, and so on are kept for replies until a second garbage collection: up to 2 MiB.
	sizes = 7
)

// Pool lends byte slices of Large bytes to busy connections, and larger ones for replies, in sizes that double.
// Slices from elsewhere may be returned to it as well, and are kept if their sizes fit. The zero value is ready for
// use, also concurrently.
type Pool struct {
	pools [sizes]sync.Pool // *[]byte
	boxes sync.Pool        // *[]byte that are nil: Put allocates none
}

// Get returns a slice of Large bytes.
func (p *Pool) Get() []byte { return p.Sized(Large) }

// Sized returns a slice of at least n bytes.
func (p *Pool) Sized(n int) []byte {
	class := sizeClass(n)
	// A slice that is larger than the largest class is not pooled.
	if class == sizes {
		return make([]byte, n)
	}
	if box, ok := p.pools[class].Get().(*[]byte); ok {
		b := *box
		// Boxes have their own pool, so that Put allocates none.
		*box = nil
		p.boxes.Put(box)
		return b
	}
	return make([]byte, Large<<class)
}

// Put returns a slice that the caller no longer uses.
func (p *Pool) Put(b []byte) {
	if cap(b) < Large {
		return
	}
	class := sizeClass(cap(b))
	if class == sizes || cap(b) < Large<<class {
		class-- // it suffices for the smaller size
	}
	if cap(b) > 2*Large<<class {
		return // a larger capacity than its class would waste memory
	}
	box, ok := p.boxes.Get().(*[]byte)
	if !ok {
		box = new([]byte)
	}
	*box = b[:Large<<class]
	p.pools[class].Put(box)
}

// sizeClass returns the index of the least size that is n or more, or sizes.
func sizeClass(n int) int {
	return min(bits.Len(uint(max(n, 1)-1)/Large), sizes)
}
