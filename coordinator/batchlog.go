package coordinator

import (
	"errors"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// LoggedBatch is a batch as it is kept: all of it is applied in the end, whoever crashes.
type LoggedBatch struct {
	ID        RequestID
	Created   int64         // ns since 1970
	Delay     time.Duration // a holder applies it when nobody has removed it for so long
	Mutations []*row.Mutation
}

// BatchHolder is a Replica of another node that can be asked to keep batches. A kept batch is on disk
// when done is told.
type BatchHolder interface {
	KeepBatch(id RequestID, encoded []byte, timeout time.Duration, done func(error))
	ForgetBatches(ids []RequestID, timeout time.Duration, done func(error))
}

// Batch applies mutations of several partitions: all of them in the end, or none. Before the first is
// sent, two other nodes have the batch on disk; they apply it when this node does not say in time that
// it is settled (writeOp.secured).
func (c *Coordinator) Batch(req *WriteRequest, done func(error)) {
	if len(req.Mutations) < 2 || c.unsafe.NoBatchlog {
		c.Write(req, done)
		return
	}
	if req.Ordered { // before it is kept: holders apply it as it is
		c.order(req, c.Batch, done)
		return
	}
	for _, m := range req.Mutations {
		if err := c.available(m, req.Consistency); err != nil {
			if c.waits(err, c.clock.Monotonic()+req.Timeout) {
				again := *req
				again.Timeout -= arrivalPause
				c.clock.After(arrivalPause, func() { c.Batch(&again, done) })
				return
			}
			done(err)
			return
		}
	}
	op := &batchOp{c: c, req: *req, deadline: c.clock.Monotonic() + req.Timeout, done: done}
	op.id = RequestID{Node: c.view.Self(), Incarnation: c.incarnation, Sequence: c.sequence.Add(1)}
	if err := op.choose(); err != nil {
		done(err)
		return
	}
	op.size = sized(req.Mutations) + writeOpBytes
	if err := c.reserve(op.size); err != nil {
		done(err)
		return
	}
	op.encoded = appendBatch(nil, c.clock.Now().UnixNano(), 2*op.req.Timeout, op.req.Mutations)
	op.begin()
}

// batchOp is a logged batch under way, until it is written; or until others keep it, when it is handed over.
type batchOp struct {
	c        *Coordinator
	req      WriteRequest
	id       RequestID
	encoded  []byte
	deadline time.Duration
	size     int64
	handed   bool // this node kept it, and leaves; nothing is reserved

	mu         sync.Mutex
	timer      env.Timer
	done       func(error)   // nil once called, or once the batch is kept
	candidates []ring.NodeID // nearest to what is wanted first
	asked      int           // of candidates
	need       int
	open       int           // asked, and not answered
	doomed     error         // why too few will have it
	uncertain  bool          // somebody may have it who did not say so
	holders    []ring.NodeID // that have it
}

// choose lists who may hold the batch: other live nodes of this data center, of other racks first.
// A node that is alone there holds its batches itself, and so does one that need not reach anybody; or,
// when it leaves the ring, those of other data centers do.
func (op *batchOp) choose() error {
	c, t := op.c, op.c.view.Topology()
	self := c.view.Self()
	rack, others := "", 0
	if n := t.Node(self); n != nil {
		rack = n.Rack
	}
	var far, near, distant []ring.NodeID
	nodes := t.Nodes()
	for i := range nodes {
		// Every batch begins elsewhere, so that the load is spread.
		n := nodes[(i+int(op.id.Sequence%uint64(len(nodes))))%len(nodes)]
		if n.ID == self || n.State != ring.Normal {
			continue
		}
		if n.Datacenter != c.localDC {
			if c.view.Alive(n.ID) {
				distant = append(distant, n.ID)
			}
			continue
		}
		others++
		switch {
		case !c.view.Alive(n.ID):
		case n.Rack == rack:
			near = append(near, n.ID)
		case len(far) > 0 && t.Node(far[0]).Rack == n.Rack:
			far = append(far, n.ID)
		default: // a rack that is not the first one's comes second
			far = append(far, n.ID)
			if last := len(far) - 1; last > 1 && t.Node(far[1]).Rack == t.Node(far[0]).Rack {
				far[1], far[last] = far[last], far[1]
			}
		}
	}
	op.candidates = append(far, near...)
	switch {
	case len(op.candidates) > 0:
	case !c.stays():
		op.candidates = distant
	case others == 0 || op.req.Consistency == ring.Any:
		op.candidates = []ring.NodeID{self}
	}
	if op.need = min(2, len(op.candidates)); op.need == 0 {
		c.counts.unavailable.Add(1)
		return &Unavailable{Consistency: ring.One, Required: 1}
	}
	return nil
}

// begin asks as many as are needed to keep the batch.
func (op *batchOp) begin() {
	c := op.c
	timer := c.clock.After(op.req.Timeout, op.timeout)
	op.mu.Lock()
	op.timer, op.asked, op.open = timer, op.need, op.need
	op.mu.Unlock()
	for _, node := range op.candidates[:op.need] {
		op.ask(node)
	}
}

func (op *batchOp) ask(node ring.NodeID) {
	c := op.c
	traceNode(op.req.Trace, c.view.Self(), "Storing batch log on", node)
	done := func(err error) { op.kept(node, err) }
	if node == c.view.Self() {
		c.KeepBatch(op.id, op.encoded, done)
		return
	}
	holder, ok := c.replicas.Replica(node).(BatchHolder)
	if !ok {
		done(&ReplicaFailure{Message: "the replica keeps no batches"})
		return
	}
	holder.KeepBatch(op.id, op.encoded, c.remaining(op.deadline), done)
}

// kept is the event of a holder's answer. One that certainly keeps nothing has another take its place.
func (op *batchOp) kept(node ring.NodeID, err error) {
	defer op.guarded()
	op.mu.Lock()
	op.open--
	certain := errors.Is(err, ErrNotSent)
	switch {
	case op.done == nil:
		op.mu.Unlock()
		return
	case err == nil:
		op.holders = append(op.holders, node)
	case certain && op.asked < len(op.candidates) && op.doomed == nil:
		next := op.candidates[op.asked]
		op.asked++
		op.open++
		op.mu.Unlock()
		op.ask(next)
		return
	default:
		op.doomed, op.uncertain = err, op.uncertain || !certain
	}
	switch {
	case len(op.holders) == op.need && op.handed:
		op.concludeLocked(nil)
	case len(op.holders) == op.need:
		op.writeLocked()
	case op.open > 0:
		op.mu.Unlock()
	case op.uncertain || len(op.holders) > 0:
		op.failLocked()
	default:
		op.refuseLocked(op.doomed)
	}
}

// refuseLocked answers that certainly nobody keeps the batch. It frees mu.
func (op *batchOp) refuseLocked(err error) {
	var overloaded *Overloaded
	if !errors.As(err, &overloaded) {
		op.c.counts.unavailable.Add(1)
		err = &Unavailable{Consistency: ring.One, Required: 1}
	}
	op.concludeLocked(err)
}

// timeout is the event of the deadline, while the batch is not kept.
func (op *batchOp) timeout() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	op.failLocked()
}

