package cqldtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync"
	"syscall"
)

// fabric is the transport of a cluster's connections. Implementations are safe for concurrent use. There are two:
// loopback, and memory.
type fabric interface {
	// reserve returns the addresses of n nodes, which no other cluster on this machine uses.
	reserve(n int) ([]addresses, error)
	// listen listens at a reserved address.
	listen(at netip.AddrPort) (net.Listener, error)
	// dial connects to a node; from, if valid, is the IP address of the client.
	dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error)
	// close releases the addresses.
	close()
}

// addresses contains the addresses at which one node listens. They do not change between incarnations, so clients and
// peers find a node again after a restart.
type addresses struct {
	// The ports differ from each other, so that one address serves three listeners.
	ip                        netip.Addr
	native, internode, tables uint16
}

// nativeAt, internodeAt and tablesAt return the address of one listener.
func (a addresses) nativeAt() netip.AddrPort    { return netip.AddrPortFrom(a.ip, a.native) }
func (a addresses) internodeAt() netip.AddrPort { return netip.AddrPortFrom(a.ip, a.internode) }
func (a addresses) tablesAt() netip.AddrPort    { return netip.AddrPortFrom(a.ip, a.tables) }

// loopback is the fabric of TCP connections. It listens at all reserved addresses until their nodes do, so that no
// other process can take them. It is closed by Cluster.Close; addresses of nodes that ran are closed by the nodes.
type loopback struct {
	mu       sync.Mutex
	reserved map[netip.AddrPort]net.Listener
}

// reserveAttempts is the maximum number of networks that reserve tries. An attempt fails if another program uses one of
// the ports in that network.
const reserveAttempts = 100

// reserve implements fabric. Each node gets an address in a randomly chosen network 127.x.y.0/24, and all nodes have
// the same ports, which drivers expect. If the system has only 127.0.0.1, all nodes use it, with different ports.
func (l *loopback) reserve(n int) ([]addresses, error) {
	single := false
	var failed error
	for range reserveAttempts {
		var nodes []addresses
		if nodes, failed = l.attempt(n, single); failed == nil {
			return nodes, nil
		}
		l.close()
		single = single || errors.Is(failed, syscall.EADDRNOTAVAIL)
	}
	return nil, fmt.Errorf("cqldtest: no free loopback addresses: %w", failed)
}

// attempt listens at the addresses of n nodes, or returns the reason why it cannot. The first node's ports are chosen
// by the system, and the others must have the same ones unless single. What it has taken stays reserved after an error;
// the caller closes it. single means that the system has only 127.0.0.1.
func (l *loopback) attempt(n int, single bool) ([]addresses, error) {
	var ports [3]uint16 // zero means any
	network := [4]byte{127, byte(16 + rand.IntN(230)), byte(rand.IntN(256)), 1}
	out := make([]addresses, n)
	for i := range out {
		ip := network
		if ip[3] += byte(i); single {
			ip, ports = [4]byte{127, 0, 0, 1}, [3]uint16{}
		}
		for j := range ports {
			port, err := l.take(netip.AddrPortFrom(netip.AddrFrom4(ip), ports[j]))
			if err != nil {
				return nil, err
			}
			ports[j] = port
		}
		out[i] = addresses{netip.AddrFrom4(ip), ports[0], ports[1], ports[2]}
	}
	return out, nil
}

// take listens at an address, and returns its port. Port 0 means any free port. The listener stays open until listen
// hands it over. The port is bound in the process, so two test binaries never share one.
func (l *loopback) take(at netip.AddrPort) (uint16, error) {
	listener, err := net.Listen("tcp4", at.String())
	if err != nil {
		return 0, err
	}
	got := listener.Addr().(*net.TCPAddr).AddrPort()
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.reserved == nil {
		l.reserved = map[netip.AddrPort]net.Listener{}
	}
	l.reserved[netip.AddrPortFrom(got.Addr().Unmap(), got.Port())] = listener
	return got.Port(), nil
}

// listen implements fabric. The first call for an address returns the listener that reserves it, so no connection is
// refused in between. A restarted node listens again at the same address.
func (l *loopback) listen(at netip.AddrPort) (net.Listener, error) {
	l.mu.Lock()
	listener, ok := l.reserved[at]
	delete(l.reserved, at)
	l.mu.Unlock()
	if ok {
		return listener, nil
	}
	return net.Listen("tcp4", at.String()) // the node was started and stopped before
}

// dial implements fabric. Nodes set from, so that a peer sees the address of the node that connects. A zero from lets
// the system choose.
func (l *loopback) dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	d := net.Dialer{}
	if from.IsValid() {
		d.LocalAddr = net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, 0))
	}
	return d.DialContext(ctx, "tcp", to.String())
}

