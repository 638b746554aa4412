package replica

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
)

// BatchKeeper keeps logged batches for other nodes: the coordinator of this node.
type BatchKeeper interface {
	KeepBatch(id coordinator.RequestID, encoded []byte, done func(error))
	ForgetBatches(ids []coordinator.RequestID, done func(error))
}

// ServeBatches makes transport answer the other nodes' requests to keep logged batches. It is called
// before the transport starts. id is node, incarnation (8), sequence.
//
//	VerbBatchStore    id, the batch as it is kept   reply: empty, when it is on disk
//	VerbBatchRemove   n, n × id                     reply: empty
func ServeBatches(transport messaging.Transport, keeper BatchKeeper) {
	transport.Handle(messaging.Service{Verb: messaging.VerbBatchStore, Name: "batch store", Blocking: true, Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
		c := wire.NewCursor(payload)
		id := consumeID(&c)
		encoded := slices.Clone(c.Rest())
		if err := c.Err(); err != nil {
			respond(nil, ToRemote(err))
			return
		}
		keeper.KeepBatch(id, encoded, func(err error) { respond(nil, ToRemote(err)) })
	}})
	transport.Handle(messaging.Service{Verb: messaging.VerbBatchRemove, Name: "batch remove", Blocking: true, Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
		ids, err := decodeIDs(payload)
		if err != nil {
			respond(nil, ToRemote(err))
			return
		}
		keeper.ForgetBatches(ids, func(err error) { respond(nil, ToRemote(err)) })
	}})
}

var _ coordinator.BatchHolder = (*Remote)(nil)

// KeepBatch implements coordinator.BatchHolder.
func (r *Remote) KeepBatch(id coordinator.RequestID, encoded []byte, timeout time.Duration, done func(error)) {
	request := append(appendID(make([]byte, 0, 32+len(encoded)), id), encoded...)
	r.transport.Request(r.node, messaging.VerbBatchStore, request, timeout, func(_ []byte, err error) { done(FromRemote(err)) })
}

// ForgetBatches implements coordinator.BatchHolder.
func (r *Remote) ForgetBatches(ids []coordinator.RequestID, timeout time.Duration, done func(error)) {
	r.transport.Request(r.node, messaging.VerbBatchRemove, appendIDs(nil, ids), timeout, func(_ []byte, err error) { done(FromRemote(err)) })
}

func appendID(dst []byte, id coordinator.RequestID) []byte {
	dst = wire.AppendUvarint(dst, uint64(id.Node))
	dst = wire.AppendUint64(dst, id.Incarnation)
	return wire.AppendUvarint(dst, id.Sequence)
}

func consumeID(c *wire.Cursor) coordinator.RequestID {
	return coordinator.RequestID{Node: ring.NodeID(c.Uvarint()), Incarnation: c.Uint64(), Sequence: c.Uvarint()}
}

func appendIDs(dst []byte, ids []coordinator.RequestID) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = appendID(dst, id)
	}
	return dst
}

func decodeIDs(payload []byte) (ids []coordinator.RequestID, err error) {
	c := wire.NewCursor(payload)
	const sizeMin = 1 + 8 + 1
	for range c.Count(sizeMin) {
		ids = append(ids, consumeID(&c))
	}
	return ids, c.Finish()
}
