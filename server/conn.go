package server

import (
	"bytes"
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
	"cqld/server/frame"
)

// stage is how far a connection has come.
type stage uint32

const (
	stageStartup stage = iota // before STARTUP
	stageAuth                 // AUTHENTICATE was sent
	stageReady
)

// String is the name in system_views.clients.
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

// header is a request's envelope header, as the reply needs it.
type header = frame.Header

// conn is one client connection. Fields without a comment are set before the
// first request is dispatched and constant from then on.
type conn struct {
	server      *Server
	net         net.Conn
	client      netip.AddrPort
	version     frame.Version
	compression frame.Compression
	throw       bool              // THROW_ON_OVERLOAD: refuse, do not slow down
	options     map[string]string // of STARTUP
	ctx         context.Context   // ends when the client has gone or the socket has failed
	cancel      context.CancelFunc

	// Of the reader alone.
	in       input
	framed   bool      // v5 segments from here on
	exchange Exchange  // authentication going on
	waiting  bool      // a read deadline is set for the rest of a large request
	large    partial   // an envelope spread over several segments
	inflated []byte    // memory for decompressed segments
	lastRead time.Time // when a connection that drains is read no more; zero: it does not drain
	busy     time.Time // of a connection that drains: when it was not quiet, the last time it was looked at
	resumed  bool      // a Read that drain interrupted went on
	reply    []byte    // memory for the reader's own replies

	out    output
	budget *budget
	jobs   sync.WaitGroup // requests being executed; the reader adds and waits
	stage  atomic.Uint32  // written by the reader
	// executing is how many requests are.
	executing atomic.Int32
	siblings  atomic.Pointer[siblings] // of a connection that drains
	draining  atomic.Bool              // it shall end when it is quiet
	boundary  atomic.Bool              // the reader waits for a request
	session   atomic.Pointer[query.Session]
	user      atomic.Pointer[auth.Principal] // nil until the client has authenticated
	events    atomic.Uint32                  // frame.Events the client registered for
	requests  atomic.Int64
	served    atomic.Bool   // a statement of it has been executed
	stopping  atomic.Bool   // the reader shall not read any more
	halting   sync.Once     // of halt
	halt      chan struct{} // closed when stopping becomes true
	ended     chan struct{} // closed when nothing of it runs any more
}

// principal is the role that the client logged in as.
func (c *conn) principal() auth.Principal {
	if p := c.user.Load(); p != nil {
		return *p
	}
	return auth.Principal{}
}

// errHangUp ends a connection after an error was sent: the reader lingers so
// that the client gets it.
var errHangUp = errors.New("server: protocol error")

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, net: nc, budget: newBudget(s.limits.ConnectionBytesMax), ended: make(chan struct{})}
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		c.client = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	c.in = input{conn: incoming{c}, buffers: s.buffers}
	c.halt = make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// serve is the reader: it returns when the connection has ended and nothing
// of it runs any more.
func (c *conn) serve() {
	defer close(c.ended)
	defer c.server.unregister(c)
	err := c.read()
	if err != nil && !errors.Is(err, errHangUp) && !c.stopping.Load() {
		c.cancel() // the client has gone: the answers to its requests would not be read
	}
	c.jobs.Wait()
	c.closeOutput()
	if errors.Is(err, errHangUp) || err == nil && c.draining.Load() {
		c.linger()
	}
	c.cancel()
	c.net.Close()
	c.breakOutput() // releases what a failed flush left
	c.large.held.End()
	c.in.close()
	c.server.handshakes.end(c)
}

// read reads until the connection ends, and says why it did.
func (c *conn) read() (err error) {
	defer c.server.guard.Recover("CQL connection reader", c.fail)
	if err := c.net.SetReadDeadline(time.Now().Add(c.server.limits.HandshakeTimeout)); err != nil {
		return err
	}
	for err == nil {
		c.waitForMemory()
		if c.stopping.Load() {
			return nil
		}
		more, wrong := c.awaitRequest()
		if err = wrong; !more {
			break
		}
		if c.framed {
			err = c.readSegment()
		} else {
			err = c.readEnvelope()
		}
	}
	if errors.Is(err, os.ErrDeadlineExceeded) && !c.stopping.Load() {
		c.server.late.log(c.server.log, "a client took too long", "client", c.client.String(), "stage", stage(c.stage.Load()).String())
	}
	return err
}

// stop makes the reader end at the next envelope; requests already read are
// answered.
func (c *conn) stop() {
	c.stopReading()
	c.net.SetReadDeadline(time.Unix(1, 0)) // interrupts a Read; an error means it is closed
	c.budget.wake()
	c.server.budget.wake()
}

