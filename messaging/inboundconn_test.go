package messaging

import (
	"context"
	"errors"
	"io"
	"math/rand/v2"
	"net"
	"net/netip"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/await"
	"cqld/ring"
)

// openAt is openNode at an address and with other limits.
func openAt(t testing.TB, id ring.NodeID, addr string, l Limits, services ...Service) *StreamTransport {
	t.Helper()
	n := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort(addr), Limits: l,
		Security: suiteSecurity(t)})
	n.SetSelf(id)
	Register(n, services...)
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// mustOpen opens a connection to node 2. It repeats a handshake for which the process was stopped for too long.
func mustOpen(t *testing.T, a, b *StreamTransport) (conn net.Conn) {
	t.Helper()
	var err error
	await.Reached(patience, func() bool {
		conn, err = a.open(context.Background(), b.Addr(), 2)
		var timeout net.Error
		return !errors.As(err, &timeout) || !timeout.Timeout()
	})
	if err != nil {
		t.Fatal(err)
	}
	return conn
}

// isUnknownPeer reports whether a request was refused because its sender is not known as a member.
func isUnknownPeer(err error) bool {
	var remote *RemoteError
	return errors.As(err, &remote) && remote.Code == CodeUnknownPeer
}

// A node can act as a member only from that member's address. Other nodes can use only the verbs that are open to any
// node.
func TestOnlyMembersMayUseAllVerbs(t *testing.T) {
	var truncated atomic.Int64
	b := openAt(t, 2, "127.63.1.2:0", DefaultLimits(),
		Service{Verb: VerbTruncate, Name: "truncate", Blocking: true,
			Handler: func(from ring.NodeID, _ []byte, respond Respond) {
				truncated.Add(1)
				respond(nil, nil)
			}},
		Service{Verb: VerbJoin, Name: "join", Any: func(from Sender, _ []byte, respond Respond) {
			respond([]byte{byte(from.Node), from.Addr.As4()[3], map[bool]byte{true: 1}[from.Member]}, nil)
		}})
	forger := openAt(t, 1, "127.63.1.9:0", DefaultLimits())
	member := openAt(t, 1, "127.63.1.1:0", DefaultLimits())
	newcomer := openAt(t, 0, "127.63.1.3:0", DefaultLimits())
	know(b, member)
	for _, x := range []struct {
		node *StreamTransport
		last byte
		may  bool
	}{{member, 1, true}, {forger, 9, false}, {newcomer, 3, false}} {
		_, err := x.node.RequestAddr(context.Background(), b.Addr(), VerbTruncate, nil)
		if x.may && err != nil && !isUnknownPeer(err) || x.may == isUnknownPeer(err) {
			t.Errorf("127.63.1.%d truncates: %v", x.last, err)
		}
		p, err := x.node.RequestAddr(context.Background(), b.Addr(), VerbJoin, nil)
		if want := map[bool]byte{true: 1}[x.may]; err != nil || p[0] != byte(x.node.self()) || p[1] != x.last ||
			p[2] != want {
			t.Errorf("127.63.1.%d: %v, %v", x.last, p, err)
		}
	}
	if truncated.Load() != 1 || b.Refused() != 2 {
		t.Errorf("%d were admitted, %d refused", truncated.Load(), b.Refused())
	}
	impostor := openAt(t, 2, "127.63.1.2:0", DefaultLimits())
	if _, err := impostor.RequestAddr(context.Background(), b.Addr(), VerbJoin, nil); err == nil {
		t.Error("the node accepted a request with its own ID as sender")
	}
}

// A connection follows the metadata: a new node becomes a member on its existing connection, a member that has left may
// continue for a while, and a member whose address has changed may not.
func TestConnectionsFollowTheMetadata(t *testing.T) {
	b := openAt(t, 2, "127.63.1.2:0", DefaultLimits(),
		Service{Verb: VerbRead, Name: "read", Handler: func(_ ring.NodeID, _ []byte,
			respond Respond) {
			respond(nil, nil)
		}})
	a := openAt(t, 1, "127.63.1.1:0", DefaultLimits())
	a.SetPeers(map[ring.NodeID]netip.AddrPort{2: b.Addr()})
	waitFor(t, func() bool { return isUnknownPeer(ask(a, VerbRead, "")) })
	know(b, a)
	if err := ask(a, VerbRead, ""); err != nil {
		t.Errorf("as a member: %v", err)
	}
	b.SetPeers(map[ring.NodeID]netip.AddrPort{})
	if err := ask(a, VerbRead, ""); err != nil {
		t.Errorf("as a former member: %v", err)
	}
	b.SetPeers(map[ring.NodeID]netip.AddrPort{1: netip.MustParseAddrPort("127.63.1.7:7000")})
	waitFor(t, func() bool { return isUnknownPeer(ask(a, VerbRead, "")) })
}

