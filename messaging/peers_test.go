package messaging

import (
	"context"
	"errors"
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/ring"
)

// within fails the test when f takes longer than it ever should.
func within(t *testing.T, f func()) {
	t.Helper()
	done := make(chan struct{})
	go func() {
		defer close(done)
		f()
	}()
	select {
	case <-done:
	case <-time.After(patience):
		t.Fatal("it hangs")
	}
}

// A reply callback may send a request while the peers change: the transport holds no lock around replies.
func TestReplyMaySendWhilePeersChange(t *testing.T) {
	a, b := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbMutation, Handler: func(ring.NodeID, []byte, Respond) {}})
	})
	peers := map[ring.NodeID]netip.AddrPort{1: a.Addr(), 2: b.Addr()}
	within(t, func() {
		done := make(chan error, 1)
		a.Request(2, VerbMutation, nil, 30*time.Millisecond, func(_ []byte, err error) {
			var changing sync.WaitGroup
			changing.Go(func() { a.SetPeers(peers) })
			time.Sleep(50 * time.Millisecond) // long enough for SetPeers to wait for its lock
			a.Request(2, VerbHeartbeat, nil, patience, func(_ []byte, err error) { done <- err })
			changing.Wait()
		})
		if err := <-done; err != nil {
			t.Error(err)
		}
	})
}

// When a node returns at another address, the last report about its stream is that it is up.
func TestPeerMovesToAnotherAddress(t *testing.T) {
	var mu sync.Mutex
	var heard []bool
	a := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Limits: DefaultLimits(), Security: suiteSecurity(t),
		Connected: func(_ ring.NodeID, up bool) {
			mu.Lock()
			defer mu.Unlock()
			heard = append(heard, up)
		}})
	a.SetSelf(1)
	if err := a.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(a.Close)
	homes := []*StreamTransport{openNode(t, 2, "c", nil), openNode(t, 2, "c", nil)}
	for _, h := range homes {
		know(h, a)
	}
	for i := range 10 {
		a.SetPeers(map[ring.NodeID]netip.AddrPort{2: homes[i%2].Addr()})
		waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })
		mu.Lock()
		for k, up := range heard {
			if up != (k%2 == 0) {
				t.Fatalf("move %d: events %v", i, heard)
			}
		}
		if len(heard) != 2*i+1 {
			t.Fatalf("move %d: events %v", i, heard)
		}
		mu.Unlock()
	}
}

