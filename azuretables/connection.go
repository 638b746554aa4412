package azuretables

import (
	"context"
	"crypto/tls"
	"net"
	"sync/atomic"
	"time"
)

// connection is a client's connection and what is kept of it. The library uses it on one goroutine; others
// ask whether it has asked for something, and close it.
//
// Deadlines are set when something is waited for, and not when the one that is set is but a little earlier:
// the library gives three for every request, and most requests have come as a whole by the time that their
// first byte is looked at. A timeout may so come by slack too early.
type connection struct {
	net.Conn
	slack  time.Duration
	tls    bool
	reads  deadline
	writes deadline

	asked atomic.Bool // for something
	// answer is of the request at hand: the library writes its body from where it stands, after handle.
	answer *pair

	carrier *carrier // nil in tests
	// known says that a request of the connection was authorized.
	known atomic.Bool
	// wanted is the read deadline that the library wants; a guest gets an earlier one.
	wanted time.Time

	// ctx ends with the connection, and when the client has closed it while a request is under way.
	ctx    context.Context
	cancel context.CancelFunc
	busy   atomic.Bool // a request is under way
	watch  *time.Timer // of look
}

// begin watches the client while a request is under way: the library does not read then.
func (c *connection) begin() {
	c.busy.Store(true)
	c.watch.Reset(watchEvery)
}

// end stops what begin began.
func (c *connection) end() {
	c.busy.Store(false)
	c.watch.Stop()
}

// look ends the request under way when its client has gone.
func (c *connection) look() {
	switch {
	case !c.busy.Load():
	case gone(c.Conn):
		c.cancel()
	default:
		c.watch.Reset(watchEvery)
	}
}

// deadlineSlack is the part of the shortest timeout by which timeouts may come too early.
const deadlineSlack = 16

// listener makes connections of what it accepts.
type listener struct {
	net.Listener
	slack time.Duration
	c     *carrier
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_, secure := c.(*tls.Conn)
	x := &connection{Conn: c, slack: l.slack, tls: secure}
	x.carrier = l.c
	x.ctx, x.cancel = context.WithCancel(l.c.ctx)
	x.watch = time.AfterFunc(time.Hour, x.look)
	x.watch.Stop()
	l.c.guests.enter(x)
	return x, nil
}

// deadline is one that is wanted, and the one that is set.
type deadline struct{ wanted, set time.Time }

// arm sets the one that is wanted, unless the other will do.
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
		if early := time.Now().Add(c.carrier.server.limits.GuestTimeout); t.IsZero() || t.After(early) {
			c.reads.wanted = early
		}
	}
	return nil
}

// trust makes the connection one of a client that is known; false when there are too many. It runs, as Read does, on the
// goroutine of the connection.
func (c *connection) trust() bool {
	if c.carrier == nil || c.known.Load() {
		return true
	}
	if !c.carrier.guests.promote(c) {
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
	return c.Conn.Read(b)
}

// Write implements net.Conn.
func (c *connection) Write(b []byte) (int, error) {
	if err := c.writes.arm(c.slack, c.Conn.SetWriteDeadline); err != nil {
		return 0, err
	}
	return c.Conn.Write(b)
}
