package coordinator

import (
	"errors"

	"cqld/coordinator/resolve"
	"cqld/internal/guard"
	"cqld/row"
)

// perform performs the effects of a step without the lock, the request to this node last: if the goroutine may block,
// it is executed there.
func (op *readOp) perform(out []readEffect, d *readDuties, blocks bool) {
	c := op.c
	var request *[]byte // the encoded command, for all remote nodes
	var own *readEffect
	for i := range out {
		e := &out[i]
		switch e.kind {
		case readAsk:
			if e.target.node == op.reading.self {
				// The own request is executed last: it may block, and the other nodes should read meanwhile.
				own = e
				continue
			}
			request = op.ask(e, d, request)
		case readRepair:
			op.repair(e.repair, d)
		case readSpeculate:
			c.counts.speculated.Add(1)
			trace(op.trace, op.reading.self, "Speculating: asking one more replica")
		case readMismatch:
			c.counts.digestMismatches.Add(1)
			trace(op.trace, op.reading.self, "Digest mismatch: reading data of all")
		case readPause:
			c.counts.replans.Add(1)
			c.clock.After(e.after, op.onResume)
		case readReply:
			op.reply(d)
		case readArm: // step has set the timer
		}
	}
	if request != nil {
		// Transports have copied the request, so its buffer can be reused.
		c.release(request)
	}
	if own != nil {
		op.askHere(own, d, blocks)
	}
}

// reply answers the client. op may exist until the last replica has answered, but no longer needs a page. Unless the
// client can cancel the read, op may also belong to another read already.
func (op *readOp) reply(d *readDuties) {
	c := op.c
	if d.whole {
		// Released before done, which may start the client's next request.
		c.ReleaseRead()
	}
	d.answer(c.guard)
	for _, b := range d.kept {
		// The page had to be valid until done returned.
		c.release(b)
	}
	if d.watched == nil {
		return
	}
	removed := d.watched.Remove(&op.hook)
	op.cancel.Cancel() // stops requests whose answers are not needed
	// If the hook could not be removed, the cancellation is in progress, and its event keeps op.
	if removed {
		op.mu.Lock()
		op.watching = false
		op.mu.Unlock()
	}
}

// answer calls done. A panic of the client's code must not reach recovered: another read may use the operation.
func (d *readDuties) answer(g *guard.Guard) {
	defer g.Recover("coordinator read", nil)
	done := d.done
	// If done panics, recovered must not call it a second time.
	d.done = nil
	done(d.page, d.err)
}

// callbacks returns the callbacks for a target's answer. A target keeps its callbacks of the first round.
func (op *readOp) callbacks(t *readTarget, round int) (func([]byte, error), func(row.Digest, error)) {
	// Later rounds are rare and allocate callbacks, so that their answers cannot be mistaken for answers of the first
	// round.
	if round > 0 || t.onPage == nil {
		onPage := func(page []byte, err error) { op.paged(t, round, page, err) }
		onDigest := func(d row.Digest, err error) { op.digested(t, round, d, err) }
		if round > 0 {
			return onPage, onDigest
		}
		t.onPage, t.onDigest = onPage, onDigest
	}
	return t.onPage, t.onDigest
}

// paged delivers a replica's page, or its failure.
func (op *readOp) paged(t *readTarget, round int, page []byte, err error) {
	op.deliver(&readEvent{kind: readPaged, target: t, round: round, page: page, err: err}, false)
}

// digested delivers a replica's digest, or its failure.
func (op *readOp) digested(t *readTarget, round int, d row.Digest, err error) {
	op.deliver(&readEvent{kind: readDigested, target: t, round: round, digest: d, err: err}, false)
}

// ask sends one request to another node, or to one without an encoding.
func (op *readOp) ask(e *readEffect, d *readDuties, request *[]byte) *[]byte {
	c, t := op.c, e.target
	onPage, onDigest := op.callbacks(t, d.round)
	replica := c.replica(t.node, op.trace)
	remote, ok := replica.(Remote)
	switch {
	case !ok && e.digest:
		replica.Digest(d.epoch, d.cmd, d.timeout, onDigest)
		return request
	case !ok:
		replica.Read(d.epoch, d.cmd, d.timeout, onPage)
		return request
	}
	if request == nil {
		request = c.buffer()
		// Encoded once for all nodes; page and digest differ only in the verb.
		*request = remote.AppendRead((*request)[:0], d.epoch, d.cmd)
	}
	if e.digest {
		traceNode(op.trace, op.reading.self, "Sending digest read to", t.node)
		remote.DigestEncoded(*request, d.timeout, op.cancel, onDigest)
		return request
	}
	traceNode(op.trace, op.reading.self, "Sending read to", t.node)
	remote.ReadEncoded(*request, d.timeout, op.cancel, onPage)
	return request
}

// askHere executes a request at this node.
func (op *readOp) askHere(e *readEffect, d *readDuties, blocks bool) {
	onPage, onDigest := op.callbacks(e.target, d.round)
	replica := op.c.replica(e.target.node, op.trace)
	local, ok := replica.(Blocking)
	switch {
	// Executed in this goroutine, which saves two switches to and from a worker.
	case ok && blocks && e.digest:
		local.DigestHere(d.epoch, d.cmd, d.timeout, onDigest)
	case ok && blocks:
		local.ReadHere(d.epoch, d.cmd, d.timeout, onPage)
	case e.digest:
		replica.Digest(d.epoch, d.cmd, d.timeout, onDigest)
	default:
		replica.Read(d.epoch, d.cmd, d.timeout, onPage)
	}
}

// repair sends one replica the mutations that it lacks.
func (op *readOp) repair(l *resolve.Repairs, d *readDuties) {
	c, r := op.c, &op.reading
	traceNode(op.trace, r.self, "Sending read repair to", l.Node)
	// A truncation waits for the repair, as for any write.
	generation, node, round := c.sent.Enter(), l.Node, d.round
	done := func(err error) { // without the mutations: the answer may come long after the request has ended
		c.sent.Leave(generation)
		op.deliver(&readEvent{kind: readRepaired, node: node, round: round, err: err}, false)
	}
	if c.truncatedSince(r.table.StorageID, r.started) { // the rows that were read have been or will be removed
		var err error
		if r.requested.Repair != nil {
			// The truncation may still fail, so a repair of the table must not conclude that the replicas are equal.
			err = errTruncating
		}
		done(err)
		return
	}
	replica := c.replica(node, op.trace)
	remote, ok := replica.(Remote)
	if !ok {
		replica.Apply(d.epoch, l.Mutations, d.timeout, done)
		return
	}
	b := c.buffer()
	*b = remote.AppendMutations((*b)[:0], d.epoch, l.Mutations)
	remote.ApplyEncoded(ForReadRepair, *b, d.timeout, done)
	c.release(b)
}

// errTruncating is the error of a table repair that cannot compare the replicas.
var errTruncating = errors.New("coordinator: the table is being truncated")
