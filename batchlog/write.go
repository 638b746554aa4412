package batchlog

import (
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/row"
)

// Write applies mutations of several partitions: eventually all of them, or none. Before it sends the first, two other
// nodes have the batch on disk; they apply it unless this node reports in time that it is secured (see Log.secured).
func (l *Log) Write(req *coordinator.WriteRequest, done func(error)) {
	c := l.c
	// One mutation is applied by each replica as a whole, so it needs no log.
	if len(req.Mutations) < 2 {
		c.Write(req, done)
		return
	}
	if req.Ordered { // before the batch is stored: holders apply it unchanged
		c.Order(req, l.Write, done)
		return
	}
	for _, m := range req.Mutations {
		// Checked before the batch is stored, so that Unavailable guarantees that nothing is applied later.
		if err := c.Available(m, req.Consistency); err != nil {
			if c.MayArrive(err, l.clock.Monotonic()+req.Timeout) {
				// The request is copied, because its caller may read it after the end.
				again := *req
				again.Timeout -= coordinator.ArrivalPause
				l.clock.After(coordinator.ArrivalPause, func() { l.run(func() { l.Write(&again, done) }) })
				return
			}
			done(err)
			return
		}
	}
	op := &storeOp{l: l, req: *req, deadline: l.clock.Monotonic() + req.Timeout, done: done}
	op.id = c.NextRequestID()
	// The holders are chosen before the reservation, so that a failure need not release it.
	if err := op.choose(); err != nil {
		done(err)
		return
	}
	op.size = coordinator.WriteSize(req.Mutations...)
	created := l.clock.Now().UnixNano()
	// The reservation is the last step, because after a panic only events release it.
	if err := c.Reserve(op.size); err != nil {
		done(err)
		return
	}
	// Holders wait twice the timeout of the request: by then this node has secured the batch, or failed.
	op.begin(appendBatch(nil, created, 2*op.req.Timeout, op.req.Mutations))
}

// secured reports whether a batch no longer needs holders: every replica will receive its mutations without them.
// Each has them, or has a hint on disk. Hints alone do not suffice: they expire, or are lost with the node that
// stores them. A repair then restores only mutations that some replica has. So each mutation must be on a majority of
// its replicas or, if fewer were alive, on all live ones, but at least one.
func (l *Log) secured(s coordinator.Settlement) bool {
	return s.Hinted && s.Majority
}

// loggedBatch is a stored batch.
type loggedBatch struct {
	id        coordinator.RequestID
	created   int64         // ns since 1970, by the clock of its coordinator; only its expiry depends on it
	delay     time.Duration // a holder applies the batch if it is not removed for this time
	mutations []*row.Mutation
}

// appendBatch encodes a batch for storage and for messages: created (8), delay (8), mutations.
func appendBatch(dst []byte, created int64, delay time.Duration, mutations []*row.Mutation) []byte {
	dst = wire.AppendInt64(dst, created)
	dst = wire.AppendInt64(dst, int64(delay))
	for _, m := range mutations {
		dst = row.AppendMutation(dst, m)
	}
	return dst
}

// delayMax bounds how long a holder waits before it applies a batch.
const delayMax = time.Hour

// decodeBatch is the inverse of appendBatch; the mutations point into b.
func decodeBatch(id coordinator.RequestID, b []byte) (*loggedBatch, error) {
	c := wire.NewCursor(b)
	batch := &loggedBatch{id: id, created: c.Int64()}
	// The delay comes from another node's message or from the disk, so it is bounded.
	batch.delay = min(max(time.Duration(c.Int64()), 0), delayMax)
	for c.Len() > 0 && c.Err() == nil {
		m := new(row.Mutation)
		row.ConsumeMutation(&c, m)
		batch.mutations = append(batch.mutations, m)
	}
	return batch, c.Finish()
}

// errExpired reports a dropped batch with its tables: its coordinator may have written a part of it before it failed.
func (l *Log) errExpired(b *loggedBatch) error {
	catalog := l.view.Schema()
	var tables []string
	for _, m := range b.mutations {
		tables = append(tables, catalog.NameOf(m.Table))
	}
	slices.Sort(tables)
	return fmt.Errorf("batchlog: a logged batch is older than gc_grace_seconds of one of its tables and is not "+
		"replayed; repair %s", strings.Join(slices.Compact(tables), ", "))
}

// lose reports an expired batch, and the partition of each of its mutations.
func (l *Log) lose(b *loggedBatch) {
	if f := l.onLost.Load(); f != nil {
		for _, m := range b.mutations {
			(*f)(m.Table, m.Key.Token)
		}
	}
	l.onError(l.errExpired(b))
}

// expired reports whether gc_grace_seconds of one of the batch's tables, which are known, has passed: the mutation
// could resurrect deleted data. No mutation is applied then, as in Cassandra: the others would be half of a batch.
func (l *Log) expired(b *loggedBatch) bool {
	catalog, now := l.view.Schema(), l.clock.Now().UnixNano()
	return slices.ContainsFunc(b.mutations, func(m *row.Mutation) bool {
		table := catalog.TableByStorage(m.Table)
		// created comes from the coordinator's clock. A difference between the two clocks only shifts the limit.
		return table != nil && b.created+int64(table.Options.GCGraceSeconds)*int64(time.Second) <= now
	})
}
