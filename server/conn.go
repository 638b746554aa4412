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
	"cqld/internal/memory"
	"cqld/query"
	"cqld/server/frame"
	"cqld/tlsconfig"
)

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

// conn is one client connection. Fields without a comment are set before the first request is dispatched, and
// constant from then on.
type conn struct {
	server      *Server
	net         net.Conn
	secure      *tlsconfig.Conn // the same connection, if it is or may be encrypted
	client      netip.AddrPort
	version     frame.Version
	compression frame.Compression
	throw       bool              // THROW_ON_OVERLOAD: refuse requests instead of slowing the client down
	options     map[string]string // options of STARTUP
	ctx         context.Context   // ends when the client has disconnected or the socket has failed
	cancel      context.CancelFunc
	opened      time.Time

	// The following fields are used by the reader only.
	in       input
	framed   bool      // v5 segments are used from here on
	exchange Exchange  // authentication in progress
	waiting  bool      // a read deadline is set for the rest of a large request
	large    partial   // an envelope that spans several segments
	inflated []byte    // memory for decompressed segments
	lastRead time.Time // when a draining connection is no longer read; zero if it is not draining
	ending   ending    // of a draining connection
	counted  int64     // requests that were added to siblings.requests
	resumed  bool      // a Read that drain interrupted was resumed
	reply    []byte    // memory for the reader's own replies

	edgeState
	out    output
	leases struct { // contexts of requests that no request uses now
		sync.Mutex
		free []*lease
	}
	budget *budget
	pause  memory.Pause  // of the reader
	paused atomic.Bool   // the reader waits for memory of others
	owner  *memory.Owner // of the address
	role   atomic.Pointer[memory.Owner]
	flow   memory.Flow
	parked atomic.Bool    // out.parked is not empty
	jobs   sync.WaitGroup // requests being executed; the reader adds and waits
	stage  atomic.Uint32  // written by the reader
	// executing is the number of requests being executed.
	executing atomic.Int32
	siblings  atomic.Pointer[siblings] // of a draining connection
	draining  atomic.Bool              // the connection ends when it is quiet
	announced atomic.Bool              // GRACEFUL_DISCONNECT was sent
	boundary  atomic.Bool              // the reader waits for a request
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

// origin returns the owners of the memory of requests.
func (c *conn) origin() memory.Origin { return memory.Origin{Role: c.role.Load(), Address: c.owner} }

// errHangUp ends a connection after an error was sent. The reader lingers so that the client receives it.
var errHangUp = errors.New("server: protocol error")

func newConn(s *Server, nc net.Conn) *conn {
	c := &conn{server: s, net: nc, opened: time.Now(), budget: newBudget(s.limits.ConnectionBytesMax),
		ended: make(chan struct{})}
	if a, ok := nc.RemoteAddr().(*net.TCPAddr); ok {
		ap := a.AddrPort()
		c.client = netip.AddrPortFrom(ap.Addr().Unmap(), ap.Port())
	}
	c.in = input{conn: incoming{c}, buffers: s.buffers}
	c.out.flush = c.flush
	c.halt = make(chan struct{})
	c.ctx, c.cancel = context.WithCancel(context.Background())
	return c
}

// serve is the reader. It returns when the connection and all of its goroutines have ended.
func (c *conn) serve() {
	defer close(c.ended)
	defer c.server.unregister(c)
	err := c.read()
	if err != nil && !errors.Is(err, errHangUp) && !c.stopping.Load() {
		c.cancel() // the client has disconnected, so replies would not be read
		c.breakOutput()
	}
	c.jobs.Wait()
	c.closeOutput()
	if errors.Is(err, errHangUp) || err == nil && c.draining.Load() || c.revoked.Load() {
		c.linger()
	}
	c.cancel()
	c.net.Close()
	c.breakOutput() // releases the memory that a failed flush left
	c.large.held.End()
	c.in.close()
	c.server.handshakes.end(c)
}

// read reads until the connection ends, and returns the reason.
func (c *conn) read() (err error) {
	defer c.server.guard.Recover("CQL connection reader", c.fail)
	if err := c.net.SetReadDeadline(c.opened.Add(c.server.limits.HandshakeTimeout)); err != nil {
		return err
	}
	if err := c.handshake(); err != nil {
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
		if stage(c.stage.Load()) != stageReady {
			c.server.limited[BoundHandshakeTime].Add(1)
		}
		c.server.late.log(c.server.log, "a client took too long", "client", c.client.String(), "stage",
			stage(c.stage.Load()).String())
	}
	return err
}

// stop makes the reader end at the next envelope. Requests that were already read are answered.
func (c *conn) stop() {
	c.stopReading()
	c.net.SetReadDeadline(time.Unix(1, 0)) // interrupts a Read; an error means that the connection is closed
	c.wake()
}

func (c *conn) stopReading() {
	c.stopping.Store(true)
	c.halting.Do(func() { close(c.halt) })
}

// fail ends the connection immediately. Unsent replies are discarded.
func (c *conn) fail(err error) {
	if c.ctx.Err() == nil && !errors.Is(err, net.ErrClosed) && !errors.Is(err, context.Canceled) {
		c.server.log.Debug("client connection failed", "client", c.client.String(), "err", err)
	}
	c.breakOutput()
	c.cancel()
	c.net.Close()
	c.stopReading()
	c.wake()
}

// linger lets the client read the last error before the connection is closed: closing it with unread input would
// reset it.
func (c *conn) linger() {
	if half, ok := c.net.(interface{ CloseWrite() error }); ok && half.CloseWrite() != nil {
		return
	}
	if c.stopping.Load() && !c.revoked.Load() || c.net.SetReadDeadline(time.Now().Add(lingerTime)) != nil {
		return
	}
	n, _ := io.CopyN(io.Discard, c.net, lingerBytes) // the result does not matter
	c.server.crossed.Add(n)
}

// expectMore allows the client ReceiveTimeout to send more of a large request. Before READY the deadline of the
// handshake applies.
func (c *conn) expectMore() {
	if stage(c.stage.Load()) == stageReady {
		c.waiting = true
		c.setReadDeadline(time.Now().Add(c.server.limits.ReceiveTimeout))
	}
}

// expectNothing removes the deadline of expectMore: a client may be idle forever.
func (c *conn) expectNothing() {
	if c.waiting {
		c.waiting, c.idleAt = false, time.Time{}
		c.setReadDeadline(time.Time{})
	}
}

// setReadDeadline sets the deadline of the reader, unless it must stop.
func (c *conn) setReadDeadline(t time.Time) {
	// An error means that the socket is closed, which the next Read reports.
	c.net.SetReadDeadline(t)
	if c.stopping.Load() {
		c.stop() // the deadline of stop may just have been replaced
	}
}

// waitForMemory pauses the reader while too many bytes are in flight. A connection without requests may send one, so
// that clients which wait for each answer do not wait for the memory of others.
func (c *conn) waitForMemory() {
	if stalled(c) && !c.throw {
		c.budget.await(func() bool { return c.stopping.Load() || !stalled(c) })
	}
	c.budget.wait(c.stopping.Load)
	if c.throw || c.budget.used.Load() == 0 || c.shared == nil && c.server.memory.IsCalm() {
		return
	}
	c.paused.Store(true)
	defer c.paused.Store(false)
	resume := func() bool { return c.stopping.Load() || c.budget.used.Load() == 0 }
	if c.shared != nil {
		c.shared.wait(resume)
	}
	c.server.memory.Calm(&c.pause, resume)
}

func (c *conn) reserve(n int64) (h memory.Held, ok bool) {
	if !c.reserveOwn(n) {
		return h, false
	}
	if h, ok = c.server.memory.Reserve(n); !ok {
		c.releaseOwn(n)
		return h, false
	}
	c.owner.Hold(n)
	return h, true
}

// reserveOwn reserves n bytes in the budgets of the connection and its address.
func (c *conn) reserveOwn(n int64) bool {
	if !c.budget.reserve(n) {
		return false
	}
	if c.shared != nil && !c.shared.reserve(n) {
		c.budget.release(n)
		c.server.limited[BoundAddressInFlight].Add(1)
		return false
	}
	return true
}

// releaseOwn undoes reserveOwn.
func (c *conn) releaseOwn(n int64) {
	c.budget.release(n)
	if c.shared != nil {
		c.shared.release(n)
	}
	// The reader looks at used after it has set paused, so one of both goroutines sees what the other has done.
	if c.paused.Load() && c.budget.used.Load() == 0 {
		if c.shared != nil {
			c.shared.wake()
		}
		c.server.memory.Resume(&c.pause)
	}
}

// wake makes the reader check whether it must stop, if it waits for memory.
func (c *conn) wake() {
	c.budget.wake()
	if c.shared != nil {
		c.shared.wake()
	}
	c.server.memory.Wake()
}

// charge counts n bytes of a small reply that exists already.
func (c *conn) charge(n int64) memory.Held {
	c.chargeOwn(n)
	c.owner.Hold(n)
	return c.server.memory.Charge(n)
}

// chargeOwn counts n bytes in the budgets of the connection and its address.
func (c *conn) chargeOwn(n int64) {
	c.budget.charge(n)
	if c.shared != nil {
		c.shared.charge(n)
	}
}

func (c *conn) release(h memory.Held) {
	if n := h.Bytes(); n > 0 {
		c.releaseOwn(n)
		c.owner.Hold(-n)
		c.server.memory.Return(h)
	}
}

// readEnvelope reads and handles one envelope of v3 or v4, or one of v5 before its segments begin.
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
		c.refuse(h, err, memory.Held{})
		return errHangUp
	}
	if fatal, err := c.judge(h); err != nil {
		if stage(c.stage.Load()) == stageStartup && c.server.refusesVersion(h.Version) {
			h.Version = c.server.limits.VersionMax // which the client may understand
		}
		c.refuse(h, err, memory.Held{})
		if fatal {
			return errHangUp
		}
		return c.in.skip(h.Length)
	}
	body, charge, err := c.readBody(h.Length)
	if errors.Is(err, errOverloaded) {
		c.refuse(h, err, memory.Held{})
		return nil
	}
	if err != nil {
		return err
	}
	return c.handle(h, body, charge)
}

// refuseVersion answers an envelope of an unsupported version.
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
		c.send(frame.AppendUnsupportedVersion(nil, unsupported, int16(int8(raw[2]))), memory.Held{})
		return errHangUp
	}
	// Future versions are likely to have the same header.
	raw = append([]byte{byte(frame.V5)}, raw[1:]...)
	h, err := frame.DecodeHeader(raw)
	c.send(frame.AppendUnsupportedVersion(nil, unsupported, h.Stream), memory.Held{})
	if err != nil || h.Length > handshakeFrameMax {
		return errHangUp
	}
	return c.in.skip(h.Length)
}

// takeBody is readBody for a body in memory that the reader reuses.
func (c *conn) takeBody(b []byte) (body []byte, charge memory.Held, err error) {
	charge, ok := c.reserveRequest(requestOverhead + int64(len(b)))
	if !ok {
		return nil, charge, errOverloaded
	}
	return bytes.Clone(b), charge, nil
}
