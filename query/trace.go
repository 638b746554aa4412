package query

import (
	"cmp"
	"context"
	"encoding/binary"
	"fmt"
	"net/netip"
	"slices"
	"strconv"
	"sync"
	"time"
	"unicode/utf8"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/request"
	"cqld/ring"
	"cqld/types"
)

// trace collects the events of one statement; it is nil when the statement is not traced. It is safe for concurrent use:
// replicas add events, too. It implements coordinator.Trace.
type trace struct {
	p       *Processor
	id      [16]byte
	start   time.Duration
	settled env.Waiter // signaled when the last contacted node has replied after the statement's end, or at the time limit
	mu      struct {
		sync.Mutex
		events  []traceEvent
		pending int // contacted nodes that have not replied
		waiting bool
		closed  bool // later events are dropped
	}
}

type traceEvent struct {
	at       time.Duration // since the statement began, by this node's clock
	source   ring.NodeID
	activity string
	elapsed  time.Duration // since the source received its request
}

const (
	// traceEventsMax bounds the events of one statement.
	traceEventsMax = 1000
	// traceWait is how long the trace of a statement waits for events of replicas for which the statement did not
	// wait. The client waits as long, so it is short; a live replica replies sooner.
	traceWait = 100 * time.Millisecond
	// boundTextMax is the number of characters of a bound value that a trace shows, as in Cassandra.
	boundTextMax = 1000
)

func (t *trace) elapsed() time.Duration { return t.p.o.Clock.Monotonic() - t.start }

// Contact implements coordinator.Trace. The events show the contacts.
func (t *trace) Contact(ring.NodeID) {}

// Read implements coordinator.Trace. The events show reads.
func (t *trace) Read(coordinator.Reads) {}

// Detailed implements coordinator.Trace.
func (t *trace) Detailed() bool { return true }

// Add implements coordinator.Trace.
func (t *trace) Add(source ring.NodeID, activity string) {
	now := t.elapsed()
	t.mu.Lock()
	defer t.mu.Unlock()
	t.addLocked(traceEvent{now, source, activity, now})
}

func (t *trace) addLocked(e traceEvent) {
	if !t.mu.closed && len(t.mu.events) < traceEventsMax {
		t.mu.events = append(t.mu.events, e)
	}
}

// AddNode implements coordinator.Trace.
func (t *trace) AddNode(source ring.NodeID, activity string, node ring.NodeID) {
	t.Add(source, activity+" /"+t.p.address(node).String())
}

// Asked implements coordinator.Trace. The clocks of nodes may differ, so the time of another node's event is computed
// backwards from the arrival of its reply.
func (t *trace) Asked(node ring.NodeID) func([]coordinator.TraceEvent) {
	t.mu.Lock()
	t.mu.pending++
	t.mu.Unlock()
	return func(events []coordinator.TraceEvent) {
		now := t.elapsed()
		t.mu.Lock()
		defer t.mu.Unlock()
		for _, e := range events {
			before := events[len(events)-1].Elapsed - e.Elapsed
			t.addLocked(traceEvent{max(now-before, 0), node, e.Activity, e.Elapsed})
		}
		if t.mu.pending--; t.mu.pending == 0 {
			t.settleLocked()
		}
	}
}

// settleLocked ends the wait in close.
func (t *trace) settleLocked() {
	if t.mu.waiting {
		t.mu.waiting = false
		t.settled.Signal()
	}
}

// close waits at most traceWait for nodes that have not replied, and returns the events in order.
func (t *trace) close() []traceEvent {
	t.mu.Lock()
	if t.mu.pending > 0 {
		t.mu.waiting = true
		timer := t.p.o.Clock.After(traceWait, func() {
			t.mu.Lock()
			defer t.mu.Unlock()
			t.settleLocked()
		})
		t.mu.Unlock()
		t.settled.Wait()
		timer.Stop()
		t.mu.Lock()
	}
	defer t.mu.Unlock()
	t.mu.closed = true
	slices.SortStableFunc(t.mu.events, func(a, b traceEvent) int { return cmp.Compare(a.at, b.at) })
	return t.mu.events
}

// traced executes f, with a trace that it writes afterwards if the client requested one. bound are the markers of a
// prepared statement, whose values the trace shows.
func (p *Processor) traced(r *request.Request, params *Params, what, text string, bound []term.Marker, f func() (*Result, error)) (*Result, error) {
	if !params.Tracing {
		return f()
	}
	text = cql.Redact(text)
	t := &trace{p: p, id: p.ids.TimeUUID(p.o.Clock.Now().UnixMilli()), start: p.o.Clock.Monotonic(), settled: p.o.Executor.NewWaiter()}
	started := p.o.Clock.Now()
	if text != "" && bound == nil {
		t.Add(p.o.View.Self(), "Parsing "+text)
	}
	r.Trace = t
	result, err := f()
	r.Trace = nil
	duration := t.elapsed()
	p.writeTrace(r, t, traceParameters(r, params, text, bound), what, started, duration)
	if result != nil {
		result.TracingID, result.Traced = t.id, true
	}
	return result, err
}

