package server

import (
	"time"

	"cqld/cql"
	"cqld/internal/memory"
	"cqld/internal/wire"
	"cqld/query"
	"cqld/request"
	"cqld/server/frame"
)

// worker executes one request at a time. It reuses its decoded messages and buffers, so a request allocates only what
// the Processor does. Only the goroutine of workers.run uses it, except for slot, which has its own lock. Decoded
// messages point into the body of the request, which lives until forget.
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
	// memory is reserved by the running statement for its result, and for the decoded request if that is large.
	memory  memory.Account // of request
	began   time.Time      // of a request that is measured
	decoded bool           // the memory of the decoded request is reserved
	params  query.Params
	entries []query.BatchEntry
	columns []frame.Column // of the result's metadata
	// reply is memory for small replies, which the output copies.
	reply []byte
}

// run executes and answers j, or parks it. Every path releases the charge of j once, or passes it to the output. The
// order of the deferred calls is: answer, release memory, resume parked requests, finish.
func (w *worker) run(j job) {
	c := j.conn
	if c.parking.add(j) {
		return
	}
	defer c.finish()
	defer c.parking.resume()
	sent := false
	// The statement reserves its memory in this account; Close releases the rest.
	c.account.Open(&w.memory)
	defer w.memory.Close()
	defer func() {
		if !sent { // the connection has ended, or a panic is propagating
			c.account.Release(j.charge)
		}
	}()
	// The client has disconnected, so nothing needs an answer.
	if c.ctx.Err() != nil {
		return
	}
	// A panic while the reply is encoded leaves it incomplete, so the connection ends. A panic of the statement only
	// fails the statement.
	defer c.server.guard.Recover("CQL reply", c.fail)
	w.enter(j)
	result, err := w.processGuarded(j)
	err = w.leave(c, err)
	if w.decoded {
		w.forgetRequest() // encode returns its memory
	}
	reply, charge := w.encode(j, result, err)
	sent = true
	// A client with an executed statement has proved itself, so intakes prefer it under load.
	c.served.Store(true)
	if c.out.Enqueue(reply, j.charge.Plus(charge), true) {
		w.reply = nil // the output may have its memory
		return
	}
	w.keep(reply)
}

// encode returns the reply to j, given the result or error, and the memory that is reserved for it. charge is the
// memory that the encoded reply holds until it has been written to the socket.
func (w *worker) encode(j job, result *query.Result, err error) (reply []byte, charge memory.Held) {
	c := j.conn
	payload := w.costPayload(c.server)
	if err == nil {
		if err = w.reserveReply(c, result); err != nil {
			result.Release()
		} else {
			w.memory.Work(len(result.Rows)) // until Detach
		}
	}
	if err != nil {
		reply = appendErrorReply(w.buffer(c, 0), j.request, c.server.wireError(err), w.request.TraceID, payload)
	} else {
		if result.Kind == query.KindSetKeyspace {
			c.use(result.Keyspace)
		}
		reply = w.appendReply(w.buffer(c, len(result.Rows)), j.request, result, payload)
		result.Release()
	}
	// Segments of v5 are compressed by the output.
	if j.request.Version < frame.V5 && c.compression != frame.NoCompression {
		reply = c.server.compressor.CompressBody(reply, 0, c.compression)
	}
	return reply, c.account.Convert(&w.memory, int64(len(reply)))
}

// reserveReply reserves memory for the reply, in addition to the memory of the result. A compressed reply needs twice
// its size.
func (w *worker) reserveReply(c *conn, result *query.Result) error {
	n := len(result.Rows)
	// An applied write must be answered, even if no memory is left.
	if n <= replyFree {
		return nil
	}
	if c.compression != frame.NoCompression && c.version < frame.V5 {
		// The compressed form is written next to the reply.
		n *= 2
	}
	return w.request.Grow(n)
}

// buffer returns memory for a reply with n bytes of rows.
func (w *worker) buffer(c *conn, n int) []byte {
	// A large reply has memory of its own, which the output returns to the pool.
	if n += replyHead; n > outputBufferKeep {
		return c.server.output.Buffers.Sized(n)[:0]
	}
	return w.reply[:0]
}

// keep stores the memory of a copied reply for reuse.
func (w *worker) keep(reply []byte) {
	if w.reply = reply; cap(reply) > outputBufferKeep {
		w.reply = nil
	}
}

