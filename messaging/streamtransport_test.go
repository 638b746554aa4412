package messaging

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/await"
	"cqld/ring"
)

// pair opens two transports that list each other as peers.
func pair(t testing.TB, handle func(b *StreamTransport)) (a, b *StreamTransport) {
	t.Helper()
	a, b = openNode(t, 1, "c", nil), openNode(t, 2, "c", handle)
	peers := map[ring.NodeID]netip.AddrPort{1: a.Addr(), 2: b.Addr()}
	a.SetPeers(peers)
	b.SetPeers(peers)
	waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })
	return a, b
}

func openNode(t testing.TB, id ring.NodeID, cluster string, handle func(*StreamTransport)) *StreamTransport {
	t.Helper()
	n := NewStreamTransport(Options{Cluster: cluster, Listen: netip.MustParseAddrPort("127.0.0.1:0"),
		Limits:   DefaultLimits(),
		Security: suiteSecurity(t)})
	if handle != nil {
		handle(n)
	}
	return openAsNode(t, n, id)
}

// openAsNode opens a transport that answers heartbeats.
func openAsNode(t testing.TB, n *StreamTransport, id ring.NodeID) *StreamTransport {
	t.Helper()
	n.SetSelf(id)
	if n.services[VerbHeartbeat].Handler == nil {
		n.Handle(Service{Verb: VerbHeartbeat, Handler: func(_ ring.NodeID, _ []byte,
			respond Respond) {
			respond(nil, nil)
		}})
	}
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// know makes a transport know another one as the only other member.
func know(n, other *StreamTransport) {
	n.SetPeers(map[ring.NodeID]netip.AddrPort{other.self(): other.Addr()})
}

func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	await.Until(t, "the condition of this line", ok)
}

// patience is how long tests wait for what a working transport does at once. A machine that is busy with other work, or
// that stops the process for seconds, must not cause a failure.
const patience = time.Minute

// ask sends one request to node 2 and waits.
func ask(a *StreamTransport, verb Verb, payload string) error {
	return askWithin(a, patience, verb, payload)
}

// askWithin is ask with a timeout that may pass.
func askWithin(a *StreamTransport, timeout time.Duration, verb Verb, payload string) error {
	done := make(chan error, 1)
	a.Request(2, verb, []byte(payload), timeout, func(_ []byte, err error) { done <- err })
	return <-done
}

func TestRepliesReachTheirRequests(t *testing.T) {
	a, _ := pair(t, func(b *StreamTransport) {
		echo := func(from ring.NodeID, p []byte, respond Respond) {
			respond(fmt.Appendf(nil, "%d:%s", from, p), nil)
		}
		b.Handle(Service{Verb: VerbMutation, Handler: echo})
		b.Handle(Service{Verb: VerbRead, Blocking: true, Handler: echo})
	})
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Add(1)
		verb := VerbMutation
		if i%2 == 0 {
			verb = VerbRead
		}
		a.Request(2, verb, fmt.Appendf(nil, "m%d", i), patience, func(p []byte, err error) {
			defer wg.Done()
			if want := fmt.Sprintf("1:m%d", i); err != nil || string(p) != want {
				t.Errorf("reply %q, %v; want %q", p, err, want)
			}
		})
	}
	wg.Wait()
}

func TestFailuresKeepTheirCode(t *testing.T) {
	a, _ := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbMutation, Handler: func(_ ring.NodeID, _ []byte, respond Respond) {
			respond(nil, &RemoteError{Code: 7, Message: "no"})
		}})
	})
	var remote *RemoteError
	if err := ask(a, VerbMutation, ""); !errors.As(err, &remote) || remote.Code != 7 || remote.Message != "no" {
		t.Fatalf("got %v", err)
	}
	if err := ask(a, VerbTruncate, ""); !errors.As(err, &remote) || !strings.Contains(remote.Message, "no handler") {
		t.Fatalf("got %v", err)
	}
}

