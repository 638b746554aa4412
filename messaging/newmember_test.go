package messaging

import (
	"log/slog"
	"net/netip"
	"strings"
	"testing"

	"cqld/internal/syncbuf"
	"cqld/ring"
)

// Messages of a node that has joined, and that this node does not know yet, are refused without a warning. Refused
// messages of a node that remains unknown are logged when its connection ends.
func TestNewMembersCauseNoWarning(t *testing.T) {
	for _, joins := range []bool{true, false} {
		log := new(syncbuf.Buffer)
		warned := func() bool { return strings.Contains(log.String(), "message refused") }
		b := NewStreamTransport(Options{Cluster: "c", Listen: netip.MustParseAddrPort("127.63.1.2:0"),
			Limits:   DefaultLimits(),
			Security: suiteSecurity(t), Logger: slog.New(slog.NewTextHandler(log, nil))})
		b.SetSelf(2)
		Register(b, Service{Verb: VerbTruncate, Name: "truncate", Handler: func(ring.NodeID, []byte, Respond) {}})
		if err := b.Open(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(b.Close)
		a := openAt(t, 1, "127.63.1.1:0", DefaultLimits())
		know(a, b)
		waitFor(t, func() bool { a.Send(2, VerbTruncate, nil); return b.Refused() > 0 })
		if warned() {
			t.Errorf("joins %v: a message that may be of a member has caused a warning: %s", joins, log.String())
		}
		if joins {
			know(b, a)
			waitFor(t, func() bool { b.conns.mu.Lock(); defer b.conns.mu.Unlock(); return b.conns.unbound == 0 })
		}
		a.Close()
		waitFor(t, func() bool { b.conns.mu.Lock(); defer b.conns.mu.Unlock(); return len(b.conns.open) == 0 })
		if joins {
			b.Close() // no connection is served after that
		} else {
			waitFor(t, func() bool { return warned() })
		}
		if warned() == joins {
			t.Errorf("joins %v: %s", joins, log.String())
		}
	}
}
