package index

import (
	"bytes"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// Partitions is the partition index of an engine: a storage.Maintainer with one entry, without a value, for each
// partition of some tables, and a storage.PartitionLister. A mark says that the index of a table is complete.
//
// Invariant: where the index is complete, a partition of which anything is stored has its entry. The opposite may
// fail: an entry without a partition is removed by the sweeper or by a listing that meets it.
//
//   - An entry is in the batch of a row, or in an earlier batch. A commit omits an entry that was written recently:
//     entries that are committed are remembered, and looked up under the latch of the partition. An entry is removed
//     under the write side of the latch, when nothing is left of the partition, and is then forgotten.
//   - The mark is written with the first row of an empty table. A table that had rows before it had an index is marked
//     when its partitions were walked (build), at the first listing. From then on its index is maintained, whatever
//     Ordered says.
//   - Streamed rows come without entries; the receiver writes them.
//
// Lock order: building, latches of storage, deciding, mu.
type Partitions struct {
	// The function of NewPartitions.
	ordered func(schema.StorageID) bool
	host    *storage.Host
	// states contains the tables that have an index or should have one. The map is replaced and never modified.
	states atomic.Pointer[map[schema.StorageID]state]
	mu     sync.Mutex // held by who replaces states
	// deciding is held while the state of a table is derived from its stored rows, and while rows are ingested.
	deciding reservation
	building sync.Mutex
	voided   int // how often an index that was partial lost entries; deciding is held
	// commit is the state that Enter passes on to Settle.
	commit struct {
		deciding bool // is held
		marked   []schema.StorageID
	}
	// written caches committed entries, by stripe and slot. Commits, of which one runs at a time, access it under the
	// read side of the stripe's latch, all others under the write side.
	written [64]*[remembered]entry
}

// state is the build state of the index of a table. The zero value means that there is no index.
type state uint8

const (
	partial  state = iota + 1 // new rows have entries, some older ones have not
	complete                  // and it is marked so on disk
)

// entry is a cached entry; a nil key means that the slot is empty.
type entry struct {
	table schema.StorageID
	key   []byte
}

// NewPartitions returns the partition index of one engine. ordered reports for which tables it is kept; it must be
// quick and safe for concurrent use, and its answer may change.
func NewPartitions(ordered func(schema.StorageID) bool) *Partitions {
	return &Partitions{ordered: ordered}
}

// Maintain lets an engine that is opened with o keep a partition index, and list partitions by it.
func Maintain(o *storage.Options, x *Partitions) {
	o.Maintainers, o.Lister = append(slices.Clone(o.Maintainers), x), x
}

// Space implements storage.Maintainer.
func (x *Partitions) Space() storage.KeySpace { return storage.KeySpace{Entries: 2, Marks: 'p'} }

// Open implements storage.Maintainer. Each mark belongs to a complete index. A table with a partial index has no
// mark; its state is decided again at its first row.
func (x *Partitions) Open(h *storage.Host) error {
	x.host = h
	return h.Marks(func(table schema.StorageID) { x.put(table, complete) })
}

// Maintains implements storage.Maintainer.
func (x *Partitions) Maintains(table schema.StorageID) bool {
	return x.state(table) != 0 || x.ordered(table)
}

func (x *Partitions) state(id schema.StorageID) state { return x.all()[id] }

// all returns the states of all tables, which the caller must not modify.
func (x *Partitions) all() map[schema.StorageID]state {
	if p := x.states.Load(); p != nil {
		return *p
	}
	return nil
}

// put sets the state of a table; zero is none. It copies the map, because commits read it without a lock. States change
// rarely.
func (x *Partitions) put(id schema.StorageID, s state) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := maps.Clone(x.all())
	if next == nil {
		next = map[schema.StorageID]state{}
	}
	// State 0 is represented by the absence of the table.
	if next[id] = s; s == 0 {
		delete(next, id)
	}
	x.states.Store(&next)
}

// Enter implements storage.Maintainer. It adds the entries that are not cached as committed.
func (x *Partitions) Enter(d storage.Derived, in *storage.Entering) {
	var p storage.Entered
	for in.NextPartition(&p) {
		if x.state(p.Table) == 0 {
			x.decide(d, p.Table)
		}
		// The entry is on disk, or precedes this row in the same batch. The latch of the partition, which the commit
		// holds, keeps it from being removed.
		if x.remembers(p.Table, p.Key.Token, p.Key.Bytes) {
			continue
		}
		d.Set(p.Table, p.Key.Bytes, nil)
		// The entry is cached before the commit is durable; Settle removes it if the commit fails.
		x.remember(p.Table, p.Key.Token, p.Key.Bytes)
	}
}

