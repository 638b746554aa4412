package azuretables

import (
	"context"
	"crypto/tls"
	"errors"
	"io"
	"net"
	"net/netip"
	"sync/atomic"
	"time"

	"cqld/internal/memory"
	"cqld/tlsconfig"
)

// connection is a client's connection and its state. fasthttp uses it on one goroutine; other goroutines check whether
// it has sent a request, and close it.
//
// A deadline is set when Read or Write is about to wait, and only if the one already set is too late, or earlier by
// more than slack: fasthttp sets three deadlines for every request, and most requests have arrived completely when
// their first byte is read. A timeout may therefore occur early by up to slack.
//
// A connection value exists from Accept to the end of the connection.
type connection struct {
	// Conn is the accepted connection, or secure.
	net.Conn
	secure *tlsconfig.Conn // Conn, if it is or may be encrypted
	shaken bool            // the TLS handshake has ended
	slack  time.Duration   // the largest difference of deadlines that is ignored
	reads  deadline        // of Conn, used by Read
	writes deadline        // of Conn, used by Write

	requested atomic.Bool // has sent a request
	received  bool        // Read has returned bytes; used on the goroutine of the connection
	// answer belongs to the current request: fasthttp writes the response body from its buffer after handle returned.
	answer *pair

	carrier *carrier   // nil in tests
	counted netip.Addr // the address that newcomers counts the connection for; guarded by its lock
	// known is true once a request of the connection was authorized.
	known atomic.Bool
	// wanted is the read deadline that fasthttp has set; a newcomer gets an earlier one.
	wanted time.Time

	// role and address are the owners of the memory of requests; role is nil before the first authorized one.
	role, address *memory.Owner
	roleName      string

	stuck atomic.Int64 // ns since 1970: when the current write began; 0 if none is in progress

	// ctx ends with the connection, or when the client disconnects during a request. It is the parent of the contexts
	// of all its requests.
	ctx    context.Context
	cancel context.CancelFunc
	busy   atomic.Bool // a request is in progress
	watch  *time.Timer // timer that calls checkDisconnected
}

// begin starts to watch for a disconnect of the client: fasthttp does not read during a request. A timer polls for it,
// and needs no goroutine while nothing happens. It must be followed by end.
func (c *connection) begin() {
	// The first check comes after watchEvery, so a short request costs only the timer.
	c.busy.Store(true)
	c.watch.Reset(watchEvery)
}

// end stops watching. A check that is running ends by itself: it finds busy false, or cancels a context whose request
// has ended. fasthttp may read again after it.
func (c *connection) end() {
	c.busy.Store(false)
	c.watch.Stop()
}

// checkDisconnected cancels the request in progress if its client has disconnected. It runs on a goroutine of the
// timer.
func (c *connection) checkDisconnected() {
	switch {
	// The request has ended meanwhile.
	case !c.busy.Load():
	case disconnected(c.Conn):
		// The context is the connection's: no further request of it can succeed either.
		c.cancel()
	default:
		c.watch.Reset(watchEvery)
	}
}

// deadlineSlack is the divisor of the shortest timeout that gives slack, by which timeouts may occur early. With 30 s,
// timeouts may occur 2 s early.
const deadlineSlack = 16

// listener wraps accepted connections in connection. c contains the limits and the list of connections.
type listener struct {
	net.Listener
	slack time.Duration
	c     *carrier
}

// Accept implements net.Listener. It refuses connections of an address that has too many, and accepts the next one.
func (l listener) Accept() (net.Conn, error) {
	for {
		c, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		if x := l.admit(c); x != nil {
			return x, nil
		}
		c.Close() // without a response, as one would cost more
	}
}

