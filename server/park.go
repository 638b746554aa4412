package server

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// parking keeps requests that wait. A connection executes no further requests while its client does not read the
// replies that it has, or while its requests wait for memory. Parked requests hold their bodies, and no worker.
// Otherwise a client that sends requests and reads no replies would fill the memory of replies.
type parking struct {
	conn *conn
	any  atomic.Bool // jobs is not empty, or is about to have its first element
	mu   sync.Mutex
	// jobs are in the order of their arrival.
	jobs  []job
	ended bool // the connection executes no further requests
}

// over reports whether requests must be parked. Each change to false is followed by a call of resume.
func (p *parking) over() bool {
	return p.conn.out.Bytes() > unsentMax || p.conn.account.Flow().Waiting()
}

// stalled reports whether requests are parked because others of the connection wait for the disk. The
// reader then waits, so that a client which sends faster than the disk writes is slowed down, and leaves the memory of
// requests to others. Each change to false is followed by a call of resume.
func (p *parking) stalled() bool { return p.any.Load() && p.conn.account.Flow().Stalled() }

// add keeps a request until the client has read more. It returns false if the request may be executed.
func (p *parking) add(j job) bool {
	// Checked without the lock, because usually no request is parked.
	if !p.over() {
		return false
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	// A goroutine that ends the reason for parking calls resume afterwards. Either that call sees any and waits for
	// mu, or over sees the change here, so no request stays parked.
	p.any.Store(true)
	// After end, the job is executed: run sees that the connection has ended, and drops it.
	if p.ended || !p.over() {
		p.any.Store(len(p.jobs) > 0)
		return false
	}
	p.jobs = append(p.jobs, j)
	return true
}

// resume executes some parked requests unless the reason for parking persists. These call it again when they have
// ended.
func (p *parking) resume() {
	if !p.any.Load() {
		return
	}
	defer p.conn.account.WakeReader()
	p.mu.Lock()
	n := 0
	if !p.over() {
		// Only a few are resumed at a time, because their replies may fill the output again.
		n = min(len(p.jobs), unparkMax)
	}
	// The jobs are copied, because they are submitted without the lock and Delete moves the rest.
	next := slices.Clone(p.jobs[:n])
	if p.jobs = slices.Delete(p.jobs, 0, n); len(p.jobs) == 0 {
		p.jobs = nil
		p.any.Store(false)
	}
	p.mu.Unlock()
	for _, j := range next {
		// The jobs were counted when they were read, so the connection waits for them.
		if !p.conn.server.workers.submit(j) {
			p.refuse(j)
		}
	}
}

// refuse answers a request for which there is no worker.
func (p *parking) refuse(j job) {
	c := p.conn
	defer c.finish()
	c.out.Send(appendErrorReply(nil, j.request, c.server.wireError(errOverloaded), nil, nil), j.charge)
}

// end drops the requests of a connection that has ended, and keeps no later ones.
func (p *parking) end() {
	p.mu.Lock()
	jobs := p.jobs
	p.jobs, p.ended = nil, true
	p.any.Store(false)
	p.mu.Unlock()
	// The reader waits while requests are parked, see stalled.
	p.conn.account.WakeReader()
	for _, j := range jobs {
		// No reply follows, so nothing else releases what the request reserved.
		p.conn.account.Release(j.charge)
		p.conn.finish()
	}
}

// disconnectStuck ends the connections whose clients have not read for stuckGrace, those with the most replies first,
// until a part of the memory is free. It is called while requests wait for memory, and does not block.
func (s *Server) disconnectStuck() {
	type stuck struct {
		conn  *conn
		bytes int64
	}
	var all []stuck
	// The age of the current write counts, not of the reply: whenever a slow client reads something, a new write
	// begins.
	late := time.Now().Add(-stuckGrace).UnixNano()
	for _, c := range s.connections() {
		if since := c.out.Stuck(); since != 0 && since <= late {
			all = append(all, stuck{c, c.out.Bytes()})
		}
	}
	slices.SortFunc(all, func(a, b stuck) int { return cmp.Compare(b.bytes, a.bytes) })
	need := s.memory.Limits().Bytes / stuckShare
	for _, x := range all {
		// The remaining connections hold no replies, so ending them frees no memory.
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
