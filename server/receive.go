package server

import (
	"errors"

	"cqld/internal/intake"
	"cqld/internal/memory"
	"cqld/server/buffer"
)

// Incomplete requests use the memory of the intake, not the memory of the budgets: a client that sends slowly, or
// stops, uses no memory of complete requests. Small bodies, and the first parts of large ones, use a separate intake.

// errSlow ends a connection whose request arrives too slowly while others wait for memory.
var errSlow = errors.New("the client sends its request too slowly while other requests wait for memory")

// tooSlow is called by an intake to end the reception of a request. It is called by another connection's goroutine,
// which needs the memory.
func (r *reader) tooSlow() {
	if r.conn.server.refusals.allow() {
		r.conn.server.log.Warn("client connection closed", "client", r.conn.client.String(), "reason", errSlow)
	}
	r.conn.fail(errSlow)
}

// readBody reads a body of n bytes into newly allocated memory, which is reserved in the budgets when it is complete.
// If it fails with errOverloaded, it has skipped the body.
func (r *reader) readBody(n int) (body []byte, charge memory.Held, err error) {
	size := requestOverhead + int64(n)
	ok := false
	if n <= r.in.Buffered() || n <= buffer.Small { // it is buffered, or uses no more memory than a quiet connection
		if charge, ok = r.reserveRequest(size); !ok {
			return nil, charge, r.skipOverloaded(n)
		}
		body = make([]byte, n)
		if err = r.in.ReadFull(body); err != nil {
			r.conn.account.Release(charge)
			return nil, charge, err
		}
		return body, charge, nil
	}
	// The body uses memory of the intake until it is complete, so that the budgets do not wait for slow clients.
	if body, err = r.receiveBody(n); err != nil {
		return nil, charge, err
	}
	if charge, ok = r.reserveRequest(size); !ok {
		return nil, charge, errOverloaded
	}
	return body, charge, nil
}

// receiveBody reads a body that is not completely buffered. A body of up to bodyStep takes one reservation, a larger
// one two: the first part proves that the client sends.
func (r *reader) receiveBody(n int) (body []byte, err error) {
	// A client that declares a large body and sends nothing gets no more memory than this.
	first := min(n, bodyStep)
	held, err := r.conn.server.small.Admit(int64(first), r.conn.served.Load(), r.tooSlow, r.conn.halt)
	if err != nil {
		return nil, r.skipOverloaded(n)
	}
	// held is replaced below, so the deferred function must read the variable when it runs.
	defer func() { held.End() }()
	r.expectMore()
	defer r.expectNothing()
	if body, err = r.receive(held, make([]byte, first), 0); err != nil || first == n {
		return body, err
	}
	held.Complete() // from here it waits for memory, not for its client; the deadline does not include that
	whole, err := r.conn.server.large.Admit(int64(n), r.conn.served.Load(), r.tooSlow, r.conn.halt)
	if err != nil {
		return nil, r.skipOverloaded(n - first)
	}
	held.End()
	held = whole
	// The first part is counted, or the intake would consider the client slow.
	held.Received(first)
	bigger := make([]byte, n)
	copy(bigger, body)
	r.expectMore()
	return r.receive(held, bigger, first)
}

// receive reads the rest of body, after the first at bytes, which have been read.
func (r *reader) receive(held *intake.Body, body []byte, at int) ([]byte, error) {
	for at < len(body) {
		step := min(len(body)-at, bodyStep)
		if err := r.in.ReadFull(body[at : at+step]); err != nil {
			return nil, err
		}
		// The intake measures the progress of clients, and ends the slowest when memory is short.
		held.Received(step)
		at += step
	}
	return body, nil
}

// reserveRequest reserves the memory of a complete request. Large requests leave a part of it to small ones, and wait
// briefly. n includes requestOverhead.
func (r *reader) reserveRequest(n int64) (h memory.Held, ok bool) {
	if n <= bodyStep+requestOverhead {
		return r.conn.account.Reserve(n)
	}
	return r.conn.account.ReserveLarge(r.conn.ctx, n, r.conn.throw, &r.conn.stopping)
}

// skipOverloaded skips a body for which there is no memory, and returns errOverloaded.
func (r *reader) skipOverloaded(n int) error {
	if err := r.in.Skip(n); err != nil {
		return err
	}
	return errOverloaded
}