// close implements fabric. It closes the listeners that no node has taken over. It is called after a failed attempt,
// too.
func (l *loopback) close() {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, listener := range l.reserved {
		_ = listener.Close() // no node has used it
	}
	clear(l.reserved)
}

// memory is the fabric of connections inside the process. It belongs to one cluster, so every cluster may use the same
// addresses. No bytes leave the process, and no port of the machine is used.
type memory struct {
	mu        sync.Mutex
	listeners map[netip.AddrPort]*memoryListener
	ports     uint16 // the last port given to a client
}

// Ports of nodes in memory, and the first port of clients. The ports are Cassandra's and, for tables, Azurite's
// defaults.
const (
	memoryNative    = 9042
	memoryInternode = 7000
	memoryTables    = 10002
	clientPorts     = 32768
)

// backlogMax is the maximum number of connections waiting to be accepted by one listener, like net.core.somaxconn.
const backlogMax = 4096

// reserve implements fabric. Usually nothing listens at these loopback addresses, so that a client that does not use
// Cluster.DialContext is refused.
func (m *memory) reserve(n int) ([]addresses, error) {
	out := make([]addresses, n)
	for i := range out {
		out[i] = addresses{netip.AddrFrom4([4]byte{127, 255, 0, byte(i + 1)}), memoryNative, memoryInternode,
			memoryTables}
	}
	return out, nil
}

// listen implements fabric. An address in use is an error, as in an operating system.
func (m *memory) listen(at netip.AddrPort) (net.Listener, error) {
	m.mu.Lock()
	defer m.mu.Unlock()
	if m.listeners[at] != nil {
		return nil, &net.OpError{Op: "listen", Net: "tcp", Addr: net.TCPAddrFromAddrPort(at), Err: syscall.EADDRINUSE}
	}
	l := &memoryListener{fabric: m, at: at, waiting: make(chan net.Conn, backlogMax), closed: make(chan struct{})}
	if m.listeners == nil {
		m.listeners = map[netip.AddrPort]*memoryListener{}
	}
	m.listeners[at] = l
	return l, nil
}

// dial implements fabric. It blocks while the listener's backlog is full. A connection is established when it is in the
// backlog, as in TCP, not when it is accepted.
func (m *memory) dial(ctx context.Context, from netip.Addr, to netip.AddrPort) (net.Conn, error) {
	m.mu.Lock()
	l := m.listeners[to]
	m.ports++
	// The port distinguishes clients in logs and in system_views.clients.
	port := clientPorts + m.ports%clientPorts
	m.mu.Unlock()
	refused := &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: syscall.ECONNREFUSED}
	if l == nil {
		return nil, refused
	}
	if !from.IsValid() {
		from = netip.AddrFrom4([4]byte{127, 0, 0, 1})
	}
	client, server := newPipeConns(net.TCPAddrFromAddrPort(netip.AddrPortFrom(from, port)), net.TCPAddrFromAddrPort(to))
	select {
	case l.waiting <- server:
		select {
		case <-l.closed:
			l.refuse() // Close may have missed it
		default:
		}
		return client, nil
	case <-l.closed:
		return nil, refused
	case <-ctx.Done():
		return nil, &net.OpError{Op: "dial", Net: "tcp", Addr: net.TCPAddrFromAddrPort(to), Err: ctx.Err()}
	}
}

// close implements fabric. Nothing outside the process is held.
func (m *memory) close() {}

// memoryListener is a net.Listener of a memory fabric. closed is closed before the last connections are refused, so
// that none is left in the backlog.
type memoryListener struct {
	fabric  *memory
	at      netip.AddrPort
	waiting chan net.Conn
	once    sync.Once
	closed  chan struct{}
}

// Accept implements net.Listener. A closed listener accepts nothing, even if connections wait. Connections in the
// backlog are accepted in order.
func (l *memoryListener) Accept() (net.Conn, error) {
	select {
	case <-l.closed:
	default:
		select {
		case c := <-l.waiting:
			return c, nil
		case <-l.closed:
		}
	}
	return nil, &net.OpError{Op: "accept", Net: "tcp", Addr: l.Addr(), Err: net.ErrClosed}
}

// Close implements net.Listener. It closes connections that wait to be accepted.
func (l *memoryListener) Close() error {
	l.once.Do(func() {
		l.fabric.mu.Lock()
		delete(l.fabric.listeners, l.at)
		l.fabric.mu.Unlock()
		close(l.closed)
	})
	l.refuse()
	return nil
}

// refuse closes the connections that wait to be accepted. It may run concurrently with itself.
func (l *memoryListener) refuse() {
	for {
		select {
		case c := <-l.waiting:
			_ = c.Close() // the client's next read returns the end
		default:
			return
		}
	}
}

// Addr implements net.Listener.
func (l *memoryListener) Addr() net.Addr { return net.TCPAddrFromAddrPort(l.at) }
