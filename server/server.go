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
	"cqld/query"
	"cqld/request"
	"cqld/ring"
	"cqld/server/frame"
)

// Processor executes statements; query.Processor is one. Its methods block
// until the statement is done and are called concurrently. Slices in the
// parameters are not kept after a call, except for the bytes of values,
// which are never overwritten.
type Processor interface {
	Query(r *request.Request, s *query.Session, text string, p *query.Params) (*query.Result, error)
	Prepare(r *request.Request, s *query.Session, text, keyspace string) (*query.Result, error)
	Execute(r *request.Request, s *query.Session, id []byte, p *query.Params) (*query.Result, error)
	Batch(r *request.Request, s *query.Session, p *query.BatchParams) (*query.Result, error)
}

// Options are what a Server is made of.
type Options struct {
	Processor Processor
	// Authenticator asks clients who they are; nil lets everyone in.
	Authenticator Authenticator
	// TLS encrypts client connections when it is not nil.
	TLS *tls.Config
	// ReplicaAddress is the internode address of a node, for the reasons of
	// read and write failures; nil: unknown.
	ReplicaAddress func(ring.NodeID) netip.Addr
	// CQLVersion is told in SUPPORTED; "" means 3.4.7.
	CQLVersion string
	Limits     Limits
	Logger     *slog.Logger // nil: slog.Default()
	// Guard ends requests that panic; nil: one that logs to Logger.
	Guard *guard.Guard
}

// ErrClosed is returned by Serve after Drain or Close.
var ErrClosed = errors.New("server: closed")

// Server is the CQL door of one node.
type Server struct {
	options    Options
	limits     Limits
	log        *slog.Logger
	budget     *budget
	small      *intake.Intake // of requests that are being received: small ones, and the beginnings of large ones
	large      *intake.Intake // of the others
	buffers    *buffers
	compressor *frame.Compressor
	workers    *workers
	guard      *guard.Guard
	supported  []frame.SupportedOption
	handshakes *handshakes
	closing    atomic.Bool
	refusals   oncePerSecond // of the logs about refused connections
	failures   oncePerSecond // of the logs about failed requests
	late       repeated      // of the logs about clients that took too long
	crossed    atomic.Int64  // bytes that clients sent while the end of their connections was on the way
	errors     struct {
		sync.Mutex
		counts map[frame.ErrorCode]int64 // that clients were answered
	}
	goroutines sync.WaitGroup // Serve loops and connections

	mu struct {
		sync.Mutex
		conns     map[*conn]struct{}
		addresses map[netip.Addr]int      // connections of each, when bounded
		siblings  map[clientKey]*siblings // of connections that drain
		listeners map[net.Listener]struct{}
	}
}

// New makes a Server that does not listen yet.
func New(o Options) *Server {
	if o.CQLVersion == "" {
		o.CQLVersion = "3.4.7"
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	limits := o.Limits.withDefaults()
	s := &Server{
		options:    o,
		limits:     limits,
		log:        o.Logger,
		budget:     newBudget(limits.InFlightBytesMax),
		small:      intake.New(intake.DefaultLimits(limits.ReceivingBytesMax / smallShare)),
		large:      intake.New(intake.DefaultLimits(limits.ReceivingBytesMax - limits.ReceivingBytesMax/smallShare)),
		buffers:    newBuffers(),
		compressor: frame.NewCompressor(),
		workers:    newWorkers(limits),
		guard:      o.Guard,
		handshakes: newHandshakes(limits.HandshakesMax),
		supported: []frame.SupportedOption{
			{Key: "PROTOCOL_VERSIONS", Values: []string{"3/v3", "4/v4", "5/v5"}},
			{Key: "COMPRESSION", Values: []string{"snappy", "lz4"}},
			{Key: "CQL_VERSION", Values: []string{o.CQLVersion}},
		},
	}
	if s.guard == nil {
		s.guard = guard.New(o.Logger, func(f func()) { go f() })
	}
	s.mu.conns = map[*conn]struct{}{}
	s.mu.siblings = map[clientKey]*siblings{}
	s.mu.addresses = map[netip.Addr]int{}
	s.mu.listeners = map[net.Listener]struct{}{}
	return s
}

// Serve accepts connections from l until Drain or Close, which also close l,
// and then returns ErrClosed. It may be called for several listeners.
func (s *Server) Serve(l net.Listener) error {
	s.mu.Lock()
	if s.closing.Load() {
		s.mu.Unlock()
		l.Close()
		return ErrClosed
	}
	s.mu.listeners[l] = struct{}{}
	s.goroutines.Add(1)
	s.mu.Unlock()
	defer s.goroutines.Done()

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
			// Out of file descriptors, most likely: it passes when others close.
			s.log.Warn("cannot accept a client connection", "listener", l.Addr().String(), "error", err)
			time.Sleep(pause)
			pause = min(2*pause, time.Second)
			continue
		}
		pause = 5 * time.Millisecond
		s.accept(nc)
	}
}

