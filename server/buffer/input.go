package buffer

import "io"

// Input reads a connection through a buffer that is small while the connection is quiet. One goroutine uses it.
// Invariant: 0 ≤ start ≤ end ≤ len(buf). The buffer belongs to the pool while the input does not have it.
type Input struct {
	conn       io.Reader
	pool       *Pool
	buf        []byte // buf[start:end] is unread
	start, end int
	filled     bool // the last Read filled the buffer, so more data is waiting
	lastRead   int  // bytes of the last Read
}

// NewInput returns an Input that reads conn, with buffers of pool.
func NewInput(conn io.Reader, pool *Pool) Input { return Input{conn: conn, pool: pool} }

// Next returns the next n bytes, which are valid until the following call. After an error, buffered bytes stay for a
// later call.
func (in *Input) Next(n int) ([]byte, error) {
	if in.end-in.start < n {
		if err := in.fill(n); err != nil {
			return nil, err
		}
	}
	b := in.buf[in.start : in.start+n]
	in.start += n
	return b, nil
}

// Peek returns the next n bytes without consuming them.
func (in *Input) Peek(n int) ([]byte, error) {
	b, err := in.Next(n)
	in.start -= len(b)
	return b, err
}

// fill reads until n bytes are buffered.
func (in *Input) fill(n int) error {
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
		// lastRead and filled determine the size of the next buffer: a read that fills the buffer leads to a larger
		// one.
		in.lastRead, in.filled = m, in.end == len(in.buf)
		// If the read returned enough bytes together with an error, the next read reports the error.
		if err != nil && in.end-in.start < n {
			// io.EOF would mean that the client closed between two messages; here it closed within one.
			if err == io.EOF && in.end > in.start {
				return io.ErrUnexpectedEOF
			}
			return err
		}
	}
	return nil
}

// resize chooses the buffer of an input that has no unread data.
func (in *Input) resize(n int) {
	switch {
	// The first message of a connection is small (OPTIONS or STARTUP).
	case in.buf == nil:
		in.buf = make([]byte, Small)
	case len(in.buf) > Large && n <= Large,
		len(in.buf) < Large && in.filled:
		in.replace(in.pool.Get())
	// A connection with little traffic returns its large buffer to the pool.
	case len(in.buf) > Small && in.lastRead < Small/2 && n <= Small:
		in.replace(make([]byte, Small))
	}
	in.filled = false
}

// makeRoom moves the unread bytes to the front, of a larger buffer if necessary.
func (in *Input) makeRoom(n int) {
	to := in.buf
	switch {
	case n <= len(in.buf):
	case n <= Large:
		to = in.pool.Get()
	default:
		// The message is larger than the pool's buffers. The buffer has room for bytes after the message, so that one
		// read can return both.
		to = make([]byte, n+Large)
	}
	in.end = copy(to, in.buf[in.start:in.end])
	in.start = 0
	if len(to) != len(in.buf) {
		in.replace(to)
	}
}

// replace returns the buffer to the pool and continues with another.
func (in *Input) replace(to []byte) {
	in.pool.Put(in.buf)
	in.buf = to
}

// Buffered returns the number of bytes that can be read without waiting.
func (in *Input) Buffered() int { return in.end - in.start }

// ReadFull fills dst. The rest is read into dst directly, without a copy through the buffer.
func (in *Input) ReadFull(dst []byte) error {
	n := copy(dst, in.buf[in.start:in.end])
	in.start += n
	if n == len(dst) {
		return nil
	}
	_, err := io.ReadFull(in.conn, dst[n:])
	return err
}

// Skip drops n bytes.
func (in *Input) Skip(n int) error {
	for n > 0 {
		if in.start == in.end {
			if err := in.fill(1); err != nil {
				return err
			}
		}
		// Skipped bytes are not collected, so n may exceed the size of the buffer.
		m := min(n, in.end-in.start)
		in.start += m
		n -= m
	}
	return nil
}

// Close returns the buffer to the pool.
func (in *Input) Close() {
	in.replace(nil)
	in.start, in.end = 0, 0
}
