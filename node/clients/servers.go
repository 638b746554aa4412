package clients

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"net/netip"
	"sync"
	"sync/atomic"
	"time"

	"cqld/azuretables"
	"cqld/server"
)

// Options configure New. All fields are required.
type Options struct {
	// CQL and Tables construct a server and listen for its clients. Tables returns nil if the node has no Tables
	// server.
	CQL    func() (*server.Server, net.Listener, error)
	Tables func() (*azuretables.Server, net.Listener, error)
	// Critical runs a server in a goroutine. The node stops with its error, or if it panics.
	Critical func(func() error)
	// Run runs a function in a goroutine that the node waits for.
	Run func(func())
	// Member reports whether this node is a member. AwaitDeparture returns when all other nodes know that it is not.
	Member         func() bool
	AwaitDeparture func(context.Context) error
	Refuse         func() error   // why this node must not serve clients because of its clock, or nil
	Native         netip.AddrPort // at which CQL clients know this node
	Log            *slog.Logger
}

// Servers are the servers for clients. A switch of the servers (Open, StartCQL, StopCQL, Drain) holds switching;
// requests and metrics read the pointers without a lock. The atomic flags only ever become true. Invariant: no server
// becomes visible after closing or leaving is set, so that Close and Leave see every server. Lock order: switching,
// publishing.
type Servers struct {
	o         Options
	cql       atomic.Pointer[server.Server]      // nil: CQL clients cannot connect
	tables    atomic.Pointer[azuretables.Server] // nil: clients of Azure Tables cannot connect
	switching sync.Mutex                         // held while the servers start or stop
	// publishing is held, for a moment, while a server becomes visible and while closing or leaving is set. Close and
	// Leave cannot use switching for this: it may be held for drainWait.
	publishing sync.Mutex
	opened     chan struct{} // closed when the servers have been opened
	drained    atomic.Bool   // clients are refused until the process ends
	closing    atomic.Bool   // Stopping was called
	leaving    atomic.Bool   // this node has left the cluster while it was running
	departed   chan struct{} // closed after that, by Leave
	retired    chan struct{} // closed when it has disconnected its clients after that
}

// New returns servers that are not open yet.
func New(o Options) *Servers {
	return &Servers{o: o, opened: make(chan struct{}), departed: make(chan struct{}), retired: make(chan struct{})}
}

// drainWait bounds the wait for requests in flight. It applies to operators' commands. The end of the process has the
// bound of the context given to Close.
const drainWait = 10 * time.Second

// The reasons for which a node does not serve clients. Ready returns them to supervisors, and StartCQL to operators,
// whose commands compare them with errors.Is.
var (
	ErrStarting  = errors.New("starting: the node has not joined the ring yet")
	ErrDrained   = errors.New("drained")
	ErrStopping  = errors.New("stopping")
	ErrLeft      = errors.New("the node has left the ring")
	ErrDisabled  = errors.New("CQL clients are not served")
	ErrNotMember = errors.New("the node is not a member of the ring")
)

// CQL returns the CQL server, or nil while it is closed.
func (s *Servers) CQL() *server.Server { return s.cql.Load() }

// Tables returns the Azure Tables server, or nil while it is closed.
func (s *Servers) Tables() *azuretables.Server { return s.tables.Load() }

// Accepting reports whether CQL clients can connect.
func (s *Servers) Accepting() bool { return s.cql.Load() != nil }

// Drained reports whether clients are refused until the process ends.
func (s *Servers) Drained() bool { return s.drained.Load() }

// Opened returns a channel that is closed when clients can connect for the first time.
func (s *Servers) Opened() <-chan struct{} { return s.opened }

// HasOpened reports whether clients could connect at some time. What Open's prepare wrote may be read after a true
// result.
func (s *Servers) HasOpened() bool {
	select {
	case <-s.opened:
		return true
	default:
		return false
	}
}

// Ready returns an error unless this node serves clients. The cases are ordered by finality: a state that lasts until
// the process ends precedes a state that an operator can change. The clock is last, because it may become right by
// itself.
func (s *Servers) Ready() error {
	if err := s.ended(); err != nil {
		return err
	}
	switch {
	case s.drained.Load():
		return ErrDrained
	case !s.HasOpened():
		return ErrStarting
	case !s.Accepting():
		return ErrDisabled
	}
	return s.o.Refuse()
}

