package azuretables

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/valyala/fasthttp"

	"cqld/azuretables/odata"
	"cqld/internal/intake"
	"cqld/internal/memory"
	"cqld/request"
)

// ErrClosed is returned by Serve after Drain or Close. A program that stops its server on purpose compares with it.
var ErrClosed = errors.New("azuretables: closed")

// carrier is the HTTP/1.1 server. It uses fasthttp because net/http costs two to three times the CPU for a request and
// response with the same headers and 64 bytes of work: it reads ahead in a second goroutine to detect disconnects, and
// stores headers in maps. It owns the listener, the connections and the memory of requests; Drain ends them in this
// order.
//
// The fields up to mu do not change after newCarrier, except inside themselves.
type carrier struct {
	server    *Server
	http      *fasthttp.Server
	large     *intake.Intake // memory of large bodies
	newcomers *newcomers     // connections, known and not
	active    atomic.Int64   // requests in handle
	drains    atomic.Bool    // close each connection after its next response
	pairs     sync.Pool      // *pair
	forget    func()         // the opposite of OnShortage; nil without a bound
	ctx       context.Context
	cancel    context.CancelFunc

	// mu guards whether the server is closing, and its listener.
	mu struct {
		sync.Mutex
		closing  bool
		listener net.Listener // nil before Serve
	}
	conns sync.Map // *connection → nil
}

// pair holds a request and its response; it is reused. Its buffers stay with it, so a connection with many requests
// allocates them once. Bodies and responses above bodyKeep and responseKeep are not kept. It goes to the pool when the
// response was written (written), not when handle returns.
type pair struct {
	req  httpRequest
	resp response
	body []byte // buffer for request bodies

	memory memory.Account // of the request and its response
}

// bodyBuffer returns a buffer for a body of size bytes. The buffer is the caller's until the pair is used again; its
// old contents are not cleared, because the caller fills it. For bodies above bodyKeep it allocates.
func (p *pair) bodyBuffer(size int) []byte {
	// A large buffer belongs to one request only.
	if size > bodyKeep {
		return make([]byte, size)
	}
	if cap(p.body) < size {
		p.body = make([]byte, size)
	}
	return p.body[:size]
}

// newCarrier returns a server that accepts no connections until Serve. It registers for shortages of memory.
func newCarrier(d *Server) *carrier {
	// Reservations of large bodies wait for memory; small bodies need none.
	c := &carrier{server: d, large: intake.New(intake.DefaultLimits(d.limits.BodyBytesTotal)),
		newcomers: newNewcomerList(d.limits.ConnectionsMax, d.limits.ConnectionsPerAddressMax)}
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.pairs.New = func() any { return new(pair) }
	// The pool calls back while requests wait, and the carrier ends the clients that hold memory.
	if d.o.Memory != nil {
		c.forget = d.o.Memory.OnShortage(c.disconnectStuck)
	}
	l := &d.limits
	c.http = &fasthttp.Server{
		// Handler runs on the connection's goroutine; ErrorHandler answers what is not a request.
		Handler: c.handle, ErrorHandler: c.refuse, ConnState: c.observe, Logger: quiet{d},
		// The headers Server and Content-Type are set by writeResponse alone.
		Name: serverName, NoDefaultContentType: true, NoDefaultServerHeader: true, CloseOnShutdown: true,
		SecureErrorLogMessage: true, // the errors contain parts of requests, and thus signatures
		// newcomers enforce the limits; connections that it has closed may take a moment to end.
		Concurrency: l.ConnectionsMax + 2*c.newcomers.max + closingMax, ReadBufferSize: headerBytesMax,
		WriteBufferSize: writeBufferBytes,
		ReadTimeout:     l.ReadTimeout, WriteTimeout: l.WriteTimeout, IdleTimeout: l.IdleTimeout,
		// readBody reads larger bodies and bounds their total. A body above smallBodyBytes is not read into a buffer
		// of fasthttp, but from a stream.
		StreamRequestBody: true, MaxRequestBodySize: smallBodyBytes, DisablePreParseMultipartForm: true,
	}
	return c
}

// quiet logs errors that clients cause at the debug level. They are expected, at any rate that clients choose. A client
// could otherwise fill the disk with log lines.
type quiet struct{ server *Server }

