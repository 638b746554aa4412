package coordinator

import (
	"slices"
	"time"

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
				c.clock.After(arrivalPause, func() { c.run(func() { c.Batch(&again, done) }) })
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
