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
)

// place is the goroutine that would run an event's code in production. On some of them nothing may wait for the disk:
// what comes behind it would wait as well.
type place uint8

const (
	mayBlock    place = iota // a worker, or a request's own goroutine
	onStream                 // a peer's stream: its heartbeats and writes come behind
	onTimer                  // a timer
	inCommitter              // storage's: all writes of the node come behind
)

func (p place) String() string {
	return [...]string{"a worker", "the goroutine of a stream", "the goroutine of a timer", "storage's committer"}[p]
}

// at runs f as code of a place.
func (l *life) at(p place, f func()) {
	before := l.place
	l.place = p
	defer func() { l.place = before }()
	f()
}

// block fails the run when code that waits for the disk runs where nothing may.
func (l *life) block(what string) {
	if l.place == mayBlock || !l.alive() {
		return
	}
	l.node.cluster.fail("node %d: %s on %v\n%s", l.node.id, what, l.place, debug.Stack())
}

// Work takes as long as a read that finds its blocks in memory, or now and then as one that waits for a disk.
const (
	workMax     = 200 * time.Microsecond
	workSlow    = 20 // in a thousand
	workSlowMax = 50 * time.Millisecond
)

// Run implements messaging.Transport: f runs after a delay, as behind others in a worker's queue.
func (t *Transport) Run(_ int, f func()) error {
	if t.life.node.cluster.options.NoWorkers {
		f()
		return nil
	}
	n := t.net
	delay := n.work.Between(0, workMax)
	if n.work.Chance(workSlow) {
		delay = n.work.Between(workMax, workSlowMax)
	}
	n.kernel.After(delay, "work", func() {
		if t.life.alive() {
			n.onCPU(t.life, func() { t.life.at(mayBlock, f) })
		}
	})
	return nil
}

// serve lets the process do what a verb asks. payload is not used by anything else.
func (t *Transport) serve(verb messaging.Verb, from messaging.Sender, payload []byte, respond messaging.Respond) {
	s, ok := t.services[verb]
	switch {
	case !ok:
	case s.Any != nil:
		t.life.at(onStream, func() { s.Any(from, payload, respond) })
	case !from.Member:
		t.life.node.cluster.count("requests of strangers refused")
		respond(nil, &messaging.RemoteError{Code: messaging.CodeStranger, Message: "the peer is not a known member"})
	case !s.Blocking || t.life.node.cluster.options.NoWorkers:
		t.life.at(onStream, func() { s.Handler(from.Node, payload, respond) })
	default:
		if err := t.Run(len(payload), func() { s.Handler(from.Node, payload, respond) }); err != nil {
			respond(nil, err)
		}
	}
}

// What waits for the disk.

// Read implements replica.Engine.
func (e slowEngine) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	e.life.block(fmt.Sprint("a read of table ", cmd.Table))
	return e.Engine.Read(dst, cmd)
}

// Newest implements replica.Engine.
func (e slowEngine) Newest(cmd *row.ReadCommand) (int64, error) {
	e.life.block("a read of the newest timestamp")
	return e.Engine.Newest(cmd)
}

// Truncate implements replica.Engine.
func (e slowEngine) Truncate(id schema.StorageID) error {
	e.life.block("a truncation")
	return e.Engine.Truncate(id)
}

// Partitions implements listing.Engine.
func (e slowEngine) Partitions(q *storage.PartitionsRead) (storage.PartitionsPage, error) {
	e.life.block("a listing of partitions")
	return e.Engine.Partitions(q)
}

// Commit does nothing: what is queued is committed at once.
func (e slowEngine) Commit() { e.life.block("a commit by its caller") }

// Export implements rebalance.StreamEngine.
func (e slowEngine) Export(dst []byte, table schema.StorageID, tokens ring.Range, after []byte, bytesMax int) (block, next []byte, err error) {
	e.life.block("an export")
	return e.Engine.Export(dst, table, tokens, after, bytesMax)
}

// Hash implements repair.Engine.
func (e slowEngine) Hash(cmd *storage.HashCommand, leaf func(int, storage.LeafHash)) (next []byte, scanned int64, err error) {
	e.life.block("a hash of a range")
	return e.Engine.Hash(cmd, leaf)
}

// Lift implements repair.Engine.
func (e slowEngine) Lift(table schema.StorageID, tokens ring.Range, since int64) error {
	e.life.block("a note that a range is readable again")
	return e.Engine.Lift(table, tokens, since)
}

// Drain implements rebalance.StreamEngine.
func (e slowEngine) Drain() error {
	e.life.block("a wait for the committer")
	return e.Engine.Drain()
}

// DropRange implements rebalance.DropEngine.
func (e slowEngine) DropRange(table schema.StorageID, tokens ring.Range) error {
	e.life.block("a drop of a range")
	return e.Engine.DropRange(table, tokens)
}

// SetLocal implements hints.Store.
func (e slowEngine) SetLocal(key, value []byte, sync bool) error {
	e.life.block(fmt.Sprintf("a write of %q", key))
	return e.Engine.SetLocal(key, value, sync)
}

// GetLocal implements rebalance.StreamEngine.
func (e slowEngine) GetLocal(key []byte) ([]byte, error) {
	e.life.block(fmt.Sprintf("a read of %q", key))
	return e.Engine.GetLocal(key)
}

// DeleteLocal implements hints.Store.
func (e slowEngine) DeleteLocal(key []byte, sync bool) error {
	e.life.block(fmt.Sprintf("a deletion of %q", key))
	return e.Engine.DeleteLocal(key, sync)
}

// ScanLocal implements hints.Store.
func (e slowEngine) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	e.life.block(fmt.Sprintf("a read of all %q", prefix))
	return e.Engine.ScanLocal(prefix, f)
}
