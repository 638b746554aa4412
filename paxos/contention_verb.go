package paxos

import (
	"time"

	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
)

// TurnKeeper grants turns with the partitions of which this node is the arbiter. A Proposer implements it.
type TurnKeeper interface {
	Turn(partition string, from ring.NodeID, timeout time.Duration, done func(contention.Turn))
	Pass(partition string, ticket uint64)
}

// turnTimeoutMax bounds the timeout of a request; the keeper waits for less.
const turnTimeoutMax = time.Minute

// ServeTurns registers the handlers of other nodes' requests for turns. It is called before the transport starts.
//
//	VerbTurn   timeout (µs), partition     reply: ticket, alone (1), kept (µs)
//	VerbPass   ticket, partition           one-way
func ServeTurns(transport messaging.Transport, keeper TurnKeeper) {
	transport.Handle(messaging.Service{Verb: messaging.VerbTurn, Name: "turn",
		Handler: func(from ring.NodeID, payload []byte, respond messaging.Respond) {
			c := wire.NewCursor(payload)
			timeout := time.Duration(min(c.Uvarint(), uint64(turnTimeoutMax.Microseconds()))) * time.Microsecond
			partition := string(c.Rest())
			if err := c.Err(); err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			keeper.Turn(partition, from, timeout, func(t contention.Turn) { respond(appendTurn(nil, t), nil) })
		}})
	transport.Handle(messaging.Service{Verb: messaging.VerbPass, Name: "pass",
		Handler: func(_ ring.NodeID, payload []byte, _ messaging.Respond) {
			c := wire.NewCursor(payload)
			ticket, partition := c.Uvarint(), string(c.Rest())
			if c.Err() == nil {
				keeper.Pass(partition, ticket)
			}
		}})
}

func appendTurn(dst []byte, t contention.Turn) []byte {
	alone := byte(0)
	if t.Alone {
		alone = 1
	}
	return wire.AppendUvarint(append(wire.AppendUvarint(dst, t.Ticket), alone), uint64(t.Kept.Microseconds()))
}

// decodeTurn is the inverse of appendTurn.
func decodeTurn(payload []byte) (contention.Turn, error) {
	c := wire.NewCursor(payload)
	t := contention.Turn{Ticket: c.Uvarint(), Alone: c.Uint8() == 1}
	t.Kept = time.Duration(min(c.Uvarint(), uint64(turnTimeoutMax.Microseconds()))) * time.Microsecond
	return t, c.Finish()
}