func (c *conn) stopReading() {
	c.stopping.Store(true)
	c.halting.Do(func() { close(c.halt) })
}

// fail ends the connection at once: what is not sent yet will not be.
func (c *conn) fail(err error) {
	if c.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) {
		c.server.log.Debug("client connection failed", "client", c.client.String(), "error", err)
	}
	c.breakOutput()
	c.cancel()
	c.net.Close()
	c.stopReading()
	c.budget.wake()
	c.server.budget.wake()
}

// linger lets the client read the last error before the connection goes: to
// close with unread input would reset it.
func (c *conn) linger() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if c.stopping.Load() || c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	n, _ := io.CopyN(io.Discard, c.net, lingerBytes) // any end will do
	c.server.crossed.Add(n)
}

// expectMore gives the client ReceiveTimeout to send more of a large request.
// Before READY the deadline of the handshake stays.
func (c *conn) expectMore() {
	if stage(c.stage.Load()) == stageReady {
		c.waiting = true
		c.setReadDeadline(time.Now().Add(c.server.limits.ReceiveTimeout))
	}
}

// expectNothing ends what expectMore began: a client may be quiet for ever.
func (c *conn) expectNothing() {
	if c.waiting {
		c.waiting = false
		c.setReadDeadline(time.Time{})
	}
}

// setReadDeadline sets the deadline of the reader, unless it is to stop.
func (c *conn) setReadDeadline(t time.Time) {
	// An error means that the socket is closed; the next Read says so.
	c.net.SetReadDeadline(t)
	if c.stopping.Load() {
		c.stop() // its deadline may just have been removed
	}
}

// waitForMemory pauses the reader while too much is in flight.
func (c *conn) waitForMemory() {
	c.budget.wait(c.stopping.Load)
	if !c.throw {
		c.server.budget.wait(c.stopping.Load)
	}
}

func (c *conn) reserve(n int64) bool {
	if !c.budget.reserve(n) {
		return false
	}
	if !c.server.budget.reserve(n) {
		c.budget.release(n)
		return false
	}
	return true
}

func (c *conn) charge(n int64) {
	c.budget.charge(n)
	c.server.budget.charge(n)
}

func (c *conn) release(n int64) {
	if n == 0 {
		return
	}
	c.budget.release(n)
	c.server.budget.release(n)
}

// readEnvelope reads and handles one envelope of v3 or v4, or one of v5
// before the segments begin.
func (c *conn) readEnvelope() error {
	first, err := c.in.peek(1)
	if err != nil {
		return err
	}
	if _, err := frame.VersionOf(first[0]); err != nil {
		return c.refuseVersion(err)
	}
	raw, err := c.in.next(frame.HeaderSize)
	if err != nil {
		return err
	}
	h, err := frame.DecodeHeader(raw)
	if err != nil {
		c.refuse(h, err, 0)
		return errHangUp
	}
	if err, fatal := c.judge(h); err != nil {
		c.refuse(h, err, 0)
		if fatal {
			return errHangUp
		}
		return c.in.skip(h.Length)
	}
	body, charge, err := c.readBody(h.Length)
	if errors.Is(err, errOverloaded) {
		c.refuse(h, err, 0)
		return nil
	}
	if err != nil {
		return err
	}
	return c.handle(h, body, charge)
}

// refuseVersion answers an envelope of a version that is not spoken here.
func (c *conn) refuseVersion(err error) error {
	var unsupported *frame.UnsupportedVersion
	if !errors.As(err, &unsupported) {
		return err
	}
	size := frame.HeaderSize
	if unsupported.Version == 1 || unsupported.Version == 2 {
		size = frame.LegacyHeaderSize
	}
	raw, err := c.in.next(size)
	if err != nil {
		return err
	}
	if size == frame.LegacyHeaderSize {
		c.send(frame.AppendUnsupportedVersion(nil, unsupported, int16(int8(raw[2]))), 0)
		return errHangUp
	}
	// Versions to come are likely to have the same header.
	raw = append([]byte{byte(frame.V5)}, raw[1:]...)
	h, err := frame.DecodeHeader(raw)
	c.send(frame.AppendUnsupportedVersion(nil, unsupported, h.Stream), 0)
	if err != nil || h.Length > handshakeFrameMax {
		return errHangUp
	}
	return c.in.skip(h.Length)
}

// takeBody is readBody for a body that is in memory the reader reuses.
func (c *conn) takeBody(b []byte) (body []byte, charge int64, err error) {
	charge = requestOverhead + int64(len(b))
	if !c.reserveRequest(charge) {
		return nil, 0, errOverloaded
	}
	return bytes.Clone(b), charge, nil
}
