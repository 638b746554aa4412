package messaging

import (
	"context"
	"errors"
	"log/slog"
	"net/netip"
	"testing"
	"time"

	"cqld/internal/await"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/ring"
)

// untilCanceled returns a handler that runs until it is canceled, and sends the reason to ended.
func untilCanceled(began chan<- struct{}, ended chan<- error) CallHandler {
	return func(c Call, respond Respond) {
		began <- struct{}{}
		await.Reached(patience, func() bool { return c.Cancel.Err() != nil })
		ended <- c.Cancel.Err()
		respond(nil, c.Cancel.Err())
	}
}

func TestCancelReachesPeer(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	a, _ := pair(t, func(b *StreamTransport) {
		Register(b, Service{Verb: VerbRead, Name: "read", Blocking: true, Call: untilCanceled(began, ended)})
	})
	outcome := make(chan error, 2)
	cancel := a.RequestCancelable(2, VerbRead, nil, time.Minute, func(_ []byte, err error) { outcome <- err })
	<-began
	cancel()
	cancel() // the second one is late
	if err := <-outcome; !errors.Is(err, ErrCanceled) {
		t.Errorf("the sender received %v", err)
	}
	select {
	case err := <-ended:
		if !errors.Is(err, env.ErrCanceled) {
			t.Errorf("the peer received %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the peer's connection stays open")
	}
	if err := ask(a, VerbHeartbeat, ""); err != nil {
		t.Errorf("the next request: %v", err)
	}
	select {
	case err := <-outcome:
		t.Errorf("a second outcome: %v", err)
	case <-time.After(50 * time.Millisecond):
	}
}

func TestTimeoutReachesPeer(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	a, _ := pair(t, func(b *StreamTransport) {
		Register(b, Service{Verb: VerbRead, Name: "read", Blocking: true, Call: untilCanceled(began, ended)})
	})
	a.Request(2, VerbRead, nil, 50*time.Millisecond, func([]byte, error) {})
	select {
	case err := <-ended:
		if !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the peer received %v", err)
		}
	case <-time.After(patience):
		t.Fatal("the peer's connection stays open")
	}
}

func TestConnectionLossEndsRequests(t *testing.T) {
	began, ended := make(chan struct{}, 1), make(chan error, 1)
	a, _ := pair(t, func(b *StreamTransport) {
		Register(b, Service{Verb: VerbRead, Name: "read", Blocking: true, Call: untilCanceled(began, ended)})
	})
	a.Request(2, VerbRead, nil, time.Minute, func([]byte, error) {})
	<-began
	a.SetPeers(map[ring.NodeID]netip.AddrPort{})
	select {
	case <-ended:
	case <-time.After(patience):
		t.Fatal("the peer's connection stays open")
	}
}

func TestAnsweredRequestIsNotCancelled(t *testing.T) {
	n := NewStreamTransport(Options{Limits: DefaultLimits()})
	service := &Service{Verb: VerbRead, Call: func(Call, Respond) {}}
	in := newInbound(n, newLink(n, nil, nil), &inboundConn{}, 1)
	c, respond := in.register(service, &envelope{kind: request, verb: VerbRead, id: 7, timeout: 1000},
		func([]byte, error) {})
	if len(in.cancels) != 1 || c.Err() != nil {
		t.Fatalf("%d registered, %v", len(in.cancels), c.Err())
	}
	respond(nil, nil)
	if len(in.cancels) != 0 {
		t.Errorf("%d are left", len(in.cancels))
	}
}

// A panic of a handler, on the stream's goroutine or its own, and of a reply ends that request alone.
func TestPanicEndsOnlyItsRequest(t *testing.T) {
	g := guard.New(slog.New(slog.DiscardHandler))
	guarded := func(n *StreamTransport) { n.opts.Guard = g }
	a := openNode(t, 1, "c", guarded)
	b := openNode(t, 2, "c", func(b *StreamTransport) {
		guarded(b)
		for _, v := range []Verb{VerbRead, VerbMutation} {
			b.Handle(Service{Verb: v, Name: "broken", Blocking: v == VerbRead,
				Handler: func(ring.NodeID, []byte, Respond) { panic("a defect") }})
		}
	})
	know(b, a)
	know(a, b)
	waitFor(t, func() bool { return ask(a, VerbHeartbeat, "") == nil })
	for _, v := range []Verb{VerbRead, VerbMutation} {
		var remote *RemoteError
		if err := ask(a, v, "x"); !errors.As(err, &remote) {
			t.Errorf("verb %d: the sender received %v", v, err)
		}
	}
	a.Request(2, VerbHeartbeat, nil, time.Minute, func([]byte, error) { panic("another defect") })
	if err := ask(a, VerbHeartbeat, ""); err != nil {
		t.Errorf("the next request: %v", err)
	}
	waitFor(t, func() bool {
		c := g.Counts()
		return c["request of a peer"] == 2 && c["answer of a peer"] == 1 && len(c) == 2
	})
}
