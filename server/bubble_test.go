package server

import (
	"net"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"cqld/server/frame"
)

// duplex is one end of a connection without a socket, which can be used in a bubble of testing/synctest. As with TCP,
// one direction can be closed.
type duplex struct {
	net.Conn          // reads
	out      net.Conn // writes
}

func (d duplex) Write(b []byte) (int, error)        { return d.out.Write(b) }
func (d duplex) SetWriteDeadline(t time.Time) error { return d.out.SetWriteDeadline(t) }
func (d duplex) CloseWrite() error                  { return d.out.Close() }

func (d duplex) SetDeadline(t time.Time) error {
	_ = d.SetReadDeadline(t) // of a pipe, fails only when it is closed
	return d.SetWriteDeadline(t)
}

func (d duplex) Close() error {
	_ = d.out.Close() // of a pipe, does not fail
	return d.Conn.Close()
}

// duplexListener accepts the connections that dial opens.
type duplexListener struct {
	accepted chan net.Conn
	closed   chan struct{}
	once     sync.Once
}

func newDuplexListener() *duplexListener {
	return &duplexListener{accepted: make(chan net.Conn), closed: make(chan struct{})}
}

func (l *duplexListener) Accept() (net.Conn, error) {
	select {
	case c := <-l.accepted:
		return c, nil
	case <-l.closed:
		return nil, net.ErrClosed
	}
}

func (l *duplexListener) Close() error {
	l.once.Do(func() { close(l.closed) })
	return nil
}

func (l *duplexListener) Addr() net.Addr { return &net.TCPAddr{} }

// dial opens a connection.
func (l *duplexListener) dial(t *testing.T, v frame.Version) *client {
	t.Helper()
	received, send := net.Pipe()
	receive, sent := net.Pipe()
	l.accepted <- duplex{received, sent}
	return newClient(t, duplex{receive, send}, v)
}

// connect opens a connection and brings it to READY.
func (l *duplexListener) connect(t *testing.T, v frame.Version) *client {
	t.Helper()
	c := l.dial(t, v)
	if h, _ := c.startup(); h.Opcode != frame.OpReady {
		t.Fatalf("STARTUP is answered by %v", h.Opcode)
	}
	return c
}

// inBubble runs a test in a bubble, where time passes only while all goroutines wait: the speed of the machine does not
// matter. The test serves the listener.
func inBubble(t *testing.T, test func(*testing.T, *duplexListener)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) { test(t, newDuplexListener()) })
}