func TestWrongNodeAtAddressGetsNoMessages(t *testing.T) {
	a, other := openNode(t, 1, "c", nil), openNode(t, 3, "c", nil)
	a.SetPeers(map[ring.NodeID]netip.AddrPort{2: other.Addr()})
	if _, err := a.open(context.Background(), other.Addr(), 2); !errors.Is(err, errAnotherNode) {
		t.Errorf("got %v", err)
	}
	if err := ask(a, VerbHeartbeat, ""); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// A full queue refuses immediately, and nothing that is refused was sent.
func TestFullQueueRefuses(t *testing.T) {
	mine, _ := net.Pipe()
	l := newLink(&StreamTransport{limits: Limits{QueuedBytes: 1000, FrameBytes: 2000}}, mine, nil)
	if err := l.send(&envelope{kind: request, payload: make([]byte, 600)}); err != nil {
		t.Fatal(err)
	}
	if err := l.send(&envelope{kind: request, payload: make([]byte, 600)}); !errors.Is(err, errQueueFull) {
		t.Errorf("got %v", err)
	}
	l.close()
	if err := l.send(&envelope{kind: request}); !errors.Is(err, ErrUnreachable) {
		t.Errorf("got %v", err)
	}
}

// The bytes that wait for all peers together are bounded, except for the first messages of each peer, and released when
// they are sent or dropped.
func TestQueuesOfAllPeersAreBounded(t *testing.T) {
	transport := &StreamTransport{limits: Limits{QueuedBytes: 1 << 20, QueuedTotal: 1 << 20, FrameBytes: 1 << 20}}
	large, sent := make([]byte, 200<<10), 0
	var links []*link
	for range 5 {
		mine, _ := net.Pipe()
		l := newLink(transport, mine, nil)
		links = append(links, l)
		for range 4 {
			if err := l.send(&envelope{kind: request, payload: large}); err == nil {
				sent++
			} else if !errors.Is(err, errQueueFull) {
				t.Fatal(err)
			}
		}
		if err := l.send(&envelope{kind: request, payload: make([]byte, 1000)}); err != nil && len(l.mu.buf) == 0 {
			t.Errorf("a peer without messages: %v", err)
		}
	}
	if queued := transport.queued.Load(); queued > 1<<20+5*frameTarget || sent != 5 {
		t.Errorf("%d messages with %d bytes are queued", sent, queued)
	}
	buf, _ := links[0].take(nil)
	before := transport.queued.Load()
	if _, _ = links[0].take(nil); transport.queued.Load() != before-int64(len(buf)) || len(buf) < 4*len(large) {
		t.Errorf("%d bytes are queued after %d of %d were written", transport.queued.Load(), len(buf), before)
	}
	for _, l := range links {
		l.close()
		l.dropQueued()
	}
	if queued := transport.queued.Load(); queued != 0 {
		t.Errorf("%d bytes are queued in closed links", queued)
	}
}

func TestTooManyPendingRequestsAreRefused(t *testing.T) {
	a, _ := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbMutation, Handler: func(ring.NodeID, []byte, Respond) {}})
	})
	a.limits.Pending = 8
	var errs []error
	var mu sync.Mutex
	for range 20 {
		a.Request(2, VerbMutation, nil, time.Minute, func(_ []byte, err error) {
			mu.Lock()
			defer mu.Unlock()
			errs = append(errs, err)
		})
	}
	mu.Lock()
	defer mu.Unlock()
	if len(errs) != 12 || !errors.Is(errs[0], ErrOverloaded) {
		t.Errorf("%d refused: %v", len(errs), errs)
	}
}

// Close returns when the handlers have returned, because their owner may then close what they use.
func TestCloseWaitsForHandlers(t *testing.T) {
	entered, ended := make(chan struct{}), make(chan struct{})
	a, b := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbRead, Blocking: true, Handler: func(_ ring.NodeID, _ []byte, respond Respond) {
			close(entered)
			time.Sleep(100 * time.Millisecond)
			close(ended)
			respond(nil, nil)
		}})
	})
	a.Request(2, VerbRead, nil, patience, func([]byte, error) {})
	<-entered
	within(t, b.Close)
	select {
	case <-ended:
	default:
		t.Error("closed while a handler was running")
	}
}

func FuzzEnvelopes(f *testing.F) {
	f.Add(appendEnvelope(nil, &envelope{kind: request, verb: VerbRead, id: 7, payload: []byte("hello")}))
	f.Add([]byte{0, 0, 0, 1, 2})
	f.Add([]byte{0xFF, 0xFF, 0xFF, 0xFF})
	f.Fuzz(func(t *testing.T, b []byte) { decodeTwice(t, b) })
}

// The name of a cluster may contain any characters.
func TestClusterNamesMayBeInAnyLanguage(t *testing.T) {
	echo := func(n *StreamTransport) {
		n.Handle(Service{Verb: VerbJoin, Any: func(_ Sender, p []byte, respond Respond) { respond(p, nil) }})
	}
	a, b := openNode(t, 1, "Prüfung\n山", echo), openNode(t, 0, "Prüfung\n山", nil)
	if got, err := b.RequestAddr(context.Background(), a.Addr(), VerbJoin, []byte("x")); err != nil ||
		string(got) != "x" {
		t.Errorf("got %q, %v", got, err)
	}
	foreign := openNode(t, 0, "Prüfung", nil)
	if _, err := foreign.RequestAddr(context.Background(), a.Addr(), VerbJoin, nil); err == nil ||
		!strings.Contains(err.Error(), "cluster_name differs") {
		t.Errorf("got %v", err)
	}
}
