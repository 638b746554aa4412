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
type connection struct {
	net.Conn
	secure *tlsconfig.Conn // Conn, if it is or may be encrypted
	shaken bool            // the TLS handshake has ended
	slack  time.Duration
	reads  deadline
	writes deadline

	requested atomic.Bool // has sent a request
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

	stuck atomic.Int64 // ns since 1970: when the present write began; 0 if none is in progress

	// ctx ends with the connection, or when the client disconnects during a request.
	ctx    context.Context
	cancel context.CancelFunc
	busy   atomic.Bool // a request is in progress
	watch  *time.Timer // timer that calls checkDisconnected
}

// begin starts to watch for a disconnect of the client: fasthttp does not read during a request.
func (c *connection) begin() {
	c.busy.Store(true)
	c.watch.Reset(watchEvery)
}

// end stops watching.
func (c *connection) end() {
	c.busy.Store(false)
	c.watch.Stop()
}

// checkDisconnected cancels the request in progress if its client has disconnected.
func (c *connection) checkDisconnected() {
	switch {
	case !c.busy.Load():
	case disconnected(c.Conn):
		c.cancel()
	default:
		c.watch.Reset(watchEvery)
	}
}

// deadlineSlack is the divisor of the shortest timeout that gives slack, by which timeouts may occur early.
const deadlineSlack = 16

// listener wraps accepted connections in connection.
type listener struct {
	net.Listener
	slack time.Duration
	c     *carrier
}

// Accept implements net.Listener.
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

// admit wraps a connection. It returns nil if the client's address has too many.
func (l listener) admit(c net.Conn) *connection {
	x := &connection{Conn: c, slack: l.slack, carrier: l.c}
	if o := &l.c.server.o; o.TLS != nil {
		x.secure = tlsconfig.NewConn(c, o.TLS, o.TLSOptional)
		x.Conn = x.secure
	}
	x.ctx, x.cancel = context.WithCancel(l.c.ctx)
	x.watch = time.AfterFunc(time.Hour, x.checkDisconnected)
	x.watch.Stop()
	if !l.c.newcomers.enter(x) {
		x.cancel()
		return nil
	}
	x.address = l.c.server.o.Memory.Address(remoteAddr(x))
	return x
}

// deadline holds the wanted deadline and the one that is set on the connection.
type deadline struct{ wanted, set time.Time }

// arm sets the wanted deadline, unless the one already set is at most slack earlier.
func (d *deadline) arm(slack time.Duration, set func(time.Time) error) error {
	if later := d.wanted.Sub(d.set); later >= 0 && later <= slack {
		return nil
	}
	d.set = d.wanted
	return set(d.wanted)
}

// SetReadDeadline implements net.Conn.
func (c *connection) SetReadDeadline(t time.Time) error {
	c.wanted, c.reads.wanted = t, t
	if c.carrier != nil && !c.known.Load() {
		if early := time.Now().Add(c.carrier.server.limits.NewcomerTimeout); t.IsZero() || t.After(early) {
			c.reads.wanted = early
		}
	}
	return nil
}

// setRole counts the memory of the present request, and of the following ones, for a role. It runs on the
// connection's goroutine.
func (c *connection) setRole(name string, request *memory.Account) {
	if pool := c.carrier.server.o.Memory; c.roleName != name {
		old := c.role
		c.role, c.roleName = pool.Role(name), name
		defer pool.Release(old)
	}
	request.SetRole(c.role)
}

// disown releases the owners of a connection that has ended.
func (c *connection) disown() {
	pool := c.carrier.server.o.Memory
	pool.Release(c.role)
	pool.Release(c.address)
	c.role, c.address = nil, nil
}

// trust marks the connection as one of an authorized client. It returns false if there are too many. Like Read, it runs
// on the connection's goroutine.
func (c *connection) trust() bool {
	if c.carrier == nil || c.known.Load() {
		return true
	}
	if !c.carrier.newcomers.promote(c) {
		return false
	}
	c.known.Store(true)
	c.reads.wanted = c.wanted
	return true
}

// SetWriteDeadline implements net.Conn.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.writes.wanted = t
	return nil
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	c.writes.wanted = t
	return c.SetReadDeadline(t)
}

// Read implements net.Conn.
func (c *connection) Read(b []byte) (int, error) {
	if err := c.reads.arm(c.slack, c.Conn.SetReadDeadline); err != nil {
		return 0, err
	}
	if c.secure != nil && !c.shaken {
		if err := c.handshake(); err != nil {
			return 0, err
		}
	}
	return c.Conn.Read(b)
}

// handshake performs the TLS handshake within the time of a newcomer. It runs on the connection's goroutine.
func (c *connection) handshake() error {
	c.shaken = true
	d := c.carrier.server
	c.writes.set = time.Now().Add(d.limits.NewcomerTimeout)
	if err := c.Conn.SetWriteDeadline(c.writes.set); err != nil {
		return err
	}
	if err := c.secure.Handshake(context.Background()); err != nil {
		reason := d.encryption.Fail(err)
		c.refusePlaintext(err)
		d.log.Debug("TLS handshake failed", "client", c.RemoteAddr().String(), "reason", string(reason),
			"err", err)
		return err
	}
	if state, ok := c.secure.State(); ok {
		d.encryption.Complete(state)
	}
	return nil
}

// tlsRequired is the response to a request that was not encrypted, at a port that requires TLS.
const tlsRequired = "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nConnection: close\r\nContent-Length: " +
	"66\r\n\r\n" +
	"This port requires TLS: use an endpoint that begins with https://\n"

const (
	plaintextLinger = time.Second
	plaintextBytes  = 64 << 10
)

// refusePlaintext responds to a client that sends HTTP without encryption. err is the error of the handshake.
func (c *connection) refusePlaintext(err error) {
	var first tls.RecordHeaderError
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

// encrypted reports whether requests of the connection are encrypted.
func (c *connection) encrypted() bool { return c.secure != nil && c.secure.Encrypted() }

// Encryption returns the TLS handshakes of clients so far.
func (d *Server) Encryption() tlsconfig.HandshakeStats { return d.encryption.Stats() }

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	if err := c.writes.arm(c.slack, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	total := 0
	for { // in parts, so that progress shows
		part := b[:min(len(b), c.writeSize())]
		c.stuck.Store(time.Now().UnixNano())
		n, err := c.Conn.Write(part)
		c.stuck.Store(0)
		if total += n; err != nil || len(part) == len(b) {
			return total, err
		}
		b = b[len(part):]
	}
}

// writeSize returns the size of a part of a response.
func (c *connection) writeSize() int {
	if c.carrier == nil || c.carrier.server.o.Memory.Scarce() {
		return writePart
	}
	return writeLarge
}

// disconnectStuck ends the connections whose clients have not read anything of their responses for stuckGrace. It is
// called while requests wait for memory, and does not block.
func (c *carrier) disconnectStuck() {
	late := time.Now().Add(-stuckGrace).UnixNano()
	c.conns.Range(func(key, _ any) bool {
		x := key.(*connection)
		if since := x.stuck.Load(); since != 0 && since < late {
			x.Conn.SetWriteDeadline(time.Unix(1, 0)) // the write fails; an error means that the connection is closed
		}
		return true
	})
}
