package replica

import (
	"time"

	"cqld/coordinator"
	"cqld/coordinator/turn"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
)

// TurnKeeper says whose turn it is with a partition of which this node is the home: the coordinator.
type TurnKeeper interface {
	Turn(line string, from ring.NodeID, timeout time.Duration, done func(turn.Turn))
	Pass(line string, ticket uint64)
}

// turnTimeoutMax keeps what a request asks for a duration; the keeper waits for less.
const turnTimeoutMax = time.Minute

// ServeTurns makes transport answer the other nodes' questions for turns. It is called before the transport
// starts.
//
//	VerbTurn   timeout (µs), line     reply: ticket, alone (1), kept (µs)
//	VerbPass   ticket, line           one-way
func ServeTurns(transport messaging.Transport, keeper TurnKeeper) {
	transport.Handle(messaging.Service{Verb: messaging.VerbTurn, Name: "turn", Handler: func(from ring.NodeID, payload []byte, respond messaging.Respond) {
		c := wire.NewCursor(payload)
		timeout := time.Duration(min(c.Uvarint(), uint64(turnTimeoutMax.Microseconds()))) * time.Microsecond
		line := string(c.Rest())
		if err := c.Err(); err != nil {
			respond(nil, ToRemote(err))
			return
		}
		keeper.Turn(line, from, timeout, func(t turn.Turn) { respond(appendTurn(nil, t), nil) })
	}})
	transport.Handle(messaging.Service{Verb: messaging.VerbPass, Name: "pass", Handler: func(_ ring.NodeID, payload []byte, _ messaging.Respond) {
		c := wire.NewCursor(payload)
		ticket, line := c.Uvarint(), string(c.Rest())
		if c.Err() == nil {
			keeper.Pass(line, ticket)
		}
	}})
}

// Turn implements coordinator.Usher.
func (r *Remote) Turn(line string, timeout time.Duration, done func(turn.Turn, error)) {
	request := append(wire.AppendUvarint(nil, uint64(timeout.Microseconds())), line...)
	r.transport.Request(r.node, messaging.VerbTurn, request, timeout, func(payload []byte, err error) {
		if err != nil {
			done(turn.Turn{}, FromRemote(err))
			return
		}
		done(decodeTurn(payload))
	})
}

// Pass implements coordinator.Usher.
func (r *Remote) Pass(line string, ticket uint64) {
	r.transport.Send(r.node, messaging.VerbPass, append(wire.AppendUvarint(nil, ticket), line...))
}

var _ coordinator.Usher = (*Remote)(nil)

func appendTurn(dst []byte, t turn.Turn) []byte {
	alone := byte(0)
	if t.Alone {
		alone = 1
	}
	return wire.AppendUvarint(append(wire.AppendUvarint(dst, t.Ticket), alone), uint64(t.Kept.Microseconds()))
}

// decodeTurn is the inverse of appendTurn.
func decodeTurn(payload []byte) (turn.Turn, error) {
	c := wire.NewCursor(payload)
	t := turn.Turn{Ticket: c.Uvarint(), Alone: c.Uint8() == 1}
	t.Kept = time.Duration(min(c.Uvarint(), uint64(turnTimeoutMax.Microseconds()))) * time.Microsecond
	return t, c.Finish()
}