// decide determines the state of a table that has none: complete if the table is empty, and then the commit contains
// its mark. The commit then holds deciding until Settle, so that neither a build nor an ingestion sees the state in
// between.
func (x *Partitions) decide(d storage.Derived, table schema.StorageID) {
	if !x.commit.deciding {
		x.deciding.acquire()
		x.commit.deciding = true
	}
	// If the table occurred earlier in this commit, the batch contains its mark already; Settle sets its state.
	for _, id := range x.commit.marked {
		if id == table {
			return
		}
	}
	switch {
	case x.state(table) != 0: // decided meanwhile
	case x.host.HasRows(table):
		x.put(table, partial)
	// No row precedes this commit, and all rows from now on have entries.
	default:
		d.Mark(table)
		x.commit.marked = append(x.commit.marked, table)
	}
}

// Settle implements storage.Maintainer. After a failed commit, none of its entries may stay cached: the next commit
// of the partition must write them.
func (x *Partitions) Settle(in *storage.Entering, err error) {
	if err != nil {
		var p storage.Entered
		for in.NextPartition(&p) {
			x.strike(p.Table, p.Key.Token, p.Key.Bytes)
		}
	}
	if !x.commit.deciding {
		return
	}
	for _, id := range x.commit.marked {
		if err == nil {
			x.put(id, complete)
		}
	}
	x.commit.deciding, x.commit.marked = false, x.commit.marked[:0]
	x.deciding.release()
}

// Stage implements storage.Maintainer. It adds the entries of all partitions, because a cached entry may be removed
// before the rows are ingested.
func (x *Partitions) Stage(d storage.Derived, in *storage.Entering) {
	var p storage.Entered
	for in.NextPartition(&p) {
		d.Set(p.Table, p.Key.Bytes, nil)
	}
}

// Ingest implements storage.Maintainer. Until the rows are visible no build begins to walk, and none ends.
func (x *Partitions) Ingest(d storage.Derived, table schema.StorageID, staged bool, commit func() error) error {
	x.deciding.acquire()
	defer x.deciding.release()
	// The ingested rows have no entries, so the index is not complete until it is built again.
	if !staged {
		if err := x.void(table); err != nil {
			return err
		}
		return commit()
	}
	// As in decide: an empty table gets its mark with its first rows.
	marks := x.state(table) == 0 && !x.host.HasRows(table)
	if marks {
		d.Mark(table)
	}
	err := commit()
	if err == nil && marks {
		x.put(table, complete)
	}
	return err
}

// Purge implements storage.Maintainer: a partition keeps its entry until it is empty.
func (x *Partitions) Purge(storage.Derived, *storage.Purged) {}

// Emptied implements storage.Maintainer.
func (x *Partitions) Emptied(d storage.Derived, table schema.StorageID, key row.PartitionKey) {
	// The cached entry is removed first. The write latch is held, so no commit looks the entry up before it is
	// deleted.
	x.strike(table, key.Token, key.Bytes)
	d.Delete(table, key.Bytes)
}

// Remove implements storage.Maintainer. The entries of a part of a table are not contiguous, so the next listing
// removes them.
func (x *Partitions) Remove(d storage.Derived, table schema.StorageID, tokens ring.Range) {
	if tokens == ring.FullRange() {
		x.strikeTable(table)
		d.DeleteRange(table, nil, nil)
	}
}

// Drop implements storage.Maintainer.
func (x *Partitions) Drop(d storage.Derived, table schema.StorageID) {
	if x.state(table) != 0 {
		x.put(table, 0)
		d.Unmark(table)
	}
}

// LoseEntries implements storage.Maintainer. Indexes that lose entries are rebuilt at the next listing, after the
// file was removed.
func (x *Partitions) LoseEntries(first, last []byte, remove func() error) error {
	x.building.Lock()
	defer x.building.Unlock()
	var tables []schema.StorageID
	for id := range x.all() {
		if x.host.Overlaps(id, first, last) {
			tables = append(tables, id)
		}
	}
	// The marks are removed before the file is: after a crash in between, the index is rebuilt, whereas an incomplete
	// index with a mark would count as complete.
	if err := x.voidAll(tables); err != nil {
		return err
	}
	err := remove()
	// Cached entries may have been in the file, so the next commits must write them again.
	x.host.Latched(func() {
		for _, id := range tables {
			x.strikeTable(id)
		}
	})
	return err
}

