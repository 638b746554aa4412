package server

import (
	"context"
	"errors"
	"os"
	"sync/atomic"
	"time"

	"cqld/server/drain"
)

// drainer ends a connection while the server drains, at the moment that package drain decides.
//
// The connection is closed for writing first, and read until the client closes it: closing it with unread input would
// reset the connection, and lose answers that the client has not read. Drain calls begin, and the reader calls end
// and waits; they share the atomic fields.
type drainer struct {
	conn      *conn
	begun     atomic.Bool                  // begin was called
	active    atomic.Bool                  // the connection ends when it is quiet
	announced atomic.Bool                  // GRACEFUL_DISCONNECT was sent
	boundary  atomic.Bool                  // the reader waits for a request
	client    atomic.Pointer[drain.Client] // nil until the connection drains

	// The following fields are used by the reader only.
	state   drain.Connection
	resumed bool // a Read that begin interrupted was resumed
}

// begin makes the connection end when it is quiet. Only the first call has an effect: Leave drains a connection, and
// the Drain that follows it must neither announce the end again nor count the connection as two of its client's. It
// does not wait: the reader ends the connection.
func (d *drainer) begin() {
	if d.begun.Swap(true) {
		return
	}
	c := d.conn
	ready := stage(c.stage.Load()) == stageReady
	if ready {
		d.client.Store(c.server.drainingClient(c))
		// The event is sent before active is set, so that it precedes the end.
		if c.announcesEnd() {
			d.announced.Store(true)
			c.announceEnd()
		}
	}
	// The order matters: awaitRequest sets boundary before it reads active, so either begin sees boundary and
	// interrupts the read, or awaitRequest sees active and does not read.
	d.active.Store(true)
	switch {
	case !ready:
		c.stop() // it has sent no request
	case d.boundary.Load():
		// interrupts the wait for a request; an error means that the connection is closed
		c.net.SetReadDeadline(time.Unix(1, 0))
	}
	c.account.Wake()
}

// awaitRequest waits for the first byte of a request. It returns false if the connection must end instead. boundary
// shows begin that a read may be interrupted between two requests.
func (d *drainer) awaitRequest() (more bool, err error) {
	d.boundary.Store(true)
	if !d.active.Load() { // otherwise begin may have checked too early to interrupt
		err = d.conn.reader.peekRequest()
	}
	d.boundary.Store(false)
	if !d.active.Load() {
		return err == nil, err
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || d.conn.stopping.Load() {
		return false, err
	}
	return d.awaitLastRequests()
}

// awaitLastRequests is awaitRequest for a draining connection.
func (d *drainer) awaitLastRequests() (more bool, err error) {
	c, r := d.conn, &d.conn.reader
	if !d.state.Begun() {
		// The connection has been quiet since its last reply, or since it was opened.
		last := c.out.LastWrite()
		if last.Before(c.opened) {
			last = c.opened
		}
		d.state.Begin(time.Now(), last, c.requests.Load(), d.client.Load(), d.announced.Load(), c.server.drainLimits())
	}
	for !c.stopping.Load() {
		now := time.Now()
		action := d.state.Step(d.view(now))
		switch {
		// A request has begun to arrive, so it must be read: its client would otherwise not know whether it was
		// executed.
		case r.in.Buffered() > 0:
			r.setReadDeadline(now.Add(c.server.limits.ReceiveTimeout)) // for the rest of the request
			d.follow(action)
			return true, nil
		case d.state.Expired(now), action == drain.End && d.end():
			return false, nil
		}
		d.follow(action)
		// A time-out here only means that the next decision is due.
		r.setReadDeadline(now.Add(d.state.Poll()))
		if _, err := r.in.Peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return false, err
		}
	}
	return false, nil
}

