package server

import (
	"context"
	"errors"
	"io"
	"net"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"

	"cqld/auth"
	"cqld/query"
	"cqld/server/account"
	"cqld/server/buffer"
	"cqld/server/frame"
	"cqld/server/output"
	"cqld/tlsconfig"
)

// The life of a connection:
//
//	accept ── TLS ── STARTUP ── [AUTH_RESPONSE …] ── READY ── requests … ── end
//	          │         stageStartup  stageAuth      stageReady              │
//	          └── HandshakeTimeout ──────────────────┘                       ├── the client disconnects
//	                                                                         ├── an error of the protocol: linger
//	                                                                         ├── fail: the socket or the server fails
//	                                                                         └── drain: when it is quiet
//
// One goroutine reads (serve), workers execute, and package output writes. The reader is the last to end.

// stage is the state of a connection's handshake.
type stage uint32

const (
	stageStartup stage = iota // before STARTUP
	stageAuth                 // AUTHENTICATE was sent
	stageReady
)

// String returns the name in system_views.clients.
func (s stage) String() string {
	switch s {
	case stageAuth:
		return "AUTHENTICATION"
	case stageReady:
		return "READY"
	default:
		return "ESTABLISHED"
	}
}

// header is the envelope header of a request, which the reply needs.
type header = frame.Header

// conn is one client connection. Fields without a comment are set before the first request is dispatched, and constant
// from then on. The reader owns reader, exchange and reply; workers use account, out, parking and leases, which have
// locks of their own.
type conn struct {
	server *Server
	net    net.Conn
	secure *tlsconfig.Conn // the same connection, if it is or may be encrypted
	// client is never in the IPv4-in-IPv6 form, so that limits and roles see one address for each client.
	client      netip.AddrPort
	version     frame.Version
	compression frame.Compression
	throw       bool              // THROW_ON_OVERLOAD: refuse requests instead of slowing the client down
	options     map[string]string // options of STARTUP
	ctx         context.Context   // ends when the client has disconnected or the socket has failed
	cancel      context.CancelFunc
	opened      time.Time
	exchange    Exchange // authentication in progress; used by the reader
	reply       []byte   // memory for the reader's own replies

	account   account.Account
	reader    reader
	out       output.Queue
	parking   parking
	leases    leases
	drain     drainer
	jobs      sync.WaitGroup // requests being executed; the reader adds and waits
	executing atomic.Int32   // the number of jobs
	stage     atomic.Uint32  // written by the reader
	session   atomic.Pointer[query.Session]
	user      atomic.Pointer[auth.Principal] // nil until the client is authenticated
	refused   atomic.Pointer[Standing]       // of an authenticated client
	revoked   atomic.Bool                    // the client's role may no longer log in
	events    atomic.Uint32                  // frame.Events for which the client is registered
	requests  atomic.Int64
	served    atomic.Bool   // one of its statements has been executed
	stopping  atomic.Bool   // the reader must stop reading
	halting   sync.Once     // for halt
	halt      chan struct{} // closed when stopping becomes true
	ended     chan struct{} // closed when the last goroutine of the connection has ended
}

// principal returns the role with which the client logged in.
func (c *conn) principal() auth.Principal {
	if p := c.user.Load(); p != nil {
		return *p
	}
	return auth.Principal{}
}

// Executing implements drain.Executor.
func (c *conn) Executing() int { return int(c.executing.Load()) }

// start counts a request that is executed; finish must be called when it has ended. Only the reader may call start,
// because jobs must not be incremented while the reader waits for them.
func (c *conn) start() {
	c.jobs.Add(1)
	c.executing.Add(1)
}

// finish is called once for each start. It decrements the count before jobs, so that Executing is zero when the
// reader's wait ends.
func (c *conn) finish() {
	c.executing.Add(-1)
	c.jobs.Done()
}

// errHangUp ends a connection after an error was sent. The reader lingers so that the client receives it.
var errHangUp = errors.New("server: protocol error")

// newConn returns a connection that is neither registered nor read yet. It neither reads nor writes, so it does not
// block.
func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, net: nc, opened: time.Now(), halt: make(chan struct{}), ended: make(chan struct{})}
	// Tests use connections of other types, whose client is the zero address.
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		c.client = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	if s.options.TLS != nil {
		c.secure = tlsconfig.NewConn(nc, s.options.TLS, s.options.TLSOptional)
		c.net = c.secure
	}
	// The context does not derive from one of the server, because Drain lets requests finish.
	c.ctx, c.cancel = context.WithCancel(context.Background())
	c.drain.conn, c.parking.conn = c, c
	c.reader = reader{conn: c, in: buffer.NewInput(&c.drain, s.output.Buffers)}
	c.account.Init(s.memory, s.limits.ConnectionBytesMax)
	c.out.Init(&s.output, c.net, &c.account, written{c})
	return c
}

