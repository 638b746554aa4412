package replica

import (
	"context"
	"errors"
	"sync"
	"sync/atomic"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/ring"
	"cqld/ring/load"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
)

// Engine is the interface through which Local uses storage.
type Engine interface {
	// Apply refuses with an error, without calling done, or calls done later, in another goroutine.
	Apply(mutations []*row.Mutation, durable bool, done func(error)) error
	// Queue is Apply for a caller that calls Commit soon after, in a goroutine that would otherwise be idle.
	Queue(mutations []*row.Mutation, durable bool, done func(error)) error
	// Commit commits the queued mutations, unless another goroutine does.
	Commit()
	// Forget is Apply for deletions that are part of a removal of data: a full disk accepts them.
	Forget(mutations []*row.Mutation, durable bool, done func(error)) error
	// Read appends the page that answers cmd to dst.
	Read(dst []byte, cmd *row.ReadCommand) ([]byte, error)
	// Newest returns the newest timestamp (µs) of the data that cmd selects.
	Newest(cmd *row.ReadCommand) (int64, error)
	// Truncate removes all data of a table that was applied before. A full disk does not refuse it.
	Truncate(table schema.StorageID) error
}

// Local is this node's replica.
type Local struct {
	engine     Engine
	view       coordinator.View
	onTruncate func(coordinator.Truncation, func(error))
	pages      sync.Pool    // *page
	writes     sync.Pool    // *applying
	memory     *memory.Pool // of requests; nil means no bound
	ended      atomic.Int64 // pages that ended early
	paxos      PaxosState   // nil means that there is none
	// gate is held from the check of the topology until the engine has the mutation, so that Settle can wait for all
	// mutations that were admitted before.
	gate *gate
	// fenced lists the ranges that are being dropped; nil means none. Mutations check it after they have entered the
	// gate.
	fenced      atomic.Pointer[[]FencedRange]
	truncations *Truncations
	// load counts reads and mutations by range; nil, in tests, means that nothing does.
	load meter
	// workers runs functions that may block, in bounded numbers; nil, in tests, means that the caller runs them.
	workers func(bytes int, f func()) error
}

// pageKept is the size of the largest page buffer that is reused. A running read uses one buffer and does not wait,
// so there are about as many buffers as processors. Growing a buffer to a page of 1 MiB again would cost more than
// the read.
const pageKept = 2 << 20

// NewLocal returns the replica of the engine. onTruncate, which may be nil, executes this node's part of a truncation
// in its role as a coordinator; see coordinator.FollowTruncation.
func NewLocal(engine Engine, view coordinator.View, onTruncate func(t coordinator.Truncation,
	done func(error))) *Local {
	l := &Local{engine: engine, view: view, onTruncate: onTruncate, gate: newGate(), truncations: newTruncations()}
	l.pages.New = func() any { return &page{ended: &l.ended} }
	// The method value is made once for each pooled write.
	l.writes.New = func() any {
		a := &applying{l: l}
		a.onApplied = a.applied
		return a
	}
	return l
}

// SetLoad sets the meter of this node's ranges, before the first request.
func (l *Local) SetLoad(m *load.Meter) { l.load = meter{m} }

// Apply implements coordinator.Replica.
func (l *Local) Apply(epoch uint64, mutations []*row.Mutation, _ time.Duration, done func(error)) {
	l.apply(epoch, mutations, nil, done)
}

// apply applies mutations if admit, which may be nil, admits them.
func (l *Local) apply(epoch uint64, mutations []*row.Mutation, admit func([]*row.Mutation) error, done func(error)) {
	// The mutation enters the gate before the checks, so that Settle and Fence wait until storage has every mutation
	// that passes them.
	phase := l.gate.enter()
	err := l.CheckEpoch(epoch)
	if err == nil && admit != nil {
		err = admit(mutations)
	}
	if err == nil {
		err = l.refuseFenced(mutations)
	}
	if err == nil {
		err = l.Write(mutations, l.durable(mutations), done)
	}
	// The mutation leaves the gate before done, which may begin other work.
	l.gate.leave(phase)
	if err != nil {
		done(err)
	}
}