func TestFormerMembersAreBoundForAWhile(t *testing.T) {
	var b Bindings
	addr := netip.MustParseAddrPort("127.63.1.1:7000")
	if b.Bound(1, addr.Addr(), 0) || b.Set(map[ring.NodeID]netip.AddrPort{1: addr}, time.Second) ||
		!b.Bound(1, addr.Addr(), time.Second) {
		t.Fatal("a member is not bound")
	}
	if !b.Set(nil, 2*time.Second) || !b.Bound(1, addr.Addr(), 2*time.Second+formerGrace-1) ||
		b.Bound(1, addr.Addr(), 2*time.Second+formerGrace) {
		t.Error("a former member is not bound, or for too long")
	}
	if b.Bound(1, netip.MustParseAddr("127.63.1.2"), 2*time.Second) {
		t.Error("it is bound to any address")
	}
	b.Set(nil, 3*time.Second+formerGrace)
	if len(b.former) != 0 {
		t.Error("former members are never removed")
	}
}

// Connections whose peers are not known as members are few, short and send little.
func TestConnectionsOfUnknownPeersAreBounded(t *testing.T) {
	l := DefaultLimits()
	l.UnknownPeers, l.UnknownPeerBytes, l.UnknownPeerTime = 3, 10_000, 300*time.Millisecond
	b := openAt(t, 2, "127.63.1.2:0", l, Service{Verb: VerbHeartbeat,
		Handler: func(_ ring.NodeID, _ []byte, respond Respond) { respond(nil, nil) }},
		Service{Verb: VerbJoin, Name: "join", Any: func(_ Sender, p []byte, respond Respond) { respond(nil, nil) }})
	a := openAt(t, 1, "127.63.1.1:0", l)
	know(b, a)
	know(a, b)
	waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })

	dial := func() net.Conn {
		c, err := net.Dial("tcp", b.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		return c
	}
	ends := func(c net.Conn, within time.Duration) bool {
		if err := c.SetReadDeadline(time.Now().Add(within)); err != nil {
			t.Fatal(err)
		}
		_, err := io.Copy(io.Discard, c)
		var timeout net.Error
		return !errors.As(err, &timeout) || !timeout.Timeout()
	}
	unbound := func() int {
		b.conns.mu.Lock()
		defer b.conns.mu.Unlock()
		return b.conns.unbound
	}
	before := unbound()
	first := dial()
	await.Until(t, "the first connection is the oldest", func() bool { return unbound() > before })
	for range l.UnknownPeers {
		dial()
	}
	if !ends(first, patience) {
		t.Error("the oldest connection was not closed at the limit")
	}
	if !ends(dial(), patience) {
		t.Error("a silent connection stays open")
	}
	unknown := openAt(t, 7, "127.63.1.7:0", l)
	if _, err := unknown.RequestAddr(context.Background(), b.Addr(), VerbJoin,
		make([]byte, 2*l.UnknownPeerBytes)); err == nil {
		t.Error("an unknown peer sends more than its byte limit")
	}
	if err := ask(a, VerbHeartbeat, string(make([]byte, 2*l.UnknownPeerBytes))); err != nil {
		t.Errorf("a member: %v", err)
	}
	b.conns.mu.Lock()
	defer b.conns.mu.Unlock()
	if b.conns.unbound < 0 || b.conns.unbound > l.UnknownPeers || len(b.conns.open) > l.UnknownPeers+2 {
		t.Errorf("%d connections, %d of unknown peers", len(b.conns.open), b.conns.unbound)
	}
}

// A member that sends frames of random envelopes can at most end its own stream.
func TestRandomFrames(t *testing.T) {
	echo := func(_ ring.NodeID, p []byte, respond Respond) { respond(p, nil) }
	a, b := pair(t, func(b *StreamTransport) {
		Register(b, Service{Verb: VerbMutation, Handler: echo}, Service{Verb: VerbRead, Blocking: true, Handler: echo})
	})
	r := rand.New(rand.NewPCG(1, 2))
	for range 200 {
		conn := mustOpen(t, a, b)
		for range 50 {
			p := beginFrame(nil)
			for range r.IntN(20) {
				p = appendEnvelope(p, &envelope{kind: envelopeKind(r.IntN(9)), verb: Verb(r.IntN(40)), id: r.Uint64(),
					timeout: r.Uint32(), payload: make([]byte, r.IntN(50))})
			}
			setFrameLength(p)
			for range r.IntN(3) {
				if len(p) > frameHeader {
					p[frameHeader+r.IntN(len(p)-frameHeader)] = byte(r.Uint32())
				}
			}
			sealFrames(p, int64(r.Uint64()))
			if r.IntN(20) == 0 {
				p[r.IntN(len(p))] ^= 1 << r.IntN(8)
			}
			if _, err := conn.Write(p); err != nil {
				break // the connection ended
			}
		}
		conn.Close()
	}
	if err := ask(a, VerbMutation, "x"); err != nil {
		t.Errorf("afterwards: %v", err)
	}
}
