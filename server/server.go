package server

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/guard"
	"cqld/internal/intake"
	"cqld/internal/memory"
	"cqld/query"
	"cqld/request"
	"cqld/ring"
	"cqld/server/buffer"
	"cqld/server/drain"
	"cqld/server/frame"
	"cqld/server/output"
	"cqld/tlsconfig"
)

// Processor executes statements; query.Processor implements it. Its methods block until the statement is complete,
// and are called concurrently. They must not keep slices of the parameters after a call, except for the bytes of
// values, which are never overwritten. wireError translates their typed errors; any other error becomes a
// ServerError.
type Processor interface {
	Query(r *request.Request, s *query.Session, text string, p *query.Params) (*query.Result, error)
	Prepare(r *request.Request, s *query.Session, text, keyspace string) (*query.Result, error)
	Execute(r *request.Request, s *query.Session, id []byte, p *query.Params) (*query.Result, error)
	Batch(r *request.Request, s *query.Session, p *query.BatchParams) (*query.Result, error)
}

// Options configure a Server. Processor is required. It must not be changed after New.
type Options struct {
	Processor Processor
	// Authenticator authenticates clients. Nil means that no authentication is required.
	Authenticator Authenticator
	// TLS encrypts client connections. Nil means unencrypted.
	TLS *tls.Config
	// TLSOptional also serves clients that do not encrypt.
	TLSOptional bool
	// ReplicaAddress returns the internode address of a node, for the reasons in read and write failures. Nil means
	// unknown.
	ReplicaAddress func(ring.NodeID) netip.Addr
	// CQLVersion is sent in SUPPORTED; "" means 3.4.7.
	CQLVersion string
	Limits     Limits
	Logger     *slog.Logger // nil means slog.Default()
	// Guard recovers panics of requests. Nil means one that logs to Logger.
	Guard *guard.Guard
	// Memory is the memory of requests. Nil means one of Limits.InFlightBytesMax.
	Memory *memory.Pool
}

// ErrClosed is returned by Serve after Drain or Close.
var ErrClosed = errors.New("server: closed")

// Server is the CQL server of one node.
type Server struct {
	options    Options
	limits     Limits
	log        *slog.Logger
	memory     *memory.Pool
	forget     func()         // the opposite of OnShortage
	small      *intake.Intake // memory for small requests being received, and for the first parts of large ones
	large      *intake.Intake // memory for the other requests being received
	output     output.Config
	compressor *frame.Compressor
	workers    *workers
	guard      *guard.Guard
	supported  []frame.SupportedOption
	handshakes *handshakes
	rate       *rate                // nil means no bound
	limited    [Bounds]atomic.Int64 // how often each bound was reached
	encryption tlsconfig.Counts
	unsafe     repeated // limits the logs about failed TLS handshakes
	closing    atomic.Bool
	refusals   oncePerSecond // limits the logs about refused connections
	failures   oncePerSecond // limits the logs about failed requests
	late       repeated      // limits the logs about slow clients
	crossed    atomic.Int64  // bytes that clients sent while the end of their connections was in transit
	errors     struct {
		sync.Mutex
		counts map[frame.ErrorCode]int64 // errors sent to clients
	}
	draining   drain.Clients
	goroutines sync.WaitGroup // tracks Serve loops and connections

	mu struct {
		sync.Mutex
		conns     map[*conn]struct{}
		addresses map[netip.Addr]*address // if the connections of each address are bounded
		listeners map[net.Listener]struct{}
	}
}

