package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"maps"
	"slices"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// Rows lie in the order of tokens. For some tables (Options.Ordered) the engine keeps the partition keys
// in their own order as well: the partition index, one Pebble key without a value for each partition.
//
//	00000000 │ 02 │ table id 4 │ partition key        an entry
//	00000000 │ 00 'p' │ table id 4                    the index of the table is complete
//
// The law: where the index is complete, a partition of which anything is stored has its entry. The
// opposite may fail: an entry without a partition is removed by who meets it, the sweeper or a read.
//
//   - An entry stands in the batch that brings a row, or in one before. It is left out where it was
//     written lately: remembered are entries that are committed, and they are looked at under the latch
//     of the partition. Who removes an entry holds the other side of the latch, sees that nothing is left
//     of the partition, and strikes it from what is remembered.
//   - The mark is written with the first row of a table, when there is nothing of it yet. A table that had
//     rows before it had an index is marked when its partitions were walked (buildIndex), at the first
//     read that wants them in order. From the mark on its index is kept, whatever Options.Ordered says.
//   - Exported blocks carry no entries; who ingests them writes them.
type partitionIndex struct {
	// states, replaced and never changed, are those of tables that have an index or should have one.
	states atomic.Pointer[map[schema.StorageID]indexState]
	mu     sync.Mutex // held by who replaces states
	// deciding is held by who brings rows of a table without a state, and by ingestions.
	deciding sync.Mutex
	building sync.Mutex
	voided   int // how often an index became incomplete; deciding is held
	// written are entries that are committed, by stripe and place. Committers, of which there is one at a
	// time, hold the read side of the stripe's latch, all others the write side.
	written [64]*[indexRemembered]indexEntry
}

type indexState uint8

const (
	indexPartial  indexState = iota + 1 // new rows have entries, some older ones have not
	indexComplete                       // and it is marked so on disk
)

// indexEntry is an entry that is remembered; a nil key is none.
type indexEntry struct {
	table schema.StorageID
	key   []byte
}

const (
	// indexPrefix stands behind ownPrefix and localPrefix.
	indexPrefix = 2
	// ownIndexed begins the engine's own keys of complete indexes.
	ownIndexed = 'p'
	indexFixed = tableSize + 1 + tableSize
)

// appendIndexTable appends the prefix of a table's entries.
func appendIndexTable(dst []byte, id schema.StorageID) []byte {
	return appendTable(append(appendTable(dst, 0), indexPrefix), id)
}

// appendIndexEntry appends the entry of a partition.
func appendIndexEntry(dst []byte, id schema.StorageID, key []byte) []byte {
	return append(appendIndexTable(dst, id), key...)
}

// indexMark is the engine's own key that marks the index of a table as complete.
func indexMark(id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(ownKey(ownIndexed), uint32(id))
}

func (x *partitionIndex) state(id schema.StorageID) indexState {
	return x.all()[id]
}

// all are the states of all tables, not to be changed.
func (x *partitionIndex) all() map[schema.StorageID]indexState {
	if p := x.states.Load(); p != nil {
		return *p
	}
	return nil
}

// put sets the state of a table; zero is none.
func (x *partitionIndex) put(id schema.StorageID, s indexState) {
	x.mu.Lock()
	defer x.mu.Unlock()
	next := maps.Clone(x.all())
	if next == nil {
		next = map[schema.StorageID]indexState{}
	}
	if next[id] = s; s == 0 {
		delete(next, id)
	}
	x.states.Store(&next)
}

// place is where an entry is remembered.
func (x *partitionIndex) place(token ring.Token) (stripe, slot int) {
	return int(uint64(token) & 63), int(uint64(token) >> 6 % indexRemembered)
}

func (x *partitionIndex) remembers(id schema.StorageID, token ring.Token, key []byte) bool {
	stripe, slot := x.place(token)
	entries := x.written[stripe]
	return entries != nil && entries[slot].key != nil && entries[slot].table == id && bytes.Equal(entries[slot].key, key)
}

