package simulation

import (
	"fmt"
	"runtime/debug"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/storage/reading"
)

// place is the goroutine that would execute the code of an event in production. Some of these goroutines must not block
// on the disk, because they would delay the events queued after it. In the simulation, all code runs in one goroutine,
// so a call that blocks in the wrong place would go unnoticed without this bookkeeping.
type place uint8

const (
	// mayBlock is a worker, or a request's own goroutine: others do not wait for it.
	mayBlock place = iota
	// onStream is the reader of a peer's stream. Heartbeats and writes of that peer wait until it returns.
	onStream
	// onTimer is the goroutine of a timer.
	onTimer
	// inCommitter is storage's committer. All writes of the node wait until it returns.
	inCommitter
)

func (p place) String() string {
	return [...]string{"a worker", "the goroutine of a stream", "the goroutine of a timer", "storage's committer"}[p]
}

// at runs f as code of a place. f must not keep what it started running: an event that it schedules has a place of its
// own.
func (l *process) at(p place, f func()) {
	// Calls nest: the code of one place may synchronously call code that runs as another one.
	before := l.place
	l.place = p
	defer func() { l.place = before }()
	f()
}

// block fails the run if code that blocks on the disk runs in a goroutine that must not block. The message contains the
// stack, because the call that blocks is usually many frames below the handler.
func (l *process) block(what string) {
	// A process that is being closed may block anywhere.
	if l.place == mayBlock || !l.alive() {
		return
	}
	l.node.cluster.fail("node %d: %s on %v\n%s", l.node.id, what, l.place, debug.Stack())
}

// Work takes as long as a read from memory or, rarely, as a read that waits for a disk. Most reads are served by the
// block cache.
const (
	workMax = 200 * time.Microsecond
	// workSlow is the number of pieces of work in a thousand that wait for a disk.
	workSlow    = 20
	workSlowMax = 50 * time.Millisecond
)

// Run implements messaging.Transport: f runs after a delay, as if it were queued for a worker. The memory bound of the
// workers (the first argument) is not simulated.
func (t *Transport) Run(_ int, f func()) error {
	if t.process.node.cluster.options.Unsafe.NoWorkers {
		f()
		return nil
	}
	n := t.net
	delay := n.work.Between(0, workMax)
	if n.work.Chance(workSlow) {
		delay = n.work.Between(workMax, workSlowMax)
	}
	// The workers of a process are not limited in number here: each piece of work has its own delay.
	n.kernel.After(delay, "work", func() {
		if t.process.alive() {
			n.onCPU(t.process, func() { t.process.at(mayBlock, f) })
		}
	})
	return nil
}

// serve makes the process handle a request. The handler owns payload.
func (t *Transport) serve(verb messaging.Verb, from messaging.Sender, payload []byte, respond messaging.Respond) {
	s, ok := t.services[verb]
	switch {
	// Without a service the message is lost, and the sender's request times out.
	case !ok:
	// Requests to join come from nodes that are not members yet.
	case s.Any != nil:
		t.process.at(onStream, func() { s.Any(from, payload, respond) })
	case !from.Member:
		t.process.node.cluster.count("requests of unknown peers refused")
		respond(nil, &messaging.RemoteError{Code: messaging.CodeUnknownPeer, Message: "the peer is not a known member"})
	case !s.Blocking || t.process.node.cluster.options.Unsafe.NoWorkers:
		t.process.at(onStream, func() { s.Handler(from.Node, payload, respond) })
	default:
		if err := t.Run(len(payload), func() { s.Handler(from.Node, payload, respond) }); err != nil {
			respond(nil, err)
		}
	}
}

// Methods that block on the disk.

// Read implements replica.Engine.
func (e slowEngine) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	e.process.block(fmt.Sprint("a read of table ", cmd.Table))
	return e.Engine.Read(dst, cmd)
}

// Newest implements replica.Engine.
func (e slowEngine) Newest(cmd *row.ReadCommand) (int64, error) {
	e.process.block("a read of the newest timestamp")
	return e.Engine.Newest(cmd)
}

