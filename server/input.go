package server

import (
	"io"
	"math/bits"
	"sync"
)

// buffers lends byte slices of readBufferLarge to busy connections, and larger ones for replies, in sizes that double.
// Others may be returned to it, and are kept if they are usable.
type buffers struct {
	pools [bufferSizes]sync.Pool // *[]byte
	boxes sync.Pool              // *[]byte that are nil: put allocates none
}

func newBuffers() *buffers { return new(buffers) }

func (p *buffers) get() []byte { return p.sized(readBufferLarge) }

// sized returns a slice of at least n bytes.
func (p *buffers) sized(n int) []byte {
	class := sizeClass(n)
	if class == bufferSizes {
		return make([]byte, n)
	}
	if box, ok := p.pools[class].Get().(*[]byte); ok {
		b := *box
		*box = nil
		p.boxes.Put(box)
		return b
	}
	return make([]byte, readBufferLarge<<class)
}

func (p *buffers) put(b []byte) {
	if cap(b) < readBufferLarge {
		return
	}
	class := sizeClass(cap(b))
	if class == bufferSizes || cap(b) < readBufferLarge<<class {
		class-- // it suffices for the smaller size
	}
	if cap(b) > 2*readBufferLarge<<class {
		return // it would waste memory
	}
	box, ok := p.boxes.Get().(*[]byte)
	if !ok {
		box = new([]byte)
	}
	*box = b[:readBufferLarge<<class]
	p.pools[class].Put(box)
}

// sizeClass returns the index of the least size that is n or more, or bufferSizes.
func sizeClass(n int) int {
	return min(bits.Len(uint(max(n, 1)-1)/readBufferLarge), bufferSizes)
}

// input reads a connection through a buffer that is small while the connection is quiet. Only the reader uses it.
type input struct {
	conn       io.Reader
	buffers    *buffers
	buf        []byte // buf[start:end] is unread
	start, end int
	filled     bool // the last Read filled the buffer, so more data is waiting
	lastRead   int  // bytes of the last Read

}

// next returns the next n bytes, which are valid until the following call.
func (in *input) next(n int) ([]byte, error) {
	if in.end-in.start < n {
		if err := in.fill(n); err != nil {
			return nil, err
		}
	}
	b := in.buf[in.start : in.start+n]
	in.start += n
	return b, nil
}

// peek returns the next n bytes without consuming them.
func (in *input) peek(n int) ([]byte, error) {
	b, err := in.next(n)
	in.start -= len(b)
	return b, err
}

// fill reads until n bytes are buffered.
func (in *input) fill(n int) error {
	if in.start == in.end {
		in.start, in.end = 0, 0
		in.resize(n)
	}
	if in.start+n > len(in.buf) {
		in.makeRoom(n)
	}
	for in.end-in.start < n {
		m, err := in.conn.Read(in.buf[in.end:])
		in.end += m
		in.lastRead, in.filled = m, in.end == len(in.buf)
		if err != nil && in.end-in.start < n {
			if err == io.EOF && in.end > in.start {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// resize chooses the buffer of an input that has no unread data.
func (in *input) resize(n int) {
	switch {
	case in.buf == nil:
		in.buf = make([]byte, readBufferSmall)
	case len(in.buf) > readBufferLarge && n <= readBufferLarge,
		len(in.buf) < readBufferLarge && in.filled:
		in.replace(in.buffers.get())
	case len(in.buf) > readBufferSmall && in.lastRead < readBufferSmall/2 && n <= readBufferSmall:
		in.replace(make([]byte, readBufferSmall))
	}
	in.filled = false
}

// makeRoom moves the unread bytes to the front, of a larger buffer if necessary.
func (in *input) makeRoom(n int) {
	to := in.buf
	switch {
	case n <= len(in.buf):
	case n <= readBufferLarge:
		to = in.buffers.get()
	default:
		to = make([]byte, n+readBufferLarge)
	}
	in.end = copy(to, in.buf[in.start:in.end])
	in.start = 0
	if len(to) != len(in.buf) {
		in.replace(to)
	}
}

// replace returns the buffer and continues with another.
func (in *input) replace(to []byte) {
	in.buffers.put(in.buf)
	in.buf = to
}

// buffered returns the number of bytes that can be read without waiting.
func (in *input) buffered() int { return in.end - in.start }

// readFull fills dst.
func (in *input) readFull(dst []byte) error {
	n := copy(dst, in.buf[in.start:in.end])
	in.start += n
	if n == len(dst) {
		return nil
	}
	_, err := io.ReadFull(in.conn, dst[n:])
	return err
}

// skip drops n bytes.
func (in *input) skip(n int) error {
	for n > 0 {
		if in.start == in.end {
			if err := in.fill(1); err != nil {
				return err
			}
		}
		m := min(n, in.end-in.start)
		in.start += m
		n -= m
	}
	return nil
}

// close returns the buffer.
func (in *input) close() {
	in.replace(nil)
	in.start, in.end = 0, 0
}