// failLocked answers that the batch is not kept by as many as must; one may, and will apply it. It
// frees mu.
func (op *batchOp) failLocked() {
	op.c.counts.writeTimeouts.Add(1)
	level := ring.Two
	if op.need == 1 {
		level = ring.One
	}
	op.concludeLocked(&WriteTimeout{Consistency: level, Received: len(op.holders), BlockFor: op.need, Type: WriteBatchLog})
}

// concludeLocked answers the client; it frees mu.
func (op *batchOp) concludeLocked(err error) { op.endLocked()(err) }

// endLocked ends the keeping; what is left is to call what it gives. It frees mu.
func (op *batchOp) endLocked() (done func(error)) {
	done, timer := op.done, op.timer
	op.done = nil
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	if !op.handed {
		op.c.giveBack(op.size)
	}
	return done
}

// writeLocked writes a batch that is kept. It frees mu.
func (op *batchOp) writeLocked() {
	c, holders, id := op.c, op.holders, op.id
	done := op.endLocked()
	op.encoded = nil
	req := op.req
	req.Type, req.Timeout = WriteBatch, c.remaining(op.deadline)
	req.settled = func(secured bool) {
		if secured {
			c.batchlog.release(id, holders)
		}
	}
	c.Write(&req, func(err error) {
		if errors.Is(err, ErrNotSent) { // by this node, but it is kept
			c.counts.writeTimeouts.Add(1)
			err = &WriteTimeout{Consistency: req.Consistency, BlockFor: 1, Type: WriteBatch}
		}
		done(err)
	})
}

// secured says whether what is written will be everywhere in the end, and nobody need keep it to write it again: every
// replica has its share, or a hint for it is on disk. But hints are given up when they are too many or too old, or go
// with the node that has them; then repair brings what some replica has. So of each mutation's replicas a majority has
// it, or as many as lived, and one at least.
func (op *writeOp) secured() bool {
	for _, t := range op.targets {
		if t.state != targetAcked && !t.kept {
			return false
		}
	}
	for i := range op.parts {
		all, alive, has := 0, 0, 0
		for _, t := range op.targets {
			if !slices.Contains(t.parts, i) {
				continue
			}
			all++
			if t.alive {
				alive++
			}
			if t.state == targetAcked {
				has++
			}
		}
		if has < max(1, min(ring.QuorumOf(all), alive)) && !op.c.unsafe.HintsSecure {
			return false
		}
	}
	return len(op.targets) > 0
}

// appendBatch encodes a batch as it is kept and sent: created (8), delay (8), mutations.
func appendBatch(dst []byte, created int64, delay time.Duration, mutations []*row.Mutation) []byte {
	dst = wire.AppendInt64(dst, created)
	dst = wire.AppendInt64(dst, int64(delay))
	for _, m := range mutations {
		dst = row.AppendMutation(dst, m)
	}
	return dst
}

// batchDelayMax bounds how long a batch may wait before it is looked at.
const batchDelayMax = time.Hour

// decodeBatch is the inverse of appendBatch; the mutations point into b.
func decodeBatch(id RequestID, b []byte) (*LoggedBatch, error) {
	c := wire.NewCursor(b)
	batch := &LoggedBatch{ID: id, Created: c.Int64()}
	batch.Delay = min(max(time.Duration(c.Int64()), 0), batchDelayMax)
	for c.Len() > 0 && c.Err() == nil {
		m := new(row.Mutation)
		row.ConsumeMutation(&c, m)
		batch.Mutations = append(batch.Mutations, m)
	}
	return batch, c.Finish()
}
