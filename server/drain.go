package server

import (
	"errors"
	"os"
	"time"
)

// A connection that drains goes on reading, and answers what it reads, until it
// is quiet: no request is being executed, and none came for a moment. Then it is
// closed for writing first, so that the client gets all answers and sees the
// end: to close with something unread would reset the connection, and lose
// answers that the client has not read. One that is never quiet is read for
// DrainTimeout.

// drain makes the connection end when it is quiet.
func (c *conn) drain() {
	c.draining.Store(true)
	switch {
	case stage(c.stage.Load()) != stageReady:
		c.stop() // it has asked for nothing
	case c.boundary.Load():
		c.net.SetReadDeadline(time.Unix(1, 0)) // interrupts the wait for a request; an error means it is closed
	}
	c.budget.wake()
	c.server.budget.wake()
}

// awaitRequest waits for the first byte of a request; false when the connection
// is to end instead.
func (c *conn) awaitRequest() (more bool, err error) {
	c.boundary.Store(true)
	if !c.draining.Load() { // else drain may have looked too early to interrupt
		_, err = c.in.peek(1)
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

// awaitLastRequests is awaitRequest of a connection that drains.
func (c *conn) awaitLastRequests() (more bool, err error) {
	if c.lastRead.IsZero() {
		c.lastRead = time.Now()
		if !c.server.leaving.Load() {
			c.lastRead = c.lastRead.Add(c.server.limits.DrainTimeout)
		}
	}
	for !c.stopping.Load() {
		if c.in.buffered() > 0 {
			c.setReadDeadline(time.Now().Add(c.server.limits.ReceiveTimeout)) // of the rest
			return true, nil
		}
		quiet := c.executing.Load() == 0
		if time.Now().After(c.lastRead) {
			return false, nil
		}
		c.setReadDeadline(time.Now().Add(drainQuiet))
		switch _, err := c.in.peek(1); {
		case err == nil:
		case !errors.Is(err, os.ErrDeadlineExceeded):
			return false, err
		case quiet && c.executing.Load() == 0:
			return false, nil
		}
	}
	return false, nil
}

// interrupted says whether a Read failed only because drain interrupted it: it
// waited for the rest of a request, which is read still.
func (c *conn) interrupted(err error) bool {
	if !errors.Is(err, os.ErrDeadlineExceeded) || !c.draining.Load() || c.stopping.Load() || c.boundary.Load() ||
		!c.lastRead.IsZero() || c.resumed {
		return false
	}
	c.resumed = true
	c.setReadDeadline(time.Now().Add(c.server.limits.ReceiveTimeout))
	return true
}

// incoming is what the input reads from.
type incoming struct{ c *conn }

// Read implements io.Reader.
func (i incoming) Read(b []byte) (n int, err error) {
	n, err = i.c.net.Read(b)
	if n == 0 && err != nil && i.c.interrupted(err) {
		n, err = i.c.net.Read(b)
	}
	return n, err
}
