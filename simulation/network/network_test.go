package network

import (
	"errors"
	"net/netip"
	"testing"
	"time"

	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/messaging"
	"cqld/ring"
	"cqld/simulation/kernel"
)

// machine is a machine with one process, which executes everything at once.
type machine struct {
	number    ring.NodeID
	transport *Transport
	received  int
}

func (m *machine) Number() ring.NodeID   { return m.number }
func (m *machine) Datacenter() string    { return "dc1" }
func (m *machine) Transport() *Transport { return m.transport }
func (m *machine) Addr() netip.AddrPort {
	return netip.AddrPortFrom(netip.AddrFrom4([4]byte{10, 0, 0, byte(m.number)}), 7000)
}

func (m *machine) Do(f func())                          { f() }
func (m *machine) OnStream(f func())                    { f() }
func (m *machine) OnWorker(f func())                    { f() }
func (m *machine) Clock() env.Clock                     { return &testclock.Clock{} }
func (m *machine) Stamp() int64                         { return int64(m.number) }
func (m *machine) StreamChanged(ring.NodeID, bool)      {}
func (m *machine) Superseded(string)                    {}
func (m *machine) Receive(_ Process, _ int64, f func()) { m.received++; f() }

// pair returns two machines that know each other and listen.
func pair(t *testing.T) (k *kernel.Kernel, n *Network, a, b *machine) {
	t.Helper()
	k = kernel.New()
	n = New(k, 1, func(string) {})
	a, b = &machine{number: 1}, &machine{number: 2}
	for _, m := range []*machine{a, b} {
		n.Attach(m)
		m.transport = NewTransport(n, m, m)
		m.transport.Listen()
		m.transport.SetSelf(m.number)
	}
	for _, m := range []*machine{a, b} {
		m.transport.SetPeers(map[ring.NodeID]netip.AddrPort{1: a.Addr(), 2: b.Addr()})
	}
	b.transport.Handle(messaging.Service{Verb: messaging.VerbRead, Handler: echo})
	return k, n, a, b
}

func echo(_ ring.NodeID, payload []byte, respond messaging.Respond) { respond(payload, nil) }

// ask sends a request from a to b, and returns how it ends.
func ask(k *kernel.Kernel, a *machine) (reply string, err error) {
	a.transport.Request(2, messaging.VerbRead, []byte("x"), time.Second, func(payload []byte, e error) {
		reply, err = string(payload), e
	})
	k.RunUntil(k.Now()+2*time.Second, func() bool { return false })
	return reply, err
}

// TestRequestsAreAnswered sends a request over whole, cut and restored links, and to a machine without a process.
func TestRequestsAreAnswered(t *testing.T) {
	k, n, a, b := pair(t)
	if reply, err := ask(k, a); reply != "x" || err != nil {
		t.Errorf("the reply is %q, %v", reply, err)
	}
	links := []Link{{From: 1, To: 2}}
	n.Cut(links)
	n.Cut(links)
	n.Restore(links)
	if _, err := ask(k, a); !errors.Is(err, messaging.ErrTimeout) || !n.IsCut() {
		t.Errorf("over a link that one fault still cuts: %v", err)
	}
	n.Restore(links)
	if reply, err := ask(k, a); reply != "x" || err != nil || n.IsCut() {
		t.Errorf("after all cuts have ended, the reply is %q, %v", reply, err)
	}
	b.transport = nil
	if _, err := ask(k, a); !errors.Is(err, messaging.ErrUnreachable) {
		t.Errorf("without a process: %v", err)
	}
}

// TestMessagesBelongToAProcess replaces the process of a machine while a message is under way.
func TestMessagesBelongToAProcess(t *testing.T) {
	k, n, a, b := pair(t)
	a.transport.Send(2, messaging.VerbRead, []byte("x"))
	b.transport = NewTransport(n, b, b)
	b.transport.Listen()
	k.RunUntil(time.Second, func() bool { return false })
	if b.received != 0 {
		t.Error("a message to the former process reaches its successor")
	}
}
