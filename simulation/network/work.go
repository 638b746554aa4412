package network

import (
	"time"

	"cqld/messaging"
)

// Work takes as long as a read from memory or, rarely, as a read that waits for a disk. Most reads are served by the
// block cache.
const (
	workMax = 200 * time.Microsecond
	// workSlow is the number of pieces of work in a thousand that wait for a disk.
	workSlow    = 20
	workSlowMax = 50 * time.Millisecond
)

// Run implements messaging.Transport: f runs after a delay, as if it were queued for a worker. The memory bound of the
// workers (the first argument) is not simulated.
func (t *Transport) Run(_ int, f func()) error {
	if t.net.NoWorkers {
		f()
		return nil
	}
	n := t.net
	delay := n.work.Between(0, workMax)
	if n.work.Chance(workSlow) {
		delay = n.work.Between(workMax, workSlowMax)
	}
	// The workers of a process are not limited in number here: each piece of work has its own delay.
	n.kernel.After(delay, "work", func() {
		if t.alive() {
			t.OnCPU(func() { t.process.OnWorker(f) })
		}
	})
	return nil
}

// Serve makes the process handle a request. The handler owns payload.
func (t *Transport) Serve(verb messaging.Verb, from messaging.Sender, payload []byte, respond messaging.Respond) {
	s, ok := t.services[verb]
	switch {
	// Without a service the message is lost, and the sender's request times out.
	case !ok:
	// Requests to join come from nodes that are not members yet.
	case s.Any != nil:
		t.process.OnStream(func() { s.Any(from, payload, respond) })
	case !from.Member:
		t.net.count("requests of unknown peers refused")
		respond(nil, &messaging.RemoteError{Code: messaging.CodeUnknownPeer, Message: "the peer is not a known member"})
	case !s.Blocking || t.net.NoWorkers:
		t.process.OnStream(func() { s.Handler(from.Node, payload, respond) })
	default:
		if err := t.Run(len(payload), func() { s.Handler(from.Node, payload, respond) }); err != nil {
			respond(nil, err)
		}
	}
}