// view returns the state from which package drain decides. now is read once for each decision.
func (d *drainer) view(now time.Time) drain.View {
	answers := d.conn.out.Holding()
	return drain.View{
		Now:       now,
		Requests:  d.conn.requests.Load(),
		Executing: d.conn.Executing(),
		Held:      answers.Held,
		Since:     answers.Since,
		Released:  answers.Released,
	}
}

// follow executes an action on the output: it holds answers, or releases the held ones.
func (d *drainer) follow(action drain.Action) {
	switch action {
	// Other actions do not change the output.
	case drain.Hold:
		d.conn.out.Hold()
	case drain.Serve:
		d.conn.out.Serve()
	}
}

// end sends the held answers and the end. It returns false if a request arrived meanwhile: then the answers are sent,
// and the connection continues. No request may be running. The check for unread input and the end are not atomic: a
// request that arrives between them is lost. Holding answers makes this window improbable (docs/adr/0020).
func (d *drainer) end() bool {
	c := d.conn
	// One connection of a client ends at a time, so that its driver keeps a usable one.
	client, ok := d.state.BeginEnd(time.Now())
	if !ok {
		return false
	}
	released := false
	defer func() { client.FinishEnd(time.Now(), released) }()
	// Another connection of the client may have ended meanwhile, so the decision is repeated.
	if action := d.state.Step(d.view(time.Now())); action != drain.End {
		d.follow(action)
		return false
	}
	held := c.out.Holding().Held
	// The last answers and the end should arrive together: a client that sees the answers first may send its next
	// request to a connection that is being closed.
	cork(c.net)
	defer uncork(c.net)
	released = c.out.Close()
	// A request arrived while the answers were written. It was sent before the client could see the end.
	if unread(c.net) || c.secure != nil && c.secure.Partial() {
		c.out.Reopen()
		if held {
			c.out.Hold()
		}
		return false
	}
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails when the client has closed the connection
	}
	return true
}

// interrupted reports whether a Read failed only because begin interrupted it while it waited for the rest of a
// request, which is still read.
func (d *drainer) interrupted(err error) bool {
	// Only the first interruption is undone; a second one is a real time-out.
	if !errors.Is(err, os.ErrDeadlineExceeded) || !d.active.Load() || d.conn.stopping.Load() || d.boundary.Load() ||
		d.state.Begun() || d.resumed {
		return false
	}
	d.resumed = true
	d.conn.reader.setReadDeadline(time.Now().Add(d.conn.server.limits.ReceiveTimeout))
	return true
}

// Read implements io.Reader for the input of the connection.
func (d *drainer) Read(b []byte) (n int, err error) {
	n, err = d.conn.net.Read(b)
	if n == 0 && err != nil && d.interrupted(err) {
		n, err = d.conn.net.Read(b)
	}
	return n, err
}

// drainLimits returns the times of package drain. They are constant for the server, and passed by value.
func (s *Server) drainLimits() drain.Limits {
	return drain.Limits{Timeout: s.limits.DrainTimeout, Hold: s.limits.DrainHold}
}

// drainingClient returns the client whose connections end one after the other with c. Connections that are registered
// for events carry no requests of the application.
func (s *Server) drainingClient(c *conn) *drain.Client {
	if c.aboutNodes() {
		return nil
	}
	// The key distinguishes processes and sessions at one address, if drivers send the options for it.
	key := drain.Key{Address: c.client.Addr(), Driver: c.options["DRIVER_NAME"], Session: c.options["CLIENT_ID"]}
	return s.draining.Join(key, c)
}

// releaseHeld releases the answers that connections have held for DrainHold, until done is closed or ctx ends.
func (s *Server) releaseHeld(ctx context.Context, done <-chan struct{}) {
	look := time.NewTicker(s.limits.DrainHold / releaseLooks)
	defer look.Stop()
	for {
		select {
		case <-done:
			return
		case <-ctx.Done():
			return
		// Release writes answers that have been held for long enough; drainers see it in Holding.
		case <-look.C:
			for _, c := range s.connections() {
				c.out.Release(s.limits.DrainHold)
			}
		}
	}
}