// Open opens both servers for the first time. prepare, which is called first, creates what they use. It returns
// ErrStopping or ErrLeft if the node stops or has left; a CQL server that is open then is closed by Close or Leave.
func (s *Servers) Open(prepare func()) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	prepare()
	if err := s.startCQLLocked(); err != nil {
		return err
	}
	if err := s.startTablesLocked(); err != nil {
		return err
	}
	close(s.opened)
	return nil
}

func (s *Servers) startCQLLocked() error {
	q, l, err := s.o.CQL()
	if err != nil {
		return err
	}
	// The server is visible before it accepts. A notification between the two finds no connection, so no client misses
	// it.
	if err := s.publish(l, func() { s.cql.Store(q) }); err != nil {
		return err
	}
	s.o.Critical(func() error {
		if err := q.Serve(l); err != nil && !errors.Is(err, server.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

// publish calls store, which makes the server of l visible. If the node stops or has left, it closes l instead and
// returns ErrStopping or ErrLeft: the server would accept clients after Close or Leave has closed the others.
func (s *Servers) publish(l net.Listener, store func()) error {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	if err := s.ended(); err != nil {
		return errors.Join(err, l.Close())
	}
	store()
	return nil
}

// ended returns ErrStopping or ErrLeft when no server may be opened until the process ends, and nil before.
func (s *Servers) ended() error {
	switch {
	case s.closing.Load():
		return ErrStopping
	case s.leaving.Load():
		return ErrLeft
	}
	return nil
}

func (s *Servers) startTablesLocked() error {
	// nil without an error means that tables_port is 0.
	d, l, err := s.o.Tables()
	if d == nil || err != nil {
		return err
	}
	if err := s.publish(l, func() { s.tables.Store(d) }); err != nil {
		return err
	}
	s.o.Critical(func() error {
		if err := d.Serve(l); err != nil && !errors.Is(err, azuretables.ErrClosed) {
			return err
		}
		return nil
	})
	return nil
}

// StartCQL opens the CQL server for an operator, unless it is open. It returns ErrStopping, ErrLeft, ErrDrained or
// ErrNotMember if the node cannot serve clients.
func (s *Servers) StartCQL() error {
	s.switching.Lock()
	defer s.switching.Unlock()
	if err := s.ended(); err != nil {
		return err
	}
	switch {
	case s.drained.Load():
		return ErrDrained
	case s.cql.Load() != nil:
		return nil
	case !s.o.Member() || !s.HasOpened():
		return ErrNotMember
	}
	return s.startCQLLocked()
}

// StopCQL closes the CQL server if it is open, and waits for requests in flight. The server is invisible first, so that
// no notification is queued for a connection that ends. If ctx or drainWait ends first, the remaining requests are cut
// and the error says how many there were.
func (s *Servers) StopCQL(ctx context.Context) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	q := s.cql.Swap(nil)
	if q == nil {
		return nil
	}
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	return q.Drain(ctx)
}

// Drain refuses clients until the process ends, and waits for requests in flight. It has no way back: StartCQL refuses
// until the process is restarted. Both servers are drained even if the first one fails.
func (s *Servers) Drain(ctx context.Context) error {
	s.switching.Lock()
	s.drained.Store(true)
	s.switching.Unlock()
	return errors.Join(s.StopCQL(ctx), s.stopTables(ctx))
}

// stopTables closes the Azure Tables server for an operator.
func (s *Servers) stopTables(ctx context.Context) error {
	s.switching.Lock()
	defer s.switching.Unlock()
	ctx, cancel := context.WithTimeout(ctx, drainWait)
	defer cancel()
	return s.DrainTables(ctx)
}

// DrainTables closes the Azure Tables server, if it is open.
func (s *Servers) DrainTables(ctx context.Context) error {
	d := s.tables.Swap(nil)
	if d == nil {
		return nil
	}
	return d.Drain(ctx)
}

// Stopping makes Ready report that the node stops. From then on, no server is opened.
func (s *Servers) Stopping() {
	s.publishing.Lock()
	defer s.publishing.Unlock()
	s.closing.Store(true)
}

// Close closes both servers, and waits for requests in flight until ctx ends. It does not take switching, which an
// operator's command may hold for drainWait; the control port is closed before.
func (s *Servers) Close(ctx context.Context) error {
	s.Stopping()
	var errs []error
	if q := s.cql.Swap(nil); q != nil {
		errs = append(errs, q.Drain(ctx))
	}
	return errors.Join(append(errs, s.DrainTables(ctx))...)
}
