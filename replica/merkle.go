package replica

import (
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Repair between nodes:
//
//	VerbMerkle     session 8, epoch, since, table, start 8, end 8, leaves, now 8, after
//	      reply:   scanned, size, last 1, next uvarint length, bytes, (leaf, rows, sum 16)*
//	VerbPaxosPurge see paxos_purgeverb.go
//	VerbRepaired   session 8, table, start 8, end 8, until 8                            reply: empty
//
// Numbers without a size are uvarints.

// stepBytesDefault is how much one step hashes: 2 ms of a core, less than a large read.
const stepBytesDefault = 1 << 20

// sessionsMax bounds the repairs that are remembered: one that has been forgotten lifts no quarantine.
const sessionsMax = 256

// RepairEngine is what Repairs need of storage.
type RepairEngine interface {
	Hash(cmd *storage.HashCommand, leaf func(int, storage.LeafHash)) (next []byte, scanned int64, err error)
	SizeOf(table schema.StorageID, tokens ring.Range) (int64, error)
	Lift(table schema.StorageID, tokens ring.Range, since int64) error
	Drain() error
}

// RepairOptions are what Repairs are made of.
type RepairOptions struct {
	Local     *Local
	Engine    RepairEngine
	Transport messaging.Transport
	Clock     env.Clock
	Run       func(func()) // as StreamOptions.Run
	Repaired  *Repaired
	StepBytes int64         // hashed at a time; zero: a MiB
	Streams   *Streams      // those to this node; nil: there are none
	PaxosLook time.Duration // for which it is known which tables have state of Paxos; zero: an hour
	// Confirm is DropAgreement.StartConfirm; nil: states of tables that are gone stay.
	Confirm func(done func())
}

// Repairs is this node's share of repairs, and the way to those of the other nodes.
type Repairs struct {
	o           RepairOptions
	conditional conditionalTables
	mu          struct {
		sync.Mutex
		// began is when (ns, by this node's clock) each repair took its first step here; order is oldest first.
		began map[uint64]int64
		order []uint64
	}
}

var _ repair.Peers = (*Repairs)(nil)

// NewRepairs makes the share of a node; it is called before the transport starts.
func NewRepairs(o RepairOptions) *Repairs {
	setDefault(&o.StepBytes, stepBytesDefault)
	setDefault(&o.PaxosLook, paxosLookDefault)
	r := &Repairs{o: o}
	r.mu.began = map[uint64]int64{}
	o.Transport.Handle(messaging.Service{Verb: messaging.VerbMerkle, Name: "merkle", Blocking: true, Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
		req, err := decodeHashRequest(payload)
		if err != nil {
			respond(nil, toRemote(err))
			return
		}
		r.hash(req, here, func(s repair.HashStep, err error) {
			if err != nil {
				respond(nil, toRemote(err))
				return
			}
			respond(appendHashStep(nil, &s), nil)
		})
	}})
	o.Transport.Handle(messaging.Service{Verb: messaging.VerbRepaired, Name: "repaired", Blocking: true, Handler: func(_ ring.NodeID, payload []byte, respond messaging.Respond) {
		n, err := decodeNotice(payload)
		if err != nil {
			respond(nil, toRemote(err))
			return
		}
		r.repaired(&n, func(err error) { respond(nil, toRemote(err)) })
	}})
	r.servePaxos()
	return r
}

// Hash implements repair.Peers.
func (r *Repairs) Hash(node ring.NodeID, req *repair.HashRequest, timeout time.Duration, done func(repair.HashStep, error)) {
	if node == r.o.Local.view.Self() {
		own := *req
		r.hash(&own, r.o.Run, done)
		return
	}
	r.o.Transport.Request(node, messaging.VerbMerkle, appendHashRequest(nil, req), timeout, func(payload []byte, err error) {
		if err != nil {
			done(repair.HashStep{}, fromRemote(err))
			return
		}
		done(decodeHashStep(payload))
	})
}

// Repaired implements repair.Peers.
func (r *Repairs) Repaired(node ring.NodeID, n *repair.Notice, timeout time.Duration, done func(error)) {
	if node == r.o.Local.view.Self() {
		own := *n
		r.o.Run(func() { r.repaired(&own, done) })
		return
	}
	r.o.Transport.Request(node, messaging.VerbRepaired, appendNotice(nil, n), timeout, func(_ []byte, err error) { done(fromRemote(err)) })
}

// here runs f in the caller's goroutine, which may wait for the disk.
func here(f func()) { f() }

// hash takes a step of hashing. run does what reads the disk.
func (r *Repairs) hash(req *repair.HashRequest, run func(func()), done func(repair.HashStep, error)) {
	if err := r.o.Local.current(req.Epoch); err != nil {
		done(repair.HashStep{}, err)
		return
	}
	if r.o.Local.view.Topology().Epoch() < req.Since {
		done(repair.HashStep{}, &coordinator.ReplicaFailure{Reason: coordinator.FailureUnknown, Message: errStreamNotYet.Error()})
		return
	}
	if req.Session != 0 {
		r.begin(req.Session)
	}
	run(func() {
		s, err := r.step(req)
		if err != nil {
			err = fromStorage(err)
		}
		done(s, err)
	})
}

