package contention

import (
	"time"

	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
)

// Messages between a coordinator and the arbiter of a partition:
//
//	VerbTurn   timeout (µs), partition     reply: ticket, alone (1), kept (µs)
//	VerbPass   ticket, partition           one-way
//
// Numbers without a size are uvarints, and a partition is the rest of the payload.

// turnTimeoutMax bounds the times in messages of other nodes. An arbiter lets no request wait for more than WaitMax,
// and no turn lasts longer than keptMost.
const turnTimeoutMax = time.Minute

// Serve registers the handlers of other nodes' requests to this node's arbiter. It is called before the transport
// starts.
func Serve(transport messaging.Transport, arbiter *Arbiter) {
	transport.Handle(messaging.Service{Verb: messaging.VerbTurn, Name: "turn",
		Handler: func(from ring.NodeID, payload []byte, respond messaging.Respond) {
			c := wire.NewCursor(payload)
			timeout := consumeTime(&c)
			partition := string(c.Rest())
			if err := c.Err(); err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			arbiter.Ask(partition, from, timeout, func(t Turn) { respond(appendTurn(nil, t), nil) })
		}})
	transport.Handle(messaging.Service{Verb: messaging.VerbPass, Name: "pass",
		Handler: func(_ ring.NodeID, payload []byte, _ messaging.Respond) {
			c := wire.NewCursor(payload)
			ticket, partition := c.Uvarint(), string(c.Rest())
			// Nothing is lost with a malformed message: the turn ends when its time is over.
			if c.Err() == nil {
				arbiter.Pass(partition, ticket)
			}
		}})
}

// Client sends requests to the arbiters of other nodes. Its methods may be called concurrently.
type Client struct{ transport messaging.Transport }

// NewClient returns a client that sends its requests by transport.
func NewClient(transport messaging.Transport) Client { return Client{transport} }

// Ask asks another node, the arbiter of a partition, for a turn. It returns at once and calls done exactly once,
// possibly before it returns. The error is coordinator.ErrNotSent (errors.Is) if the node certainly has not received
// the request.
func (c Client) Ask(to ring.NodeID, partition string, timeout time.Duration, done func(Turn, error)) {
	request := append(wire.AppendUvarint(nil, uint64(timeout.Microseconds())), partition...)
	c.transport.Request(to, messaging.VerbTurn, request, timeout, func(payload []byte, err error) {
		if err != nil {
			done(Turn{}, replica.FromRemote(err))
			return
		}
		done(decodeTurn(payload))
	})
}

// Pass returns a turn to the node that granted it. If the message is lost, the turn ends when its time is over.
func (c Client) Pass(to ring.NodeID, partition string, ticket uint64) {
	c.transport.Send(to, messaging.VerbPass, append(wire.AppendUvarint(nil, ticket), partition...))
}

// consumeTime consumes a time in µs. The bound keeps a malformed one from overflowing.
func consumeTime(c *wire.Cursor) time.Duration {
	return time.Duration(min(c.Uvarint(), uint64(turnTimeoutMax.Microseconds()))) * time.Microsecond
}

// appendTurn appends the reply to VerbTurn.
func appendTurn(dst []byte, t Turn) []byte {
	alone := byte(0)
	if t.Alone {
		alone = 1
	}
	return wire.AppendUvarint(append(wire.AppendUvarint(dst, t.Ticket), alone), uint64(t.Kept.Microseconds()))
}

// decodeTurn is the inverse of appendTurn.
func decodeTurn(payload []byte) (Turn, error) {
	c := wire.NewCursor(payload)
	t := Turn{Ticket: c.Uvarint(), Alone: c.Uint8() == 1}
	t.Kept = consumeTime(&c)
	return t, c.Finish()
}
