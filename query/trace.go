package query

import (
	"context"
	"encoding/binary"
	"net/netip"
	"time"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/term"
	"cqld/query/write"
	"cqld/request"
	"cqld/ring"
	"cqld/types"
)

// traced executes f. If the client requested tracing, it writes a trace afterwards. params is nil for PREPARE. bound
// contains the markers of a prepared statement, whose values the trace shows. It writes the trace before it returns
// the result of f, so that the client can read it immediately.
func (p *Processor) traced(r *request.Request, params *Params, what, text string, bound []term.Marker,
	f func() (*Result, error)) (*Result, error) {
	// The usual case costs one comparison.
	if !r.Tracing {
		return f()
	}
	// Redact before shortening: secrets in a truncated text may not be recognized.
	text = shortenTrace(cql.Redact(text))
	started := p.services.Clock.Now()
	id := p.traces.id(r.Principal, p.services.IDs.TimeUUID(started.UnixMilli()))
	t := newTraceRecorder(p.services.Clock, p.services.Executor.NewWaiter(), p.address)
	if text != "" && bound == nil {
		// A prepared statement is not parsed now.
		t.Add(p.services.View.Self(), "Parsing "+text)
	}
	r.Trace = t
	result, err := f()
	// Events from writing the trace must not be part of it.
	r.Trace = nil
	session := traceSession{id: id, what: what, started: started, duration: t.Elapsed(), events: t.Close()}
	shown := traceParameters{Text: text}
	if params != nil {
		shown.Levels = &traceLevels{Consistency: r.Consistency, Serial: r.SerialConsistency}
		shown.PageSize, shown.Bound, shown.Values = params.PageSize, bound, params.Values
	}
	if b, err := shown.Append(nil); err == nil {
		session.parameters = wire.BytesValue(b)
	}
	// The budget bounds the disk space of all traces.
	if p.traces.admit(&session) {
		p.writeTrace(r, &session)
	} else {
		r.Warn("The trace was not stored: the traces on this node have reached their limit of disk space " +
			"(trace_storage_limit)")
	}
	r.TraceID = &id
	return result, err
}

// The statements that write a trace. Clients poll until the session has a duration, so it is written last. The TTL is
// one day, as in Cassandra.
const (
	insertSession = "INSERT INTO system_traces.sessions (session_id, client, command, coordinator, coordinator_port, " +
		"parameters, request, started_at) VALUES (?, ?, 'QUERY', ?, ?, ?, ?, ?) USING TTL 86400"
	insertEvent = "INSERT INTO system_traces.events (session_id, event_id, activity, source, source_port, " +
		"source_elapsed, thread) VALUES (?, ?, ?, ?, ?, ?, ?) USING TTL 86400"
	updateDuration = "UPDATE system_traces.sessions USING TTL 86400 SET duration = ? WHERE session_id = ?"
)

// traceSession is a traced statement. It is complete when it is written.
type traceSession struct {
	id         [16]byte
	what       string
	parameters wire.Value
	started    time.Time
	duration   time.Duration
	events     []traceEvent
}

// bytes returns about how many bytes a trace takes on a replica. Each event is a row with an id, an address and the
// name of a thread.
func (s *traceSession) bytes() int {
	const session, event = 200, 100
	n := session + len(s.parameters.Bytes)
	for i := range s.events {
		n += event + len(s.events[i].Activity)
	}
	return n
}

// writeTrace writes a trace. A failure does not fail the statement. Events and the session are written in one
// unlogged batch at consistency ONE, as CQL text, whose plans are cached.
func (p *Processor) writeTrace(r *request.Request, s *traceSession) {
	id := wire.BytesValue(s.id[:])
	at := p.address(p.services.View.Self())
	statements := make([]write.Statement, 0, len(s.events)+1)
	// Skip a statement that does not compile because the table is missing.
	add := func(text string, values ...wire.Value) {
		if pl, err := p.textPlan(r, "", text); err == nil && pl.modification != nil {
			statements = append(statements, write.Statement{Modification: pl.modification, Values: values})
		}
	}
	add(insertSession, id, inetValue(r.Client.Addr()), inetValue(at.Addr()), intValue(int32(at.Port())),
		s.parameters, textValue(s.what), wire.BytesValue(wire.AppendInt64(nil, s.started.UnixMilli())))
	// In steps of 100 ns, the unit of version 1 UUIDs.
	last := int64(-1)
	for _, e := range s.events {
		source := p.address(e.Source)
		// Increment the time for events in the same 100 ns, so that their ids differ.
		last = max(last+1, int64(e.At/100))
		event := types.AppendTimeuuid(nil, types.UUIDTicks(s.started.UnixMilli(), last),
			binary.BigEndian.Uint64(s.id[8:]))
		add(insertEvent, id, wire.BytesValue(event), textValue(e.Activity), inetValue(source.Addr()),
			intValue(int32(source.Port())), intValue(int32(e.Elapsed.Microseconds())), textValue("cqld"))
	}
	// the trace is written even if the client has disconnected
	own := &request.Request{Context: context.Background(), Consistency: ring.One}
	if _, err := p.writer.ExecuteStatements(own, cql.BatchUnlogged, statements, new(Params)); err != nil {
		return
	}
	statements = statements[:0]
	add(updateDuration, intValue(int32(s.duration.Microseconds())), id)
	_, _ = p.writer.ExecuteStatements(own, cql.BatchUnlogged, statements, new(Params))
}

// address returns the internode address of a node. A node that has left the topology is shown with this node's address.
func (p *Processor) address(id ring.NodeID) netip.AddrPort {
	if n := p.services.View.Topology().Node(id); n != nil {
		return n.Internode
	}
	return p.o.Local
}

// inetValue returns an address of 4 or 16 bytes, or null.
func inetValue(a netip.Addr) wire.Value {
	if !a.IsValid() {
		return wire.Value{}
	}
	return wire.BytesValue(a.Unmap().AsSlice())
}

// intValue and textValue return values in wire form.
func intValue(v int32) wire.Value      { return wire.BytesValue(wire.AppendInt32(nil, v)) }
func textValue(text string) wire.Value { return wire.BytesValue([]byte(text)) }
