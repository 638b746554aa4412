package messaging

import (
	"errors"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
)

var errTraceTooLong = errors.New("messaging: the trace in a reply is too long")

// TraceEvent is one step in the execution of a traced request.
type TraceEvent struct {
	Elapsed  time.Duration // since the node received the request, in µs
	Activity string
}

// Trace collects the events of one traced request on the node that executes it. They are sent with the reply. A nil
// *Trace collects nothing. Trace is safe for concurrent use.
type Trace struct {
	clock env.Clock
	began time.Duration
	mu    sync.Mutex
	// events has at most traceEventsMax entries, and bytes, the length of their activities, is at most traceBytesMax.
	events []TraceEvent
	bytes  int
}

// newTrace returns a trace that begins now. Times are relative, because the clocks of nodes differ.
func newTrace(clock env.Clock) *Trace { return &Trace{clock: clock, began: clock.Monotonic()} }

// Add records an event at the current time. It drops events beyond the bounds.
func (t *Trace) Add(activity string) {
	if t == nil {
		return
	}
	elapsed := t.clock.Monotonic() - t.began
	t.mu.Lock()
	defer t.mu.Unlock()
	// The receiver refuses longer traces, so they are cut here.
	if len(t.events) >= traceEventsMax || t.bytes+len(activity) > traceBytesMax {
		return
	}
	t.events, t.bytes = append(t.events, TraceEvent{elapsed, activity}), t.bytes+len(activity)
}

// appendTo appends the events as they precede the payload of a traced reply: n, n × (µs, length, activity).
func (t *Trace) appendTo(dst []byte) []byte {
	t.mu.Lock()
	defer t.mu.Unlock()
	dst = wire.AppendUvarint(dst, uint64(len(t.events)))
	for _, e := range t.events {
		dst = wire.AppendUvarint(dst, uint64(e.Elapsed.Microseconds()))
		dst = append(wire.AppendUvarint(dst, uint64(len(e.Activity))), e.Activity...)
	}
	return dst
}

// consumeTrace decodes the encoding of appendTo. It fails if a peer sends more than the bounds allow.
func consumeTrace(c *wire.Cursor) []TraceEvent {
	n := c.Count(2)
	if n > traceEventsMax {
		c.Fail(errTraceTooLong)
		return nil
	}
	events := make([]TraceEvent, 0, n)
	for i := 0; i < n && c.Err() == nil; i++ {
		micros := c.Uvarint()
		// At most one byte more than allowed is read, which shows that the activity is too long.
		activity := c.Take(int(min(c.Uvarint(), traceBytesMax+1)))
		// A larger number would overflow a Duration.
		if micros > uint64(time.Hour.Microseconds()) || len(activity) > traceBytesMax {
			c.Fail(errTraceTooLong)
			return nil
		}
		events = append(events, TraceEvent{time.Duration(micros) * time.Microsecond, string(activity)})
	}
	return events
}

// Tracer is a Transport that can trace requests on the nodes that receive them.
type Tracer interface {
	// RequestTraced is RequestCancelable for a traced request. traced is called once, before reply, with the events
	// of the peer, or without events if there is no reply. It must not block.
	RequestTraced(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, traced func([]TraceEvent),
		reply Reply) (cancel func())
}

// Traced returns a Transport that sends the requests of t as traced requests. asked is called for each request and
// returns the function that receives the peer's events. If t is not a Tracer, requests are not traced.
func Traced(t Transport, asked func(to ring.NodeID) func([]TraceEvent)) Transport {
	if tracer, ok := t.(Tracer); ok {
		return &tracedTransport{t, tracer, asked}
	}
	return t
}

// tracedTransport is the Transport of Traced.
type tracedTransport struct {
	Transport
	tracer Tracer
	asked  func(to ring.NodeID) func([]TraceEvent)
}

// Request implements Transport.
func (t *tracedTransport) Request(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, reply Reply) {
	t.tracer.RequestTraced(to, verb, payload, timeout, t.asked(to), reply)
}

// RequestCancelable implements Canceler.
func (t *tracedTransport) RequestCancelable(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration,
	reply Reply) (cancel func()) {
	return t.tracer.RequestTraced(to, verb, payload, timeout, t.asked(to), reply)
}