// voidAll makes the indexes of tables partial in one critical section.
func (x *Partitions) voidAll(tables []schema.StorageID) error {
	x.deciding.acquire()
	defer x.deciding.release()
	for _, id := range tables {
		if err := x.void(id); err != nil {
			return err
		}
	}
	return nil
}

// void makes the index of a table, if it has one, partial, because rows are ingested without entries or entries were
// lost. deciding is held.
func (x *Partitions) void(id schema.StorageID) error {
	switch x.state(id) {
	case 0:
		return nil
	case partial:
		x.voided++ // it may be being built
		return nil
	}
	x.put(id, partial)
	return x.host.Write(true, func(d storage.Derived) error { d.Unmark(id); return nil })
}

// build makes the index of a table complete that had rows before: it walks its partitions. Rows that are written
// after the state is partial have entries; all others are committed when the walk begins. Concurrent callers wait.
func (x *Partitions) build(id schema.StorageID) error {
	x.building.Lock()
	defer x.building.Unlock()
	if x.state(id) == complete {
		return nil
	}
	if err := x.host.Writable(); err != nil {
		return err
	}
	x.deciding.acquire()
	// voided is compared at the end, because an ingestion without entries in between makes the walk incomplete.
	voided := x.voided
	if x.state(id) == 0 {
		// Any new row has its entry from here on, also if the build fails later.
		x.put(id, partial)
	}
	x.deciding.release()
	// Commits that began before the state was partial may have written no entries. The walk must see their rows.
	if err := x.host.Barrier(); err != nil {
		return err
	}
	var position []byte
	// A nil position is both the beginning and the end, hence first.
	for first := true; first || position != nil; first = false {
		var err error
		if position, err = x.buildPart(id, position); err != nil {
			return err
		}
	}
	x.deciding.acquire()
	defer x.deciding.release()
	if x.voided != voided {
		return errors.New("index: rows came without entries while the partition index was built; try again")
	}
	// The entries were written without a sync. The synced mark follows them in the same log, so it implies them.
	if err := x.host.Write(true, func(d storage.Derived) error { d.Mark(id); return nil }); err != nil {
		return err
	}
	x.put(id, complete)
	return nil
}

// buildPart writes the entries of the next partitions. Partitions that are removed meanwhile leave entries, which
// listings remove.
func (x *Partitions) buildPart(id schema.StorageID, position []byte) (next []byte, err error) {
	err = x.host.Write(false, func(d storage.Derived) error {
		next, err = x.host.Walk(id, position, buildStep, func(k row.PartitionKey) { d.Set(id, k.Bytes, nil) })
		return err
	})
	return next, err
}

// place returns the stripe and slot of a cached entry. The stripe must equal the stripe of the partition's latch,
// which guards the slot.
func place(token ring.Token) (stripe, slot int) {
	return int(uint64(token) & 63), int(uint64(token) >> 6 % remembered)
}

// remembers reports whether an entry is cached. A latch of the stripe is held.
func (x *Partitions) remembers(id schema.StorageID, token ring.Token, key []byte) bool {
	stripe, slot := place(token)
	entries := x.written[stripe]
	return entries != nil && entries[slot].key != nil && entries[slot].table == id &&
		bytes.Equal(entries[slot].key, key)
}

// remember caches an entry unless its key is long. It displaces the entry in its slot; the next commit of that
// partition writes its entry again.
func (x *Partitions) remember(id schema.StorageID, token ring.Token, key []byte) {
	if len(key) > keyRemembered {
		return
	}
	stripe, slot := place(token)
	// The cache is allocated on first use, so that an engine without a partition index needs no memory for it.
	if x.written[stripe] == nil {
		x.written[stripe] = new([remembered]entry)
	}
	e := &x.written[stripe][slot]
	if e.table, e.key = id, append(e.key[:0], key...); e.key == nil {
		e.key = []byte{}
	}
}

// strike removes an entry from the cache.
func (x *Partitions) strike(id schema.StorageID, token ring.Token, key []byte) {
	if x.remembers(id, token, key) {
		stripe, slot := place(token)
		x.written[stripe][slot].key = nil
	}
}

// strikeTable removes the entries of a table from the cache; the write latches of all partitions are held.
func (x *Partitions) strikeTable(id schema.StorageID) {
	for _, entries := range x.written {
		for slot := 0; entries != nil && slot < len(entries); slot++ {
			if entries[slot].table == id {
				entries[slot].key = nil
			}
		}
	}
}
