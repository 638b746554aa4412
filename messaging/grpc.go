package messaging

import (
	"context"
	"crypto/sha256"
	"crypto/tls"
	"encoding/hex"
	"fmt"
	"log/slog"
	"maps"
	"net"
	"net/netip"
	"slices"
	"sync"
	"time"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials"
	"google.golang.org/grpc/credentials/insecure"
	"google.golang.org/grpc/status"

	"cqld/internal/guard"
	"cqld/ring"
)

// ProtocolVersion is the version of frames and of all payloads. Nodes with different versions refuse each other.
const ProtocolVersion = 5

const (
	streamService = "cqld.Messaging"
	streamName    = "Stream"
	streamMethod  = "/" + streamService + "/" + streamName

	headerCluster = "cqld-cluster" // a hash, so that the name is not disclosed to another cluster
	headerVersion = "cqld-version"
	headerNode    = "cqld-node"
)

var streamDesc = grpc.StreamDesc{StreamName: streamName, ServerStreams: true, ClientStreams: true}

// Options configure a GRPC transport.
type Options struct {
	Cluster string         // nodes with another cluster name are refused
	Listen  netip.AddrPort // of this node
	Network Network        // nil means TCP
	TLS     *tls.Config    // nil means unencrypted
	Logger  *slog.Logger
	Limits  Limits
	// Stamp returns this node's hybrid logical clock for outgoing frames, and Observe receives that of members. Nil
	// means that frames carry no clock.
	Stamp   func() int64
	Observe func(int64)
	// Connected is called when the stream to a peer opens or ends. It must not block.
	Connected func(peer ring.NodeID, up bool)
	// Guard recovers panics of handlers and replies. Nil means that panics are not recovered.
	Guard *guard.Guard
}

// GRPC implements Transport with gRPC bidirectional streams: each node opens one to each peer, for its own requests.
type GRPC struct {
	opts        Options
	limits      Limits
	log         *slog.Logger
	codec       frameCodec
	dialTimeout time.Duration
	server      *grpc.Server
	listener    net.Listener
	services    [256]Service
	pool        *pool
	clock       monotonicClock
	cluster     string // headerCluster of this cluster
	conns       *inboundConns
	refused     refusals
	work        sync.WaitGroup // tracks every goroutine of the transport
	setting     sync.Mutex     // held by SetPeers, which is not reentrant

	mu struct {
		sync.RWMutex
		self   ring.NodeID
		peers  map[ring.NodeID]*peer
		open   bool // from now on peers are dialed
		closed bool
	}
	stop  chan struct{}
	asked chan struct{} // capacity 1: requests wait for replies
}

// NewGRPC returns a transport that does not listen yet.
func NewGRPC(opts Options) *GRPC {
	t := &GRPC{opts: opts, limits: opts.Limits, log: opts.Logger, codec: frameCodec{&bufferPool{}},
		clock: monotonicClock{time.Now()}, dialTimeout: 2 * time.Second, stop: make(chan struct{}), asked: make(chan struct{}, 1),
		pool: newPool(opts.Limits)}
	if t.opts.Network == nil {
		t.opts.Network = TCP{}
	}
	if t.log == nil {
		t.log = slog.New(slog.DiscardHandler)
	}
	t.mu.peers = map[ring.NodeID]*peer{}
	name := sha256.Sum256([]byte("cqld cluster " + opts.Cluster))
	t.cluster, t.conns = hex.EncodeToString(name[:16]), newInboundConns(opts.Limits, t.clock)
	t.refused.log = t.log
	return t
}

// Handle implements Transport.
func (t *GRPC) Handle(s Service) { t.services[s.Verb] = s }

// Run implements Transport.
func (t *GRPC) Run(bytes int, f func()) error { return t.pool.run(bytes, f) }

// reply reports the outcome of a request to its sender.
func (t *GRPC) reply(r pendingRequest, events []TraceEvent, payload []byte, err error) {
	defer t.opts.Guard.Recover("answer of a peer", nil)
	r.end(events, payload, err)
}

func (r pendingRequest) end(events []TraceEvent, payload []byte, err error) {
	if r.traced != nil {
		r.traced(events)
	}
	r.reply(payload, err)
}

// SetSelf sets the id of this node, once it is known.
func (t *GRPC) SetSelf(id ring.NodeID) {
	t.mu.Lock()
	t.mu.self = id
	t.mu.Unlock()
	t.conns.setSelf(id)
}

func (t *GRPC) self() ring.NodeID {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.self
}

