package messaging

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"testing"
	"testing/synctest"
	"time"

	"cqld/ring"
)

// enterAll enters a gate n times at once, and returns how many were admitted before ctx ended.
func enterAll(ctx context.Context, g *gate, member bool, n int) (admitted int) {
	results := make(chan error, n)
	for range n {
		go func() {
			_, err := g.enter(ctx, member)
			results <- err
		}()
	}
	for range n {
		if <-results == nil {
			admitted++
		}
	}
	return admitted
}

func TestHandshakesAreBounded(t *testing.T) { synctest.Test(t, testHandshakesAreBounded) }

func testHandshakesAreBounded(t *testing.T) {
	l := DefaultLimits()
	l.MemberHandshakes, l.StrangerHandshakes, l.StrangerHandshakeRate = 5, 2, 1_000_000
	g := newGate(l)
	ctx, cancel := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancel()
	if n := enterAll(ctx, g, false, 10); n != 2 {
		t.Errorf("%d strangers were admitted concurrently", n)
	}
	long, cancelLong := context.WithTimeout(t.Context(), patience)
	defer cancelLong()
	leave, err := g.enter(long, true)
	if err != nil {
		t.Errorf("strangers delay a member: %v", err)
	}
	some, cancelSome := context.WithTimeout(t.Context(), 50*time.Millisecond)
	defer cancelSome()
	if n := enterAll(some, g, true, 10); n != 4 {
		t.Errorf("%d more members were admitted concurrently", n)
	}
	leave()
	if _, err := g.enter(long, true); err != nil {
		t.Errorf("after a member has left: %v", err)
	}
}

// The rate of strangers' handshakes is bounded: those that would begin after their deadline are refused at once.
func TestHandshakesOfStrangersArePaced(t *testing.T) {
	synctest.Test(t, testHandshakesOfStrangersArePaced)
}

func testHandshakesOfStrangersArePaced(t *testing.T) {
	l := DefaultLimits()
	l.StrangerHandshakes, l.StrangerHandshakeRate = 4, 1
	g := newGate(l)
	ctx, cancel := context.WithTimeout(t.Context(), 500*time.Millisecond)
	defer cancel()
	admitted := 0
	for range 20 {
		leave, err := g.enter(ctx, false)
		if err == nil {
			admitted++
			leave()
		} else if !errors.Is(err, errBusy) {
			t.Fatal(err)
		}
	}
	if admitted != 5 { // the turn of the fifth begins at once
		t.Errorf("%d of 20 were admitted at a burst of 4 and 1 a second", admitted)
	}
}

// Strangers that do not complete their handshakes do not keep members from connecting.
func TestStrangersDoNotDelayMembers(t *testing.T) {
	l := DefaultLimits()
	l.StrangerHandshakes, l.UnknownPeers = 2, 8
	s := newTestSecurity(t)
	open := func(id ring.NodeID, addr string) *StreamTransport {
		n := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort(addr), Limits: l, Security: s})
		n.SetSelf(id)
		n.Handle(Service{Verb: VerbHeartbeat, Handler: func(_ ring.NodeID, _ []byte,
			respond Respond) {
			respond(nil, nil)
		}})
		if err := n.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(n.Close)
		return n
	}
	a, b := open(1, "127.63.1.1:0"), open(2, "127.63.1.2:0")
	know(b, a)
	stop := make(chan struct{})
	done := make(chan struct{})
	go func() {
		defer close(done)
		var conns []net.Conn
		defer func() {
			for _, c := range conns {
				c.Close()
			}
		}()
		for {
			select {
			case <-stop:
				return
			case <-time.After(time.Millisecond):
			}
			if c, err := net.Dial("tcp", b.Addr().String()); err == nil {
				_, _ = c.Write([]byte{recordHandshake, 3, 1}) // the connection may be closed already
				conns = append(conns, c)
			}
		}
	}()
	waitFor(t, func() bool { b.conns.mu.Lock(); defer b.conns.mu.Unlock(); return b.conns.unbound >= l.UnknownPeers })
	know(a, b)
	waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })
	for range 20 {
		if err := ask(a, VerbHeartbeat, ""); err != nil {
			t.Errorf("a member: %v", err)
		}
	}
	close(stop)
	<-done
	b.conns.mu.Lock()
	defer b.conns.mu.Unlock()
	if b.conns.unbound > l.UnknownPeers {
		t.Errorf("%d connections of strangers are open", b.conns.unbound)
	}
}

// At the limit of connections, the oldest stranger's is closed, even if a member's is older.
func TestMembersOutliveStrangers(t *testing.T) {
	l := DefaultLimits()
	l.UnknownPeers = 3
	s := newInboundConns(l, monotonicClock{time.Now()})
	s.setMembers(map[ring.NodeID]netip.AddrPort{1: netip.MustParseAddrPort("10.0.0.1:7000")})
	member := s.add(connFrom("10.0.0.1:1"))
	oldest := s.add(connFrom("10.0.0.9:1"))
	s.add(connFrom("10.0.0.9:2"))
	s.add(connFrom("10.0.0.9:3"))
	isOpen := func(c *inboundConn) bool { _, open := s.open[c]; return open }
	if !isOpen(member) || isOpen(oldest) || len(s.open) != 3 {
		t.Errorf("member open: %t, oldest stranger open: %t", isOpen(member), isOpen(oldest))
	}
	for range 3 {
		s.add(connFrom("10.0.0.1:2"))
	}
	if isOpen(member) || len(s.open) != 3 {
		t.Error("connections from the address of a member are not bounded")
	}
}

// fakeConn is a connection from an address, which is only closed.
type fakeConn struct {
	net.Conn
	from netip.AddrPort
}

func connFrom(addr string) net.Conn { return fakeConn{from: netip.MustParseAddrPort(addr)} }

func (c fakeConn) RemoteAddr() net.Addr { return net.TCPAddrFromAddrPort(c.from) }
func (fakeConn) Close() error           { return nil }

// A peer that sends too much before its handshakes are complete is disconnected.
func TestHandshakeBytesAreBounded(t *testing.T) {
	b := openSecured(t, 2, newTestSecurity(t))
	conn, err := net.Dial("tcp", b.Addr().String())
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hello := []byte{1, 0, 0xff, 0xff} // a ClientHello of 65,535 bytes
	hello = append(hello, make([]byte, 0xffff)...)
	for len(hello) > 0 {
		n := min(len(hello), 16<<10)
		if _, err := conn.Write(append([]byte{recordHandshake, 3, 1, byte(n >> 8), byte(n)},
			hello[:n]...)); err != nil {
			break // the connection ended
		}
		hello = hello[n:]
	}
	waitFor(t, func() bool { return b.refused.reasons()[ReasonBytes] == 1 })
}