// Write passes mutations to the engine, without admission. done is called later, in another goroutine, with an error in
// the form that coordinators expect. If Write returns an error, done is not called.
func (l *Local) Write(mutations []*row.Mutation, durable bool, done func(error)) error {
	l.load.writes(mutations)
	a := l.writes.Get().(*applying)
	a.done = done
	if err := l.engine.Apply(mutations, durable, a.onApplied); err != nil {
		a.release()
		return FromStorage(err)
	}
	return nil
}

// applying is a write in progress in the engine. It is pooled, so that a write allocates no function.
type applying struct {
	l         *Local
	done      func(error)
	onApplied func(error) // the method applied
}

// applied is called once, by the engine.
func (a *applying) applied(err error) {
	// The value is returned to the pool first, so that a write which done begins can reuse it.
	done := a.done
	a.release()
	if err != nil {
		err = FromStorage(err)
	}
	done(err)
}

func (a *applying) release() {
	a.done = nil
	a.l.writes.Put(a)
}

// CheckEpoch refuses requests that were planned before the ring last moved: their sender may not know all nodes that
// must receive a write, or may read from a node that no longer receives writes.
func (l *Local) CheckEpoch(epoch uint64) error {
	if t := l.view.Topology(); epoch < t.Moved() {
		return &coordinator.NotReplica{Epoch: t.Epoch()}
	}
	return nil
}

// Settle returns when the engine has all mutations that were admitted at an earlier topology than the current one. It
// delays no other request.
func (l *Local) Settle() { l.gate.wait() }

// durable reports whether any of the mutations belongs to a keyspace with durable writes.
func (l *Local) durable(mutations []*row.Mutation) bool {
	catalog := l.view.Schema()
	for _, m := range mutations {
		table := catalog.TableByStorage(m.Table)
		// A counter's next sum is computed from the stored one, so a sum that a crash has lost would be replaced by a
		// smaller one. An unknown table counts as durable, like most tables.
		if table == nil || table.IsCounter() {
			return true
		}
		if k := catalog.StoredKeyspace(table.Keyspace); k == nil || k.DurableWrites {
			return true
		}
	}
	return false
}

// Block runs f, which may block on the disk and retains the given number of bytes, in a worker. If the queue of the
// workers is full, it calls refuse instead. The caller may be a stream, a timer or storage's committer.
func (l *Local) Block(bytes int, f func(), refuse func(error)) {
	if l.workers == nil {
		f()
		return
	}
	if err := l.workers(bytes, f); err != nil {
		refuse(&coordinator.Overloaded{What: "too many requests wait for the disk"})
	}
}

// Read implements coordinator.Replica. A worker reads.
func (l *Local) Read(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(page []byte, err error)) {
	own := cmd.Clone() // the coordinator may conclude, and reuse the memory, before a worker is free
	l.Block(0, func() { l.ReadHere(epoch, own, timeout, done) }, func(err error) { done(nil, err) })
}

// ReadHere implements coordinator.Blocking.
func (l *Local) ReadHere(epoch uint64, cmd *row.ReadCommand, _ time.Duration, done func(page []byte, err error)) {
	l.readPage(epoch, cmd, true, done)
}

// readPage reads a page. own means that the command comes from this node: if it bounds the page, its memory is
// reserved already.
func (l *Local) readPage(epoch uint64, cmd *row.ReadCommand, own bool, done func(page []byte, err error)) {
	if err := l.CheckEpoch(epoch); err != nil {
		done(nil, err)
		return
	}
	p := l.pages.Get().(*page)
	defer l.freePage(p)
	l.memory.Open(&p.memory, memory.Origin{}, nil)
	// The command is copied, because the fields below belong to this read, and cmd to its sender.
	p.cmd = *cmd
	owner, _ := cmd.Owner.(*memory.Owner)
	l.memory.Turn(&p.turn, owner)
	p.cmd.Work = &p.turn
	var err error
	// If the sender sets no bound, the page grows as long as there is memory. The memory of a bounded page is
	// reserved: for another node's page here, for a page of this node by the request.
	if p.cmd.Limits.Bytes == 0 {
		p.cmd.Memory = p
	} else if !own {
		if err = p.reserve(); err != nil {
			done(nil, err)
			return
		}
	}
	// The page is in pooled memory, so done must not keep it after it returns.
	p.bytes, err = l.engine.Read(p.bytes[:0], &p.cmd)
	p.turn.Rest() // done may wait
	if err != nil {
		done(nil, FromStorage(err))
	} else {
		l.load.read(&p.cmd, len(p.bytes))
		done(p.bytes, nil)
	}
}