// remember notes an entry; long keys are not worth it.
func (x *partitionIndex) remember(id schema.StorageID, token ring.Token, key []byte) {
	if len(key) > indexKeyRemembered {
		return
	}
	stripe, slot := x.place(token)
	if x.written[stripe] == nil {
		x.written[stripe] = new([indexRemembered]indexEntry)
	}
	e := &x.written[stripe][slot]
	if e.table, e.key = id, append(e.key[:0], key...); e.key == nil {
		e.key = []byte{}
	}
}

// strike forgets an entry.
func (x *partitionIndex) strike(id schema.StorageID, token ring.Token, key []byte) {
	if x.remembers(id, token, key) {
		stripe, slot := x.place(token)
		x.written[stripe][slot].key = nil
	}
}

// strikeTable forgets the entries of a table; the latches of all partitions are held.
func (x *partitionIndex) strikeTable(id schema.StorageID) {
	for _, entries := range x.written {
		for slot := 0; entries != nil && slot < len(entries); slot++ {
			if entries[slot].table == id {
				entries[slot].key = nil
			}
		}
	}
}

// indexes says whether rows of the table that come now need entries.
func (e *Engine) indexes(id schema.StorageID) bool {
	return e.index.state(id) != 0 || e.opts.Ordered(id)
}

// loadIndexes reads which indexes are complete when the engine is opened.
func (e *Engine) loadIndexes() error {
	prefix := ownKey(ownIndexed)
	return e.scan(prefix, func(key, _ []byte) error {
		if len(key) != len(prefix)+4 {
			return badKey(key)
		}
		e.index.put(schema.StorageID(binary.BigEndian.Uint32(key[len(prefix):])), indexComplete)
		return nil
	})
}

// indexed is a partition of a group, whose entry must be there.
type indexed struct {
	table      schema.StorageID
	token      ring.Token
	start, end int // of its key in group.keys
}

// index notes that m's partition must have an entry.
func (g *group) index(m *row.Mutation) {
	if n := len(g.indexed); n > 0 {
		last := &g.indexed[n-1]
		if last.table == m.Table && last.token == m.Key.Token && bytes.Equal(g.keys[last.start:last.end], m.Key.Bytes) {
			return
		}
	}
	start := len(g.keys)
	g.keys = append(g.keys, m.Key.Bytes...)
	g.indexed = append(g.indexed, indexed{m.Table, m.Key.Token, start, len(g.keys)})
}

// decides says whether the group has rows of a table whose index has no state yet.
func (e *Engine) decides(g *group) bool {
	for i := range g.indexed {
		if (i == 0 || g.indexed[i].table != g.indexed[i-1].table) && e.index.state(g.indexed[i].table) == 0 {
			return true
		}
	}
	return false
}

// addEntries adds to the group's batch the entries that are not known to be there. The latches of its
// partitions are held.
func (e *Engine) addEntries(g *group) {
	x := &e.index
	for i := range g.indexed {
		p := &g.indexed[i]
		if x.state(p.table) == 0 && !slices.Contains(g.marked, p.table) {
			if e.hasRows(p.table) {
				x.put(p.table, indexPartial)
			} else {
				g.set(indexMark(p.table), nil)
				g.marked = append(g.marked, p.table)
			}
		}
		key := g.keys[p.start:p.end]
		if x.remembers(p.table, p.token, key) {
			continue
		}
		op := g.batch.SetDeferred(indexFixed+len(key), 0)
		appendIndexEntry(op.Key[:0], p.table, key)
		_ = op.Finish() // only fails on an indexed batch
		x.remember(p.table, p.token, key)
	}
}

// settleEntries is told how the commit of the batch went; the latches are held still.
func (e *Engine) settleEntries(g *group, err error) {
	if err == nil {
		for _, id := range g.marked {
			e.index.put(id, indexComplete)
		}
		return
	}
	for _, p := range g.indexed {
		e.index.strike(p.table, p.token, g.keys[p.start:p.end])
	}
}

// hasRows says whether anything of the table is stored. When that cannot be read, it is.
func (e *Engine) hasRows(id schema.StorageID) bool {
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: appendTable(nil, id), UpperBound: appendTableEnd(nil, id)})
	if err != nil {
		return true
	}
	valid := iter.First()
	return errors.Join(iter.Error(), iter.Close()) != nil || valid
}

