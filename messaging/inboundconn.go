package messaging

import (
	"crypto/tls"
	"errors"
	"io"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
)

// errUnknownPeer ends the connection of a peer that is not bound to a member and has used up its bytes or its time.
var errUnknownPeer = errors.New("messaging: the peer is not a known member")

// inboundConns tracks the connections that other nodes opened. A connection is bound if its peer sent the cluster of
// this node and a node id in the handshake, and Bindings allows that peer to act as the node. Until then the peer is
// unknown: Limits.UnknownPeers, Limits.UnknownPeerBytes and Limits.UnknownPeerTime bound the number, the bytes and the
// duration of such connections.
//
//	accepted ──handshake, bound──▶ bound ──the metadata bind the node elsewhere──▶ closed
//	    └──handshake, not bound──▶ unknown ──the metadata arrive──▶ bound
type inboundConns struct {
	limits Limits
	clock  monotonicClock

	mu       sync.Mutex
	bindings Bindings
	self     ring.NodeID
	cluster  clusterID // of this node
	open     map[*inboundConn]struct{}
	unbound  int // number of unbound connections in open
	// opened is the number of the connection that was accepted last.
	opened  uint64
	stopped bool
}

// newInboundConns returns an empty set without bindings.
func newInboundConns(l Limits, clock monotonicClock) *inboundConns {
	return &inboundConns{limits: l, clock: clock, open: map[*inboundConn]struct{}{}}
}

// inboundConn is a connection that a peer opened. bound is read without a lock, once for each message.
type inboundConn struct {
	net.Conn
	set    *inboundConns
	addr   netip.Addr
	number uint64 // ascending in the order of acceptance
	bound  atomic.Bool
	bytes  atomic.Int64 // bytes received while the connection was not bound
	timer  *time.Timer  // ends an unknown peer's connection

	// The goroutine that reads uses these. first is a byte that peek has read, and early is set until the handshakes
	// are complete; until then the connection may send handshakeBytesTLS.
	first    []byte
	early    bool
	exceeded bool // the connection has sent too many bytes

	secured atomic.Pointer[tls.Conn] // nil unless the connection is encrypted

	// node and cluster are what the peer sent, if stated is set. set.mu guards them.
	node    ring.NodeID
	cluster clusterID
	stated  bool
}

// Read implements net.Conn. It fails when an unknown peer has sent more than Limits.UnknownPeerBytes, or more than
// handshakeBytesTLS before its handshakes are complete.
func (c *inboundConn) Read(b []byte) (int, error) {
	// The byte was counted when peek read it.
	if len(c.first) > 0 {
		n := copy(b, c.first)
		c.first = c.first[n:]
		return n, nil
	}
	n, err := c.Conn.Read(b)
	// The bytes are dropped: nothing beyond the bound is processed.
	if n > 0 && !c.bound.Load() && c.bytes.Add(int64(n)) > c.bytesMax() {
		c.exceeded = true
		return 0, errUnknownPeer
	}
	return n, err
}

// bytesMax returns the number of bytes that an unknown peer may send.
func (c *inboundConn) bytesMax() int64 {
	// A stranger needs few bytes for its handshakes, however many it may send later.
	if c.early {
		return int64(min(handshakeBytesTLS, c.set.limits.UnknownPeerBytes))
	}
	return int64(c.set.limits.UnknownPeerBytes)
}

// peek returns the first byte, which Read returns again.
func (c *inboundConn) peek() (byte, error) {
	first := make([]byte, 1)
	if _, err := io.ReadFull(c, first); err != nil {
		return 0, err
	}
	c.first = first
	return first[0], nil
}

// Close implements net.Conn.
func (c *inboundConn) Close() error {
	c.set.remove(c)
	return c.Conn.Close()
}