// Digest implements coordinator.Replica. A worker reads.
func (l *Local) Digest(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error)) {
	own := cmd.Clone() // as in Read
	l.Block(0, func() { l.DigestHere(epoch, own, timeout, done) }, func(err error) { done(row.Digest{}, err) })
}

// DigestHere implements coordinator.Blocking.
func (l *Local) DigestHere(epoch uint64, cmd *row.ReadCommand, timeout time.Duration, done func(row.Digest, error)) {
	l.ReadHere(epoch, cmd, timeout, func(page []byte, err error) {
		if err != nil {
			done(row.Digest{}, err)
			return
		}
		done(row.DigestOf(page), nil)
	})
}

// admitMutations refuses mutations of partitions of which this node is not a replica.
func (l *Local) admitMutations(mutations []*row.Mutation) error {
	for _, m := range mutations {
		if err := l.admit(m.Table, ring.Range{Start: m.Key.Token - 1, End: m.Key.Token}); err != nil {
			return err
		}
	}
	return nil
}

// admitRead refuses a command for tokens of which this node is not a replica.
func (l *Local) admitRead(cmd *row.ReadCommand) error {
	r := cmd.Range.Tokens
	if cmd.SinglePartition() {
		r = ring.Range{Start: cmd.Key.Token - 1, End: cmd.Key.Token}
	}
	return l.admit(cmd.Table, r)
}

// admit refuses tokens of which this node is not a replica at its own epoch.
func (l *Local) admit(id schema.StorageID, tokens ring.Range) error {
	table := l.view.Schema().TableByStorage(id)
	if table == nil {
		return UnknownTable(id)
	}
	topology := l.view.Topology()
	self := l.view.Self()
	if table.Replication.Class == ring.Local {
		return refuseReplica(topology) // local data of this node only
	}
	placement := topology.Placement(table.Replication)
	// The usual case of one token needs no list of ranges.
	if tokens.Start == tokens.End-1 {
		if !placement.Replicas(tokens.End).Contains(self) {
			return refuseReplica(topology)
		}
		return nil
	}
	// Coordinators divide ranges at the ring's tokens.
	if tokens.Wraps() {
		return refuseReplica(topology)
	}
	for _, r := range placement.Ranges(tokens) {
		if !r.Replicas.Contains(self) {
			return refuseReplica(topology)
		}
	}
	return nil
}

func refuseReplica(t *ring.Topology) error { return &coordinator.NotReplica{Epoch: t.Epoch()} }

// UnknownTable returns the refusal of a request for a table that this node does not know.
func UnknownTable(id schema.StorageID) error {
	return &coordinator.ReplicaFailure{
		Reason: coordinator.FailureIncompatibleSchema, Message: (&coordinator.UnknownTable{Table: id}).Error(),
	}
}

// FromStorage returns the error that a replica sends to the coordinator for an error of storage.
func FromStorage(err error) error {
	var tombstones *failure.TooManyTombstones
	var unknown *failure.UnknownTable
	var panicked *guard.PanicError
	var tooSmall *row.PageTooSmall
	switch {
	case errors.Is(err, env.ErrCanceled):
		return env.ErrCanceled
	case errors.As(err, &tooSmall):
		return tooSmall
	// The read ran out of time. The coordinator treats it like a missing answer.
	case errors.Is(err, context.DeadlineExceeded):
		return coordinator.ErrNoReply
	case errors.As(err, &panicked):
		return &coordinator.ReplicaFailure{Reason: coordinator.FailureUnknown, Message: err.Error()}
	case errors.Is(err, failure.ErrOverloaded):
		return &coordinator.Overloaded{What: "too many bytes wait for the disk"}
	case errors.Is(err, failure.ErrDiskFull):
		return &coordinator.Overloaded{What: "the disk is nearly full, writes are refused until there is space"}
	case errors.As(err, &tombstones):
		return &coordinator.ReplicaFailure{Reason: coordinator.FailureTooManyTombstones, Message: err.Error()}
	case errors.As(err, &unknown):
		return &coordinator.ReplicaFailure{Reason: coordinator.FailureIncompatibleSchema, Message: err.Error()}
	}
	return &coordinator.ReplicaFailure{Reason: coordinator.FailureUnknown, Message: err.Error()}
}
