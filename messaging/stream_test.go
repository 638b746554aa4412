package messaging

import (
	"context"
	"encoding/hex"
	"errors"
	"io"
	"net"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/ring"
)

// quickLimits are limits whose keepalive acts within a fraction of a second.
func quickLimits() Limits {
	l := DefaultLimits()
	l.KeepaliveEvery, l.KeepaliveMissed = 50*time.Millisecond, 3
	return l
}

// fakePeer listens as node 2 of cluster "c", accepts the handshakes of all connections, and passes them to serve.
func fakePeer(t *testing.T, serve func(net.Conn)) netip.AddrPort {
	t.Helper()
	self := NewStreamTransport(Options{Cluster: "c", Limits: DefaultLimits(), Security: suiteSecurity(t)})
	self.SetSelf(2)
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var serving sync.WaitGroup
	serving.Go(func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			t.Cleanup(func() { c.Close() })
			serving.Go(func() {
				if conn, _, err := self.admit(self.conns.add(c)); err == nil {
					serve(conn)
				}
			})
		}
	})
	t.Cleanup(func() {
		l.Close()
		self.Close()
		serving.Wait()
	})
	return l.Addr().(*net.TCPAddr).AddrPort()
}

// connectTo opens node 1 with a peer at an address, and waits for the connection. changes counts openings and ends.
func connectTo(t *testing.T, l Limits, addr netip.AddrPort) (a *StreamTransport, changes *atomic.Int64) {
	t.Helper()
	changes = new(atomic.Int64)
	a = NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: l,
		Connected: func(ring.NodeID, bool) { changes.Add(1) }, Security: suiteSecurity(t)})
	a.SetSelf(1)
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	a.SetPeers(map[ring.NodeID]netip.AddrPort{2: addr})
	waitFor(t, func() bool { return changes.Load() > 0 })
	return a, changes
}

// outcomes collects the outcomes of requests.
type outcomes struct {
	mu   sync.Mutex
	errs [][]error // by request
}

// reply returns the Reply of another request.
func (o *outcomes) reply() Reply {
	o.mu.Lock()
	defer o.mu.Unlock()
	i := len(o.errs)
	o.errs = append(o.errs, nil)
	return func(_ []byte, err error) {
		o.mu.Lock()
		defer o.mu.Unlock()
		o.errs[i] = append(o.errs[i], err)
	}
}

// count returns how many requests have an outcome, and fails the test for one that has two.
func (o *outcomes) count(t *testing.T) (answered int) {
	t.Helper()
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, errs := range o.errs {
		if len(errs) > 1 {
			t.Fatalf("request %d has the outcomes %v", i, errs)
		}
		answered += len(errs)
	}
	return answered
}

// A peer that sends half a frame and stalls loses its connection, and each pending request gets one outcome.
func TestStalledPeerIsDetected(t *testing.T) {
	addr := fakePeer(t, func(c net.Conn) {
		half := framesOf(make([]byte, 100))
		if _, err := c.Write(half[:50]); err == nil {
			_, _ = io.Copy(io.Discard, c) // until the connection ends
		}
	})
	a, changes := connectTo(t, quickLimits(), addr)
	var o outcomes
	for range 10 {
		a.Request(2, VerbRead, nil, time.Minute, o.reply())
	}
	waitFor(t, func() bool { return o.count(t) == 10 })
	waitFor(t, func() bool { return changes.Load() >= 3 }) // it ended and was opened again
	o.mu.Lock()
	defer o.mu.Unlock()
	for i, errs := range o.errs {
		if !errors.Is(errs[0], ErrTimeout) && !errors.Is(errs[0], ErrUnreachable) {
			t.Errorf("request %d: %v", i, errs[0])
		}
	}
}

// A node that accepts a connection closes it when its peer stalls within a frame or within the handshake.
func TestStalledConnectionsOfPeersAreClosed(t *testing.T) {
	b := openAt(t, 2, "127.63.1.2:0", quickLimits())
	a := openAt(t, 1, "127.63.1.1:0", quickLimits())
	know(b, a)
	conn := mustOpen(t, a, b)
	defer conn.Close()
	if _, err := conn.Write(framesOf(make([]byte, 100))[:50]); err != nil {
		t.Fatal(err)
	}
	if err := conn.SetReadDeadline(time.Now().Add(patience)); err != nil {
		t.Fatal(err)
	}
	if _, err := io.Copy(io.Discard, conn); errors.Is(err, context.DeadlineExceeded) {
		t.Error("the connection is still open")
	}
}

// Pings keep a connection open that nothing else uses. Without them, it would end after 1.1 s.
func TestIdleConnectionsStayOpen(t *testing.T) {
	l := DefaultLimits()
	l.KeepaliveEvery, l.KeepaliveMissed = 100*time.Millisecond, 10
	b := openAt(t, 2, "127.63.1.2:0", l)
	a, changes := connectTo(t, l, b.Addr())
	var o outcomes
	a.Request(2, VerbRead, nil, time.Minute, o.reply())
	time.Sleep(1500 * time.Millisecond)
	if got := changes.Load(); got != 1 {
		t.Errorf("the connection changed %d times", got)
	}
}

