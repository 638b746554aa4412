package messaging

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"maps"
	"math"
	"net"
	"net/netip"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/guard"
	"cqld/internal/intake"
	"cqld/ring"
)

// Options configure a StreamTransport. If the port of Listen is 0, the system chooses a free port, which Addr
// returns.
type Options struct {
	Cluster string         // nodes of a cluster with another name are refused
	Listen  netip.AddrPort // of this node
	Network Network        // nil means TCP
	// Security encrypts and authenticates connections. nil means that they are neither.
	Security Security
	Logger   *slog.Logger
	Limits   Limits
	// Stamp and Observe carry the hybrid logical clock. If they are nil, the clock is not carried.
	Stamp   func() int64
	Observe func(int64)
	// Connected is called when the connection to a peer opens or ends. It must not block.
	Connected func(peer ring.NodeID, up bool)
	// Superseded is called with the notice of a peer whose cluster continues the cluster of this node after a recovery
	// in which this node did not take part. It must not block. nil means that the notice is logged only.
	Superseded func(notice string)
	// Protocols are the versions of the internode protocol that this node speaks. Zero means all of this build.
	Protocols Protocols
	// Guard ends requests and replies whose handling panics. nil means that a panic continues.
	Guard *guard.Guard
}

// StreamTransport is the Transport over streams of frames: two nodes have two connections, and each sends its requests
// on the one that it opened. Lock order: setting, mu, then the locks of peers and links.
type StreamTransport struct {
	opts     Options
	limits   Limits
	log      *slog.Logger
	listener net.Listener
	// services contains the service of each verb. It is constant once the transport is open.
	services [256]Service
	pool     *pool
	memory   *intake.Intake // of large frames that are received
	queued   atomic.Int64   // bytes that wait to be written to all peers
	clock    monotonicClock
	// identities names the cluster of this node; SetLineage replaces it.
	identities atomic.Pointer[identities]
	conns      *inboundConns
	gate       *gate
	refused    *refusals
	failed     *refusals      // connections that this node opened
	work       sync.WaitGroup // every goroutine of the transport
	setting    sync.Mutex     // one SetPeers at a time

	mu struct {
		sync.RWMutex
		self   ring.NodeID
		peers  map[ring.NodeID]*peer
		open   bool // connections to peers are opened from then on
		closed bool
	}
	stop  chan struct{}
	asked chan struct{} // capacity 1: requests wait for replies
}

// NewStreamTransport returns a transport that does not listen yet. Services are registered by Handle before Open.
func NewStreamTransport(opts Options) *StreamTransport {
	t := &StreamTransport{opts: opts, limits: opts.Limits, log: opts.Logger,
		clock: monotonicClock{time.Now()}, stop: make(chan struct{}), asked: make(chan struct{}, 1),
		pool: newPool(opts.Limits), memory: intake.New(intake.DefaultLimits(int64(opts.Limits.ReceiveBytes)))}
	if t.opts.Network == nil {
		t.opts.Network = TCP{}
	}
	if t.opts.Protocols == (Protocols{}) {
		t.opts.Protocols = Protocols{Oldest: OldestProtocol, Newest: ProtocolVersion}
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.mu.peers = map[ring.NodeID]*peer{}
	t.conns = newInboundConns(opts.Limits, t.clock)
	t.SetLineage(Lineage{})
	t.gate = newGate(opts.Limits)
	t.refused = newRefusals(t.log, "internode message refused")
	t.failed = newRefusals(t.log, "internode connection failed")
	return t
}

// Handle implements Transport. A second service of a verb replaces the first.
func (t *StreamTransport) Handle(s Service) { t.services[s.Verb] = s }

// Run implements Transport.
func (t *StreamTransport) Run(bytes int, f func()) error { return t.pool.run(bytes, f) }

// reply reports the outcome of a request to its sender. It is called once for each request, by the goroutine that took
// it from the pending ones.
func (t *StreamTransport) reply(r pendingRequest, events []TraceEvent, payload []byte, err error) {
	defer t.opts.Guard.Recover("answer of a peer", nil)
	r.end(events, payload, err)
}

// end reports the outcome, after the events (Tracer).
func (r pendingRequest) end(events []TraceEvent, payload []byte, err error) {
	if r.traced != nil {
		r.traced(events)
	}
	r.reply(payload, err)
}

// SetSelf sets the id of this node, once it is known. Without an id, the node can only use RequestAddr and AskAddr.
func (t *StreamTransport) SetSelf(id ring.NodeID) {
	t.mu.Lock()
	t.mu.self = id
	t.mu.Unlock()
	t.conns.setSelf(id)
}

// self returns the id of this node, or 0 while it has none.
func (t *StreamTransport) self() ring.NodeID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.self
}