// New returns a Server that does not listen yet.
func New(o Options) *Server {
	if o.CQLVersion == "" {
		o.CQLVersion = "3.4.7"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	limits := o.Limits.withDefaults()
	s := &Server{
		options: o,
		limits:  limits,
		log:     o.Logger,
		memory:  o.Memory,
		// A share of the memory is for small requests, so that large ones that arrive slowly cannot keep them out.
		small:      intake.New(intake.DefaultLimits(limits.ReceivingBytesMax / smallShare)),
		large:      intake.New(intake.DefaultLimits(limits.ReceivingBytesMax - limits.ReceivingBytesMax/smallShare)),
		compressor: frame.NewCompressor(),
		workers:    newWorkers(limits),
		guard:      o.Guard,
		handshakes: newHandshakes(limits.HandshakesMax),
		rate:       newRate(limits.RequestsPerSecond),
		supported: []frame.SupportedOption{
			{Key: "PROTOCOL_VERSIONS"},
			{Key: "COMPRESSION", Values: []string{"snappy", "lz4"}},
			{Key: "CQL_VERSION", Values: []string{o.CQLVersion}},
			frame.GracefulDisconnectOption(),
		},
	}
	if s.memory == nil {
		s.memory = memory.New(memory.Options{Limits: limits.memory()})
	}
	// Several servers may share the pool; forget removes the callback when this one ends.
	s.forget = s.memory.OnShortage(s.disconnectStuck)
	if s.guard == nil {
		s.guard = guard.New(o.Logger)
	}
	s.output = output.Config{
		Buffers:      new(buffer.Pool),
		Memory:       s.memory,
		Guard:        s.guard,
		WriteTimeout: limits.WriteTimeout,
	}
	s.mu.conns = map[*conn]struct{}{}
	s.mu.addresses = map[netip.Addr]*address{}
	s.mu.listeners = map[net.Listener]struct{}{}
	// SUPPORTED lists the supported versions, the oldest first.
	for v := frame.V3; v <= s.newestVersion(); v++ {
		s.supported[0].Values = append(s.supported[0].Values, v.String())
	}
	return s
}

// Serve accepts connections from l until Drain or Close, which also close l, and then returns ErrClosed. It may be
// called for several listeners. An error other than ErrClosed means that the listener failed; open connections are not
// affected.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	// Checked under the lock of listeners: stopAccepting has closed the listeners it found, and this one was added
	// later.
	if s.closing.Load() {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.mu.listeners[l] = struct{}{}
	s.goroutines.Add(1)
	s.mu.Unlock()
	defer s.goroutines.Done()

	// The pause doubles while accepting fails, so that a lack of descriptors does not fill the log.
	pause := 5 * time.Millisecond
	for {
		nc, err := l.Accept()
		if s.closing.Load() {
			if err == nil {
				nc.Close()
			}
			return ErrClosed
		}
		if err != nil {
			if errors.Is(err, net.ErrClosed) {
				return fmt.Errorf("server: accept on %s: %w", l.Addr(), err)
			}
			// Most likely the process has no free file descriptor until other connections are closed.
			s.log.Warn("cannot accept a client connection", "listener", l.Addr().String(), "err", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		s.accept(nc)
	}
}

// accept starts the connection, or closes it if a bound is reached. It never waits: beyond the bound of handshakes,
// it closes the oldest one.
func (s *Server) accept(nc net.Conn) {
	c := newConn(s, nc)
	if err := s.register(c); err != nil {
		var refused *refusedError
		if errors.As(err, &refused) {
			s.limited[refused.bound].Add(1)
		}
		if s.refusals.allow() {
			s.log.Warn("client connection refused", "client", c.client.String(), "reason", err)
		}
		nc.Close() // without a handshake
		return
	}
	s.handshakes.begin(c)
	go func() {
		defer s.goroutines.Done()
		c.serve()
	}()
}

// register adds c to the connections, and to the goroutines for which Close waits.
func (s *Server) register(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return ErrClosed
	}
	if len(s.mu.conns) >= s.limits.ConnectionsMax {
		return &refusedError{BoundConnections, len(s.mu.conns)}
	}
	if err := s.enterLocked(c); err != nil {
		return err
	}
	s.mu.conns[c] = struct{}{}
	// Added under the lock: Drain sets closing under it, and waits only afterwards.
	s.goroutines.Add(1)
	return nil
}

// unregister removes a connection that has ended.
func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
	s.leaveLocked(c.client.Addr())
	// Leave is called after the connection was removed from the map, so that disconnectStuck no longer finds it.
	c.account.Leave()
}

// connections returns the open connections. Connections may end, and others may be added, before the caller uses the
// list.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		list = append(list, c)
	}
	return list
}

// Drain stops accepting connections, answers the clients' requests, and closes each connection when it is quiet. If ctx
// ends first, it closes the connections, cancels their requests, and returns ctx's error, joined with
// request.StillRunning if some have not ended CancelTimeout later. It may block until ctx ends and CancelTimeout has
// passed. Storage must not be closed after StillRunning.
func (s *Server) Drain(ctx context.Context) error {
	s.stopAccepting()
	for _, c := range s.connections() {
		// With an ended context (Close), connections end after the current request instead of when they are quiet.
		if ctx.Err() == nil {
			c.drain.begin()
		} else {
			c.stop()
		}
	}
	done := make(chan struct{})
	go func() {
		s.goroutines.Wait()
		// All connections have ended, so no request is submitted.
		s.workers.close()
		s.forget()
		close(done)
	}()
	s.releaseHeld(ctx, done)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	// The time is over: requests are canceled, and the goroutine above waits for all of them.
	for _, c := range s.connections() {
		c.fail(ctx.Err())
	}
	late := time.NewTimer(s.limits.CancelTimeout)
	defer late.Stop()
	select {
	case <-done:
		return ctx.Err()
	case <-late.C:
		return errors.Join(ctx.Err(), request.StillRunning(s.Load().Active))
	}
}

// Close closes all connections without sending pending answers. It returns when the requests being executed have
// ended.
func (s *Server) Close() error {
	// Close is a drain whose time is over when it begins.
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

// stopAccepting closes the listeners and refuses connections from now on.
func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	for l := range s.mu.listeners {
		l.Close()
	}
	clear(s.mu.listeners)
}

// Memory returns the memory of requests.
func (s *Server) Memory() *memory.Pool { return s.memory }

// InFlightBytes returns the bytes of requests, including incomplete ones, and of unsent replies.
func (s *Server) InFlightBytes() int64 { return s.memory.Used() + s.Receiving() }

// Receiving returns the bytes that are reserved for incomplete requests.
func (s *Server) Receiving() int64 {
	small, _ := s.small.Used()
	large, _ := s.large.Used()
	return small + large
}

// oncePerSecond limits log messages that clients can cause.
type oncePerSecond struct{ last atomic.Int64 } // when allow last returned true, in seconds

// allow reports whether a message may be logged now.
func (o *oncePerSecond) allow() bool {
	now := time.Now().Unix()
	return o.last.Swap(now) != now
}