// Printf implements fasthttp.Logger.
func (q quiet) Printf(format string, args ...any) {
	q.server.log.Debug("connection error", "format", format, "args", args)
}

// Serve serves requests that arrive through l until Drain or Close, which also close l, and then returns ErrClosed.
// Call it once.
func (d *Server) Serve(l net.Listener) error {
	if !d.carrier.opened(l) {
		l.Close()
		return ErrClosed
	}
	limits := &d.limits
	// The slack follows the shortest timeout, so no timeout occurs earlier by more than a sixteenth of itself.
	slack := min(limits.ReadTimeout, limits.WriteTimeout, limits.IdleTimeout) / deadlineSlack
	err := d.carrier.http.Serve(listener{l, slack, d.carrier})
	// fasthttp returns the listener's error, which after Drain means nothing.
	if d.carrier.closing() {
		return ErrClosed
	}
	return err
}

// opened records the listener and reports whether the server is still open: fasthttp registers a listener only some
// time after Serve was called. After Drain it returns false, and the caller closes l.
func (c *carrier) opened(l net.Listener) bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.mu.listener = l
	return !c.mu.closing
}

// closing reports whether Drain has begun.
func (c *carrier) closing() bool {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.mu.closing
}

// Drain stops accepting connections, waits until the requests in progress are answered, and closes all connections. If
// ctx ends first, Drain closes the connections immediately and returns the context's error, joined with
// request.StillRunning if canceled requests do not end. It may be called before Serve, and more than once.
//
// Clients get "Connection: close" with the last response of each connection.
func (d *Server) Drain(ctx context.Context) error {
	c := d.carrier
	c.mu.Lock()
	c.mu.closing = true
	// drains is set before the listener closes, so that a connection that is accepted meanwhile announces its end in
	// its first response.
	c.drains.Store(true)
	l := c.mu.listener
	c.mu.Unlock()
	if l != nil {
		l.Close() // fasthttp closes it again if it has registered it by now
	}
	// Connections that have sent nothing are closed here; fasthttp closes the others.
	c.awaitLastRequests(ctx)
	c.closeConns(false)
	// ShutdownWithContext waits for the connections that are in a request.
	err := c.http.ShutdownWithContext(ctx)
	// Requests that are still in progress are canceled.
	c.cancel()
	if c.forget != nil {
		// The pool must not call a carrier that is closed.
		c.forget()
	}
	c.closeConns(true)
	// The caller closes what requests use; canceled ones end soon.
	running := c.awaitRequests()
	// Errors of closing a connection twice do not matter after a drain.
	if err == nil || ctx.Err() != nil || errors.Is(err, net.ErrClosed) {
		err = ctx.Err()
	}
	if running > 0 {
		return errors.Join(err, request.StillRunning(running))
	}
	return err
}

// awaitLastRequests gives connected clients time to send one more request, whose response announces that the connection
// ends. Closing a connection while a request is in transit would lose that request. Connections that have not sent
// anything get NewcomerWait, because a client connects in order to send a request.
//
// Without it, a rolling restart would lose requests of clients that had just sent them.
func (c *carrier) awaitLastRequests(ctx context.Context) {
	// One timer limits the whole wait, so idle connections cannot delay the drain.
	limits := c.server.limits
	late := time.NewTimer(limits.DrainTimeout)
	defer late.Stop()
	ticker := time.NewTicker(disconnectPollInterval)
	defer ticker.Stop()
	// Known connections may send a request at any time. Newcomers that have connected for a request send it at once.
	began := time.Now()
	for c.newcomers.count() > 0 || c.newcomers.waiting() > 0 && time.Since(began) < limits.NewcomerWait {
		// count falls as responses announce that the connection ends.
		select {
		case <-late.C:
			return
		case <-ctx.Done():
			return
		case <-ticker.C:
		}
	}
}

// awaitRequests waits for canceled requests to end, because the caller closes the resources that they use next. It
// returns the number of those that have not ended after endTimeout. Canceled requests check their context and end by
// themselves. A request that waits for a replica ends when its timeout is over at the latest.
func (c *carrier) awaitRequests() (running int) {
	// Polling suffices, because the wait is rare and ends soon.
	for late := time.Now().Add(endTimeout); c.active.Load() > 0; time.Sleep(time.Millisecond) {
		if time.Now().After(late) {
			return int(c.active.Load())
		}
	}
	return 0
}