// Open starts to listen and to serve. A port in use is the usual error, and the transport can then be closed.
func (t *StreamTransport) Open() error {
	l, err := t.opts.Network.Listen(t.opts.Listen)
	if err != nil {
		return fmt.Errorf("messaging: listen on %s: %w", t.opts.Listen, err)
	}
	t.listener = l
	// Accepting begins before this node connects to others.
	t.work.Go(t.acceptLoop)
	t.work.Go(t.expireLoop)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.open = true
	// Connections to peers that were set before Open start now.
	for _, p := range t.mu.peers {
		t.work.Go(p.run)
	}
	return nil
}

// acceptLoop accepts connections until the listener is closed. When the process has no file descriptors left, it tries
// again after a pause.
func (t *StreamTransport) acceptLoop() {
	for {
		conn, err := t.listener.Accept()
		switch {
		case err == nil:
			inbound := t.conns.add(conn)
			t.work.Go(func() { t.serve(inbound) })
			continue
		case errors.Is(err, net.ErrClosed):
			return
		}
		t.log.Error("accept of an internode connection failed", "err", err)
		select {
		case <-t.stop:
			return
		case <-time.After(acceptPause):
		}
	}
}

// Addr is where the transport listens.
func (t *StreamTransport) Addr() netip.AddrPort { return t.listener.Addr().(*net.TCPAddr).AddrPort() }

// expireLoop fails requests whose timeout has passed. While none is pending it sleeps until awaited wakes it: periodic
// wake-ups would be most of the work of an idle node. A request therefore ends up to expireEvery after its timeout.
func (t *StreamTransport) expireLoop() {
	for {
		select {
		case <-t.stop:
			return
		// A request waits: the loop below runs until none is pending.
		case <-t.asked:
		}
		for pending := true; pending; {
			select {
			case <-t.stop:
				return
			case now := <-time.After(expireEvery):
				pending = false
				for _, p := range t.present() { // without the lock, because replies may send further requests
					pending = p.expire(now) || pending
				}
			}
		}
	}
}

// awaited notifies expireLoop that a request waits for a reply.
func (t *StreamTransport) awaited() {
	select {
	case t.asked <- struct{}{}:
	default:
	}
}

// present returns a copy of the current list of peers, in no order.
func (t *StreamTransport) present() []*peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.mu.peers))
}

// SetPeers makes the transport, once it is open, keep streams to exactly these nodes, and allows exactly these nodes
// all verbs, each from its address. SetPeers waits for streams to end, so a Reply must not call it. A node with a new
// address is reported as disconnected before it is reported as connected again.
func (t *StreamTransport) SetPeers(addrs map[ring.NodeID]netip.AddrPort) {
	t.setting.Lock()
	defer t.setting.Unlock()
	if t.conns.setMembers(addrs) {
		t.clock.After(formerGrace+time.Second, t.conns.rebind)
	}
	// close is called without mu, because it waits for replies, which may send messages.
	for _, p := range t.dropPeers(addrs) {
		p.close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	for id, a := range addrs {
		// This node sends no messages to itself.
		if t.mu.peers[id] == nil && id != t.mu.self {
			p := newPeer(t, id, a)
			t.mu.peers[id] = p
			if t.mu.open {
				t.work.Go(p.run)
			}
		}
	}
}

// dropPeers removes the peers that addrs lacks or lists with another address, and returns those that were running.
func (t *StreamTransport) dropPeers(addrs map[ring.NodeID]netip.AddrPort) (gone []*peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.mu.peers {
		// A node with another address gets a new peer, and its old connection ends.
		if a, ok := addrs[id]; !ok || a != p.addr {
			if t.mu.open {
				gone = append(gone, p)
			}
			delete(t.mu.peers, id)
		}
	}
	return gone
}

// nameOf returns a peer's address, for logs.
func (t *StreamTransport) nameOf(id ring.NodeID) string {
	if p := t.peer(id); p != nil {
		return p.addr.String()
	}
	return "(no member)"
}

// peer returns a peer; nil if it is unknown or this node itself.
func (t *StreamTransport) peer(id ring.NodeID) *peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.peers[id]
}

// Send sends a one-way message, which may be lost. payload may be changed after the call.
func (t *StreamTransport) Send(to ring.NodeID, verb Verb, payload []byte) {
	if p := t.peer(to); p != nil {
		p.send(verb, payload)
	}
}

// Request sends a request to a peer and calls rep with the outcome.
func (t *StreamTransport) Request(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, rep Reply) {
	p := t.peer(to)
	if p == nil {
		rep(nil, ErrUnreachable)
		return
	}
	p.request(verb, payload, timeout, nil, rep)
}

// RequestCancelable implements Canceler.
func (t *StreamTransport) RequestCancelable(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration,
	rep Reply) (cancel func()) {
	return t.RequestTraced(to, verb, payload, timeout, nil, rep)
}

// RequestTraced implements Tracer. traced may be nil.
func (t *StreamTransport) RequestTraced(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration,
	traced func([]TraceEvent), rep Reply) (cancel func()) {
	p := t.peer(to)
	if p == nil {
		pendingRequest{reply: rep, traced: traced}.end(nil, nil, ErrUnreachable)
		return func() {}
	}
	id := p.request(verb, payload, timeout, traced, rep)
	return func() { p.cancelRequest(id) }
}

