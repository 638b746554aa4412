package query

import (
	"context"
	"fmt"
	"net/netip"
	"strconv"
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/cql"
	"cqld/cql/types"
	"cqld/internal/wire"
	"cqld/ring"
)

// trace collects what happens on the way of one statement; nil when it is not traced. Others than
// the statement's goroutine tell it things, too.
type trace struct {
	p     *Processor
	id    [16]byte
	start time.Duration
	mu    struct {
		sync.Mutex
		events []traceEvent
		closed bool // what is told later comes too late
	}
}

type traceEvent struct {
	id       [16]byte
	source   ring.NodeID
	activity string
	elapsed  int32 // µs since the statement began
}

// traceEventsMax bounds what one statement may tell.
const traceEventsMax = 1000

// add notes an event.
func (t *trace) add(source ring.NodeID, activity string) {
	if t == nil {
		return
	}
	elapsed := int32((t.p.o.Clock.Monotonic() - t.start).Microseconds())
	id := t.p.ids.TimeUUID(t.p.o.Clock.Now().UnixMilli())
	t.mu.Lock()
	defer t.mu.Unlock()
	if !t.mu.closed && len(t.mu.events) < traceEventsMax {
		t.mu.events = append(t.mu.events, traceEvent{id, source, activity, elapsed})
	}
}

// sink is where the coordinator tells what it does.
func (t *trace) sink() coordinator.Trace {
	if t == nil {
		return nil
	}
	return t.add
}

// traced executes f, and when the request asks for it writes down how it went.
func (p *Processor) traced(s *Session, params *Params, request, text string, f func(*trace) (*Result, error)) (*Result, error) {
	if !params.Tracing {
		return f(nil)
	}
	t := &trace{p: p, id: p.ids.TimeUUID(p.o.Clock.Now().UnixMilli()), start: p.o.Clock.Monotonic()}
	started := p.o.Clock.Now()
	if text != "" {
		t.add(p.o.View.Self(), "Parsing "+text)
	}
	r, err := f(t)
	duration := p.o.Clock.Monotonic() - t.start
	t.mu.Lock()
	t.mu.closed = true
	events := t.mu.events
	t.mu.Unlock()
	p.writeTrace(t, events, s, params, request, text, started, duration)
	if r != nil {
		r.TracingID, r.Traced = t.id, true
	}
	return r, err
}

// The statements that write a trace. Who waits for one polls until the duration is there, so it is
// written last.
const (
	traceSession = "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, coordinator_port, " +
		"parameters, request, started_at) VALUES (?, ?, 'QUERY', ?, ?, ?, ?, ?) USING TTL 86400"
	traceEventText = "INSERT INTO system_traces.events (session_id, event_id, activity, source, source_port, " +
		"source_elapsed, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL 86400"
	traceDuration = "UPDATE system_traces.sessions USING TTL 86400 SET duration = ? WHERE session_id = ?"
)

// writeTrace writes a trace down as well as it can: a statement does not fail for its trace.
func (p *Processor) writeTrace(t *trace, events []traceEvent, s *Session, params *Params, request, text string,
	started time.Time, duration time.Duration) {
	id := wire.BytesValue(t.id[:])
	at := p.address(p.o.View.Self())
	statements := make([]batchStatement, 0, len(events)+1)
	add := func(text string, values ...wire.Value) {
		if pl, err := p.textPlan("", text); err == nil && pl.modification != nil {
			statements = append(statements, batchStatement{pl.modification, values})
		}
	}
	add(traceSession, id, inetValue(s.Client.Addr()), inetValue(at.Addr()), intValue(int32(at.Port())),
		traceParameters(params, text), textValue(request), wire.BytesValue(wire.AppendInt64(nil, started.UnixMilli())))
	for _, e := range events {
		source := p.address(e.source)
		add(traceEventText, id, wire.BytesValue(e.id[:]), textValue(e.activity), inetValue(source.Addr()),
			intValue(int32(source.Port())), intValue(e.elapsed), textValue("cqld"))
	}
	level := &Params{Consistency: ring.One}
	if _, err := p.executeBatch(context.Background(), cql.BatchUnlogged, statements, level, nil); err != nil {
		return
	}
	statements = statements[:0]
	add(traceDuration, intValue(int32(duration.Microseconds())), id)
	_, _ = p.executeBatch(context.Background(), cql.BatchUnlogged, statements, level, nil)
}

// address is where other nodes reach a node.
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

func traceParameters(params *Params, text string) wire.Value {
	parts := [][]byte{
		[]byte("consistency_level"), []byte(params.Consistency.String()),
		[]byte("serial_consistency_level"), []byte(params.SerialConsistency.String()),
	}
	if params.PageSize > 0 {
		parts = append(parts, []byte("page_size"), []byte(strconv.Itoa(int(params.PageSize))))
	}
	if text != "" {
		parts = append(parts, []byte("query"), []byte(text))
	}
	for i, v := range params.Values {
		bound := "null"
		if v.Kind == wire.ValueSet {
			bound = fmt.Sprintf("0x%x", v.Bytes[:min(len(v.Bytes), 64)])
		}
		parts = append(parts, fmt.Appendf(nil, "bound_var_%d", i), []byte(bound))
	}
	text0 := types.Native(types.Text)
	b, err := types.NewMap(text0, text0, false).AppendParts(nil, parts)
	if err != nil {
		return wire.Value{}
	}
	return wire.BytesValue(b)
}