// The statements that write a trace. Clients poll until the session has a duration, so that is written last.
const (
	traceSession = "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, coordinator_port, " +
		"parameters, request, started_at) VALUES (?, ?, 'QUERY', ?, ?, ?, ?, ?) USING TTL 86400"
	traceEventText = "INSERT INTO system_traces.events (session_id, event_id, activity, source, source_port, " +
		"source_elapsed, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL 86400"
	traceDuration = "UPDATE system_traces.sessions USING TTL 86400 SET duration = ? WHERE session_id = ?"
)

// writeTrace writes a trace. If that fails, the statement does not fail.
func (p *Processor) writeTrace(r *request.Request, t *trace, parameters wire.Value, what string, started time.Time, duration time.Duration) {
	events := t.close()
	id := wire.BytesValue(t.id[:])
	at := p.address(p.o.View.Self())
	statements := make([]batchStatement, 0, len(events)+1)
	add := func(text string, values ...wire.Value) {
		if pl, err := p.textPlan("", text); err == nil && pl.modification != nil {
			statements = append(statements, batchStatement{pl.modification, values})
		}
	}
	add(traceSession, id, inetValue(r.Client.Addr()), inetValue(at.Addr()), intValue(int32(at.Port())),
		parameters, textValue(what), wire.BytesValue(wire.AppendInt64(nil, started.UnixMilli())))
	last := int64(-1)
	for _, e := range events {
		source := p.address(e.source)
		// The time of an event id has steps of 100 ns. Events with equal times get different steps.
		last = max(last+1, int64(e.at/100))
		event := types.AppendTimeuuid(nil, types.UUIDTicks(started.UnixMilli(), last), binary.BigEndian.Uint64(t.id[8:]))
		add(traceEventText, id, wire.BytesValue(event), textValue(e.activity), inetValue(source.Addr()),
			intValue(int32(source.Port())), intValue(int32(e.elapsed.Microseconds())), textValue("cqld"))
	}
	own := &request.Request{Context: context.Background(), Consistency: ring.One} // the trace is written even if the client has disconnected
	if _, err := p.executeBatch(own, cql.BatchUnlogged, statements, new(Params)); err != nil {
		return
	}
	statements = statements[:0]
	add(traceDuration, intValue(int32(duration.Microseconds())), id)
	_, _ = p.executeBatch(own, cql.BatchUnlogged, statements, new(Params))
}

// address returns the internode address of a node.
func (p *Processor) address(id ring.NodeID) netip.AddrPort {
	if n := p.o.View.Topology().Node(id); n != nil {
		return n.Internode
	}
	return p.o.Local
}

func inetValue(a netip.Addr) wire.Value {
	if !a.IsValid() {
		return wire.Value{}
	}
	return wire.BytesValue(a.Unmap().AsSlice())
}

func intValue(v int32) wire.Value      { return wire.BytesValue(wire.AppendInt32(nil, v)) }
func textValue(text string) wire.Value { return wire.BytesValue([]byte(text)) }

func traceParameters(r *request.Request, params *Params, text string, bound []term.Marker) wire.Value {
	parts := [][]byte{
		[]byte("consistency_level"), []byte(r.Consistency.String()),
		[]byte("serial_consistency_level"), []byte(r.SerialConsistency.String()),
	}
	if params.PageSize > 0 {
		parts = append(parts, []byte("page_size"), []byte(strconv.Itoa(int(params.PageSize))))
	}
	if text != "" {
		parts = append(parts, []byte("query"), []byte(text))
	}
	for i, m := range bound[:min(len(bound), len(params.Values))] {
		parts = append(parts, fmt.Appendf(nil, "bound_var_%d_%s", i, m.Spec.Name), boundText(&m.Spec, params.Values[i]))
	}
	text0 := types.Native(types.Text)
	b, err := types.NewMap(text0, text0, false).AppendParts(nil, parts)
	if err != nil {
		return wire.Value{}
	}
	return wire.BytesValue(b)
}

// boundText returns a bound value as Cassandra shows it in traces, including the quote after the dots of a long one.
func boundText(spec *term.Spec, v wire.Value) []byte {
	switch v.Kind {
	case wire.ValueUnset:
		return []byte("<unset>")
	case wire.ValueNull:
		return []byte("null")
	}
	b := spec.Type.AppendLiteral(nil, v.Bytes)
	if n := utf8.RuneCount(b); n <= boundTextMax {
		return b
	}
	return append([]byte(string([]rune(string(b))[:boundTextMax])), "...'"...)
}