// add registers a connection as an unknown peer's. When there are too many, the oldest is closed, preferably one that
// does not come from the address of a member. After stop, the connection itself is closed.
func (s *inboundConns) add(conn net.Conn) *inboundConn {
	c := &inboundConn{Conn: conn, set: s, early: true}
	// The address is parsed from its text, because implementations of Network have their own types.
	if a, err := netip.ParseAddrPort(conn.RemoteAddr().String()); err == nil {
		c.addr = a.Addr().Unmap()
	}
	s.mu.Lock()
	if s.stopped {
		s.mu.Unlock()
		_ = conn.Close() // the connection is closed even after an error
		return c
	}
	var oldest *inboundConn
	if s.unbound >= s.limits.UnknownPeers {
		oldest = s.oldestUnboundLocked()
	}
	s.opened++
	c.number = s.opened
	s.open[c] = struct{}{}
	s.unbound++
	// The timer is set under the lock, so that remove finds it.
	c.timer = time.AfterFunc(s.limits.UnknownPeerTime, func() { s.expire(c) })
	s.mu.Unlock()
	// Close is called without the lock, which remove acquires.
	if oldest != nil {
		_ = oldest.Close() // the connection is closed even after an error
	}
	return c
}

// oldestUnboundLocked returns the unbound connection to close in favor of a new one.
func (s *inboundConns) oldestUnboundLocked() (oldest *inboundConn) {
	member := false // whether oldest comes from the address of a member
	for other := range s.open {
		if other.bound.Load() {
			continue
		}
		m := s.bindings.Known(other.addr)
		if oldest == nil || member && !m || member == m && other.number < oldest.number {
			oldest, member = other, m
		}
	}
	return oldest
}

// memberAddr reports whether a member is registered at an address.
func (s *inboundConns) memberAddr(a netip.Addr) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.bindings.Known(a)
}

// expire closes a connection that has been an unknown peer's for Limits.UnknownPeerTime.
func (s *inboundConns) expire(c *inboundConn) {
	if !c.bound.Load() {
		_ = c.Close() // the connection is closed even after an error
	}
}

// remove removes a connection that is closed.
func (s *inboundConns) remove(c *inboundConn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Close may be called several times.
	if _, open := s.open[c]; !open {
		return
	}
	delete(s.open, c)
	c.timer.Stop()
	if !c.bound.Load() {
		s.unbound--
	}
}

// state records the node id and the cluster that the peer of a connection sent in its handshake, and binds the
// connection if the peer may act as that node. It returns false for the id of this node.
func (s *inboundConns) state(c *inboundConn, id ring.NodeID, cluster clusterID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The node has connected to itself by a wrong address.
	if id != 0 && id == s.self {
		return false
	}
	c.node, c.cluster, c.stated = id, cluster, true
	s.bindLocked(c)
	return true
}

// bindLocked binds a connection if its peer may act as the node whose id it sent. It returns true if the connection
// was bound before and no longer is.
func (s *inboundConns) bindLocked(c *inboundConn) (ended bool) {
	if _, open := s.open[c]; !open || !c.stated {
		return false
	}
	was := c.bound.Load()
	// The cluster of this node may have changed since the handshake, when this node was admitted.
	is := c.cluster == s.cluster && s.bindings.Bound(c.node, c.addr, s.clock.Monotonic())
	if is && !was {
		s.unbound--
		c.timer.Stop()
		c.bound.Store(true)
	}
	return was && !is
}

// setSelf sets the id of this node.
func (s *inboundConns) setSelf(id ring.NodeID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.self = id
}

// setCluster sets the cluster of this node.
func (s *inboundConns) setCluster(id clusterID) {
	s.mu.Lock()
	s.cluster = id
	s.mu.Unlock()
	s.rebind()
}

// setMembers binds the connections according to the current members, and closes those that are no longer bound. It
// returns true when a node has left; then rebind must be called after formerGrace.
func (s *inboundConns) setMembers(members map[ring.NodeID]netip.AddrPort) (left bool) {
	s.mu.Lock()
	left = s.bindings.Set(members, s.clock.Monotonic())
	s.mu.Unlock()
	s.rebind()
	return left
}

// rebind checks all connections against the current bindings.
func (s *inboundConns) rebind() {
	s.mu.Lock()
	var ended []*inboundConn
	for c := range s.open {
		if s.bindLocked(c) {
			ended = append(ended, c)
		}
	}
	s.mu.Unlock()
	for _, c := range ended {
		_ = c.Close() // the connection is closed even after an error
	}
}

// stop closes all connections, and makes add close later ones.
func (s *inboundConns) stop() {
	s.mu.Lock()
	s.stopped = true
	open := slices.Collect(maps.Keys(s.open))
	s.mu.Unlock()
	for _, c := range open {
		_ = c.Close() // the connection is closed even after an error
	}
}
