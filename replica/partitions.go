package replica

import (
	"bytes"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Partitions implements coordinator.Replica. A worker reads.
func (l *Local) Partitions(epoch uint64, q *coordinator.PartitionsRead, _ time.Duration, done func(*coordinator.PartitionsPage, error)) {
	own := *q
	own.Span = coordinator.KeySpan{From: bytes.Clone(q.Span.From), To: bytes.Clone(q.Span.To)}
	l.block(0, func() { l.partitions(epoch, &own, done) }, func(err error) { done(nil, err) })
}

// partitions is Partitions in a goroutine that may block on the disk. It omits data of ranges that this node has given away
// and not dropped yet. This requires that the node knows the same ring as the coordinator; otherwise it refuses.
func (l *Local) partitions(epoch uint64, q *coordinator.PartitionsRead, done func(*coordinator.PartitionsPage, error)) {
	err := l.CheckEpoch(epoch)
	topology := l.view.Topology()
	if err == nil && q.Moved > topology.Moved() {
		err = &coordinator.NotReplica{Epoch: topology.Epoch()}
	}
	table := l.view.Schema().TableByStorage(q.Table)
	if err == nil && table == nil {
		err = UnknownTable(q.Table)
	}
	if err != nil {
		done(nil, err)
		return
	}
	r := storage.PartitionsRead{
		Table: q.Table, From: q.Span.From, To: q.Span.To, Reversed: q.Reversed, Limit: q.Limit, Now: q.Now,
		Dead: q.Dead, Cancel: q.Cancel,
	}
	if table.Replication.Class != ring.Local {
		placement, self := topology.Placement(table.Replication), l.view.Self()
		r.Holds = func(t ring.Token) bool { return placement.Replicas(t).Contains(self) }
	}
	page, err := l.engine.Partitions(&r)
	if err != nil {
		done(nil, FromStorage(err))
		return
	}
	done((*coordinator.PartitionsPage)(&page), nil)
}

// UnknownTable refuses a request for a table that this node does not know.
func UnknownTable(id schema.StorageID) error {
	return &coordinator.ReplicaFailure{
		Reason: coordinator.FailureIncompatibleSchema, Message: (&coordinator.UnknownTable{Table: id}).Error(),
	}
}

// Partitions implements coordinator.Replica.
func (r *Remote) Partitions(
	epoch uint64, q *coordinator.PartitionsRead, timeout time.Duration, done func(*coordinator.PartitionsPage, error),
) {
	request := appendPartitionsRead(nil, epoch, q)
	messaging.RequestCancelable(r.transport, r.node, messaging.VerbPartitions, request, timeout, q.Cancel, func(reply []byte, err error) {
		if err != nil {
			done(nil, FromRemote(err))
			return
		}
		done(decodePartitionsPage(slices.Clone(reply)))
	})
}

func (s *server) partitions(c messaging.Call, respond messaging.Respond) {
	epoch, q, err := decodePartitionsRead(c.Payload)
	if err == nil {
		if table := s.local.view.Schema().TableByStorage(q.Table); table != nil && table.Replication.Class == ring.Local {
			err = &coordinator.NotReplica{Epoch: s.local.view.Topology().Epoch()} // local data of this node only
		}
	}
	if err != nil {
		respond(nil, ToRemote(err))
		return
	}
	q.Cancel = c.Cancel
	s.local.partitions(epoch, q, func(page *coordinator.PartitionsPage, err error) {
		if err != nil {
			respond(nil, ToRemote(err))
			return
		}
		respond(appendPartitionsPage(nil, page), nil)
	})
}

// partitionKeysMax bounds the limit of one request; storage may end the page earlier.
const partitionKeysMax = 1 << 16

const (
	partitionsReversed = 1 << iota
	partitionsDead
)

func appendPartitionsRead(dst []byte, epoch uint64, q *coordinator.PartitionsRead) []byte {
	var flags byte
	if q.Reversed {
		flags |= partitionsReversed
	}
	if q.Dead {
		flags |= partitionsDead
	}
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, epoch), q.Moved)
	dst = append(wire.AppendUvarint(dst, uint64(q.Table)), flags)
	dst = wire.AppendInt64(wire.AppendUvarint(dst, uint64(q.Limit)), q.Now)
	return wire.AppendBytes(wire.AppendBytes(dst, q.Span.From), q.Span.To)
}

// decodePartitionsRead is the inverse of appendPartitionsRead; the span points into payload.
func decodePartitionsRead(payload []byte) (epoch uint64, q *coordinator.PartitionsRead, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	q = &coordinator.PartitionsRead{Moved: c.Uvarint(), Table: schema.StorageID(c.Uvarint())}
	flags := c.Uint8()
	q.Reversed, q.Dead = flags&partitionsReversed != 0, flags&partitionsDead != 0
	q.Limit = int(min(c.Uvarint(), partitionKeysMax))
	q.Now = c.Int64()
	q.Span = coordinator.KeySpan{From: c.Bytes(), To: c.Bytes()}
	return epoch, q, c.Finish()
}

func appendPartitionsPage(dst []byte, p *coordinator.PartitionsPage) []byte {
	var more byte
	if p.More {
		more = 1
	}
	dst = wire.AppendUvarint(append(dst, more), uint64(p.Scanned))
	dst = wire.AppendBytes(dst, p.Last)
	dst = wire.AppendUvarint(dst, uint64(len(p.Keys)))
	for _, key := range p.Keys {
		dst = wire.AppendShortBytes(dst, key)
	}
	return dst
}

// decodePartitionsPage is the inverse of appendPartitionsPage; the page points into payload.
func decodePartitionsPage(payload []byte) (*coordinator.PartitionsPage, error) {
	c := wire.NewCursor(payload)
	p := &coordinator.PartitionsPage{More: c.Uint8() == 1, Scanned: int(min(c.Uvarint(), 1<<31)), Last: c.Bytes()}
	const sizeMin = 2
	if n := c.Count(sizeMin); n > 0 {
		p.Keys = make([][]byte, 0, n)
		for range n {
			p.Keys = append(p.Keys, c.ShortBytes())
		}
	}
	if p.More && p.Last == nil {
		c.Fail(wire.ErrMalformed) // the next page could not start anywhere
	}
	if err := c.Finish(); err != nil {
		return nil, err
	}
	return p, nil
}
