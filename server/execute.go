package server

import (
	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// worker executes one request at a time. Its decoded messages and buffers
// are reused from request to request, so a request allocates only what the
// Processor does.
type worker struct {
	next chan job

	query   frame.Query
	prepare frame.Prepare
	execute frame.Execute
	batch   frame.Batch

	request request.Request
	params  query.Params
	entries []query.BatchEntry
	columns []frame.Column // of the result's metadata
	reply   []byte
}

// run answers j.
func (w *worker) run(j job) {
	c := j.conn
	defer c.jobs.Done()
	defer c.executing.Add(-1)
	sent := false
	defer func() {
		if !sent { // a panic is on its way up
			c.release(j.charge)
		}
	}()
	defer c.server.guard.Recover("CQL reply", c.fail)
	result, err := w.processGuarded(j)
	w.reply = w.reply[:0]
	if err != nil {
		w.reply = appendErrorReply(w.reply, j.request, c.server.wireError(err))
	} else {
		if result.Kind == query.KindSetKeyspace {
			c.use(result.Keyspace)
		}
		w.reply = w.appendReply(w.reply, j.request, result)
		result.Release()
	}
	if j.request.Version < frame.V5 && c.compression != frame.NoCompression {
		w.reply = c.server.compressor.CompressBody(w.reply, 0, c.compression)
	}
	sent = true
	c.served.Store(true)
	if c.give(w.reply, j.charge) || cap(w.reply) > outputBufferKeep {
		w.reply = nil
	}
}

// use makes keyspace the connection's. Two USE at once, which no driver
// sends, leave either one.
func (c *conn) use(keyspace string) {
	session := *c.session.Load()
	session.Keyspace = keyspace
	c.session.Store(&session)
}

// processGuarded is process with an error when that panics. The connection's state is not touched there, so that its
// other requests go on.
func (w *worker) processGuarded(j job) (result *query.Result, err error) {
	defer j.conn.server.guard.Recover("CQL request", func(e error) { err = e })
	return w.process(j)
}

// process decodes the request and has it executed.
func (w *worker) process(j job) (*query.Result, error) {
	c, v := j.conn, j.request.Version
	cur := wire.NewCursor(j.body)
	frame.ConsumeRequestPrefix(&cur, v, j.request.Flags) // nothing here reads custom payloads
	processor, session := c.server.options.Processor, c.session.Load()
	r := w.begin(c)
	switch j.request.Opcode {
	case frame.OpQuery:
		if err := w.query.Consume(&cur, v); err != nil {
			return nil, err
		}
		return processor.Query(r, session, w.query.Query, w.setParams(&w.query.Params, j))
	case frame.OpPrepare:
		if err := w.prepare.Consume(&cur, v); err != nil {
			return nil, err
		}
		return processor.Prepare(r, session, w.prepare.Query, w.prepare.Keyspace)
	case frame.OpExecute:
		if err := w.execute.Consume(&cur, v); err != nil {
			return nil, err
		}
		params := w.setParams(&w.execute.Params, j)
		params.ResultMetadataID = w.execute.ResultMetadataID
		return processor.Execute(r, session, w.execute.ID, params)
	default: // BATCH: handle dispatches nothing else
		if err := w.batch.Consume(&cur, v); err != nil {
			return nil, err
		}
		return processor.Batch(r, session, w.batchParams(j))
	}
}

// begin makes the worker's request one of c, and returns it.
func (w *worker) begin(c *conn) *request.Request {
	w.request = request.Request{Context: c.ctx, Principal: c.principal(), Client: c.client}
	return &w.request
}

// setParams turns the parameters of the message into the worker's query.Params and the consistency of its request. Values and
// names stay where they are in the body.
func (w *worker) setParams(p *frame.Params, j job) *query.Params {
	w.request.Consistency, w.request.SerialConsistency = p.Consistency, p.SerialConsistency
	w.params = query.Params{
		Values:       p.Values,
		PageSize:     p.PageSize,
		PagingState:  p.PagingState,
		Timestamp:    p.Timestamp,
		HasTimestamp: p.HasTimestamp,
		Keyspace:     p.Keyspace,
		NowInSeconds: int64(p.NowInSeconds),
		HasNow:       p.HasNowInSeconds,
		SkipMetadata: p.SkipMetadata,
		Tracing:      j.request.Flags&frame.FlagTracing != 0,
	}
	if len(p.Names) > 0 {
		w.params.Names = p.Names
	}
	return &w.params
}

func (w *worker) batchParams(j job) *query.BatchParams {
	w.entries = w.entries[:0]
	for i := range w.batch.Statements {
		s := &w.batch.Statements[i]
		w.entries = append(w.entries, query.BatchEntry{Text: s.Query, ID: s.ID, Values: s.Values})
	}
	kind := cql.BatchLogged
	switch w.batch.Type {
	case frame.BatchUnlogged:
		kind = cql.BatchUnlogged
	case frame.BatchCounter:
		kind = cql.BatchCounter
	}
	return &query.BatchParams{Params: *w.setParams(&w.batch.Params, j), Kind: kind, Entries: w.entries}
}

// forget drops what the last request left, before the worker waits: an idle
// worker must not hold a request's body.
func (w *worker) forget() {
	*w = worker{
		next:    w.next,
		query:   frame.Query{Params: frame.Params{Values: emptied(w.query.Params.Values)}},
		execute: frame.Execute{Params: frame.Params{Values: emptied(w.execute.Params.Values)}},
		entries: emptied(w.entries),
		columns: emptied(w.columns),
		reply:   w.reply,
	}
}

// emptied is the memory of s without its contents, unless it is large.
func emptied[E any](s []E) []E {
	const keep = 64
	if cap(s) > keep {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}
