package socket

import (
	"errors"
	"io"
	"net"
	"os"
	"sync"
	"syscall"
	"unsafe"
)

// conn is a TCP connection. Like every net.Conn, it is safe for concurrent use.
type conn struct {
	*net.TCPConn
	in, out transfer
}

// transfer is one direction of a connection. bytes, n and errno are the arguments and results of call, which is made
// once for each connection: a closure for each transfer would be an allocation. They are guarded by the mutex.
type transfer struct {
	sync.Mutex
	name string
	trap uintptr // the system call
	// calls the function until it returns true, and waits for the socket between calls It is syscall.RawConn's Read or
	// Write, and returns after Close or a deadline with an error.
	wait func(func(fd uintptr) bool) error
	call func(fd uintptr) bool

	bytes []byte
	n     int
	errno syscall.Errno
}

func wrap(t *net.TCPConn) (net.Conn, error) {
	raw, err := t.SyscallConn()
	if err != nil {
		t.Close()
		return nil, err
	}
	c := &conn{TCPConn: t}
	c.in.init("read", syscall.SYS_READ, raw.Read)
	c.out.init("write", syscall.SYS_WRITE, raw.Write)
	return c, nil
}

func (t *transfer) init(name string, trap uintptr, wait func(func(fd uintptr) bool) error) {
	t.name, t.trap, t.wait = name, trap, wait
	t.call = func(fd uintptr) bool {
		for {
			// The conversion to uintptr is in the argument list, which is what keeps the buffer in place (package
			// unsafe, rule 4).
			n, _, errno := syscall.RawSyscall(t.trap, fd, uintptr(unsafe.Pointer(unsafe.SliceData(t.bytes))),
				uintptr(len(t.bytes)))
			switch errno {
			// A signal, for example of the runtime's preemption, interrupted the call before it transferred anything.
			case syscall.EINTR:
			case syscall.EAGAIN:
				return false
			default:
				t.n, t.errno = int(n), errno
				return true
			}
		}
	}
}

// some transfers some bytes: at least one unless there is an error or, for a read, the end of the input. The caller
// holds the lock of t, so that the bytes of two writes are not mixed. b is not referenced afterwards.
func (t *transfer) some(b []byte) (n int, err error) {
	t.bytes, t.n, t.errno = b, 0, 0
	err = t.wait(t.call)
	t.bytes = nil
	if err != nil {
		return 0, err
	}
	if t.errno != 0 {
		return 0, os.NewSyscallError(t.name, t.errno)
	}
	return t.n, nil
}

// Read implements net.Conn.
func (c *conn) Read(b []byte) (int, error) {
	if len(b) == 0 {
		return 0, nil
	}
	c.in.Lock()
	defer c.in.Unlock()
	n, err := c.in.some(b[:min(len(b), transferMax)])
	if err != nil {
		return 0, c.failed("read", err)
	}
	// The peer has closed its direction. A read of 0 bytes was excluded above.
	if n == 0 {
		return 0, io.EOF
	}
	return n, nil
}

// Write implements net.Conn.
func (c *conn) Write(b []byte) (written int, err error) {
	c.out.Lock()
	defer c.out.Unlock()
	if len(b) > transferMax { // the peer receives while we send, so one call for all of it is cheaper
		return c.TCPConn.Write(b)
	}
	for written < len(b) {
		n, err := c.out.some(b[written:])
		if err != nil {
			return written, c.failed("write", err)
		}
		written += n
	}
	return written, nil
}

// failed wraps err as package net does. Errors of waiting for the socket are wrapped already.
func (c *conn) failed(op string, err error) error {
	var already *net.OpError
	if errors.As(err, &already) {
		already.Op = op // instead of raw-read, raw-write
		return already
	}
	return &net.OpError{Op: op, Net: "tcp", Source: c.LocalAddr(), Addr: c.RemoteAddr(), Err: err}
}
