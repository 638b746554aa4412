package server

import (
	"context"
	"errors"
	"net/netip"
	"os"
	"sync"
	"sync/atomic"
	"time"
)

// A request that crosses the end of its connection is lost: the driver cannot know whether it was executed. A draining
// connection therefore ends when its client is least likely to send, which ending decides. It continues to read and
// execute requests until then.
//
// Held answers and the end are sent together, so that the client reads the end before it sends again. Answers that were
// held for DrainHold are sent. When a connection holds more than holdBytesMax, it answers immediately. A connection
// that is never quiet is read until DrainTimeout.
//
// The connection is closed for writing first, and read until the client closes it: closing it with unread input would
// reset the connection, and lose answers that the client has not read.

// drain makes the connection end when it is quiet.
func (c *conn) drain() {
	if stage(c.stage.Load()) == stageReady {
		c.siblings.Store(c.server.siblingsOf(c))
		if c.announcesEnd() {
			c.announced.Store(true)
			c.announceEnd()
		}
	}
	c.draining.Store(true)
	switch {
	case stage(c.stage.Load()) != stageReady:
		c.stop() // it has sent no request
	case c.boundary.Load():
		// interrupts the wait for a request; an error means that the connection is closed
		c.net.SetReadDeadline(time.Unix(1, 0))
	}
	c.wake()
}

// awaitRequest waits for the first byte of a request. It returns false if the connection must end instead.
func (c *conn) awaitRequest() (more bool, err error) {
	c.boundary.Store(true)
	if !c.draining.Load() { // otherwise drain may have checked too early to interrupt
		err = c.peekRequest()
	}
	c.boundary.Store(false)
	if !c.draining.Load() {
		return err == nil, err
	}
	if err != nil && !errors.Is(err, os.ErrDeadlineExceeded) || c.stopping.Load() {
		return false, err
	}
	return c.awaitLastRequests()
}

// awaitLastRequests is awaitRequest for a draining connection.
func (c *conn) awaitLastRequests() (more bool, err error) {
	if c.lastRead.IsZero() {
		now := time.Now()
		c.lastRead = now.Add(c.server.limits.DrainTimeout)
		c.counted = c.requests.Load()
		c.ending = newEnding(now, latest(c.opened, time.Unix(0, c.lastSent.Load())), c.counted, &c.server.limits)
		if c.announced.Load() {
			c.ending.phase = endingAnnounced
		}
	}
	for !c.stopping.Load() {
		now := time.Now()
		action := c.ending.step(c.moment(now))
		switch {
		case c.in.buffered() > 0:
			c.setReadDeadline(now.Add(c.server.limits.ReceiveTimeout)) // for the rest of the request
			c.follow(action)
			return true, nil
		case now.After(c.lastRead), action == endingEnd && c.endOutput():
			return false, nil
		}
		c.follow(action)
		c.setReadDeadline(now.Add(c.pollAfter()))
		if _, err := c.in.peek(1); err != nil && !errors.Is(err, os.ErrDeadlineExceeded) {
			return false, err
		}
	}
	return false, nil
}

// moment returns what ending needs.
func (c *conn) moment(now time.Time) moment {
	m := moment{now: now, requests: c.requests.Load()}
	m.sibling = c.siblingsAt(now).lastEnd()
	m.held, m.since, m.released = c.holding()
	executing := int(c.executing.Load())
	m.client, m.running, m.parallel = m.requests-c.counted, executing > 0, executing
	if s := c.siblings.Load(); s != nil {
		m.client = s.requests.Add(m.client)
		c.counted = m.requests
		m.parallel = max(executing, s.executing())
	}
	return m
}

// pollAfter returns the time after which ending must be asked again.
func (c *conn) pollAfter() time.Duration {
	if s := c.siblings.Load(); s != nil && s.many() {
		return drainQuiet
	}
	return c.ending.poll()
}

// follow holds answers, or releases those that are held.
func (c *conn) follow(action endingAction) {
	switch action {
	case endingHold:
		c.hold()
	case endingServe:
		c.serveHeld()
	}
}