func TestSilenceTimesOutAndUnknownPeersAreUnreachable(t *testing.T) {
	a, b := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbMutation, Handler: func(ring.NodeID, []byte, Respond) {}})
	})
	for range 3 {
		if err := askWithin(a, 50*time.Millisecond, VerbMutation, ""); !errors.Is(err, ErrTimeout) {
			t.Fatalf("got %v, want a timeout", err)
		}
		time.Sleep(3 * expireEvery) // expireLoop sleeps
	}
	b.Close()
	waitFor(t, func() bool { return errors.Is(ask(a, VerbHeartbeat, ""), ErrUnreachable) })
}

// TestReadsDoNotHoldUpTheStream checks that messages after a read are handled while it reads.
func TestReadsDoNotHoldUpTheStream(t *testing.T) {
	for _, slow := range []Verb{VerbRead, VerbDigest, VerbPartitions, VerbNewest} {
		behind := make(chan struct{})
		a, _ := pair(t, func(b *StreamTransport) {
			b.Handle(Service{Verb: slow, Blocking: true, Handler: func(_ ring.NodeID, _ []byte, respond Respond) {
				select {
				case <-behind:
					respond(nil, nil)
				case <-time.After(patience):
					respond(nil, errors.New("no later request arrived"))
				}
			}})
			b.Handle(Service{Verb: VerbPass, Handler: func(ring.NodeID, []byte, Respond) { close(behind) }})
		})
		answer := make(chan error, 1)
		a.Request(2, slow, nil, 2*patience, func(_ []byte, err error) { answer <- err })
		a.Send(2, VerbPass, nil)
		if err := <-answer; err != nil {
			t.Errorf("verb %d: %v", slow, err)
		}
	}
}

func TestConnectionLossFailsPendingRequests(t *testing.T) {
	a, b := pair(t, func(b *StreamTransport) {
		b.Handle(Service{Verb: VerbMutation, Handler: func(ring.NodeID, []byte, Respond) {}})
	})
	done := make(chan error, 1)
	a.Request(2, VerbMutation, nil, time.Hour, func(_ []byte, err error) { done <- err })
	b.Close()
	select {
	case err := <-done:
		if !errors.Is(err, ErrTimeout) {
			t.Fatalf("got %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the pending request was never answered")
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
	a := openNode(t, 1, "mine", nil)
	foreign := openNode(t, 0, "other", nil)
	_, err := foreign.RequestAddr(context.Background(), a.Addr(), VerbJoin, nil)
	if err == nil || !strings.Contains(err.Error(), "cluster_name differs") || strings.Contains(err.Error(), "mine") {
		t.Fatalf("got %v", err)
	}
}

func TestRequestAddrNeedsNoMembership(t *testing.T) {
	a := openNode(t, 1, "c", func(n *StreamTransport) {
		n.Handle(Service{Verb: VerbJoin, Any: func(_ Sender, p []byte,
			respond Respond) {
			respond(append(p, '!'), nil)
		}})
	})
	b := openNode(t, 0, "c", nil)
	got, err := b.RequestAddr(context.Background(), a.Addr(), VerbJoin, []byte("hello"))
	if err != nil || string(got) != "hello!" {
		t.Fatalf("got %q, %v", got, err)
	}
}

// TestWorkersAreBounded checks that blocking work beyond the bounds is refused at once, by count and by bytes, that
// verbs which do not block are served meanwhile, and that Close waits for what was taken.
func TestWorkersAreBounded(t *testing.T) {
	limits := DefaultLimits()
	limits.Workers, limits.WorkWaiting, limits.WorkBytes = 2, 3, 1000
	release := make(chan struct{})
	var running, most atomic.Int64
	a := openNode(t, 1, "c", nil)
	b := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: limits})
	b.SetSelf(2)
	Register(b,
		Service{Verb: VerbHeartbeat, Handler: func(_ ring.NodeID, _ []byte, respond Respond) { respond(nil, nil) }},
		Service{Verb: VerbRead, Blocking: true, Handler: func(_ ring.NodeID, _ []byte, respond Respond) {
			now := running.Add(1)
			for was := most.Load(); now > was && !most.CompareAndSwap(was, now); was = most.Load() {
			}
			<-release
			running.Add(-1)
			respond(nil, nil)
		}},
	)
	if err := b.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(b.Close)
	know(b, a)
	know(a, b)
	waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })

	answers := make(chan error, 20)
	for range 20 {
		a.Request(2, VerbRead, nil, time.Minute, func(_ []byte, err error) { answers <- err })
	}
	refused := 0
	for range 15 { // two run and three wait
		var remote *RemoteError
		if err := <-answers; !errors.As(err, &remote) || remote.Code != CodeOverloaded {
			t.Fatalf("got %v", err)
		}
		refused++
	}
	waitFor(t, func() bool { return running.Load() == 2 }) // the refusals may overtake the start of a worker
	if err := ask(a, VerbHeartbeat, ""); err != nil {
		t.Errorf("a heartbeat while all workers are busy: %v", err)
	}
	if err := b.Run(0, func() {}); !errors.Is(err, ErrOverloaded) {
		t.Errorf("work of this node while too much waits: %v", err)
	}
	close(release)
	for range 20 - refused {
		if err := <-answers; err != nil {
			t.Error(err)
		}
	}
	if got := most.Load(); got != 2 {
		t.Errorf("%d workers ran concurrently", got)
	}

	hold, done := make(chan struct{}), make(chan struct{})
	if err := b.Run(900, func() { <-hold; close(done) }); err != nil {
		t.Fatal(err)
	}
	if err := b.Run(200, func() {}); !errors.Is(err, ErrOverloaded) {
		t.Errorf("more bytes than the bound: %v", err)
	}
	if err := b.Run(100, func() {}); err != nil {
		t.Errorf("as many bytes as the bound: %v", err)
	}
	time.AfterFunc(10*time.Millisecond, func() { close(hold) })
	b.Close()
	select {
	case <-done:
	default:
		t.Error("Close has returned before the work was done")
	}
	if err := b.Run(0, func() {}); !errors.Is(err, ErrClosed) {
		t.Errorf("work after Close: %v", err)
	}
}

