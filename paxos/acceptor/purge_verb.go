package acceptor

import (
	"time"

	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Messages of purge steps between nodes:
//
//	VerbPaxosPurge   epoch, moved, table, start 8, end 8, low bound, forget 1, key?
//	         reply:  forgotten, scanned, n, key*, next key?
//
//	key := token 8, length, bytes         key? := 0, or 1 and a key
//
// Numbers without a size are uvarints.

// serve registers the handler of other nodes' repairs.
func (r *Purge) serve() {
	r.o.Transport.Handle(messaging.Service{Verb: messaging.VerbPaxosPurge, Name: "paxos purge", Blocking: true,
		Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
			req, err := decodePurgeRequest(payload)
			if err != nil {
				respond(nil, replica.ToRemote(err))
				return
			}
			// The service is Blocking, so this goroutine may wait for the disk.
			r.step(req, func(f func()) { f() }, func(s PurgeStep, err error) {
				if err != nil {
					respond(nil, replica.ToRemote(err))
					return
				}
				respond(appendPurgeStep(nil, &s), nil)
			})
		}})
}

// Paxos executes a step on a node, which may be this one, and calls done exactly once. It implements
// repair.PaxosStates.
func (r *Purge) Paxos(node ring.NodeID, req *PurgeRequest, timeout time.Duration, done func(PurgeStep, error)) {
	if node == r.o.Acceptor.view.Self() {
		own := *req
		r.step(&own, r.o.Run, done)
		return
	}
	r.o.Transport.Request(node, messaging.VerbPaxosPurge, appendPurgeRequest(nil, req), timeout,
		func(payload []byte, err error) {
			if err != nil {
				done(PurgeStep{}, replica.FromRemote(err))
				return
			}
			done(decodePurgeStep(payload))
		})
}

func appendKey(dst []byte, k *row.PartitionKey) []byte {
	return appendSized(wire.AppendInt64(dst, int64(k.Token)), k.Bytes)
}

func consumeKey(c *wire.Cursor) row.PartitionKey {
	// The key is copied: the payload is valid only while the handler, or the callback of the reply, runs.
	return row.PartitionKey{Token: ring.Token(c.Int64()), Bytes: append([]byte{}, consumeSized(c)...)}
}

// appendMaybeKey appends a key that may be absent.
func appendMaybeKey(dst []byte, k *row.PartitionKey) []byte {
	if k == nil {
		return append(dst, 0)
	}
	return appendKey(append(dst, 1), k)
}

func consumeMaybeKey(c *wire.Cursor) *row.PartitionKey {
	if c.Uint8() == 0 {
		return nil
	}
	k := consumeKey(c)
	return &k
}

// appendPurgeRequest appends a request in the form above.
func appendPurgeRequest(dst []byte, r *PurgeRequest) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, r.Epoch), r.Moved)
	dst = wire.AppendUvarint(dst, uint64(r.Table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(r.Tokens.Start)), int64(r.Tokens.End))
	dst = wire.AppendUvarint(dst, uint64(r.LowBound))
	forget := byte(0)
	if r.Forget {
		forget = 1
	}
	return appendMaybeKey(append(dst, forget), r.After)
}

func decodePurgeRequest(payload []byte) (*PurgeRequest, error) {
	c := wire.NewCursor(payload)
	r := &PurgeRequest{Epoch: c.Uvarint(), Moved: c.Uvarint(), Table: schema.StorageID(c.Uvarint())}
	r.Tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	r.LowBound, r.Forget = int64(c.Uvarint()), c.Uint8() == 1
	r.After = consumeMaybeKey(&c)
	return r, c.Finish()
}

func appendPurgeStep(dst []byte, s *PurgeStep) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(s.Forgotten)), uint64(s.Scanned))
	dst = wire.AppendUvarint(dst, uint64(len(s.Unsettled)))
	for i := range s.Unsettled {
		dst = appendKey(dst, &s.Unsettled[i])
	}
	return appendMaybeKey(dst, s.Next)
}

func decodePurgeStep(payload []byte) (s PurgeStep, err error) {
	c := wire.NewCursor(payload)
	s.Forgotten, s.Scanned = int(c.Uvarint()), int64(c.Uvarint())
	// Count refuses a number of keys that the rest of the payload cannot contain.
	for range c.Count(9) { // minimum size of a key
		s.Unsettled = append(s.Unsettled, consumeKey(&c))
	}
	s.Next = consumeMaybeKey(&c)
	return s, c.Finish()
}
