package cqldtest

import (
	"context"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// processNetwork is the network of one incarnation of a node. It implements messaging.Network.
//
// While the node is paused, its connections transfer no bytes, like those of a stopped process; peers and clients can
// send until the buffers are full. The node that opened a connection holds its data in both directions during a
// partition between the two nodes, like packets that are lost and retransmitted.
//
// Its methods are called by the node; cut is called by Kill and Stop.
type processNetwork struct {
	fabric fabric
	paused *gate
	// link returns the gate between this node and the one that listens at an address, or nil if there is none.
	link func(to netip.AddrPort) *gate

	mu sync.Mutex
	// closed is set by cut; new connections are then closed at once.
	closed bool
	open   map[interface{ Close() error }]struct{} // connections and listeners
}

// Listen implements messaging.Network. A listener stays open during a pause, so that peers can connect, as the kernel
// allows for a stopped process.
func (n *processNetwork) Listen(at netip.AddrPort) (net.Listener, error) {
	l, err := n.fabric.listen(at)
	if err != nil {
		return nil, err
	}
	listener := &gatedListener{Listener: l, network: n}
	if !n.add(listener) {
		return nil, net.ErrClosed
	}
	return listener, nil
}

// Dial implements messaging.Network. It blocks during a pause or a partition until ctx ends, like a handshake whose
// packets are lost. The connection attempt itself is made after the wait.
func (n *processNetwork) Dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	link := n.link(to)
	for _, g := range []*gate{n.paused, link} {
		if g != nil && !g.wait(ctx.Done()) {
			return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: ctx.Err()}
		}
	}
	c, err := n.fabric.dial(ctx, from, to)
	if err != nil {
		return nil, err
	}
	return n.wrap(c, link)
}

// wrap returns c as a connection of this process. link may be nil. It takes ownership of c.
func (n *processNetwork) wrap(c net.Conn, link *gate) (net.Conn, error) {
	g := &gatedConn{Conn: c, network: n, link: link, done: make(chan struct{})}
	if !n.add(g) {
		return nil, net.ErrClosed
	}
	// Code that needs the socket of a connection finds it; in memory there is none.
	if s, ok := c.(syscall.Conn); ok {
		return &gatedSocket{g, s}, nil
	}
	return g, nil
}

// add registers a connection or listener, or closes it if the process was killed. A process that was killed must not
// open connections.
func (n *processNetwork) add(c interface{ Close() error }) bool {
	n.mu.Lock()
	if !n.closed {
		n.open[c] = struct{}{}
		n.mu.Unlock()
		return true
	}
	n.mu.Unlock()
	_ = c.Close() // the result does not matter
	return false
}

// remove forgets a connection or listener that its owner has closed. Closing twice is harmless.
func (n *processNetwork) remove(c interface{ Close() error }) {
	n.mu.Lock()
	defer n.mu.Unlock()
	delete(n.open, c)
}

// cut closes all connections and listeners permanently, like the end of a process. The connections are closed without
// the lock, because Close calls remove.
func (n *processNetwork) cut() {
	n.mu.Lock()
	n.closed = true
	var open []interface{ Close() error }
	for c := range n.open {
		open = append(open, c)
	}
	n.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the result does not matter
	}
}

// gatedListener is a listener of a process. It keeps connections of clients and peers until the pause ends.
type gatedListener struct {
	net.Listener
	network *processNetwork
}

// Accept implements net.Listener. A connection that was accepted during a pause is delivered after it.
func (l *gatedListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	l.network.paused.wait(nil) // a pause ends before its process
	if err != nil {
		return nil, err
	}
	return l.network.wrap(c, nil)
}

// Close implements net.Listener.
func (l *gatedListener) Close() error {
	l.network.remove(l)
	return l.Listener.Close()
}

// gatedConn is a connection of a process. Reads and writes wait; deadlines are the inner connection's.
type gatedConn struct {
	net.Conn
	network *processNetwork
	link    *gate // nil means that no partition affects the connection
	once    sync.Once
	done    chan struct{} // closed by Close
}

// wait returns true once nothing holds the connection, or false if it is closed. It is called by every read and write.
// The order is pause, then partition.
func (c *gatedConn) wait() bool {
	return c.network.paused.wait(c.done) && (c.link == nil || c.link.wait(c.done))
}

// Read implements net.Conn. Bytes that arrive during a pause are read by the goroutine that waits already, and
// delivered after it. An error that the read returned is delivered after the pause as well.
func (c *gatedConn) Read(b []byte) (int, error) {
	n, err := c.Conn.Read(b)
	if !c.wait() {
		return 0, net.ErrClosed
	}
	return n, err
}

// Write implements net.Conn. A write that has begun is not interrupted by a pause.
func (c *gatedConn) Write(b []byte) (int, error) {
	if !c.wait() {
		return 0, net.ErrClosed
	}
	return c.Conn.Write(b)
}

// Close implements net.Conn. It wakes reads and writes that wait at a gate.
func (c *gatedConn) Close() error {
	c.once.Do(func() {
		close(c.done)
		c.network.remove(c)
	})
	return c.Conn.Close()
}

// CloseWrite closes the write side of the connection. It does nothing for a connection that cannot be half closed.
func (c *gatedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// gatedSocket is a gatedConn with a socket of the operating system. The server reads the socket's state, for example
// for the round-trip time.
type gatedSocket struct {
	*gatedConn
	socket syscall.Conn
}

// SyscallConn implements syscall.Conn.
func (s *gatedSocket) SyscallConn() (syscall.RawConn, error) { return s.socket.SyscallConn() }
