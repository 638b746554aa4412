package server

import (
	"time"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// worker executes one request at a time. It reuses its decoded messages and buffers, so a request allocates only what
// the Processor does.
type worker struct {
	next chan job
	slot *slot // shows the request

	id    uint64 // of the request
	lease *lease // its context

	query   frame.Query
	prepare frame.Prepare
	execute frame.Execute
	batch   frame.Batch

	request request.Request
	began   time.Time // of a request that is measured
	params  query.Params
	entries []query.BatchEntry
	columns []frame.Column // of the result's metadata
	reply   []byte
}

// run executes and answers j.
func (w *worker) run(j job) {
	c := j.conn
	defer c.jobs.Done()
	defer c.executing.Add(-1)
	sent := false
	defer func() {
		if !sent { // a panic is propagating
			c.release(j.charge)
		}
	}()
	defer c.server.guard.Recover("CQL reply", c.fail)
	w.enter(j)
	result, err := w.processGuarded(j)
	err = w.leave(c, err)
	payload := w.costPayload(c.server)
	w.reply = w.reply[:0]
	if err != nil {
		w.reply = appendErrorReply(w.reply, j.request, c.server.wireError(err), payload)
	} else {
		if result.Kind == query.KindSetKeyspace {
			c.use(result.Keyspace)
		}
		w.reply = w.appendReply(w.reply, j.request, result, payload)
		result.Release()
	}
	if j.request.Version < frame.V5 && c.compression != frame.NoCompression {
		w.reply = c.server.compressor.CompressBody(w.reply, 0, c.compression)
	}
	sent = true
	c.served.Store(true)
	if c.enqueueOwned(w.reply, j.charge) || cap(w.reply) > outputBufferKeep {
		w.reply = nil
	}
}

// use sets the connection's keyspace. After two concurrent USE requests, which no driver sends, either one may be in
// effect.
func (c *conn) use(keyspace string) {
	session := *c.session.Load()
	session.Keyspace = keyspace
	c.session.Store(&session)
}

// processGuarded is process, but returns an error if that panics. process does not modify the connection's state, so
// its other requests continue.
func (w *worker) processGuarded(j job) (result *query.Result, err error) {
	defer j.conn.server.guard.Recover("CQL request", func(e error) { err = e })
	return w.process(j)
}

// process decodes and executes the request.
func (w *worker) process(j job) (*query.Result, error) {
	c, v := j.conn, j.request.Version
	cur := wire.NewCursor(j.body)
	r := w.begin(c)
	if err := c.refusal(); err != nil {
		return nil, err
	}
	w.consumePrefix(&cur, j.request)
	processor, session := c.server.options.Processor, c.session.Load()
	switch j.request.Opcode {
	case frame.OpQuery:
		if err := w.query.Consume(&cur, v); err != nil {
			return nil, err
		}
		w.slot.describe(w.query.Query, nil, 0)
		return processor.Query(r, session, w.query.Query, w.setParams(&w.query.Params, j))
	case frame.OpPrepare:
		if err := w.prepare.Consume(&cur, v); err != nil {
			return nil, err
		}
		w.slot.describe(w.prepare.Query, nil, 0)
		return processor.Prepare(r, session, w.prepare.Query, w.prepare.Keyspace)
	case frame.OpExecute:
		if err := w.execute.Consume(&cur, v); err != nil {
			return nil, err
		}
		w.slot.describe("", w.execute.ID, 0)
		params := w.setParams(&w.execute.Params, j)
		params.ResultMetadataID = w.execute.ResultMetadataID
		return processor.Execute(r, session, w.execute.ID, params)
	default: // BATCH: handle dispatches no other request
		if err := w.batch.Consume(&cur, v); err != nil {
			return nil, err
		}
		if all := w.batch.Statements; len(all) > 0 {
			w.slot.describe(all[0].Query, all[0].ID, len(all)-1)
		}
		return processor.Batch(r, session, w.batchParams(j))
	}
}

// begin prepares the worker's request for connection c and returns it.
func (w *worker) begin(c *conn) *request.Request {
	w.request = request.Request{Context: w.lease.ctx, Principal: c.principal(), Client: c.client}
	return &w.request
}

// setParams converts the parameters of the message to the worker's query.Params and sets the consistency of its
// request. Values and names point into the body.
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

// forget releases the memory of the last request before the worker waits: an idle worker must not keep a request's
// body.
func (w *worker) forget() {
	*w = worker{
		next:    w.next,
		slot:    w.slot,
		query:   frame.Query{Params: frame.Params{Values: emptied(w.query.Params.Values)}},
		execute: frame.Execute{Params: frame.Params{Values: emptied(w.execute.Params.Values)}},
		entries: emptied(w.entries),
		columns: emptied(w.columns),
		reply:   w.reply,
	}
}

// emptied returns s without its elements, or nil if it is large.
func emptied[E any](s []E) []E {
	const keep = 64
	if cap(s) > keep {
		return nil
	}
	clear(s[:cap(s)])
	return s[:0]
}