// dropEntry removes the entry of a partition of which nothing is left.
func (e *Engine) dropEntry(id schema.StorageID, k row.PartitionKey) error {
	stripe := stripeOf(k.Token)
	e.latches.lock(stripe)
	defer e.latches.unlock(stripe)
	prefix := appendPartition(nil, id, k)
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: prefix, UpperBound: append(slices.Clone(prefix), kindEnd)})
	if err != nil {
		return err
	}
	valid := iter.First()
	if err := errors.Join(iter.Error(), iter.Close()); valid || err != nil {
		return err
	}
	e.index.strike(id, k.Token, k.Bytes)
	return e.overwrite(func(b *pebble.Batch) error { return b.Delete(appendIndexEntry(nil, id, k.Bytes), nil) })
}

// buildIndex makes the index of a table complete that had rows before: it walks its partitions. From the
// first write that sees Options.Ordered on, entries are written; those before are committed when the walk
// begins. Who else wants the index waits.
func (e *Engine) buildIndex(id schema.StorageID) error {
	e.index.building.Lock()
	defer e.index.building.Unlock()
	if e.index.state(id) == indexComplete {
		return nil
	}
	if err := e.writable(); err != nil {
		return err
	}
	if err := e.Drain(); err != nil {
		return err
	}
	e.inline.Lock() // as Drain does, for an engine without a committer
	e.inline.Unlock()
	e.index.deciding.Lock() // and for ingestions
	voided := e.index.voided
	if e.index.state(id) == 0 {
		e.index.put(id, indexPartial)
	}
	e.index.deciding.Unlock()
	position := appendTable(nil, id)
	for position != nil {
		select {
		case <-e.stop:
			return ErrStopped
		default:
		}
		var err error
		if position, err = e.buildStep(id, position); err != nil {
			return e.failure(err)
		}
	}
	e.index.deciding.Lock()
	defer e.index.deciding.Unlock()
	if e.index.voided != voided {
		return errors.New("storage: the partition index is still being built")
	}
	if err := e.indexWrite(pebble.Sync, func(b *pebble.Batch) error { return b.Set(indexMark(id), nil, nil) }); err != nil {
		return err
	}
	e.index.put(id, indexComplete)
	return nil
}

// voidIndex is told that rows come without entries: of an ingestion that began when the table needed none.
// If it needs them by now, its index is made again. deciding is held.
func (e *Engine) voidIndex(id schema.StorageID) error {
	switch e.index.state(id) {
	case 0:
		return nil
	case indexPartial:
		e.index.voided++ // it may be being built
		return nil
	}
	e.index.put(id, indexPartial)
	return e.indexWrite(pebble.Sync, func(b *pebble.Batch) error { return b.Delete(indexMark(id), nil) })
}

// buildStep writes the entries of the next partitions; next is nil behind the last. What is removed
// meanwhile leaves entries too many, at worst.
func (e *Engine) buildStep(id schema.StorageID, position []byte) (next []byte, err error) {
	iter, err := e.db.NewIter(&pebble.IterOptions{LowerBound: position, UpperBound: appendTableEnd(nil, id)})
	if err != nil {
		return nil, err
	}
	err = e.indexWrite(pebble.NoSync, func(b *pebble.Batch) error {
		n := 0
		for valid := iter.First(); valid; n++ {
			_, k, suffix, err := parseKey(iter.Key())
			if err != nil {
				return err
			}
			if next = append(next[:0], iter.Key()[:len(iter.Key())-len(suffix)]...); n == indexBuildStep {
				return nil
			}
			next = append(next, kindEnd)
			if err := b.Set(appendIndexEntry(nil, id, k.Bytes), nil, nil); err != nil {
				return err
			}
			valid = iter.SeekGE(next)
		}
		next = nil
		return iter.Error()
	})
	return next, errors.Join(err, iter.Close())
}

// indexWrite commits a batch of entries or marks.
func (e *Engine) indexWrite(o *pebble.WriteOptions, fill func(*pebble.Batch) error) (err error) {
	defer e.commitPanic(&err)
	batch := e.db.NewBatch()
	err = fill(batch)
	if err == nil && !batch.Empty() {
		err = e.db.Apply(batch, o)
	}
	if failed := e.failedErr(); failed != nil {
		return failed
	}
	return e.failure(errors.Join(err, batch.Close()))
}