// use sets the connection's keyspace. After two concurrent USE requests, which no driver sends, either keyspace may
// be in effect.
func (c *conn) use(keyspace string) {
	// The session is copied, because running requests use the previous one to their end.
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

// process decodes and executes the request. The result refers to memory of the request until Release.
func (w *worker) process(j job) (*query.Result, error) {
	c, v := j.conn, j.request.Version
	cur := wire.NewCursor(j.body)
	r := w.begin(c)
	if err := c.refusal(); err != nil {
		return nil, err
	}
	r.Tracing = j.request.Flags&frame.FlagTracing != 0
	w.consumePrefix(&cur, j.request)
	if err := w.reserveDecoded(j, cur); err != nil {
		return nil, err
	}
	processor, session := c.server.options.Processor, c.session.Load()
	switch j.request.Opcode {
	// describe precedes the execution, so that the statement is visible while it runs.
	case frame.OpQuery:
		if err := w.query.Consume(&cur, v); err != nil {
			return nil, err
		}
		w.slot.describe(w.query.Query, nil, 0)
		result, err := processor.Query(r, session, w.query.Query, w.setParams(&w.query.Params))
		if err == nil && w.query.Params.SkipMetadata {
			// Without a prepared statement, the flag applies to the rows of conditional changes, too.
			result.NoMetadata = true
		}
		return result, err
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
		params := w.setParams(&w.execute.Params)
		params.ResultMetadataID = w.execute.ResultMetadataID
		return processor.Execute(r, session, w.execute.ID, params)
	default: // BATCH: handle dispatches no other request
		if err := w.batch.Consume(&cur, v); err != nil {
			return nil, err
		}
		if all := w.batch.Statements; len(all) > 0 {
			w.slot.describe(all[0].Query, all[0].ID, len(all)-1)
		}
		return processor.Batch(r, session, w.batchParams())
	}
}

// reserveDecoded reserves the memory of the decoded request, unless it is small. It returns an error if the memory pool
// refuses, which the client gets as Overloaded.
func (w *worker) reserveDecoded(j job, cur wire.Cursor) error {
	if w.decoded = len(j.body) > decodedFree; !w.decoded {
		return nil
	}
	// The size is known from the counts in the body, before anything is decoded.
	return w.request.Grow(frame.DecodedBytes(j.request.Opcode, cur, j.request.Version))
}

// begin prepares the worker's request for connection c and returns it. The context is the lease's: it ends with the
// connection, or when an operator kills the request.
func (w *worker) begin(c *conn) *request.Request {
	// The principal is read for each request, because roles can change.
	w.request = request.Request{Context: w.lease.ctx, Principal: c.principal(), Client: c.client, Memory: &w.memory}
	return &w.request
}

// setParams converts the parameters of the message to the worker's query.Params and sets the consistency of its
// request. Values and names point into the body.
func (w *worker) setParams(p *frame.Params) *query.Params {
	w.request.Consistency, w.request.SerialConsistency = p.Consistency, p.SerialConsistency
	w.params = query.Params{
		Values:       p.Values,
		PageSize:     p.PageSize,
		PagingState:  p.PagingState,
		Timestamp:    p.Timestamp,
		HasTimestamp: p.HasTimestamp,
		Keyspace:     p.Keyspace,
		// Unsigned, as in Cassandra 5: seconds until 2106.
		NowInSeconds: int64(uint32(p.NowInSeconds)),
		HasNow:       p.HasNowInSeconds,
		SkipMetadata: p.SkipMetadata,
	}
	// Nil means that values are positional.
	if len(p.Names) > 0 {
		w.params.Names = p.Names
	}
	return &w.params
}

// batchParams converts the message of a BATCH, as setParams does.
func (w *worker) batchParams() *query.BatchParams {
	w.entries = w.entries[:0]
	for i := range w.batch.Statements {
		s := &w.batch.Statements[i]
		// The processor keeps no entry, so the slice is reused; see Processor.
		w.entries = append(w.entries, query.BatchEntry{Text: s.Query, ID: s.ID, Values: s.Values})
	}
	kind := cql.BatchLogged
	// Consume has refused other types.
	switch w.batch.Type {
	case frame.BatchUnlogged:
		kind = cql.BatchUnlogged
	case frame.BatchCounter:
		kind = cql.BatchCounter
	}
	return &query.BatchParams{Params: *w.setParams(&w.batch.Params), Kind: kind, Entries: w.entries}
}

// forget releases the memory of the last request before the worker waits: an idle worker must not keep a request's
// body.
func (w *worker) forget() {
	w.forgetRequest()
	w.columns = emptied(w.columns)
	w.id, w.lease, w.request, w.began = 0, nil, request.Request{}, time.Time{}
}

// forgetRequest releases the memory of the decoded request.
func (w *worker) forgetRequest() {
	w.query = frame.Query{Params: frame.Params{Values: emptied(w.query.Params.Values)}}
	w.prepare, w.batch = frame.Prepare{}, frame.Batch{}
	w.execute = frame.Execute{Params: frame.Params{Values: emptied(w.execute.Params.Values)}}
	w.entries, w.params = emptied(w.entries), query.Params{}
}

// emptied returns s without its elements for reuse, or nil if it has more than 64, which is more than most statements
// need.
func emptied[E any](s []E) []E {
	const keep = 64
	if cap(s) > keep {
		return nil
	}
	// All elements up to the capacity are cleared, because earlier ones refer to bodies of requests, too.
	clear(s[:cap(s)])
	return s[:0]
}
