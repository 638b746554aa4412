package replica

import (
	"errors"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/block"
	"cqld/storage/failure"
)

// This file has the admission, storage, workers and traces that other protocols between replicas use.

// PaxosState is this node's state in system.paxos. It must be informed of writes to the table that it does not make
// itself. Package paxos implements it.
//
// It is an interface so that this package does not depend on package paxos, which uses it.
type PaxosState interface {
	// ForgetTable removes, from the state of a table that is being truncated, the changes that were accepted or
	// decided. It calls done when the removal is on disk.
	ForgetTable(table schema.StorageID, done func(error))
	// Select returns a function that reports whether a row of system.paxos with a clustering belongs to one of the
	// tables.
	Select(tables []*schema.Table) func(clustering []byte) bool
	// Undecide changes a row of system.paxos of another replica, so that it no longer lists a change as decided. r
	// keeps what a quorum needs: the promise, and the change as accepted.
	Undecide(r *row.Row) error
	// Reload invalidates the cache of system.paxos: a stream or a truncation has changed its rows.
	Reload()
}

// SetPaxos sets the state that truncations and streams inform. It is called before requests are served. Without it, the
// node has no Paxos state.
func (l *Local) SetPaxos(s PaxosState) { l.paxos = s }

// Changed records that rows of a table were written by other means than requests.
func (l *Local) Changed(table schema.StorageID) {
	if table == schema.PaxosTable && l.paxos != nil {
		l.paxos.Reload()
	}
}

// StatesOf returns a function that reports whether a row of system.paxos with a clustering is the state of a table of
// the keyspaces. The rows of all tables share system.paxos, and each belongs to the replicas of its table's keyspace.
func (l *Local) StatesOf(keyspaces ...string) func(clustering []byte) bool {
	if l.paxos == nil {
		// Without Paxos state, no row is selected.
		return func([]byte) bool { return false }
	}
	catalog := l.view.Schema()
	var tables []*schema.Table
	for _, name := range keyspaces {
		// The node that asks may have planned its request before a drop of the keyspace. One that was dropped without a
		// grace has no states that matter.
		if k := catalog.KeyspaceCalled(name); k != nil {
			tables = append(tables, k.StoredTables()...)
		}
	}
	return l.paxos.Select(tables)
}

// UndecidedStates returns a copy of a block of storage.Engine.Export of system.paxos that lists no change as decided.
// The node that receives it is a replica already: its votes count, and a decision would claim that its rows have the
// change.
func (l *Local) UndecidedStates(states []byte) ([]byte, error) {
	if l.paxos == nil {
		return states, nil
	}
	return block.Edit(states, func(_ row.PartitionKey, r *row.Row) error { return l.paxos.Undecide(r) })
}

// Enter begins a change for which Settle waits. It is called before the change is admitted. Leave, with the phase that
// Enter returns, is called when storage has the change, or when the change is refused. Enter never waits.
func (l *Local) Enter() (phase uint64) { return l.gate.enter() }

// Leave ends the change that Enter began.
func (l *Local) Leave(phase uint64) { l.gate.leave(phase) }

// AdmitToken refuses a vote or a change of a token that this node does not own, that was planned before the ring last
// moved, or whose range is being dropped. It is called between Enter and Leave. state is the table in which the
// protocol stores its own state of the token.
func (l *Local) AdmitToken(epoch uint64, table, state schema.StorageID, token ring.Token) error {
	if err := l.CheckEpoch(epoch); err != nil {
		return err
	}
	tokens := ring.Range{Start: token - 1, End: token}
	// The table of the protocol's own state is local to each node: the owner is determined by the client's table.
	if err := l.admit(table, tokens); err != nil {
		return err
	}
	if l.Fenced(table, tokens) || l.Fenced(state, tokens) {
		return &coordinator.ReplicaFailure{Message: ErrFenced.Error()}
	}
	return nil
}

// ReadPage reads in the caller's goroutine. The caller owns the page. Errors have the form that coordinators expect.
func (l *Local) ReadPage(cmd *row.ReadCommand) ([]byte, error) {
	// The buffer is not pooled, because the caller keeps the page.
	page, err := l.engine.Read(nil, cmd)
	if err != nil {
		return nil, FromStorage(err)
	}
	l.load.read(cmd, len(page))
	return page, nil
}

// ReadPageWhole is ReadPage without a limit on tombstones.
func (l *Local) ReadPageWhole(cmd *row.ReadCommand) ([]byte, error) {
	page, err := l.engine.Read(nil, cmd)
	var tombstones *failure.TooManyTombstones
	if errors.As(err, &tombstones) { // errors for rows lost in a corrupt file take precedence
		again := *cmd
		again.Repair = new(row.Repair)
		page, err = l.engine.Read(nil, &again)
	}
	if err != nil {
		return nil, FromStorage(err)
	}
	return page, nil
}

// Queue is a durable Write after which the caller, which may block on the disk, calls Commit.
func (l *Local) Queue(mutations []*row.Mutation, done func(error)) error {
	l.load.writes(mutations)
	err := l.engine.Queue(mutations, true, func(err error) {
		if err != nil {
			err = FromStorage(err)
		}
		done(err)
	})
	if err != nil {
		return FromStorage(err)
	}
	return nil
}

// Commit commits the queued mutations, unless another goroutine does.
func (l *Local) Commit() { l.engine.Commit() }

// Remove is a durable Write of deletions that are part of a removal of data: it succeeds even if the disk is full.
func (l *Local) Remove(mutations []*row.Mutation, done func(error)) error {
	err := l.engine.Forget(mutations, true, func(err error) {
		if err != nil {
			err = FromStorage(err)
		}
		done(err)
	})
	if err != nil {
		return FromStorage(err)
	}
	return nil
}

// TracedTransport returns transport for one traced request: the events of the node that answers go to t, if t records
// events.
func TracedTransport(transport messaging.Transport, t coordinator.Trace) messaging.Transport {
	// Events of other nodes would be dropped, so they are not requested.
	if !t.Detailed() {
		return transport
	}
	return messaging.Traced(transport, func(to ring.NodeID) func([]messaging.TraceEvent) {
		answered := t.Asked(to)
		return func(events []messaging.TraceEvent) {
			converted := make([]coordinator.TraceEvent, len(events))
			for i, e := range events {
				converted[i] = coordinator.TraceEvent(e)
			}
			answered(converted)
		}
	})
}
