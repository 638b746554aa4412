package messaging

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math"
	"net/netip"
	"sync"
	"time"

	"cqld/internal/wire"
	"cqld/ring"
)

// peer is this node's side of the connection to another node: requests go out on it, replies come back. One goroutine
// opens the connection, reads it, and opens it again when it has ended.
//
//	run: connect ─ failed ─▶ pause, doubled up to DialBackoffMax ─▶ connect
//	        └─ link: requests ─▶, ◀─ replies, until it ends ─▶ failPending ─▶ pause of 10 ms ─▶ connect
type peer struct {
	t    *StreamTransport
	id   ring.NodeID
	addr netip.AddrPort

	ctx    context.Context
	cancel context.CancelFunc
	done   chan struct{}

	mu struct {
		sync.Mutex
		link *link // nil while not connected
		// Ids ascend over all connections of the peer, so that a late reply from an earlier connection matches no
		// request.
		nextID  uint64
		pending map[uint64]pendingRequest
	}
}

// It ends exactly once, by the goroutine that takes it from the map.
type pendingRequest struct {
	reply    Reply
	traced   func([]TraceEvent) // nil unless the request is traced
	deadline time.Time
}

// newPeer returns a peer without a connection.
func newPeer(t *StreamTransport, id ring.NodeID, addr netip.AddrPort) *peer {
	p := &peer{t: t, id: id, addr: addr, done: make(chan struct{})}
	p.ctx, p.cancel = context.WithCancel(context.Background())
	p.mu.pending = map[uint64]pendingRequest{}
	return p
}

// send queues a one-way message, or drops it. Without a connection, it is lost at once.
func (p *peer) send(verb Verb, payload []byte) {
	p.mu.Lock()
	l := p.mu.link
	p.mu.Unlock()
	if l != nil {
		_ = l.send(&envelope{kind: oneWay, verb: verb, payload: payload}) // one-way messages may be lost
	}
}

// request sends a request and returns its id. Zero means that it was not sent. rep is called exactly once, possibly
// before it returns.
func (p *peer) request(verb Verb, payload []byte, timeout time.Duration, traced func([]TraceEvent),
	rep Reply) (id uint64) {
	r := pendingRequest{rep, traced, time.Now().Add(timeout)}
	p.mu.Lock()
	// The link is read under the lock of the pending requests, so that failPending cannot run in between.
	l := p.mu.link
	if l == nil {
		p.mu.Unlock()
		r.end(nil, nil, ErrUnreachable)
		return 0
	}
	// The peer answers too slowly. Waiting requests would only add to its load.
	if len(p.mu.pending) >= p.t.limits.Pending {
		p.mu.Unlock()
		r.end(nil, nil, ErrOverloaded)
		return 0
	}
	p.mu.nextID++
	id = p.mu.nextID
	// The request is registered before it is sent, because the reply may arrive before send returns.
	p.mu.pending[id] = r
	p.mu.Unlock()
	p.t.awaited()
	e := envelope{kind: request, verb: verb, id: id, timeout: timeoutMillis(timeout), traced: traced != nil,
		payload: payload}
	if err := l.send(&e); err != nil {
		// If the connection has ended meanwhile, the request has failed already.
		if r, ok := p.take(id); ok {
			if errors.Is(err, errQueueFull) {
				err = ErrOverloaded
			}
			r.end(nil, nil, err)
		}
		return 0
	}
	return id
}

// timeoutMillis converts a timeout to milliseconds as an envelope encodes it: rounded up, at most 49 days.
func timeoutMillis(d time.Duration) uint32 {
	return uint32(min(max((d+time.Millisecond-1)/time.Millisecond, 0), math.MaxUint32))
}

// cancelRequest cancels a request that has no reply yet.
func (p *peer) cancelRequest(id uint64) {
	// The request ends here, whether or not the peer receives the message.
	r, ok := p.take(id)
	if !ok {
		return
	}
	p.mu.Lock()
	l := p.mu.link
	p.mu.Unlock()
	if l != nil {
		_ = l.send(&envelope{kind: cancel, id: id}) // a peer that does not get it stops when the timeout has passed
	}
	p.t.reply(r, nil, nil, ErrCanceled)
}

// take removes a pending request, so that it gets only one outcome.
func (p *peer) take(id uint64) (pendingRequest, bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	r, ok := p.mu.pending[id]
	delete(p.mu.pending, id)
	return r, ok
}

