package messaging

import (
	"context"
	"sync"
	"time"
)

// gate bounds the TLS handshakes of inbound connections, each of which costs a signature before the peer is known.
// Peers at addresses of members have a bound of their own, so that strangers do not delay them; a stranger that can use
// the address of a member could interrupt that member's connections in other ways. Strangers are limited in rate as
// well.
type gate struct {
	members, strangers chan struct{}
	every              time.Duration // between two handshakes of strangers, on average

	mu   sync.Mutex
	next time.Time // when the next handshake of a stranger may begin
}

// newGate returns the gate of a transport.
func newGate(l Limits) *gate {
	g := &gate{members: make(chan struct{}, l.MemberHandshakes), strangers: make(chan struct{}, l.StrangerHandshakes)}
	if l.StrangerHandshakeRate > 0 {
		g.every = time.Second / time.Duration(l.StrangerHandshakeRate)
	}
	return g
}

// enter waits until a handshake may begin; leave must be called at its end. It fails with errBusy if that is not before
// ctx ends.
func (g *gate) enter(ctx context.Context, member bool) (leave func(), err error) {
	// A channel with a capacity is a semaphore here.
	slots := g.members
	if !member {
		slots = g.strangers
		if err := g.pace(ctx); err != nil {
			return nil, err
		}
	}
	select {
	case slots <- struct{}{}:
		return func() { <-slots }, nil
	case <-ctx.Done():
		return nil, errBusy
	}
}

// pace waits for the turn of a stranger's handshake. After a pause, as many may begin at once as there are slots.
func (g *gate) pace(ctx context.Context) error {
	now := time.Now()
	deadline, _ := ctx.Deadline()
	g.mu.Lock()
	// An unused rate accumulates for at most as many handshakes as there are slots.
	earliest := now.Add(-g.every * time.Duration(cap(g.strangers)))
	if g.next.Before(earliest) {
		g.next = earliest
	}
	begin := g.next
	// This handshake cannot begin before its deadline, so it must not use up a turn.
	if begin.After(deadline) {
		g.mu.Unlock()
		return errBusy
	}
	// The turn is reserved before the wait, so that others queue after it.
	g.next = begin.Add(g.every)
	g.mu.Unlock()
	if !begin.After(now) {
		return nil
	}
	timer := time.NewTimer(begin.Sub(now))
	defer timer.Stop()
	select {
	case <-timer.C:
		return nil
	case <-ctx.Done():
		return errBusy
	}
}
