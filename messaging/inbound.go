package messaging

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"net"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// inbound is the requests of one peer on one connection.
type inbound struct {
	t    *StreamTransport
	link *link
	conn *inboundConn
	from ring.NodeID // the id that the peer sent; the id of a member only while conn is bound
	// slots is a semaphore with one slot for each blocking request of the peer.
	slots   chan struct{}
	running sync.WaitGroup
	// refused is the service of the first message that was refused because the peer is not known as a member.
	refused string

	mu sync.Mutex
	// cancels contains the cancelable requests in progress, at most as many as there are slots.
	cancels map[uint64]*env.Cancel
}

// newInbound returns the requests of a connection whose handshake is complete.
func newInbound(t *StreamTransport, l *link, conn *inboundConn, from ring.NodeID) *inbound {
	return &inbound{t: t, link: l, conn: conn, from: from, slots: make(chan struct{}, t.limits.Handlers),
		cancels: map[uint64]*env.Cancel{}}
}

// serve handles the messages of a connection that a peer opened, until it ends and no handler runs.
func (t *StreamTransport) serve(inbound *inboundConn) {
	defer inbound.Close()
	conn, from, err := t.admit(inbound)
	if err != nil {
		// without a byte, the connection was a probe of the port
		if !errors.Is(err, io.EOF) && !errors.Is(err, net.ErrClosed) || isSecurity(err) {
			t.refused.note("handshake", 0, err)
		}
		return
	}
	l := newLink(t, conn, &inbound.bound)
	in := newInbound(t, l, inbound, from)
	stop := l.run()
	if err := l.read(in.receive); errors.Is(err, errChecksum) || errors.Is(err, errFrameLength) {
		t.refused.note("frame", from, err)
	}
	// The order matters: the link is closed first, then running handlers are cancelled and awaited.
	stop()
	in.cancelAll()
	in.running.Wait()
	if in.refused != "" && !inbound.bound.Load() {
		t.refused.report(in.refused, from, errUnknownPeer)
	}
}

// admit executes the handshakes of a connection that a peer opened. It returns the connection for frames, and the node
// id that the peer sent.
func (t *StreamTransport) admit(inbound *inboundConn) (net.Conn, ring.NodeID, error) {
	conn, err := t.secure(inbound)
	if err != nil {
		return nil, 0, err
	}
	from, err := t.accept(conn, inbound)
	if err != nil && conn != net.Conn(inbound) {
		_ = conn.Close() // it is closed even after an error
	}
	inbound.early = false
	return conn, from, err
}

// errUnexpectedKind refuses a reply on a connection that carries requests.
var errUnexpectedKind = errors.New("messaging: the envelope is neither a request nor a one-way message")

// receive handles one message of the connection.
func (in *inbound) receive(e envelope) {
	switch e.kind {
	case cancel:
		in.cancel(e.id)
		return
	case request, oneWay:
	default:
		// Replies arrive only on connections that this node opened.
		in.t.refused.note("envelope", in.from, errUnexpectedKind)
		return
	}
	service := &in.t.services[e.verb]
	var trace *Trace
	// A one-way message has no reply that could carry events.
	if e.traced && e.kind == request {
		trace = newTrace(in.t.clock)
		trace.Add("Received " + service.Name)
	}
	respond := in.responder(e.kind, e.verb, e.id, trace)
	call := Call{From: in.from, Payload: e.payload, Trace: trace}
	// bound is read once, so that one state decides about the message.
	bound := in.conn.bound.Load()
	switch {
	// Handlers of such verbs get the address and decide themselves, for example about a join request.
	case service.Any != nil:
		in.callAny(service, Sender{in.from, in.conn.addr, bound}, e.payload, respond)
	case !bound:
		in.refuseUnknown(service.Name)
		respond(nil, &RemoteError{Code: CodeUnknownPeer, Message: errUnknownPeer.Error()})
	case service.Handler == nil:
		respond(nil, fmt.Errorf("messaging: no handler for verb %d", e.verb))
	// The handler runs on the goroutine of the connection, without a copy of the payload and in the order of arrival.
	case !service.Blocking:
		in.call(service, call, respond)
	default:
		in.dispatch(service, &e, call, respond)
	}
}

// refuseUnknown counts a message of a peer that is not known as a member. It is logged when the connection ends and the
// peer is still unknown: a node that joins may send heartbeats before this node has the metadata that make it a member.
func (in *inbound) refuseUnknown(service string) {
	in.t.refused.add("")
	in.refused = cmp.Or(in.refused, service)
}

// responder returns the Respond of a message. Apart from it, a request that runs on the connection's goroutine
// allocates nothing.
func (in *inbound) responder(kind envelopeKind, verb Verb, id uint64, trace *Trace) Respond {
	if kind != request {
		return func([]byte, error) {}
	}
	return func(payload []byte, err error) { in.respond(verb, id, trace, payload, err) }
}

