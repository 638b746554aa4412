package messaging

import (
	"bytes"
	"log/slog"
	"net/netip"
	"strings"
	"sync"
	"testing"

	"cqld/ring"
)

// logText is a log that several goroutines may write.
type logText struct {
	mu   sync.Mutex
	text bytes.Buffer
}

func (l *logText) Write(p []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.text.Write(p)
}

func (l *logText) contains(s string) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	return strings.Contains(l.text.String(), s)
}

// Messages of a node that has joined, and that this node does not know yet, are refused without a warning. Those of a
// node that remains unknown are logged when its connection ends.
func TestNewMembersCauseNoWarning(t *testing.T) {
	for _, joins := range []bool{true, false} {
		log := new(logText)
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
		if log.contains("message refused") {
			t.Errorf("joins %v: a message that may be of a member has caused a warning: %s", joins, log.text.String())
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
			waitFor(t, func() bool { return log.contains("message refused") })
		}
		if log.contains("message refused") == joins {
			t.Errorf("joins %v: %s", joins, log.text.String())
		}
	}
}