// written is the connection as its output sees it.
type written struct{ c *conn }

// Fail implements output.Connection.
func (w written) Fail(err error) { w.c.fail(err) }

// Executing implements output.Connection.
func (w written) Executing() int { return w.c.Executing() }

// Written implements output.Connection.
func (w written) Written() { w.c.parking.resume() }

// serve is the reader. It returns when the connection and all of its goroutines have ended. If the client disconnects
// while requests are in progress, they are canceled, because nothing could receive their answers.
func (c *conn) serve() {
	defer close(c.ended)
	defer c.server.unregister(c)
	// The order of what follows matters. Requests end first, then their replies are written, then the socket is closed.
	err := c.read()
	if err != nil && !errors.Is(err, errHangUp) && !c.stopping.Load() {
		c.cancel() // the client has disconnected, so replies would not be read
		c.breakOutput()
	}
	// The reader has stopped, so no request is added.
	c.jobs.Wait()
	c.out.Close()
	// The client can still be sending only if the server ends the connection.
	if errors.Is(err, errHangUp) || err == nil && c.drain.active.Load() || c.revoked.Load() {
		c.linger()
	}
	c.cancel()
	c.net.Close()
	c.breakOutput() // releases the memory that a failed flush left
	c.reader.close()
	c.server.handshakes.end(c)
}

// read reads until the connection ends, and returns the reason.
func (c *conn) read() (err error) {
	defer c.server.guard.Recover("CQL connection reader", c.fail)
	// One deadline for TLS, STARTUP and authentication together; ready removes it.
	if err := c.net.SetReadDeadline(c.opened.Add(c.server.limits.HandshakeTimeout)); err != nil {
		return err
	}
	if err := c.handshake(); err != nil {
		return err
	}
	for err == nil {
		// The reader waits before it reads the next request, which slows the client down by the flow control of TCP.
		c.waitForMemory()
		if c.stopping.Load() {
			return nil
		}
		more, wrong := c.drain.awaitRequest()
		if err = wrong; !more {
			break
		}
		err = c.reader.next()
	}
	// A deadline that stop has set is not the client's fault.
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.stopping.Load() {
		if stage(c.stage.Load()) != stageReady {
			c.server.limited[BoundHandshakeTime].Add(1)
		}
		c.server.late.log(c.server.log, "a client took too long", "client", c.client.String(), "stage",
			stage(c.stage.Load()).String())
	}
	return err
}

// stop makes the reader end at the next envelope. Requests that were already read are answered. It is used for the
// end of the server and for revoked roles; after an error, fail is called instead.
func (c *conn) stop() {
	c.stopReading()
	c.net.SetReadDeadline(time.Unix(1, 0)) // interrupts a Read; an error means that the connection is closed
	// The reader may be waiting for memory instead of blocking in Read.
	c.account.Wake()
}

// stopReading closes halt once. Waits of the reader select on it.
func (c *conn) stopReading() {
	c.stopping.Store(true)
	c.halting.Do(func() { close(c.halt) })
}

// fail ends the connection immediately. Unsent replies are discarded. It may be called more than once, and from any
// goroutine.
func (c *conn) fail(err error) {
	// Only the first failure is logged, unless this node ended the connection.
	if c.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) {
		c.server.log.Debug("client connection failed", "client", c.client.String(), "err", err)
	}
	c.breakOutput()
	c.cancel()
	c.net.Close()
	c.stopReading()
	c.account.Wake()
}

// linger lets the client read the last error before the connection is closed. A TCP stack that closes a socket with
// unread input sends a reset, and the peer's stack then discards bytes that the client has not read yet (RFC 2525,
// section 2.17).
func (c *conn) linger() {
	// After the last reply the client sees the end of the stream, and closes its side.
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if c.stopping.Load() && !c.revoked.Load() || c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	n, _ := io.CopyN(io.Discard, c.net, lingerBytes) // the result does not matter
	c.server.crossed.Add(n)
}

// waitForMemory pauses the reader while too many bytes are in flight, or while requests wait for the disk.
func (c *conn) waitForMemory() {
	// A client with THROW_ON_OVERLOAD prefers an error to a wait, so its reader pauses only at the connection's own
	// bound.
	if c.parking.stalled() && !c.throw {
		c.account.Await(func() bool { return c.stopping.Load() || !c.parking.stalled() })
	}
	c.account.Calm(c.throw, &c.stopping)
}

// breakOutput drops all replies, and the requests that are parked until the client reads.
func (c *conn) breakOutput() {
	c.out.Break()
	c.parking.end()
}