// Close closes the server without waiting for responses. A canceled context makes Drain close connections at once.
// Requests in progress are canceled; their changes may have been made.
func (d *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	// Its error is the context's, unless something else failed.
	if err := d.Drain(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// observe tracks the open connections for Drain: fasthttp does not close those that have not sent anything yet.
// fasthttp calls it on the goroutine of the connection.
func (c *carrier) observe(conn net.Conn, state fasthttp.ConnState) {
	// Every connection comes from listener.Accept.
	x := conn.(*connection)
	switch state {
	case fasthttp.StateNew:
		c.conns.Store(x, nil)
	case fasthttp.StateActive:
		// Fasthttp sets a write deadline for the response, but leaves the previous response's in place for 100
		// Continue.
		x.writes.wanted = time.Now().Add(c.server.limits.WriteTimeout)
	// The response was written, so its memory is free.
	case fasthttp.StateIdle:
		c.written(x)
	// It runs once per connection, after its last request.
	case fasthttp.StateClosed, fasthttp.StateHijacked:
		x.cancel()
		c.newcomers.leave(x)
		x.disown()
		c.conns.Delete(x)
		c.written(x)
	}
}

// written releases the response that was written, or never will be. Like handle, it runs on the connection's goroutine.
// After a panic there is no answer to release.
func (c *carrier) written(x *connection) {
	if x.answer != nil {
		// The answer's buffers return to the pool only now: fasthttp has written them.
		x.answer.memory.Close()
		c.pairs.Put(x.answer)
		x.answer = nil
	}
}

// closeConns closes all connections, or those that have not sent a request. During a drain, connections in a request
// close after their response.
func (c *carrier) closeConns(all bool) {
	c.conns.Range(func(key, _ any) bool {
		if conn := key.(*connection); all || !conn.requested.Load() {
			conn.Close()
		}
		return true
	})
}

// handle parses a request, serves it, and writes the response. It runs on the connection's goroutine, and returns
// before fasthttp writes the response. An HTTP/1.1 pipeline is served one request after the other.
func (c *carrier) handle(ctx *fasthttp.RequestCtx) {
	conn := ctx.Conn().(*connection)
	// The request is counted before anything can wait, so that Drain sees it.
	c.active.Add(1)
	defer c.active.Add(-1)
	conn.begin()
	defer conn.end()
	if ctx.ConnRequestNum() == 1 { // fasthttp treats a new connection as one with a request
		conn.requested.Store(true)
	}
	// The pair belongs to the connection until written releases it.
	p := c.pairs.Get().(*pair)
	conn.answer = p
	p.resp.reset()
	// The memory of the request counts for the connection's owners. After authorization, setRole replaces the role.
	c.server.o.Memory.Open(&p.memory, memory.Origin{Role: conn.role, Address: conn.address}, nil)
	// held must end even after a panic, because other requests wait for its bytes.
	var held *intake.Body
	defer func() { held.End() }()
	defer c.server.guard.Recover("Tables request", func(err error) { c.panicked(ctx, conn, p, err) })
	readRequest(ctx, conn, &p.req)
	p.req.memory = &p.memory
	err := checkFraming(&ctx.Request.Header)
	if err == nil {
		held, err = c.readBody(ctx, p)
	}
	if err != nil {
		// A connection with unread input cannot carry a further request.
		ctx.Response.SetConnectionClose() // the rest of the body has not been read
		c.server.reject(&p.req, &p.resp, err)
	} else {
		c.server.handle(conn.ctx, &p.req, &p.resp)
	}
	writeResponse(ctx, &p.resp)
	if c.drains.Load() {
		ctx.Response.SetConnectionClose()
	}
	if p.req.kept {
		p.body = nil
	}
	// The connection keeps no reference to the buffers, which later requests reuse.
	p.req = httpRequest{}
}

// panicked responds to a request whose handler panicked, and closes the connection: the state of its input, and of the
// memory that request and response share, is unknown. The client gets InternalError.
func (c *carrier) panicked(ctx *fasthttp.RequestCtx, conn *connection, p *pair, err error) {
	// The memory is closed here, because written no longer sees the pair.
	p.memory.Close()
	conn.answer = nil // no other request reuses that memory
	ctx.Response.Reset()
	resp := new(response)
	resp.reset()
	// Writing the error may panic as well; then only the status remains.
	if c.server.guard.Do("Tables error answer", func() { c.server.reject(&p.req, resp, err) }) == nil {
		writeResponse(ctx, resp)
	} else {
		ctx.Response.SetStatusCode(fasthttp.StatusInternalServerError)
	}
	ctx.Response.SetConnectionClose()
}

// readRequest copies the request line, and refers to the header, whose memory is fasthttp's until the response is
// written. Strings of the header must not be kept beyond the request.
func readRequest(ctx *fasthttp.RequestCtx, conn *connection, r *httpRequest) {
	h := &ctx.Request.Header
	r.method = unsafeString(h.Method())
	// The target is copied, because written entities refer to it.
	target := string(h.RequestURI()) // entities refer to parts of it
	r.host = unsafeString(h.Host())
	// "://" inside a path or query is not the absolute form.
	if i := strings.Index(target, "://"); i > 0 && target[0] != '/' {
		target = target[i+3:] // absolute form, as sent to a proxy
		j := strings.IndexAny(target, "/?")
		if j < 0 {
			j = len(target)
		}
		// Its host precedes the header (RFC 9112 §3.2.2), and an empty path is the root.
		if r.host, target = target[:j], target[j:]; target == "" || target[0] == '?' {
			target = "/" + target
		}
	}
	r.path, r.query, _ = strings.Cut(target, "?")
	r.conn = conn
	r.tls = conn.encrypted()
	r.remote = clientOf(ctx)
	// A request begins with an empty header; only known names are stored.
	r.header = header{}
	for name, value := range h.All() {
		r.header.set(unsafeString(name), unsafeString(value))
	}
}

// clientOf returns the address of the client. A test may have another kind of connection, which has no address.
func clientOf(ctx *fasthttp.RequestCtx) netip.AddrPort {
	if a, ok := ctx.RemoteAddr().(*net.TCPAddr); ok {
		return a.AddrPort()
	}
	return netip.AddrPort{}
}

// readBody copies the body into memory that the request owns. held, which may be nil, is the reservation of a large
// body. The order is: small bodies, the limit, authorization, reservation, bytes.
func (c *carrier) readBody(ctx *fasthttp.RequestCtx, p *pair) (held *intake.Body, err error) {
	r := &p.req
	size := ctx.Request.Header.ContentLength()
	// -1 means chunked; other negative lengths have no body.
	if size == 0 || size < -1 {
		return nil, nil
	}
	// Nil unless the body is larger than smallBodyBytes or chunked.
	stream := ctx.RequestBodyStream()
	if stream == nil {
		body := ctx.Request.Body()
		r.body = p.bodyBuffer(len(body))
		copy(r.body, body)
		return nil, nil
	}
	limit := c.server.limits.BodyBytesMax
	// Refused before anything is reserved or read.
	if size > limit {
		return nil, tooLarge(stream)
	}
	// A body that is small but was sent slowly also comes as a stream.
	if size <= smallBodyBytes && size >= 0 {
		r.body = p.bodyBuffer(size)
		_, err = io.ReadFull(stream, r.body)
		return nil, unreadable(err)
	}
	chunked := size < 0
	if chunked {
		size = limit // the length of a chunked body is unknown until it ends
	}
	if err := c.server.recognize(r); err != nil { // no memory for unauthorized clients
		linger(stream)
		return nil, err
	}
	conn := ctx.Conn().(*connection)
	if held, err = c.admit(conn, int64(size)); err != nil {
		// The rest of the body is discarded within readTimeout, so that the client sees the error.
		linger(stream)
		return nil, err
	}
	arriving := arrival{stream, held}
	// One byte more than the limit shows that the body is too large. Its length is unknown.
	if chunked {
		r.body, err = io.ReadAll(io.LimitReader(arriving, int64(size)+1))
	} else {
		r.body = p.bodyBuffer(size)
		_, err = io.ReadFull(arriving, r.body)
	}
	if err == nil && len(r.body) > limit {
		return held, tooLarge(stream)
	}
	// The reservation stays until the request ends, because the entities refer to the body.
	held.Complete()
	return held, unreadable(err)
}

// admit reserves memory for a large body. The body must be released with End, unless it is nil. Its error is
// ServerBusy, with which clients retry.
func (c *carrier) admit(conn *connection, size int64) (*intake.Body, error) {
	// true: all bodies have the same priority. The intake closes the connection of a body that arrives too slowly.
	held, err := c.large.Admit(size, true, func() { conn.Close() }, c.ctx.Done())
	if err != nil {
		return nil, odata.Of(odata.ServerBusy)
	}
	return held, nil
}

// arrival reports the received bytes of a body to the intake. held may be nil, which counts nothing.
type arrival struct {
	stream io.Reader
	held   *intake.Body
}

// Read implements io.Reader. From these bytes, the intake knows which bodies are too slow.
func (a arrival) Read(p []byte) (int, error) {
	n, err := a.stream.Read(p)
	a.held.Received(n)
	return n, err
}

// tooLarge responds with 413 after reading the rest of the body. Its body may be chunked.
func tooLarge(stream io.Reader) error {
	linger(stream)
	return odata.Of(odata.RequestBodyTooLarge)
}

// linger discards the rest of a body, for at most readTimeout: closing a connection with unread data resets it, and a
// client that is still sending would not see the response. The rest is limited, because stream is within readTimeout.
// Errors of reading end it as well.
func linger(stream io.Reader) {
	_, _ = io.Copy(io.Discard, stream) // the connection is closed in any case
}

// unreadable replaces an error of reading by the client's error, whose cause only the client can know.
func unreadable(err error) error {
	if err != nil {
		return odata.Of(odata.InvalidInput)
	}
	return nil
}

// writeResponse gives the response to fasthttp, which writes it after handle returned; r.body must not change until
// then. Headers were collected in r before, so their order is fixed.
func writeResponse(ctx *fasthttp.RequestCtx, r *response) {
	h := &ctx.Response.Header
	ctx.Response.SetStatusCode(r.status)
	if r.text != "" {
		h.SetStatusMessage([]byte(r.text))
	}
	h.SetServer(r.server)
	if r.contentType != "" {
		h.SetContentType(r.contentType)
	}
	for i := range r.fields {
		f := &r.fields[i]
		// The names are canonical already, so fasthttp need not normalize them.
		h.SetCanonical(unsafeBytes(f.name), unsafeBytes(f.value))
	}
	// The body is not copied.
	ctx.Response.SetBodyRaw(r.body)
}

// refuse responds to input that is not a request: headers that are too large or malformed, a client that is too slow or
// has disconnected. Its response closes the connection: the boundary of the next request is unknown.
func (c *carrier) refuse(ctx *fasthttp.RequestCtx, err error) {
	defer c.server.guard.Recover("Tables error answer", nil)
	var small *fasthttp.ErrSmallBuffer
	var timeout net.Error
	// The format of the request is unknown, so the body is XML and the message has no request details.
	e, status := odata.Of(odata.InvalidInput), 400
	switch {
	case errors.As(err, &small):
		e, status = &odata.Error{Code: "RequestHeaderFieldsTooLarge",
			Message: "The request line and headers are larger than " +
				strconv.Itoa(headerBytesMax) + " bytes."}, 431
	case errors.As(err, &timeout) && timeout.Timeout():
		e, status = odata.Of(odata.OperationTimedOut), 408
	}
	var resp response
	resp.reset()
	resp.status, resp.contentType = status, "application/xml"
	resp.body = e.AppendXML(nil, c.server.newID(), c.server.o.Clock.Now())
	writeResponse(ctx, &resp)
	ctx.Response.SetConnectionClose()
	// A connection that sent nothing, or whose handshake failed, had no request.
	if answered := c.server.o.Answered; answered != nil && ctx.Conn().(*connection).received {
		answered(Answer{Status: status, Client: clientOf(ctx), Code: e.Code, Error: e.Message})
	}
}
