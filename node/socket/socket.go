// Package socket listens for clients. Its connections are read and written by system calls of which Go's
// scheduler is not told.
//
// It is told of a call so that it can give the processor to others when the call takes long; one on a socket
// that does not block never does. But the first call after a rest, when all processors were idle, wakes the
// scheduler's watchdog thread, which then looks around for some time before it sleeps again. A node that is
// asked one thing at a time rests after each: the watchdog was a fifth of the CPU time of a small read.
//
//	client ──▶ Conn.Read ──▶ read(2), told to nobody ── nothing there ──▶ Go's poller waits ──▶ read(2)
//
// It is no protocol and no TLS. Where it does not know the system it gives the connections as they are.
package socket

import (
	"fmt"
	"net"
)

// transferMax is the most bytes of one call: they are copied in some ten microseconds, for which nobody else
// waits long.
const transferMax = 64 << 10

// Listen listens at a TCP address.
func Listen(address string) (net.Listener, error) {
	l, err := net.Listen("tcp", address)
	if err != nil {
		return nil, fmt.Errorf("socket: %w", err)
	}
	return listener{l}, nil
}

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
