package table

import (
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
}

// deadlineSlack is the part of the shortest timeout by which timeouts may come too early.
const deadlineSlack = 16

// listener makes connections of what it accepts.
type listener struct {
	net.Listener
	slack time.Duration
}

// Accept implements net.Listener.
func (l listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	_, secure := c.(*tls.Conn)
	return &connection{Conn: c, slack: l.slack, tls: secure}, nil
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
	c.reads.wanted = t
	return nil
}

// SetWriteDeadline implements net.Conn.
func (c *connection) SetWriteDeadline(t time.Time) error {
	c.writes.wanted = t
	return nil
}

// SetDeadline implements net.Conn.
func (c *connection) SetDeadline(t time.Time) error {
	c.reads.wanted, c.writes.wanted = t, t
	return nil
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