// accept starts the connection, or closes it when a bound is reached. It never
// waits: beyond the bound of handshakes, the oldest one is closed.
func (s *Server) accept(nc net.Conn) {
	if s.options.TLS != nil {
		nc = tls.Server(nc, s.options.TLS)
	}
	c := newConn(s, nc)
	if err := s.register(c); err != nil {
		if s.refusals.allow() {
			s.log.Warn("client connection refused", "client", c.client.String(), "reason", err)
		}
		nc.Close()
		return
	}
	s.handshakes.begin(c)
	go func() {
		defer s.goroutines.Done()
		c.serve()
	}()
}

// register adds c to the connections, and to the goroutines waited for.
func (s *Server) register(c *conn) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closing.Load() {
		return ErrClosed
	}
	if len(s.mu.conns) >= s.limits.ConnectionsMax {
		return fmt.Errorf("the limit of %d connections is reached", len(s.mu.conns))
	}
	if bound := s.limits.ConnectionsPerAddressMax; bound > 0 {
		addr := c.client.Addr()
		if s.mu.addresses[addr] >= bound {
			return fmt.Errorf("the limit of %d connections per address is reached", bound)
		}
		s.mu.addresses[addr]++
	}
	s.mu.conns[c] = struct{}{}
	s.goroutines.Add(1)
	return nil
}

// unregister removes a connection that has ended.
func (s *Server) unregister(c *conn) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.mu.conns, c)
	if s.limits.ConnectionsPerAddressMax > 0 {
		addr := c.client.Addr()
		if s.mu.addresses[addr]--; s.mu.addresses[addr] <= 0 {
			delete(s.mu.addresses, addr)
		}
	}
}

// connections is the connections open now.
func (s *Server) connections() []*conn {
	s.mu.Lock()
	defer s.mu.Unlock()
	list := make([]*conn, 0, len(s.mu.conns))
	for c := range s.mu.conns {
		list = append(list, c)
	}
	return list
}

// Drain stops accepting connections, answers what clients have asked for, and
// closes each connection when it is quiet. When ctx ends first, connections are
// closed as they are, what runs for them ends, and Drain returns its error.
func (s *Server) Drain(ctx context.Context) error {
	s.stopAccepting()
	for _, c := range s.connections() {
		if ctx.Err() == nil {
			c.drain()
		} else {
			c.stop()
		}
	}
	done := make(chan struct{})
	go func() {
		s.goroutines.Wait()
		s.workers.close()
		close(done)
	}()
	s.releaseHeld(ctx, done)
	select {
	case <-done:
		return nil
	case <-ctx.Done():
	}
	for _, c := range s.connections() {
		c.fail(ctx.Err())
	}
	<-done
	return ctx.Err()
}

// Close closes everything without waiting for clients to get their answers;
// it returns when the requests being executed have ended.
func (s *Server) Close() error {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if err := s.Drain(ctx); !errors.Is(err, context.Canceled) {
		return err
	}
	return nil
}

func (s *Server) stopAccepting() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.closing.Store(true)
	for l := range s.mu.listeners {
		l.Close()
	}
	clear(s.mu.listeners)
}

// InFlightBytes is what requests, also those that are being received, and unsent
// replies take at this moment.
func (s *Server) InFlightBytes() int64 {
	small, _ := s.small.Used()
	large, _ := s.large.Used()
	return s.budget.used.Load() + small + large
}

// oncePerSecond keeps clients from filling the log.
type oncePerSecond struct{ last atomic.Int64 } // of allow's true answers, seconds

func (o *oncePerSecond) allow() bool {
	now := time.Now().Unix()
	return o.last.Swap(now) != now
}
