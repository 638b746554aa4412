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

// TraceEvent is one step of a node that works on a traced request.
type TraceEvent struct {
	Elapsed  time.Duration // since the node received the request, in µs
	Activity string
}

// Trace collects the events of one traced request on the node that works on it. They travel with the answer. A nil
// *Trace collects nothing. It is safe for concurrent use.
type Trace struct {
	clock env.Clock
	began time.Duration
	mu    sync.Mutex
	// events are at most traceEventsMax, and bytes, of their activities, at most traceBytesMax.
	events []TraceEvent
	bytes  int
}

func newTrace(clock env.Clock) *Trace { return &Trace{clock: clock, began: clock.Monotonic()} }

// Add notes an event at the present time. Events beyond the bounds are dropped.
func (t *Trace) Add(activity string) {
	if t == nil {
		return
	}
	elapsed := t.clock.Monotonic() - t.began
	t.mu.Lock()
	defer t.mu.Unlock()
	if len(t.events) >= traceEventsMax || t.bytes+len(activity) > traceBytesMax {
		return
	}
	t.events, t.bytes = append(t.events, TraceEvent{elapsed, activity}), t.bytes+len(activity)
}

// appendTo appends the events as they precede the payload of a traced answer: n, n × (µs, length, activity).
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

// consumeTrace is the inverse of appendTo. A peer that sends more than the bounds allow is refused.
func consumeTrace(c *wire.Cursor) []TraceEvent {
	n := c.Count(2)
	if n > traceEventsMax {
		c.Fail(errTraceTooLong)
		return nil
	}
	events := make([]TraceEvent, 0, n)
	for i := 0; i < n && c.Err() == nil; i++ {
		micros := c.Uvarint()
		activity := c.Take(int(min(c.Uvarint(), traceBytesMax+1)))
		if micros > uint64(time.Hour.Microseconds()) || len(activity) > traceBytesMax {
			c.Fail(errTraceTooLong)
			return nil
		}
		events = append(events, TraceEvent{time.Duration(micros) * time.Microsecond, string(activity)})
	}
	return events
}

// Tracer is a Transport whose requests can be traced by the nodes that receive them.
type Tracer interface {
	// RequestTraced is RequestCancelable of a traced request. traced is called once, before reply, with what the peer
	// answered; with nothing when there is no answer. It must not block.
	RequestTraced(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, traced func([]TraceEvent), reply Reply) (cancel func())
}

// Traced is t with traced requests. asked is called for each request; it returns where the events of the peer go.
// Where t is no Tracer, requests are not traced.
func Traced(t Transport, asked func(to ring.NodeID) func([]TraceEvent)) Transport {
	if tracer, ok := t.(Tracer); ok {
		return &tracedTransport{t, tracer, asked}
	}
	return t
}

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
func (t *tracedTransport) RequestCancelable(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, reply Reply) (cancel func()) {
	return t.tracer.RequestTraced(to, verb, payload, timeout, t.asked(to), reply)
}
