package cqldtest

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"time"
)

// pipeBytes is the number of bytes that one direction of an in-memory connection buffers before Write blocks, like a
// TCP connection on loopback. The size is about the default of Linux.
const pipeBytes = 256 << 10

// pipe is one direction of an in-memory connection. One condition wakes readers and writers, because there are few of
// both. Both ends share it: one writes, the other reads. buf has at most pipeBytes of unread bytes.
type pipe struct {
	mu     sync.Mutex
	change sync.Cond
	buf    []byte
	// Read moves from instead of the bytes; Write moves them when it needs the room.
	from   int  // buf[from:] is unread
	ended  bool // the writer has closed: Read returns io.EOF after the unread bytes
	broken bool // the reader has closed: Write fails

	read, write deadline
}

// deadline wakes the goroutines that wait at a pipe when it expires. pipe.mu guards it. The zero value is no deadline.
type deadline struct {
	timer  *time.Timer
	passed bool
	number int // generation of the deadline, which makes timers of earlier ones ineffective
}

// newPipe returns an empty pipe without deadlines. It has no goroutine.
func newPipe() *pipe {
	p := &pipe{}
	p.change.L = &p.mu
	return p
}

// Read waits for bytes, the end of the stream or the deadline. The order of the cases is the order of package net: a
// closed connection and a passed deadline come before bytes that are ready, and the end of the stream comes after them.
func (p *pipe) Read(b []byte) (int, error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.broken:
			return 0, net.ErrClosed
		case p.read.passed:
			return 0, os.ErrDeadlineExceeded
		case len(b) == 0:
			return 0, nil
		case p.from < len(p.buf):
			n := copy(b, p.buf[p.from:])
			if p.from += n; p.from == len(p.buf) {
				p.buf, p.from = p.buf[:0], 0
			}
			p.change.Broadcast()
			return n, nil
		case p.ended:
			return 0, io.EOF
		}
		p.change.Wait()
	}
}

// Write waits until the pipe has accepted all bytes. written counts the bytes that were accepted before an error.
func (p *pipe) Write(b []byte) (written int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		switch {
		case p.ended:
			return written, net.ErrClosed
		case p.broken:
			return written, io.ErrClosedPipe
		case p.write.passed:
			return written, os.ErrDeadlineExceeded
		case written == len(b):
			return written, nil
		}
		if room := pipeBytes - (len(p.buf) - p.from); room > 0 {
			// Moving the unread bytes to the front avoids a larger buffer.
			if p.from > 0 && len(p.buf)+room > cap(p.buf) {
				p.buf, p.from = p.buf[:copy(p.buf, p.buf[p.from:])], 0
			}
			n := min(room, len(b)-written)
			p.buf = append(p.buf, b[written:written+n]...)
			written += n
			p.change.Broadcast()
			continue
		}
		p.change.Wait()
	}
}

// end closes the write side, and abandon the read side. A broken pipe drops what is unread.
func (p *pipe) end()     { p.set(&p.ended) }
func (p *pipe) abandon() { p.set(&p.broken) }

// set sets a flag and wakes all waiting goroutines. Flags are never reset.
func (p *pipe) set(flag *bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	*flag = true
	p.change.Broadcast()
}

// setDeadline sets the deadline of one side; the zero time means none. A deadline in the past takes effect at once,
// also for goroutines that wait. d is a field of p.
func (p *pipe) setDeadline(d *deadline, t time.Time) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.timer != nil {
		d.timer.Stop()
		d.timer = nil
	}
	// A timer that could no longer be stopped finds another number.
	d.number++
	wait := time.Until(t)
	d.passed = !t.IsZero() && wait <= 0
	if !t.IsZero() && !d.passed {
		number := d.number
		d.timer = time.AfterFunc(wait, func() { p.pass(d, number) })
	}
	// Goroutines that wait see the new deadline.
	p.change.Broadcast()
}

// pass runs when the timer of a deadline fires. A timer that fired before it was stopped has an old number and does
// nothing.
func (p *pipe) pass(d *deadline, number int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if d.number == number {
		d.passed = true
		p.change.Broadcast()
	}
}

// pipeConn is one end of an in-memory connection. It has two pipes, one for each direction.
type pipeConn struct {
	in, out       *pipe
	local, remote *net.TCPAddr
}

// newPipeConns returns the two ends of a connection from one address to another. The client's pipe up is the server's
// input.
func newPipeConns(from, to *net.TCPAddr) (client, server net.Conn) {
	up, down := newPipe(), newPipe()
	return &pipeConn{down, up, from, to}, &pipeConn{up, down, to, from}
}

// Read implements net.Conn.
func (c *pipeConn) Read(b []byte) (int, error) {
	n, err := c.in.Read(b)
	return n, c.failed("read", err)
}

// Write implements net.Conn.
func (c *pipeConn) Write(b []byte) (int, error) {
	n, err := c.out.Write(b)
	return n, c.failed("write", err)
}

// failed returns err in the form of package net. io.EOF stays as it is: callers compare it. The errors match
// net.ErrClosed, os.ErrDeadlineExceeded and so on.
func (c *pipeConn) failed(op string, err error) error {
	if err == nil || errors.Is(err, io.EOF) {
		return err
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.local, Addr: c.remote, Err: err}
}

// Close implements net.Conn. The other end reads what was written before, and then the end of the stream. Unread bytes
// of this end are lost.
func (c *pipeConn) Close() error {
	c.out.end()
	c.in.abandon()
	return c.SetDeadline(time.Time{}) // stops the timers
}

// CloseWrite closes the write side of the connection, like TCPConn.CloseWrite in net.
func (c *pipeConn) CloseWrite() error {
	c.out.end()
	return nil
}

// LocalAddr implements net.Conn.
func (c *pipeConn) LocalAddr() net.Addr { return c.local }

// RemoteAddr implements net.Conn.
func (c *pipeConn) RemoteAddr() net.Addr { return c.remote }

// SetDeadline implements net.Conn. It never fails.
func (c *pipeConn) SetDeadline(t time.Time) error {
	return errors.Join(c.SetReadDeadline(t), c.SetWriteDeadline(t))
}

// SetReadDeadline implements net.Conn.
func (c *pipeConn) SetReadDeadline(t time.Time) error {
	c.in.setDeadline(&c.in.read, t)
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *pipeConn) SetWriteDeadline(t time.Time) error {
	c.out.setDeadline(&c.out.write, t)
	return nil
}