// admit wraps a connection. It returns nil if the client's address has too many. The order matters: the owner of memory
// is requested after the connection was entered, and released by disown.
func (l listener) admit(c net.Conn) *connection {
	// The connection enters the lists only at the end, when all its fields are set.
	x := &connection{Conn: c, slack: l.slack, carrier: l.c}
	if o := &l.c.server.o; o.TLS != nil {
		x.secure = tlsconfig.NewConn(c, o.TLS, o.TLSOptional)
		x.Conn = x.secure
	}
	// The contexts of connections end when the server ends.
	x.ctx, x.cancel = context.WithCancel(l.c.ctx)
	// The timer is created stopped, and begin resets it for each request.
	x.watch = time.AfterFunc(time.Hour, x.checkDisconnected)
	x.watch.Stop()
	// enter may close another connection to make room.
	if !l.c.newcomers.enter(x) {
		x.cancel()
		return nil
	}
	// Memory of unauthenticated requests counts for the address.
	x.address = l.c.server.o.Memory.Address(remoteAddr(x))
	return x
}

// deadline holds the wanted deadline and the one that is set on the connection. Both are wall-clock times; zero means
// none.
type deadline struct{ wanted, set time.Time }

// arm sets the wanted deadline, unless the one already set is at most slack earlier. A set deadline that is later than
// the wanted one never suffices. set is a method of the connection.
func (d *deadline) arm(slack time.Duration, set func(time.Time) error) error {
	if later := d.wanted.Sub(d.set); later >= 0 && later <= slack {
		return nil
	}
	d.set = d.wanted
	return set(d.wanted)
}

// SetReadDeadline implements net.Conn. It only records the deadline; Read sets it.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.wanted, c.reads.wanted = t, t
	// A newcomer has NewcomerTimeout from now, however long fasthttp would wait.
	if c.carrier != nil && !c.known.Load() {
		if early := time.Now().Add(c.carrier.server.limits.NewcomerTimeout); t.IsZero() || t.After(early) {
			c.reads.wanted = early
		}
	}
	return nil
}

// setRole counts the memory of the current request and of later requests for a role. It runs on the connection's
// goroutine. A role is released when the connection authenticates for another account. request is the account of the
// current request.
func (c *connection) setRole(name string, request *memory.Account) {
	if pool := c.carrier.server.o.Memory; c.roleName != name {
		old := c.role
		c.role, c.roleName = pool.Role(name), name
		// The old role is released after the request refers to the new one, so that it is not freed while in use.
		defer pool.Release(old)
	}
	request.SetRole(c.role)
}

// disown releases the owners of a connection that has ended. It runs when no request of the connection is in progress.
// It must be called once.
func (c *connection) disown() {
	pool := c.carrier.server.o.Memory
	pool.Release(c.role)
	pool.Release(c.address)
	c.role, c.address = nil, nil
}

// trust marks the connection as one of an authorized client. It returns false if there are too many. Like Read, it runs
// on the connection's goroutine. It is called after the signature was verified.
func (c *connection) trust() bool {
	// A connection is promoted once, by its first authorized request.
	if c.carrier == nil || c.known.Load() {
		return true
	}
	if !c.carrier.newcomers.promote(c) {
		return false
	}
	c.known.Store(true)
	// The newcomer's earlier deadline must not end this request's body; the next Read sets fasthttp's.
	c.reads.wanted = c.wanted
	return true
}

// SetWriteDeadline implements net.Conn. It only records the deadline; Write sets it.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.writes.wanted = t
	return nil
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	// SetReadDeadline has its own rules for newcomers.
	c.writes.wanted = t
	return c.SetReadDeadline(t)
}

