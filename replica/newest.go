package replica

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
)

// The request for the newest timestamp of the data that a write will change:
//
//	VerbNewest   epoch, row.AppendReadCommand of one partition   reply: time (8, µs)

var (
	_ coordinator.Dated = (*Local)(nil)
	_ coordinator.Dated = (*Remote)(nil)
)

// Newest implements coordinator.Dated. A worker reads.
func (l *Local) Newest(epoch uint64, cmd *row.ReadCommand, _ time.Duration, done func(int64, error)) {
	own := cmd.Clone() // as in Read
	l.Block(0, func() { l.newest(epoch, own, done) }, func(err error) { done(0, err) })
}

// newest is Newest in a goroutine that may block on the disk.
func (l *Local) newest(epoch uint64, cmd *row.ReadCommand, done func(int64, error)) {
	if err := l.CheckEpoch(epoch); err != nil {
		done(0, err)
		return
	}
	newest, err := l.engine.Newest(cmd)
	if err != nil {
		done(0, FromStorage(err))
		return
	}
	done(newest, nil)
}

// Newest implements coordinator.Dated.
func (r *Remote) Newest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(int64, error)) {
	r.transport.Request(r.node, messaging.VerbNewest, appendRead(nil, epoch, cmd), timeout,
		func(payload []byte, err error) {
			if err != nil {
				done(0, FromRemote(err))
				return
			}
			c := wire.NewCursor(payload)
			newest := c.Int64()
			done(newest, c.Finish())
		})
}

var errNotOnePartition = errors.New("replica: a request for the newest timestamp must name one partition")

// newest answers VerbNewest. It runs in a worker, so it reads without another one.
func (s *server) newest(_ ring.NodeID, payload []byte, respond messaging.Respond) {
	cmd := s.commands.Get().(*row.ReadCommand)
	defer s.commands.Put(cmd)
	epoch, err := decodeRead(payload, cmd)
	if err == nil && !cmd.SinglePartition() {
		err = errNotOnePartition
	}
	if err == nil {
		err = s.local.admitRead(cmd)
	}
	if err != nil {
		respond(nil, ToRemote(err))
		return
	}
	s.local.newest(epoch, cmd, func(newest int64, err error) {
		if err != nil {
			respond(nil, ToRemote(err))
			return
		}
		respond(wire.AppendInt64(nil, newest), nil)
	})
}
