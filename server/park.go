package server

import (
	"cmp"
	"errors"
	"slices"
	"time"
)

// A connection executes no further requests while its client does not read the replies that it has, or while its
// requests wait for memory. Their requests are parked: they hold their bodies, and no worker.

// overLocked reports whether requests must be parked. Each change to false is followed by a call of unpark.
func (c *conn) overLocked() bool { return c.out.bytes > unsentMax || c.flow.Waiting() }

// stalled reports whether requests are parked because others of the connection wait for the disk. The
// reader then waits, so that a client which sends faster than the disk writes is slowed down, and leaves the memory of
// requests to others. Each change to false is followed by a call of unpark.
func stalled(c *conn) bool { return c.parked.Load() && c.flow.Stalled() }

// park keeps a request until the client has read more. It returns false if the request may be executed.
func (c *conn) park(j job) bool {
	o := &c.out
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.broken || !c.overLocked() {
		return false
	}
	o.parked = append(o.parked, j)
	c.parked.Store(true)
	return true
}

// unpark executes some parked requests, if it is time. Those call it again when they have ended.
func (c *conn) unpark() {
	if !c.parked.Load() {
		return
	}
	defer c.budget.wakeAny()
	o := &c.out
	o.mu.Lock()
	n := 0
	if !c.overLocked() {
		n = min(len(o.parked), unparkMax)
	}
	next := slices.Clone(o.parked[:n])
	if o.parked = slices.Delete(o.parked, 0, n); len(o.parked) == 0 {
		o.parked = nil
		c.parked.Store(false)
	}
	o.mu.Unlock()
	for _, j := range next {
		if !c.server.workers.submit(j) {
			c.refuseJob(j)
		}
	}
}

// refuseJob answers a request for which there is no worker.
func (c *conn) refuseJob(j job) {
	defer c.jobs.Done()
	defer c.executing.Add(-1)
	c.send(appendErrorReply(nil, j.request, c.server.wireError(errOverloaded), nil, nil), j.charge)
}

// dropParked drops the parked requests of a connection that has ended.
func (c *conn) dropParked() {
	o := &c.out
	o.mu.Lock()
	parked := o.parked
	o.parked = nil
	c.parked.Store(false)
	o.mu.Unlock()
	c.budget.wakeAny()
	for _, j := range parked {
		c.release(j.charge)
		c.executing.Add(-1)
		c.jobs.Done()
	}
}

// disconnectStuck ends the connections whose clients have not read for stuckGrace, those with the most replies first,
// until a part of the memory is free. It is called while requests wait for memory, and does not block.
func (s *Server) disconnectStuck() {
	type stuck struct {
		conn  *conn
		bytes int
	}
	var all []stuck
	late := time.Now().Add(-stuckGrace).UnixNano()
	for _, c := range s.connections() {
		if since := c.out.stuck.Load(); since == 0 || since > late {
			continue
		}
		c.out.mu.Lock()
		bytes := c.out.bytes
		c.out.mu.Unlock()
		all = append(all, stuck{c, bytes})
	}
	slices.SortFunc(all, func(a, b stuck) int { return cmp.Compare(b.bytes, a.bytes) })
	need := int(s.memory.Limits().Bytes / stuckShare)
	for _, x := range all {
		if need -= x.bytes; x.bytes == 0 {
			return
		}
		s.limited[BoundStuck].Add(1)
		s.late.log(s.log, "a client connection is closed", "client", x.conn.client.String(), "reason", errStuck,
			"bytes", x.bytes)
		x.conn.net.SetWriteDeadline(time.Unix(1, 0)) // the writer fails; an error means that the connection is closed
		if need <= 0 {
			return
		}
	}
}

// errStuck ends a connection whose client does not read.
var errStuck = errors.New("the client does not read its replies while other requests wait for memory")