// Open starts to listen and to serve.
func (t *GRPC) Open() error {
	l, err := t.opts.Network.Listen(t.opts.Listen)
	if err != nil {
		return fmt.Errorf("messaging: listen on %s: %w", t.opts.Listen, err)
	}
	t.listener = l
	opts := []grpc.ServerOption{
		grpc.ForceServerCodecV2(t.codec), grpc.MaxRecvMsgSize(t.limits.FrameBytes), grpc.MaxSendMsgSize(t.limits.FrameBytes),
		grpc.InitialWindowSize(4 << 20), grpc.InitialConnWindowSize(8 << 20),
		grpc.ReadBufferSize(64 << 10), grpc.WriteBufferSize(64 << 10),
		grpc.MaxConcurrentStreams(streamsMax), grpc.MaxHeaderListSize(handshakeBytes), grpc.ConnectionTimeout(handshakeTimeout),
		grpc.WaitForHandlers(true), // after Close, no handler uses resources that its owner closes next
	}
	if t.opts.TLS != nil {
		opts = append(opts, grpc.Creds(credentials.NewTLS(t.opts.TLS)))
	}
	t.server = grpc.NewServer(opts...)
	t.server.RegisterService(&grpc.ServiceDesc{
		ServiceName: streamService,
		HandlerType: (*any)(nil),
		Streams: []grpc.StreamDesc{{
			StreamName: streamName, ServerStreams: true, ClientStreams: true,
			Handler: func(_ any, s grpc.ServerStream) error { return t.serve(s) },
		}},
	}, nil)
	t.work.Go(func() {
		if err := t.server.Serve(inboundListener{l, t.conns}); err != nil {
			t.log.Error("internode listener ended", "err", err)
		}
	})
	t.work.Go(t.expireLoop)
	t.mu.Lock()
	defer t.mu.Unlock()
	t.mu.open = true
	for _, p := range t.mu.peers {
		t.work.Go(p.run)
	}
	return nil
}

// Addr returns the address on which the transport listens.
func (t *GRPC) Addr() netip.AddrPort { return t.listener.Addr().(*net.TCPAddr).AddrPort() }