// TestWorkersRunEachTaskOnce runs work from many goroutines, whose workers come and go.
func TestWorkersRunEachTaskOnce(t *testing.T) {
	p := newPool(Limits{Workers: 40, WorkWaiting: 1 << 20, WorkBytes: 1 << 30})
	const callers, each = 8, 3000
	var did [callers * each]atomic.Int32
	var wg sync.WaitGroup
	for caller := range callers {
		wg.Go(func() {
			for i := range each {
				if err := p.run(i%7, func() { did[caller*each+i].Add(1) }); err != nil {
					t.Error(err)
				}
				if i%500 == 0 {
					time.Sleep(time.Millisecond)
				}
			}
		})
	}
	wg.Wait()
	p.close()
	for i := range did {
		if n := did[i].Load(); n != 1 {
			t.Fatalf("work %d was done %d times", i, n)
		}
	}
	if p.mu.bytes != 0 || p.mu.running != 0 {
		t.Errorf("%d bytes and %d goroutines are left", p.mu.bytes, p.mu.running)
	}
}

// TestClosedTransportRepliesWithoutLocks checks that a reply of a closed transport may call the transport.
func TestClosedTransportRepliesWithoutLocks(t *testing.T) {
	n := openNode(t, 1, "c", nil)
	addr := n.Addr()
	n.Close()
	replied := false
	n.AskAddr(addr, VerbHeartbeat, nil, time.Second, func(_ []byte, err error) {
		if replied = true; !errors.Is(err, ErrUnreachable) {
			t.Error(err)
		}
		if !n.mu.TryLock() {
			t.Error("a lock is held")
			return
		}
		n.mu.Unlock()
	})
	if !replied {
		t.Error("no reply")
	}
}