// Truncate implements replica.Engine.
func (e slowEngine) Truncate(id schema.StorageID) error {
	e.process.block("a truncation")
	return e.Engine.Truncate(id)
}

// slowIndexes is index.Values on a disk whose completions may come late. Slow refers to the completions
// (damage.Faults.slow), not to these methods.
type slowIndexes struct {
	*index.Values
	process *process
}

// Search implements search.Engine.
func (e slowIndexes) Search(q *index.Query) (index.Page, error) {
	e.process.block("a search by an index")
	return e.Values.Search(q)
}

// Build implements search.Keeper. The other methods are called in the same place.
func (e slowIndexes) Build(table, id schema.StorageID) (bool, error) {
	e.process.block("a step of the build of an index")
	return e.Values.Build(table, id)
}

// Partitions implements listing.Engine.
func (e slowEngine) Partitions(q *storage.PartitionsRead) (storage.PartitionsPage, error) {
	e.process.block("a listing of partitions")
	return e.Engine.Partitions(q)
}

// Commit does nothing: mutations are committed when they are queued. In production, Commit makes the caller's goroutine
// commit (storage.Engine).
func (e slowEngine) Commit() { e.process.block("a commit by its caller") }

// Export implements rebalance.StreamEngine.
func (e slowEngine) Export(dst []byte, table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool,
	after []byte, bytesMax int,
) (block, next []byte, err error) {
	e.process.block("an export")
	return e.Engine.Export(dst, table, tokens, of, after, bytesMax)
}

// Hash implements repair.Engine.
func (e slowEngine) Hash(cmd *reading.HashCommand, leaf func(int, reading.LeafHash)) (next []byte, scanned int64,
	err error) {
	e.process.block("a hash of a range")
	return e.Engine.Hash(cmd, leaf)
}

// Lift implements repair.Engine.
func (e slowEngine) Lift(table schema.StorageID, tokens ring.Range, loss uint64) error {
	e.process.block("a note that a range is readable again")
	return e.Engine.Lift(table, tokens, loss)
}

// LastLoss implements repair.Engine. It waits while a lost file is removed.
func (e slowEngine) LastLoss() uint64 {
	e.process.block("a wait for the removal of a lost file")
	return e.Engine.LastLoss()
}

// Drain implements rebalance.StreamEngine.
func (e slowEngine) Drain() error {
	e.process.block("a wait for the committer")
	return e.Engine.Drain()
}

// HasRows implements rebalance.DropEngine.
func (e slowEngine) HasRows(table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) (bool, error) {
	e.process.block("a scan of rows to drop")
	return e.Engine.HasRows(table, tokens, of)
}

// DropRows implements rebalance.DropEngine.
func (e slowEngine) DropRows(table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) error {
	e.process.block("a drop of rows")
	return e.Engine.DropRows(table, tokens, of)
}

// DropRange implements rebalance.DropEngine.
func (e slowEngine) DropRange(table schema.StorageID, tokens ring.Range) error {
	e.process.block("a drop of a range")
	return e.Engine.DropRange(table, tokens)
}

// SetLocal implements hints.Store.
func (e slowEngine) SetLocal(key, value []byte, sync bool) error {
	e.process.block(fmt.Sprintf("a write of %q", key))
	return e.Engine.SetLocal(key, value, sync)
}

// GetLocal implements rebalance.StreamEngine.
func (e slowEngine) GetLocal(key []byte) ([]byte, error) {
	e.process.block(fmt.Sprintf("a read of %q", key))
	return e.Engine.GetLocal(key)
}

// DeleteLocal implements hints.Store.
func (e slowEngine) DeleteLocal(key []byte, sync bool) error {
	e.process.block(fmt.Sprintf("a deletion of %q", key))
	return e.Engine.DeleteLocal(key, sync)
}

// ScanLocal implements hints.Store.
func (e slowEngine) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	e.process.block(fmt.Sprintf("a read of all %q", prefix))
	return e.Engine.ScanLocal(prefix, f)
}