// expireLoop fails requests whose timeout has passed. While none is pending it sleeps until awaited wakes it:
// periodic wake-ups would be most of the work of an idle node.
func (t *GRPC) expireLoop() {
	for {
		select {
		case <-t.stop:
			return
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
func (t *GRPC) awaited() {
	select {
	case t.asked <- struct{}{}:
	default:
	}
}

func (t *GRPC) present() []*peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return slices.Collect(maps.Values(t.mu.peers))
}

// SetPeers makes the transport, once it is open, keep streams to exactly these nodes, and allows exactly these nodes
// all verbs, each from its address. SetPeers waits for streams to end, so a Reply must not call it. A node with a new
// address is reported as disconnected before it is reported as connected again.
func (t *GRPC) SetPeers(addrs map[ring.NodeID]netip.AddrPort) {
	t.setting.Lock()
	defer t.setting.Unlock()
	if t.conns.setMembers(addrs) {
		t.clock.After(formerGrace+time.Second, t.conns.rebind)
	}
	for _, p := range t.dropPeers(addrs) {
		p.close()
	}
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.mu.closed {
		return
	}
	for id, a := range addrs {
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
func (t *GRPC) dropPeers(addrs map[ring.NodeID]netip.AddrPort) (gone []*peer) {
	t.mu.Lock()
	defer t.mu.Unlock()
	for id, p := range t.mu.peers {
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
func (t *GRPC) nameOf(id ring.NodeID) string {
	if p := t.peer(id); p != nil {
		return p.addr.String()
	}
	return "(no member)"
}

func (t *GRPC) peer(id ring.NodeID) *peer {
	t.mu.RLock()
	defer t.mu.RUnlock()
	return t.mu.peers[id]
}

// Send sends a one-way message, which may be lost.
func (t *GRPC) Send(to ring.NodeID, verb Verb, payload []byte) {
	if p := t.peer(to); p != nil {
		p.send(verb, payload)
	}
}

// Request sends a request to a peer and calls rep with the outcome.
func (t *GRPC) Request(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, rep Reply) {
	p := t.peer(to)
	if p == nil {
		rep(nil, ErrUnreachable)
		return
	}
	p.request(verb, payload, timeout, nil, rep)
}

// RequestCancelable implements Canceler.
func (t *GRPC) RequestCancelable(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, rep Reply) (cancel func()) {
	return t.RequestTraced(to, verb, payload, timeout, nil, rep)
}

// RequestTraced implements Tracer. traced may be nil.
func (t *GRPC) RequestTraced(to ring.NodeID, verb Verb, payload []byte, timeout time.Duration, traced func([]TraceEvent), rep Reply) (cancel func()) {
	p := t.peer(to)
	if p == nil {
		pendingRequest{reply: rep, traced: traced}.end(nil, nil, ErrUnreachable)
		return func() {}
	}
	id := p.request(verb, payload, timeout, traced, rep)
	return func() { p.cancelRequest(id) }
}

// RequestAddr sends a request to the node that listens at addr, on a connection of its own. A node that is not a
// member yet uses it. It blocks until the reply.
func (t *GRPC) RequestAddr(ctx context.Context, addr netip.AddrPort, verb Verb, payload []byte) ([]byte, error) {
	s, conn, cancel, err := t.open(ctx, addr, 0)
	if err != nil {
		return nil, fmt.Errorf("messaging: connect to %s: %s", addr, status.Convert(err).Message())
	}
	defer conn.Close()
	defer cancel()
	b := appendEnvelope(make([]byte, 8), envelope{kind: request, verb: verb, id: 1, payload: payload})
	if err := s.SendMsg(&frame{b}); err != nil {
		return nil, fmt.Errorf("messaging: request to %s: %w", addr, err)
	}
	var answer []byte
	var refused error
	err = newLink(t, nil).read(s, func(e envelope) {
		if e.id != 1 {
			return
		}
		if e.kind == failure {
			refused = decodeFailure(e.payload)
		} else {
			answer = append([]byte{}, e.payload...)
		}
		cancel()
	})
	switch {
	case answer != nil:
		return answer, nil
	case refused != nil:
		err = refused
	}
	return nil, fmt.Errorf("messaging: request to %s: %w", addr, err)
}

// AskAddr is RequestAddr without blocking.
func (t *GRPC) AskAddr(addr netip.AddrPort, verb Verb, payload []byte, timeout time.Duration, rep Reply) {
	t.mu.RLock()
	defer t.mu.RUnlock()
	if t.mu.closed {
		rep(nil, ErrUnreachable)
		return
	}
	payload = slices.Clone(payload)
	t.work.Go(func() {
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
	})
}

// Close ends all streams and waits for every goroutine.
func (t *GRPC) Close() {
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
	close(t.stop)
	for _, p := range peers {
		if running {
			p.close()
		}
	}
	if t.server != nil {
		t.server.Stop()
	}
	t.conns.stop()
	t.work.Wait()
	t.pool.close()
}

func (t *GRPC) dialOptions() []grpc.DialOption {
	creds := insecure.NewCredentials()
	if t.opts.TLS != nil {
		creds = credentials.NewTLS(t.opts.TLS)
	}
	return []grpc.DialOption{
		grpc.WithTransportCredentials(creds), grpc.WithDefaultCallOptions(
			grpc.ForceCodecV2(t.codec), grpc.MaxCallRecvMsgSize(t.limits.FrameBytes), grpc.MaxCallSendMsgSize(t.limits.FrameBytes)),
		grpc.WithInitialWindowSize(4 << 20), grpc.WithInitialConnWindowSize(8 << 20),
		grpc.WithReadBufferSize(64 << 10), grpc.WithWriteBufferSize(64 << 10), grpc.WithNoProxy(),
		grpc.WithContextDialer(t.dial),
	}
}

// dial connects from the address on which this node listens, so that firewalls and peers see one address for each
// node.
func (t *GRPC) dial(ctx context.Context, addr string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(addr)
	if err != nil {
		return nil, fmt.Errorf("messaging: address of a peer: %w", err)
	}
	from := t.opts.Listen.Addr()
	if to.Addr().Is4() != from.Is4() || from.IsUnspecified() {
		from = netip.Addr{}
	}
	return t.opts.Network.Dial(ctx, from, to)
}

func (t *GRPC) notify(id ring.NodeID, up bool) {
	if t.opts.Connected != nil {
		t.opts.Connected(id, up)
	}
}

func (t *GRPC) stamp() int64 {
	if t.opts.Stamp == nil {
		return 0
	}
	return t.opts.Stamp()
}

func (t *GRPC) observe(stamp int64) {
	if t.opts.Observe != nil && stamp != 0 {
		t.opts.Observe(stamp)
	}
}