func (r *Repairs) step(req *repair.HashRequest) (s repair.HashStep, err error) {
	cmd := &storage.HashCommand{Table: req.Table, Tokens: req.Tokens, Leaves: req.Leaves, Now: req.Now, After: req.After,
		BytesMax: r.o.StepBytes}
	if req.After == nil && req.Since != 0 {
		r.o.Local.Settle()
		if err := r.o.Engine.Drain(); err != nil {
			return s, err
		}
	}
	if req.After == nil {
		if s.Size, err = r.o.Engine.SizeOf(req.Table, req.Tokens); err != nil {
			return s, err
		}
	}
	s.Next, s.Scanned, err = r.o.Engine.Hash(cmd, func(i int, h storage.LeafHash) {
		if n := len(s.Leaves); n > 0 && s.Leaves[n-1] == i {
			s.Hashes[n-1].Sum[0] += h.Sum[0]
			s.Hashes[n-1].Sum[1] += h.Sum[1]
			s.Hashes[n-1].Rows += h.Rows
			return
		}
		s.Leaves, s.Hashes = append(s.Leaves, i), append(s.Hashes, repair.LeafHash(h))
	})
	return s, err
}

// begin notes when a repair took its first step here.
func (r *Repairs) begin(session uint64) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if _, known := r.mu.began[session]; known {
		return
	}
	if len(r.mu.order) >= sessionsMax {
		delete(r.mu.began, r.mu.order[0])
		r.mu.order = r.mu.order[1:]
	}
	r.mu.began[session] = r.o.Clock.Now().UnixNano()
	r.mu.order = append(r.mu.order, session)
}

// repaired takes notice that a range is repaired: its older tombstones may go, and what a corrupt file
// had lost of it is back.
func (r *Repairs) repaired(n *repair.Notice, done func(error)) {
	r.mu.Lock()
	began, known := r.mu.began[n.Session]
	r.mu.Unlock()
	var err error
	if known {
		err = r.o.Engine.Lift(n.Table, n.Tokens, began)
	}
	if err == nil {
		err = r.o.Repaired.Add(n.Table, n.Tokens, n.Until)
	}
	if err != nil {
		err = fromStorage(err)
	}
	done(err)
}

func appendHashRequest(dst []byte, r *repair.HashRequest) []byte {
	dst = wire.AppendUvarint(wire.AppendUint64(dst, r.Session), r.Epoch)
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, r.Since), uint64(r.Table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(r.Tokens.Start)), int64(r.Tokens.End))
	dst = wire.AppendInt64(wire.AppendUvarint(dst, uint64(r.Leaves)), r.Now)
	return append(dst, r.After...)
}

func decodeHashRequest(payload []byte) (*repair.HashRequest, error) {
	c := wire.NewCursor(payload)
	r := &repair.HashRequest{Session: c.Uint64(), Epoch: c.Uvarint(), Since: c.Uvarint(), Table: schema.StorageID(c.Uvarint())}
	r.Tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	leaves := c.Uvarint()
	r.Now = c.Int64()
	if leaves > 1<<20 {
		c.Fail(wire.ErrMalformed)
	}
	r.Leaves = int(leaves)
	if after := c.Rest(); len(after) > 0 {
		r.After = append([]byte(nil), after...)
	}
	return r, c.Finish()
}

func appendHashStep(dst []byte, s *repair.HashStep) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(s.Scanned)), uint64(s.Size))
	var last byte
	if s.Next == nil {
		last = 1
	}
	dst = append(wire.AppendUvarint(append(dst, last), uint64(len(s.Next))), s.Next...)
	for i, h := range s.Hashes {
		dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(s.Leaves[i])), h.Rows)
		dst = wire.AppendUint64(wire.AppendUint64(dst, h.Sum[0]), h.Sum[1])
	}
	return dst
}

func decodeHashStep(payload []byte) (s repair.HashStep, err error) {
	c := wire.NewCursor(payload)
	s.Scanned, s.Size = int64(c.Uvarint()), int64(c.Uvarint())
	last := c.Uint8() == 1
	n := c.Uvarint()
	if n > uint64(c.Len()) {
		return s, wire.ErrMalformed
	}
	if next := c.Take(int(n)); !last {
		s.Next = append([]byte{}, next...)
	}
	for c.Len() > 0 && c.Err() == nil {
		leaf := c.Uvarint()
		h := repair.LeafHash{Rows: c.Uvarint(), Sum: [2]uint64{c.Uint64(), c.Uint64()}}
		s.Leaves, s.Hashes = append(s.Leaves, int(min(leaf, 1<<30))), append(s.Hashes, h)
	}
	return s, c.Finish()
}

func appendNotice(dst []byte, n *repair.Notice) []byte {
	dst = wire.AppendUvarint(wire.AppendUint64(dst, n.Session), uint64(n.Table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(n.Tokens.Start)), int64(n.Tokens.End))
	return wire.AppendInt64(dst, n.Until)
}

func decodeNotice(payload []byte) (n repair.Notice, err error) {
	c := wire.NewCursor(payload)
	n.Session, n.Table = c.Uint64(), schema.StorageID(c.Uvarint())
	n.Tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	n.Until = c.Int64()
	return n, c.Finish()
}
