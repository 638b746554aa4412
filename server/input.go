package server

import (
	"io"
	"sync"
)

// buffers lends byte slices to busy connections. All have the size readBufferLarge; others may be returned to it, and
// are kept if they are usable.
type buffers struct{ pool sync.Pool }

func newBuffers() *buffers {
	return &buffers{pool: sync.Pool{New: func() any {
		b := make([]byte, readBufferLarge)
		return &b
	}}}
}

func (p *buffers) get() []byte { return *p.pool.Get().(*[]byte) }

func (p *buffers) put(b []byte) {
	if cap(b) < readBufferLarge || cap(b) > outputBufferKeep {
		return
	}
	b = b[:cap(b)]
	p.pool.Put(&b)
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