// The queue to a peer that does not read is bounded. Requests beyond it are refused at once, and the others get one
// outcome when the keepalive has ended the connection.
func TestQueueToSlowPeerIsBounded(t *testing.T) {
	addr := fakePeer(t, func(c net.Conn) { // it is closed at the end of the test
		if tcp, ok := c.(*net.TCPConn); ok {
			_ = tcp.SetReadBuffer(4096)
		}
	})
	l := quickLimits()
	l.QueuedBytes = 1 << 20
	l.KeepaliveEvery = 300 * time.Millisecond
	a, _ := connectTo(t, l, addr)
	var o outcomes
	refused := 0
	payload := make([]byte, 64<<10)
	for i := range 1000 { // 64 MB: more than the buffers of sockets hold
		reply := o.reply()
		a.Request(2, VerbMutation, payload, time.Minute, func(p []byte, err error) {
			if errors.Is(err, ErrOverloaded) {
				refused++
			}
			reply(p, err)
		})
		if i%100 == 0 {
			time.Sleep(time.Millisecond)
		}
		if refused > 10 {
			break
		}
	}
	if refused == 0 {
		t.Error("no request was refused")
	}
	o.mu.Lock()
	requests := len(o.errs)
	o.mu.Unlock()
	waitFor(t, func() bool { return o.count(t) == requests })
}

// Close gives each pending request one outcome.
func TestCloseAnswersPendingRequestsOnce(t *testing.T) {
	a, _ := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbMutation, Handler: func(_ ring.NodeID, p []byte, respond Respond) {
			if p[0]%3 == 0 {
				respond(p, nil)
			}
		}})
	})
	var o outcomes
	var senders sync.WaitGroup
	for range 4 {
		senders.Go(func() {
			for i := range 500 {
				a.Request(2, VerbMutation, []byte{byte(i)}, time.Minute, o.reply())
			}
		})
	}
	within(t, a.Close)
	senders.Wait()
	if got := o.count(t); got != 2000 {
		t.Errorf("%d of 2000 requests have an outcome", got)
	}
}

// A message that exceeds the limits is refused. The connection stays open, and the sender of a request learns that the
// answer was too large.
func TestMessagesBeyondTheLimitsAreRefused(t *testing.T) {
	l := DefaultLimits()
	l.FrameBytes, l.QueuedBytes = 100_000, 200_000
	b := openAt(t, 2, "127.63.1.2:0", l, Service{Verb: VerbRead, Name: "read",
		Handler: func(_ ring.NodeID, p []byte, respond Respond) {
			respond(make([]byte, 10*len(p)), nil)
		}})
	a, changes := connectTo(t, l, b.Addr())
	b.SetPeers(map[ring.NodeID]netip.AddrPort{1: netip.MustParseAddrPort("127.0.0.1:7000")})
	for _, x := range []struct {
		size int
		ok   bool
	}{{9_000, true}, {11_000, false}, {99_000, false}, {100_000, false}, {300_000, false}, {9_000, true}} {
		if err := ask(a, VerbRead, strings.Repeat("x", x.size)); (err == nil) != x.ok || errors.Is(err, ErrTimeout) {
			t.Errorf("%d bytes: %v", x.size, err)
		}
	}
	if got := changes.Load(); got != 1 {
		t.Errorf("the connection changed %d times", got)
	}
}

// Peers of another version, peers of another cluster, and processes with another protocol are refused with a reason
// that reveals neither the cluster's name nor its hash.
func TestHandshakesThatAreRefused(t *testing.T) {
	b := openNode(t, 2, "secret", nil)
	other := NewStreamTransport(Options{Cluster: "other"})
	self := NewStreamTransport(Options{Cluster: "secret"})
	self.SetSelf(2)
	hello := appendHandshake(nil, ProtocolVersion, appendHello(nil, self.identities.Load().present, self.self(),
		OldestProtocol))
	damaged := append([]byte{}, hello...)
	damaged[12]++
	for _, x := range []struct {
		name, reason string
		hello        []byte
	}{
		{"older version", "speaks internode protocol version 7, this node version 8",
			appendHandshake(nil, 7, []byte("another body"))},
		{"newer version", "speaks internode protocol version 9, this node version 8",
			appendHandshake(nil, 9, appendHello(nil, self.identities.Load().present, 1, 9))},
		{"cluster", "cluster_name differs", appendHandshake(nil, ProtocolVersion,
			appendHello(nil, other.identities.Load().present, other.self(), OldestProtocol))},
		{"node", "is this node's own", hello},
		{"short body", "malformed", appendHandshake(nil, ProtocolVersion, []byte("short"))},
		{"long body", "cluster_name differs", appendHandshake(nil, ProtocolVersion, make([]byte, handshakeBytes))},
		{"longer body", "", appendHandshake(nil, ProtocolVersion, make([]byte, handshakeBytes+1))},
		{"checksum", "", damaged},
		{"HTTP/2", "", []byte("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n")},
	} {
		conn := suiteDial(t, b.Addr())
		if _, err := conn.Write(x.hello); err != nil {
			t.Fatal(err)
		}
		_ = conn.SetReadDeadline(time.Now().Add(patience)) // a new connection takes deadlines
		answer, err := io.ReadAll(conn)
		var timeout net.Error
		if errors.As(err, &timeout) && timeout.Timeout() {
			t.Errorf("%s: the connection is still open", x.name)
		}
		if x.reason == "" && len(answer) > 0 || !strings.Contains(string(answer), x.reason) {
			t.Errorf("%s: answer %q", x.name, answer)
		}
		if hash := string(b.identities.Load().present[:]); strings.Contains(string(answer), "secret") ||
			strings.Contains(string(answer), hash) ||
			strings.Contains(string(answer), hex.EncodeToString([]byte(hash))) {
			t.Errorf("%s: the answer %q exposes the cluster name", x.name, answer)
		}
		conn.Close()
	}
	waitFor(t, func() bool { return b.Refused() == 9 })
}