// expire fails requests whose deadline has passed, and reports whether others are pending. It calls replies without the
// lock.
func (p *peer) expire(now time.Time) (pending bool) {
	var late []pendingRequest
	p.mu.Lock()
	// All requests are examined, because timeouts differ. expireLoop calls expire only while requests wait.
	for id, r := range p.mu.pending {
		if now.After(r.deadline) {
			late = append(late, r)
			delete(p.mu.pending, id)
		}
	}
	pending = len(p.mu.pending) > 0
	p.mu.Unlock()
	for _, r := range late {
		p.t.reply(r, nil, nil, ErrTimeout)
	}
	return pending
}

// run keeps the connection open until the peer is closed.
func (p *peer) run() {
	defer close(p.done)
	backoff := 10 * time.Millisecond
	for p.ctx.Err() == nil {
		connected, err := p.connect()
		if p.ctx.Err() != nil {
			return
		}
		// A connection that succeeded shows that the node works, so the next attempt follows soon.
		if connected {
			backoff = 10 * time.Millisecond
		}
		p.note(err)
		select {
		case <-p.ctx.Done():
		// The pause doubles with each attempt in a row that fails.
		case <-time.After(backoff):
		}
		backoff = min(2*backoff, p.t.limits.DialBackoffMax)
	}
}

// note logs why the connection ended or could not be opened.
func (p *peer) note(err error) {
	level := slog.LevelDebug
	switch {
	case isSecurity(err):
		p.t.failed.note("connect to "+p.addr.String(), p.id, err)
		return
	case errors.Is(err, errChecksum) || errors.Is(err, errFrameLength):
		level = slog.LevelWarn
	}
	p.t.log.Log(p.ctx, level, "internode connection ended", "peer", p.addr, "err", err)
}

// connect opens the connection and handles replies until it ends.
func (p *peer) connect() (connected bool, err error) {
	conn, err := p.t.open(p.ctx, p.addr, p.id)
	if err != nil {
		return false, err
	}
	l := newLink(p.t, conn, nil)
	stop := l.run()
	// read has no context, so the end of p.ctx closes the connection.
	interrupt := context.AfterFunc(p.ctx, l.close)
	p.mu.Lock()
	p.mu.link = l
	p.mu.Unlock()
	// notify is called after the link is set, so that a notified caller can send.
	p.t.notify(p.id, true)
	err = l.read(p.receive)
	p.mu.Lock()
	p.mu.link = nil
	p.mu.Unlock()
	interrupt()
	stop()
	// failPending is called after stop, so that no reply is being handled.
	p.failPending()
	p.t.notify(p.id, false)
	return true, err
}

// receive handles an envelope from the peer.
func (p *peer) receive(e envelope) {
	// The request is taken first, so that a concurrent timeout cannot report a second outcome.
	r, ok := p.take(e.id)
	if !ok {
		return // the request has expired
	}
	var events []TraceEvent
	// Events precede the payload of a traced reply.
	if e.traced {
		c := wire.NewCursor(e.payload)
		events = consumeTrace(&c)
		if c.Err() != nil {
			p.t.reply(r, nil, nil, c.Err())
			return
		}
		e.payload = c.Rest()
	}
	switch e.kind {
	case reply:
		p.t.reply(r, events, e.payload, nil)
	case failure:
		p.t.reply(r, events, nil, decodeFailure(e.payload))
	default:
		p.t.reply(r, events, nil, fmt.Errorf("messaging: unexpected envelope kind %d from %s", e.kind, p.addr))
	}
}

// failPending fails all pending requests: their connection has ended. The error is ErrTimeout and not ErrUnreachable,
// because the peer may have executed them.
func (p *peer) failPending() {
	p.mu.Lock()
	lost := p.mu.pending
	p.mu.pending = map[uint64]pendingRequest{}
	p.mu.Unlock()
	for _, r := range lost {
		p.t.reply(r, nil, nil, ErrTimeout)
	}
}

// close ends the connection, and fails pending requests. It waits for run, so a Reply must not call it.
func (p *peer) close() {
	p.cancel()
	<-p.done
	p.failPending()
}

// decodeFailure is the inverse of appendFailure. An empty payload is an error without a code and a message.
func decodeFailure(payload []byte) error {
	c := wire.NewCursor(payload)
	return &RemoteError{Code: c.Uint8(), Message: string(c.Rest())}
}

// appendFailure appends the payload of a failure. An error of this node has the code 0.
func appendFailure(dst []byte, err error) []byte {
	if r, ok := err.(*RemoteError); ok { //nolint:errorlint // a wrapped one is a failure of this node
		return append(append(dst, r.Code), r.Message...)
	}
	return append(append(dst, 0), err.Error()...)
}
