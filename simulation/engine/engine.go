// Package engine is storage as the parts of a simulated process see it: completions of writes may come late, calls that
// block on the disk are reported, and sizes on disk are the same in every run of a seed.
package engine

import (
	"fmt"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/storage/reading"
)

// Process is the process that storage belongs to.
type Process interface {
	// Block is called before code that blocks on the disk. It fails the run if that code runs in a goroutine that must
	// not block.
	Block(what string)
	// Accept returns the mutations that e applies. The caller owns the slice.
	Accept(e Engine, mutations []*row.Mutation) []*row.Mutation
	// Complete executes f, the end of a write that is on the disk: as storage's committer, or later.
	Complete(f func())
}

// Engine is storage on a disk whose completions may come late. Its methods report calls that block, except Apply and
// Queue, which do not.
type Engine struct {
	*storage.Engine
	process Process
}

// New returns the engine of a process.
func New(e *storage.Engine, p Process) Engine { return Engine{e, p} }

// Indexes is index.Values of a process. Its methods report calls that block.
type Indexes struct {
	*index.Values
	process Process
}

// NewIndexes returns the indexes of a process.
func NewIndexes(x *index.Values, p Process) Indexes { return Indexes{x, p} }

// SizeOf implements rebalance.StreamEngine and repair.Engine. The size of a range on disk depends on the progress of
// storage's own goroutines: here it is an arbitrary size that is the same in every run.
func (e Engine) SizeOf(table schema.StorageID, tokens ring.Range) (int64, error) {
	// Sizes from 0 to 128 KiB, in every order of magnitude: callers decide by them where to split a range.
	size := kernel.NewStream(uint64(table), fmt.Sprint("size ", tokens))
	return int64(size.Intn(1 << (6 + size.Intn(12)))), nil
}

// Apply implements replica.Engine. done is called when the mutations are on the disk, or later (Process.Complete).
func (e Engine) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	return e.Engine.Apply(e.process.Accept(e, mutations), durable, func(err error) {
		e.process.Complete(func() { done(err) })
	})
}

// Queue is Apply: there are no goroutine switches to avoid.
func (e Engine) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	return e.Apply(mutations, durable, done)
}

// Read implements replica.Engine.
func (e Engine) Read(dst []byte, cmd *row.ReadCommand) ([]byte, error) {
	e.process.Block(fmt.Sprint("a read of table ", cmd.Table))
	return e.Engine.Read(dst, cmd)
}

// Newest implements replica.Engine.
func (e Engine) Newest(cmd *row.ReadCommand) (int64, error) {
	e.process.Block("a read of the newest timestamp")
	return e.Engine.Newest(cmd)
}

// Truncate implements replica.Engine.
func (e Engine) Truncate(id schema.StorageID) error {
	e.process.Block("a truncation")
	return e.Engine.Truncate(id)
}

// Search implements search.Engine.
func (e Indexes) Search(q *index.Query) (index.Page, error) {
	e.process.Block("a search by an index")
	return e.Values.Search(q)
}

// Build implements search.Keeper. The other methods are called in the same place.
func (e Indexes) Build(table, id schema.StorageID) (bool, error) {
	e.process.Block("a step of the build of an index")
	return e.Values.Build(table, id)
}

// Partitions implements listing.Engine.
func (e Engine) Partitions(q *storage.PartitionsRead) (storage.PartitionsPage, error) {
	e.process.Block("a listing of partitions")
	return e.Engine.Partitions(q)
}

// Commit does nothing: mutations are committed when they are queued. In production, Commit makes the caller's goroutine
// commit (storage.Engine).
func (e Engine) Commit() { e.process.Block("a commit by its caller") }

// Export implements rebalance.StreamEngine.
func (e Engine) Export(dst []byte, table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool,
	after []byte, bytesMax int,
) (block, next []byte, err error) {
	e.process.Block("an export")
	return e.Engine.Export(dst, table, tokens, of, after, bytesMax)
}

// Hash implements repair.Engine.
func (e Engine) Hash(cmd *reading.HashCommand, leaf func(int, reading.LeafHash)) (next []byte, scanned int64,
	err error) {
	e.process.Block("a hash of a range")
	return e.Engine.Hash(cmd, leaf)
}

// Lift implements repair.Engine.
func (e Engine) Lift(table schema.StorageID, tokens ring.Range, loss uint64) error {
	e.process.Block("a note that a range is readable again")
	return e.Engine.Lift(table, tokens, loss)
}

// LastLoss implements repair.Engine. It waits while a lost file is removed.
func (e Engine) LastLoss() uint64 {
	e.process.Block("a wait for the removal of a lost file")
	return e.Engine.LastLoss()
}

// Drain implements rebalance.StreamEngine.
func (e Engine) Drain() error {
	e.process.Block("a wait for the committer")
	return e.Engine.Drain()
}

// HasRows implements rebalance.DropEngine.
func (e Engine) HasRows(table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) (bool, error) {
	e.process.Block("a scan of rows to drop")
	return e.Engine.HasRows(table, tokens, of)
}

// DropRows implements rebalance.DropEngine.
func (e Engine) DropRows(table schema.StorageID, tokens ring.Range, of func(clustering []byte) bool) error {
	e.process.Block("a drop of rows")
	return e.Engine.DropRows(table, tokens, of)
}

// DropRange implements rebalance.DropEngine.
func (e Engine) DropRange(table schema.StorageID, tokens ring.Range) error {
	e.process.Block("a drop of a range")
	return e.Engine.DropRange(table, tokens)
}

// SetLocal implements hints.Store.
func (e Engine) SetLocal(key, value []byte, sync bool) error {
	e.process.Block(fmt.Sprintf("a write of %q", key))
	return e.Engine.SetLocal(key, value, sync)
}

// GetLocal implements rebalance.StreamEngine.
func (e Engine) GetLocal(key []byte) ([]byte, error) {
	e.process.Block(fmt.Sprintf("a read of %q", key))
	return e.Engine.GetLocal(key)
}

// DeleteLocal implements hints.Store.
func (e Engine) DeleteLocal(key []byte, sync bool) error {
	e.process.Block(fmt.Sprintf("a deletion of %q", key))
	return e.Engine.DeleteLocal(key, sync)
}

// ScanLocal implements hints.Store.
func (e Engine) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	e.process.Block(fmt.Sprintf("a read of all %q", prefix))
	return e.Engine.ScanLocal(prefix, f)
}