// RequestAddr sends a request to the node that listens at addr and waits for the answer. It is for a node that is not a
// member yet. It opens a connection for the one request, and closes it. ctx bounds the connection, the handshake and
// the answer together.
func (t *StreamTransport) RequestAddr(ctx context.Context, addr netip.AddrPort, verb Verb, payload []byte) ([]byte,
	error) {
	conn, err := t.open(ctx, addr, 0)
	if err != nil {
		return nil, fmt.Errorf("messaging: connect to %s: %w", addr, err)
	}
	l := newLink(t, conn, nil)
	defer l.run()()
	defer context.AfterFunc(ctx, l.close)()
	// The connection carries one request, so any id serves.
	e := envelope{kind: request, verb: verb, id: 1, timeout: math.MaxUint32, payload: payload}
	if deadline, ok := ctx.Deadline(); ok {
		e.timeout = timeoutMillis(time.Until(deadline))
	}
	if err := l.send(&e); err != nil {
		return nil, fmt.Errorf("messaging: send to %s: %w", addr, err)
	}
	var answer []byte
	answered := false
	var failed error
	err = l.read(func(e envelope) {
		if e.id != 1 || answered {
			return
		}
		if answered = true; e.kind == failure {
			failed = decodeFailure(e.payload)
		} else {
			answer = append([]byte{}, e.payload...)
		}
		l.close()
	})
	switch {
	case failed != nil:
		err = failed
	// read failed because the link was closed, which is expected.
	case answered:
		return answer, nil
	case ctx.Err() != nil:
		err = ctx.Err()
	case err == nil:
		err = io.ErrUnexpectedEOF
	}
	return nil, fmt.Errorf("messaging: request to %s: %w", addr, err)
}

// AskAddr is RequestAddr without blocking. rep is called exactly once, from another goroutine or, after Close, before
// AskAddr returns.
func (t *StreamTransport) AskAddr(addr netip.AddrPort, verb Verb, payload []byte, timeout time.Duration, rep Reply) {
	// The payload is copied, because the caller may change it when AskAddr has returned.
	payload = slices.Clone(payload)
	if !t.begin(func() {
		ctx, cancel := context.WithTimeout(context.Background(), timeout)
		defer cancel()
		t.work.Go(func() {
			select {
			case <-t.stop:
				cancel()
			case <-ctx.Done():
			}
		})
		rep(t.RequestAddr(ctx, addr, verb, payload))
	}) {
		// rep is called without mu, because it may call the transport.
		rep(nil, ErrUnreachable)
	}
}

// begin runs work in a goroutine for which Close waits. It returns false, and runs nothing, after Close.
func (t *StreamTransport) begin(work func()) bool {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.mu.closed {
		return false
	}
	t.work.Go(work)
	return true
}

// Close ends all connections and waits for every goroutine. Requests without a reply end with an error before it
// returns. A second call returns at once.
func (t *StreamTransport) Close() {
	t.mu.Lock()
	if t.mu.closed {
		t.mu.Unlock()
		return
	}
	t.mu.closed = true
	running := t.mu.open
	peers := t.mu.peers
	t.mu.peers = map[ring.NodeID]*peer{}
	t.mu.Unlock()
	// Closing stop ends the loops, and reads that wait for memory.
	close(t.stop)
	for _, p := range peers {
		if running {
			p.close()
		}
	}
	if t.listener != nil {
		_ = t.listener.Close() // it is closed even after an error
	}
	// The connections are closed after the listener, so that none is added later.
	t.conns.stop()
	t.work.Wait()
	// The pool is closed last, because handlers of connections may use it until work has ended.
	t.pool.close()
}

// dial connects from the address that this node listens on, so that firewalls and peers see one address of a node.
func (t *StreamTransport) dial(ctx context.Context, to netip.AddrPort) (net.Conn, error) {
	from := t.opts.Listen.Addr()
	// The system chooses the address then.
	if to.Addr().Is4() != from.Is4() || from.IsUnspecified() {
		from = netip.Addr{}
	}
	return t.opts.Network.Dial(ctx, from, to)
}

// notify reports that the connection to a peer has opened or ended. Calls for one peer alternate between true and
// false.
func (t *StreamTransport) notify(id ring.NodeID, up bool) {
	if t.opts.Connected != nil {
		t.opts.Connected(id, up)
	}
}

// stamp returns the time of an outgoing frame for Options.Observe of the peer; zero means none.
func (o *Options) stamp() int64 {
	if o.Stamp == nil {
		return 0
	}
	return o.Stamp()
}

// observe passes on the stamp of a received frame.
func (o *Options) observe(stamp int64) {
	if o.Observe != nil && stamp != 0 {
		o.Observe(stamp)
	}
}