// siblings are the draining connections of one client, as far as the server can identify it. The end of one releases
// threads that waited for its answers, and they may use the next connection, which therefore must not end at that
// moment, however quiet it was. Nil means that a connection has no siblings.
type siblings struct {
	ending   atomic.Bool  // one connection is being ended
	ended    atomic.Int64 // when the last one ended, ns since 1970
	requests atomic.Int64 // received since the drain began

	mu    sync.Mutex
	conns []*conn
}

// siblingsAt returns the siblings that the end of the connection must consider. It returns nil late in a drain: the
// connections of many processes at one address cannot all end one after the other within DrainTimeout.
func (c *conn) siblingsAt(now time.Time) *siblings {
	if c.lastRead.Sub(now) < c.server.limits.DrainTimeout/2 {
		return nil
	}
	return c.siblings.Load()
}

// begin reports whether the caller may end its connection now; if so, it must call finish.
func (s *siblings) begin() bool { return s == nil || s.ending.CompareAndSwap(false, true) }

// finish lets another connection end; if answers were released, only after that has been quiet again.
func (s *siblings) finish(released bool) {
	if s == nil {
		return
	}
	if released {
		s.ended.Store(time.Now().UnixNano())
	}
	s.ending.Store(false)
}

// executing returns how many requests of the client are being executed, or 0 if the client has many connections.
func (s *siblings) executing() (n int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.conns) > siblingsPolled {
		return 0
	}
	for _, c := range s.conns {
		n += int(c.executing.Load())
	}
	return n
}

// many reports whether the client has too many connections for each to look at the others often.
func (s *siblings) many() bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return len(s.conns) > siblingsPolled
}

func (s *siblings) lastEnd() time.Time {
	if s == nil {
		return time.Time{}
	}
	return time.Unix(0, s.ended.Load())
}

// siblingsOf returns the siblings of a connection: those with the same address, driver and session, if the client
// sent these. Connections that are registered for events carry no requests of the application.
func (s *Server) siblingsOf(c *conn) *siblings {
	if c.aboutNodes() {
		return nil
	}
	key := clientKey{c.client.Addr(), c.options["DRIVER_NAME"], c.options["CLIENT_ID"]}
	s.mu.Lock()
	defer s.mu.Unlock()
	all := s.mu.siblings[key]
	if all == nil {
		all = new(siblings)
		s.mu.siblings[key] = all
	}
	all.mu.Lock()
	defer all.mu.Unlock()
	all.conns = append(all.conns, c)
	return all
}

// clientKey identifies a client.
type clientKey struct {
	address             netip.Addr
	driverName, session string
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
		case <-look.C:
			for _, c := range s.connections() {
				c.releaseHeld(s.limits.DrainHold)
			}
		}
	}
}

// endOutput sends the held answers and the end. It returns false if a request arrived meanwhile: then the answers are
// sent, and the connection continues. No request may be running.
func (c *conn) endOutput() bool {
	s := c.siblingsAt(time.Now())
	if !s.begin() {
		return false
	}
	released := false
	defer func() { s.finish(released) }()
	if action := c.ending.step(c.moment(time.Now())); action != endingEnd { // a sibling has ended meanwhile
		c.follow(action)
		return false
	}
	held, _, _ := c.holding()
	cork(c.net)
	defer uncork(c.net)
	released = c.closeOutput()
	if unread(c.net) || c.secure != nil && c.secure.Partial() {
		c.reopenOutput()
		if held {
			c.hold()
		}
		return false
	}
	if half, ok := c.net.(interface{ CloseWrite() error }); ok {
		_ = half.CloseWrite() // fails when the client has closed the connection
	}
	return true
}

// interrupted reports whether a Read failed only because drain interrupted it while it waited for the rest of a
// request, which is still read.
func (c *conn) interrupted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || !c.draining.Load() || c.stopping.Load() || c.boundary.Load() ||
		!c.lastRead.IsZero() || c.resumed {
		return false
	}
	c.resumed = true
	c.setReadDeadline(time.Now().Add(c.server.limits.ReceiveTimeout))
	return true
}

// incoming is the reader of the input.
type incoming struct{ c *conn }

// Read implements io.Reader.
func (i incoming) Read(b []byte) (n int, err error) {
	n, err = i.c.net.Read(b)
	if n == 0 && err != nil && i.c.interrupted(err) {
		n, err = i.c.net.Read(b)
	}
	return n, err
}
