package batchlog

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
)

// Holders stores batches on other nodes. Every method returns at once and calls done exactly once, possibly before it
// returns.
type Holders interface {
	// Keep stores a batch on a node. It is on that node's disk when done gets nil.
	Keep(node ring.NodeID, trace coordinator.Trace, id coordinator.RequestID, encoded []byte, timeout time.Duration,
		done func(error))
	// Forget removes batches from a node.
	Forget(node ring.NodeID, ids []coordinator.RequestID, timeout time.Duration, done func(error))
}

// keeper stores batches on this node. Log implements it.
type keeper interface {
	Keep(id coordinator.RequestID, encoded []byte, done func(error))
	Forget(ids []coordinator.RequestID, done func(error))
}

// Serve makes transport answer the requests of other nodes from l. It is called before the transport starts. id is made
// of coordinator.AppendRequestID.
//
//	VerbBatchStore    id, the batch as it is stored   reply: empty, when it is on disk
//	VerbBatchRemove   n, n × id                       reply: empty
func Serve(transport messaging.Transport, l *Log) { serve(transport, l) }

// serve is Serve for any keeper. Both handlers block, because they write to the disk.
func serve(transport messaging.Transport, l keeper) {
	transport.Handle(messaging.Service{Verb: messaging.VerbBatchStore, Name: "batch store", Blocking: true,
		Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
			c := wire.NewCursor(payload)
			id := coordinator.ConsumeRequestID(&c)
			// The payload belongs to the transport after the handler returns.
			encoded := slices.Clone(c.Rest())
			if err := c.Err(); err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			// The reply follows the sync, because it promises that the batch is durable.
			l.Keep(id, encoded, func(err error) { respond(nil, replica.ToRemote(err)) })
		}})
	transport.Handle(messaging.Service{Verb: messaging.VerbBatchRemove, Name: "batch remove", Blocking: true,
		Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
			ids, err := decodeIDs(payload)
			if err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			l.Forget(ids, func(err error) { respond(nil, replica.ToRemote(err)) })
		}})
}

// Client implements Holders by messages.
type Client struct{ transport messaging.Transport }

var _ Holders = (*Client)(nil)

// NewClient returns a Client that sends through transport.
func NewClient(transport messaging.Transport) *Client { return &Client{transport} }

// Keep implements Holders.
func (c *Client) Keep(node ring.NodeID, trace coordinator.Trace, id coordinator.RequestID, encoded []byte,
	timeout time.Duration, done func(error)) {
	// One allocation for the id and the batch.
	request := append(coordinator.AppendRequestID(make([]byte, 0, 32+len(encoded)), id), encoded...)
	transport := c.transport
	if trace != nil {
		transport = replica.TracedTransport(transport, trace)
	}
	transport.Request(node, messaging.VerbBatchStore, request, timeout,
		func(_ []byte, err error) { done(replica.FromRemote(err)) })
}

// Forget implements Holders.
func (c *Client) Forget(node ring.NodeID, ids []coordinator.RequestID, timeout time.Duration, done func(error)) {
	c.transport.Request(node, messaging.VerbBatchRemove, appendIDs(nil, ids), timeout,
		func(_ []byte, err error) { done(replica.FromRemote(err)) })
}

// appendIDs encodes the request of VerbBatchRemove.
func appendIDs(dst []byte, ids []coordinator.RequestID) []byte {
	dst = wire.AppendUvarint(dst, uint64(len(ids)))
	for _, id := range ids {
		dst = coordinator.AppendRequestID(dst, id)
	}
	return dst
}

// decodeIDs is the inverse of appendIDs. It fails if bytes are left.
func decodeIDs(payload []byte) (ids []coordinator.RequestID, err error) {
	c := wire.NewCursor(payload)
	for range c.Count(coordinator.RequestIDSizeMin) {
		ids = append(ids, coordinator.ConsumeRequestID(&c))
	}
	return ids, c.Finish()
}