// respond sends the reply to a request.
func (in *inbound) respond(verb Verb, id uint64, trace *Trace, payload []byte, err error) {
	// The reply has the id of the request, by which the sender finds its pending request.
	out := envelope{kind: reply, verb: verb, id: id, payload: payload}
	if err != nil {
		out.kind, out.payload = failure, appendFailure(nil, err)
	}
	if trace != nil {
		trace.Add("Sending answer to " + in.t.services[verb].Name)
		out.traced, out.payload = true, append(trace.appendTo(nil), out.payload...)
	}
	err = in.link.send(&out)
	// The peer gets an error and need not wait for its timeout.
	if errors.Is(err, errTooLarge) {
		_ = in.link.send(&envelope{kind: failure, verb: verb, id: id, payload: appendFailure(nil, err)})
	}
	if err != nil && !errors.Is(err, ErrUnreachable) {
		in.t.log.Warn("reply dropped", "peer", in.t.nameOf(in.from), "verb", in.t.services[verb].Name, "err", err)
	}
}

// dispatch passes a request that may block to a worker.
func (in *inbound) dispatch(service *Service, e *envelope, call Call, respond Respond) {
	select {
	// The send never waits, because the connection's goroutine also receives cancel messages.
	case in.slots <- struct{}{}:
	default:
		respond(nil, &RemoteError{Code: CodeOverloaded, Message: "too many requests of one peer"})
		return
	}
	call.Payload = slices.Clone(e.payload) // the receive buffer is reused meanwhile
	call.Cancel, respond = in.register(service, e, respond)
	in.running.Add(1)
	err := in.t.pool.run(len(call.Payload), func() {
		defer in.running.Done()
		defer func() { <-in.slots }()
		in.call(service, call, respond)
	})
	if err != nil {
		in.running.Done()
		<-in.slots
		respond(nil, &RemoteError{Code: CodeOverloaded, Message: "too many requests wait for the disk"})
	}
}

// call calls a handler. If the handler panics, the peer receives an error; if it had received a reply before, it
// ignores the error.
func (in *inbound) call(service *Service, call Call, respond Respond) {
	defer in.t.opts.Guard.Recover("request of a peer", func(err error) { respond(nil, err) })
	if service.Call != nil {
		service.Call(call, respond)
		return
	}
	service.Handler(call.From, call.Payload, respond)
}

// callAny calls the handler of a verb that unknown peers may use, like call.
func (in *inbound) callAny(service *Service, from Sender, payload []byte, respond Respond) {
	defer in.t.opts.Guard.Recover("request of a peer", func(err error) { respond(nil, err) })
	service.Any(from, payload, respond)
}

// register returns a Cancel for the request if its verb is cancelable; the response removes it. register runs on the
// goroutine that reads the stream, so that a later cancel message finds the request.
func (in *inbound) register(service *Service, e *envelope, respond Respond) (*env.Cancel, Respond) {
	if service.Call == nil || e.kind != request {
		return nil, respond
	}
	// The id is copied, because e belongs to the caller and the response may follow much later.
	id := e.id
	// The request also ends by itself when its sender no longer waits, even if no cancel message arrives.
	c := (*env.Cancel)(nil).Child(in.t.clock, in.t.clock.Monotonic()+time.Duration(e.timeout)*time.Millisecond)
	in.mu.Lock()
	in.cancels[id] = c
	in.mu.Unlock()
	return c, func(payload []byte, err error) {
		in.mu.Lock()
		delete(in.cancels, id)
		in.mu.Unlock()
		respond(payload, err)
	}
}

// cancel cancels a request for which its sender no longer waits.
func (in *inbound) cancel(id uint64) {
	in.mu.Lock()
	c := in.cancels[id]
	in.mu.Unlock()
	// c is nil for a request that has ended or is not cancelable; Cancel then does nothing.
	c.Cancel()
}

// cancelAll cancels all requests: the stream has ended, so none can be answered.
func (in *inbound) cancelAll() {
	in.mu.Lock()
	cancels := in.cancels
	in.cancels = map[uint64]*env.Cancel{}
	in.mu.Unlock()
	for _, c := range cancels {
		c.Cancel()
	}
}

// monotonicClock is the system clock, for deadlines.
type monotonicClock struct{ start time.Time }

func (c monotonicClock) Now() time.Time           { return time.Now() }
func (c monotonicClock) Monotonic() time.Duration { return time.Since(c.start) }
func (c monotonicClock) After(d time.Duration, f func()) env.Timer {
	return time.AfterFunc(d, f)
}

// CodeOverloaded is the code of a RemoteError for a request that was refused unread.
const CodeOverloaded = 255
