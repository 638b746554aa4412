package server

import (
	"errors"
	"time"

	"cqld/internal/intake"
	"cqld/internal/memory"
)

// Incomplete requests use the memory of the intake, not the memory of the budgets: a client that sends slowly, or
// stops, uses no memory of complete requests. Small bodies, and the first parts of large ones, have an intake of their
// own.

// errSlow ends a connection whose request arrives too slowly while others wait for memory.
var errSlow = errors.New("the client sends its request too slowly while other requests wait for memory")

// tooSlow is called by an intake to end the reception of a request.
func (c *conn) tooSlow() {
	if c.server.refusals.allow() {
		c.server.log.Warn("client connection closed", "client", c.client.String(), "reason", errSlow)
	}
	c.fail(errSlow)
}

// readBody reads a body of n bytes into newly allocated memory, which is reserved in the budgets when it is complete.
// If it fails with errOverloaded, it has skipped the body.
func (c *conn) readBody(n int) (body []byte, charge memory.Held, err error) {
	size := requestOverhead + int64(n)
	ok := false
	if n <= c.in.buffered() || n <= readBufferSmall { // it is buffered, or uses no more memory than a quiet connection
		if charge, ok = c.reserveRequest(size); !ok {
			return nil, charge, c.skipOverloaded(n)
		}
		body = make([]byte, n)
		if err = c.in.readFull(body); err != nil {
			c.release(charge)
			return nil, charge, err
		}
		return body, charge, nil
	}
	if body, err = c.receiveBody(n); err != nil {
		return nil, charge, err
	}
	if charge, ok = c.reserveRequest(size); !ok {
		return nil, charge, errOverloaded
	}
	return body, charge, nil
}

// receiveBody reads a body that is not completely buffered.
func (c *conn) receiveBody(n int) (body []byte, err error) {
	first := min(n, bodyStep)
	held, err := c.server.small.Admit(int64(first), c.served.Load(), c.tooSlow, c.halt)
	if err != nil {
		return nil, c.skipOverloaded(n)
	}
	defer func() { held.End() }()
	c.expectMore()
	defer c.expectNothing()
	if body, err = c.receive(held, make([]byte, first), 0); err != nil || first == n {
		return body, err
	}
	held.Complete() // from here it waits for memory, not for its client; the deadline does not include that
	whole, err := c.server.large.Admit(int64(n), c.served.Load(), c.tooSlow, c.halt)
	if err != nil {
		return nil, c.skipOverloaded(n - first)
	}
	held.End()
	held = whole
	held.Received(first)
	bigger := make([]byte, n)
	copy(bigger, body)
	c.expectMore()
	return c.receive(held, bigger, first)
}

// receive reads the rest of body, of which the first at bytes have been read.
func (c *conn) receive(held *intake.Body, body []byte, at int) ([]byte, error) {
	for at < len(body) {
		step := min(len(body)-at, bodyStep)
		if err := c.in.readFull(body[at : at+step]); err != nil {
			return nil, err
		}
		held.Received(step)
		at += step
	}
	return body, nil
}

// reserveRequest reserves the memory of a complete request. Large requests leave a part of it to small ones, and wait
// briefly.
func (c *conn) reserveRequest(n int64) (h memory.Held, ok bool) {
	if n <= bodyStep+requestOverhead {
		return c.reserve(n)
	}
	for late := time.Now().Add(largeWait); !c.reserveOwn(n); time.Sleep(largeWaitStep) { // the client reads no replies
		if c.throw || c.stopping.Load() || time.Now().After(late) {
			return h, false
		}
	}
	var a memory.Account
	c.server.memory.Open(&a, c.origin(), nil)
	defer a.Close()
	if !a.TryGrow(n) && (c.throw || a.Grow(c.ctx, n) != nil) {
		c.releaseOwn(n)
		return h, false
	}
	return a.Detach(), true
}

func (c *conn) skipOverloaded(n int) error {
	if err := c.in.skip(n); err != nil {
		return err
	}
	return errOverloaded
}