// Read implements net.Conn. The first Read of an encrypted connection performs the handshake, so Accept never waits
// for a client.
func (c *connection) Read(b []byte) (int, error) {
	if err := c.reads.arm(c.slack, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	// The handshake reads and writes under the deadlines of the connection.
	if c.secure != nil && !c.shaken {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	n, err := c.Conn.Read(b)
	c.received = c.received || n > 0
	return n, err
}

// handshake performs the TLS handshake within the time of a newcomer. It runs on the connection's goroutine. It is
// called once, by the first Read.
func (c *connection) handshake() error {
	// Set even after a failure: fasthttp then closes the connection, and another attempt would not begin at a record
	// boundary.
	c.shaken = true
	d := c.carrier.server
	// fasthttp has set no write deadline yet. The read deadline is a newcomer's.
	c.writes.set = time.Now().Add(d.limits.NewcomerTimeout)
	if err := c.Conn.SetWriteDeadline(c.writes.set); err != nil {
		return err
	}
	// The context has no deadline, because the deadlines of the connection limit the handshake.
	if err := c.secure.Handshake(context.Background()); err != nil {
		// Failed handshakes are counted by reason, and logged at debug: any client can cause them.
		reason := d.encryption.Fail(err)
		c.refusePlaintext(err)
		d.log.Debug("TLS handshake failed", "client", c.RemoteAddr().String(), "reason", string(reason),
			"err", err)
		return err
	}
	// Without TLS, on a port where it is optional, there is no state.
	if state, ok := c.secure.State(); ok {
		d.encryption.Complete(state)
	}
	return nil
}

// tlsRequired is the response to a request that was not encrypted, at a port that requires TLS.
const tlsRequired = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " +
	"66\r\n\r\n" +
	"This port requires TLS: use an endpoint that begins with https://\n"

// plaintextLinger and plaintextBytes limit how much of the input is read before the connection is closed.
const (
	plaintextLinger = time.Second
	plaintextBytes  = 64 << 10
)

// refusePlaintext responds to a client that sends HTTP without encryption. err is the error of the handshake. Clients
// that were given http:// for https:// see a readable error instead of a reset.
func (c *connection) refusePlaintext(err error) {
	var first tls.RecordHeaderError
	// An HTTP request begins with a capital letter, which is no type of a TLS record.
	if !errors.As(err, &first) || c.secure.Encrypted() || first.RecordHeader[0] < 'A' || first.RecordHeader[0] > 'Z' {
		return
	}
	if _, err := io.WriteString(c.secure, tlsRequired); err != nil || c.secure.CloseWrite() != nil {
		return // the client has disconnected
	}
	// Closing the connection with unread input would reset it, and the client would not see the response.
	if c.Conn.SetReadDeadline(time.Now().Add(plaintextLinger)) == nil {
		_, _ = io.CopyN(io.Discard, c.secure, plaintextBytes) // the connection is closed in any case
	}
}

// encrypted reports whether requests of the connection are encrypted. It is false before the handshake.
func (c *connection) encrypted() bool { return c.secure != nil && c.secure.Encrypted() }

// Encryption returns the TLS handshakes of clients so far.
func (d *Server) Encryption() tlsconfig.HandshakeStats { return d.encryption.Stats() }

// Write implements net.Conn. A write is divided into parts (writeSize). fasthttp flushes a response with few calls.
func (c *connection) Write(b []byte) (int, error) {
	if err := c.writes.arm(c.slack, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	total := 0
	for { // in parts, so that progress shows
		part := b[:min(len(b), c.writeSize())]
		// disconnectStuck reads it: a part in progress for too long means that the client does not read.
		c.stuck.Store(time.Now().UnixNano())
		n, err := c.Conn.Write(part)
		c.stuck.Store(0)
		// The last part, or an error: total is the number of bytes of b that were written, as io.Writer requires.
		if total += n; err != nil || len(part) == len(b) {
			return total, err
		}
		b = b[len(part):]
	}
}

// writeSize returns the size of a part of a response. While memory is scarce, small parts show sooner which clients do
// not read.
func (c *connection) writeSize() int {
	if c.carrier == nil || c.carrier.server.o.Memory.Scarce() {
		return writePart
	}
	return writeLarge
}

// disconnectStuck ends the connections whose clients have not read anything of their responses for stuckGrace. It is
// called while requests wait for memory, and does not block. Each such response holds memory that the waiting requests
// need. A client that reads slowly, but reads, is not affected.
func (c *carrier) disconnectStuck() {
	late := time.Now().Add(-stuckGrace).UnixNano()
	c.conns.Range(func(key, _ any) bool {
		x := key.(*connection)
		// Zero means that no write is in progress.
		if since := x.stuck.Load(); since != 0 && since < late {
			x.Conn.SetWriteDeadline(time.Unix(1, 0)) // the write fails; an error means that the connection is closed
		}
		return true
	})
}
