package clients

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"testing"

	"cqld/azuretables"
	"cqld/server"
)

// closedServers returns servers of a node without listeners.
func closedServers(member *bool, refusal *error) *Servers {
	return New(Options{
		CQL:      func() (*server.Server, net.Listener, error) { return nil, nil, errors.New("no listener") },
		Tables:   func() (*azuretables.Server, net.Listener, error) { return nil, nil, nil },
		Critical: func(func() error) {}, Run: func(f func()) { f() },
		Member:         func() bool { return *member },
		AwaitDeparture: func(context.Context) error { return nil },
		Refuse:         func() error { return *refusal },
		Log:            slog.New(slog.DiscardHandler),
	})
}

// Each state of a node has one reason for which it does not serve clients, and a later state hides an earlier one.
func TestReadinessNamesTheReason(t *testing.T) {
	member, refusal := true, error(nil)
	s := closedServers(&member, &refusal)
	expect := func(want error) {
		t.Helper()
		if err := s.Ready(); !errors.Is(err, want) || err == nil {
			t.Errorf("%v, want %v", err, want)
		}
	}
	expect(ErrStarting)
	if err := s.StartCQL(); !errors.Is(err, ErrNotMember) {
		t.Errorf("a server is started before the node has opened: %v", err)
	}
	prepared := false
	if err := s.Open(func() { prepared = true }); err == nil || !prepared || s.HasOpened() {
		t.Errorf("a port that cannot be opened: %v, prepared %v, opened %v", err, prepared, s.HasOpened())
	}
	expect(ErrStarting)
	close(s.opened)
	expect(ErrDisabled)
	s.cql.Store(server.New(server.Options{Logger: s.o.Log}))
	if err := s.Ready(); err != nil {
		t.Error("a node that serves clients:", err)
	}
	refusal = errors.New("the clock is ahead")
	expect(refusal)
	s.cql.Store(nil)
	member = false
	if err := s.StartCQL(); !errors.Is(err, ErrNotMember) {
		t.Errorf("a server is started without membership: %v", err)
	}
	if err := s.Drain(t.Context()); err != nil {
		t.Error(err)
	}
	expect(ErrDrained)
	if err := s.StartCQL(); !errors.Is(err, ErrDrained) {
		t.Errorf("a server is started after the drain: %v", err)
	}
	s.Leave()
	expect(ErrLeft)
	s.AwaitRetired(t.Context())
	select {
	case <-s.Retired():
	default:
		t.Error("the clients of a node that left are not disconnected")
	}
	s.Stopping()
	expect(ErrStopping)
}

// A node whose join was aborted stops before the other nodes are notified: its operator must have a response by then.
func TestDepartureIsSeenBeforeOtherNodesKnow(t *testing.T) {
	member := false
	s := closedServers(&member, new(error))
	s.o.AwaitDeparture = func(context.Context) error {
		select {
		case <-s.Departed():
		default:
			t.Error("the departure is not seen while the other nodes do not know")
		}
		return nil
	}
	s.Leave()
	<-s.Retired()
}

// A node may stop, leave the cluster, or do both while a server is being opened. The server must not become visible
// afterwards, because nothing would close it.
func TestNoServerOpensAfterTheEnd(t *testing.T) {
	for _, c := range []struct {
		name string
		end  func(*Servers)
		want error
	}{
		{"stop", (*Servers).Stopping, ErrStopping},
		{"close", func(s *Servers) { _ = s.Close(t.Context()) }, ErrStopping},
		{"leave", (*Servers).Leave, ErrLeft},
	} {
		t.Run(c.name, func(t *testing.T) {
			member := true
			s := closedServers(&member, new(error))
			close(s.opened)
			var l net.Listener
			s.o.CQL = func() (*server.Server, net.Listener, error) {
				var err error
				if l, err = net.Listen("tcp", "127.0.0.1:0"); err != nil {
					t.Fatal(err)
				}
				c.end(s)
				return server.New(server.Options{Logger: s.o.Log}), l, nil
			}
			if err := s.StartCQL(); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
			if s.CQL() != nil {
				t.Error("the server is open")
			}
			if err := l.Close(); !errors.Is(err, net.ErrClosed) {
				t.Errorf("the listener was not closed before: %v", err)
			}
			// The next attempt does not listen.
			s.o.CQL = func() (*server.Server, net.Listener, error) {
				t.Error("a server is made")
				return nil, nil, errors.New("no listener")
			}
			if err := s.StartCQL(); !errors.Is(err, c.want) {
				t.Errorf("%v, want %v", err, c.want)
			}
		})
	}
}
