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

	"cqld/ring"
)

// pair is two transports that know each other.
func pair(t testing.TB, handle func(b *GRPC)) (a, b *GRPC) {
	t.Helper()
	a, b = openNode(t, 1, "c", nil), openNode(t, 2, "c", handle)
	peers := map[ring.NodeID]netip.AddrPort{1: a.Addr(), 2: b.Addr()}
	a.SetPeers(peers)
	b.SetPeers(peers)
	waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })
	return a, b
}

func openNode(t testing.TB, id ring.NodeID, cluster string, handle func(*GRPC)) *GRPC {
	t.Helper()
	n := NewGRPC(Options{Cluster: cluster, Listen: netip.MustParseAddrPort("127.0.0.1:0"), Limits: DefaultLimits()})
	n.SetSelf(id)
	n.Handle(VerbHeartbeat, func(_ ring.NodeID, _ []byte, respond Respond) { respond(nil, nil) })
	if handle != nil {
		handle(n)
	}
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

func waitFor(t testing.TB, ok func() bool) {
	t.Helper()
	for end := time.Now().Add(5 * time.Second); time.Now().Before(end); time.Sleep(5 * time.Millisecond) {
		if ok() {
			return
		}
	}
	t.Fatal("not reached in 5 s")
}

// ask sends one request to node 2 and waits.
func ask(a *GRPC, verb Verb, payload string) error {
	done := make(chan error, 1)
	a.Request(2, verb, []byte(payload), 200*time.Millisecond, func(_ []byte, err error) { done <- err })
	return <-done
}

func TestRepliesReachTheirRequests(t *testing.T) {
	a, _ := pair(t, func(b *GRPC) {
		echo := func(from ring.NodeID, p []byte, respond Respond) {
			respond(fmt.Appendf(nil, "%d:%s", from, p), nil)
		}
		b.Handle(VerbMutation, echo)
		b.Handle(VerbRead, echo)
	})
	var wg sync.WaitGroup
	for i := range 500 {
		wg.Add(1)
		verb := VerbMutation
		if i%2 == 0 {
			verb = VerbRead
		}
		a.Request(2, verb, fmt.Appendf(nil, "m%d", i), time.Second, func(p []byte, err error) {
			defer wg.Done()
			if want := fmt.Sprintf("1:m%d", i); err != nil || string(p) != want {
				t.Errorf("reply %q, %v; want %q", p, err, want)
			}
		})
	}
	wg.Wait()
}

func TestFailuresKeepTheirCode(t *testing.T) {
	a, _ := pair(t, func(b *GRPC) {
		b.Handle(VerbMutation, func(_ ring.NodeID, _ []byte, respond Respond) {
			respond(nil, &RemoteError{Code: 7, Message: "no"})
		})
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
	a, b := pair(t, func(b *GRPC) { b.Handle(VerbMutation, func(ring.NodeID, []byte, Respond) {}) })
	for range 3 {
		if err := ask(a, VerbMutation, ""); !errors.Is(err, ErrTimeout) {
			t.Fatalf("got %v, want a timeout", err)
		}
		time.Sleep(3 * expireEvery) // nobody looks any more
	}
	b.Close()
	waitFor(t, func() bool { return errors.Is(ask(a, VerbHeartbeat, ""), ErrUnreachable) })
}

// TestReadsDoNotHoldUpTheStream: what comes behind one is handled while it reads.
func TestReadsDoNotHoldUpTheStream(t *testing.T) {
	for _, slow := range []Verb{VerbRead, VerbDigest, VerbPartitions, VerbNewest} {
		behind := make(chan struct{})
		a, _ := pair(t, func(b *GRPC) {
			b.Handle(slow, func(_ ring.NodeID, _ []byte, respond Respond) {
				select {
				case <-behind:
					respond(nil, nil)
				case <-time.After(5 * time.Second):
					respond(nil, errors.New("nothing came behind it"))
				}
			})
			b.Handle(VerbPass, func(ring.NodeID, []byte, Respond) { close(behind) })
		})
		answer := make(chan error, 1)
		a.Request(2, slow, nil, 10*time.Second, func(_ []byte, err error) { answer <- err })
		a.Send(2, VerbPass, nil)
		if err := <-answer; err != nil {
			t.Errorf("verb %d: %v", slow, err)
		}
	}
}

func TestConnectionLossAnswersWhatIsPending(t *testing.T) {
	a, b := pair(t, func(b *GRPC) { b.Handle(VerbMutation, func(ring.NodeID, []byte, Respond) {}) })
	done := make(chan error, 1)
	a.Request(2, VerbMutation, nil, time.Hour, func(_ []byte, err error) { done <- err })
	b.Close()
	select {
	case err := <-done:
		if !errors.Is(err, ErrTimeout) {
			t.Fatalf("got %v", err)
		}
	case <-time.After(5 * time.Second):
		t.Fatal("the pending request was never answered")
	}
}

func TestAnotherClusterIsRefused(t *testing.T) {
	a := openNode(t, 1, "mine", nil)
	stranger := openNode(t, 0, "other", nil)
	_, err := stranger.RequestAddr(context.Background(), a.Addr(), VerbJoin, nil)
	if err == nil || !strings.Contains(err.Error(), `this is cluster "mine", not "other"`) {
		t.Fatalf("got %v", err)
	}
}

func TestRequestAddrNeedsNoMembership(t *testing.T) {
	a := openNode(t, 1, "c", func(n *GRPC) {
		n.Handle(VerbJoin, func(_ ring.NodeID, p []byte, respond Respond) { respond(append(p, '!'), nil) })
	})
	b := openNode(t, 0, "c", nil)
	got, err := b.RequestAddr(context.Background(), a.Addr(), VerbJoin, []byte("hello"))
	if err != nil || string(got) != "hello!" {
		t.Fatalf("got %q, %v", got, err)
	}
}

func BenchmarkRequest64InFlight(b *testing.B) {
	x, _ := pair(b, func(n *GRPC) {
		n.Handle(VerbMutation, func(_ ring.NodeID, p []byte, respond Respond) { respond(p[:60], nil) })
	})
	payload := make([]byte, 300)
	slots := make(chan struct{}, 64)
	var failed atomic.Int64
	b.ReportAllocs()
	for range b.N {
		slots <- struct{}{}
		x.Request(2, VerbMutation, payload, time.Second, func(_ []byte, err error) {
			if err != nil {
				failed.Add(1)
			}
			<-slots
		})
	}
	for range 64 {
		slots <- struct{}{}
	}
	if failed.Load() > 0 {
		b.Fatal(failed.Load(), "requests failed")
	}
}
