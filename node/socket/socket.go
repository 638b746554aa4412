// Package socket listens for clients. Its connections read and write with raw system calls that bypass Go's scheduler.
//
// The scheduler tracks a system call so that it can run other goroutines if the call takes long. A call on a
// non-blocking socket never does. But the first tracked call after all processors were idle wakes the scheduler's
// monitor thread (sysmon), which then polls for some time before it sleeps again. A node that serves one request at a
// time becomes idle after each: sysmon took a fifth of the CPU time of a small read.
//
//	client ──▶ Conn.Read ──▶ raw read(2) ── no data ──▶ Go's poller waits ──▶ raw read(2)
//
// The package implements no protocol and no TLS. On other systems than Linux, it returns the connections of package
// net.
package socket

import (
	"fmt"
	"net"
)

// transferMax is the maximum number of bytes of one call. Copying them takes about ten microseconds, which is short
// enough to block a processor.
const transferMax = 64 << 10

// Listen listens on a TCP address. The address is host:port; port 0 chooses a free one, which Addr returns. The
// connections need no Close of their own file descriptor: the embedded net.TCPConn owns it.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	return listener{l}, nil
}

// Other connections than TCP pass unchanged; it cannot happen for a TCP listener.
type listener struct{ net.Listener }

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	if t, ok := c.(*net.TCPConn); ok {
		return wrap(t)
	}
	return c, nil
}
