package storage

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"slices"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/batchrepr"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/failure"
	"cqld/storage/latch"
	"cqld/storage/rowkey"
)

// Maintainer keeps entries that are derived from rows, such as the entries of an index. The engine calls it wherever
// rows enter or leave the data:
//
//	writes (Apply, Queue, Forget, and whatever is built on them)   Enter, then Settle
//	ingestion of streamed rows                                     Stage for each block, then Ingest
//	purges by the sweeper                                          Purge for each key, Emptied for each partition
//	TRUNCATE, DROP TABLE, DropRange, lost ranges                   Remove; DROP TABLE also Drop
//	loss of entries in a corrupt file                              LoseEntries
//
// Export and Checkpoint only read, and collapsing a hot row changes no content, so they call nothing. Replay of the
// log calls nothing either, because the batches that Pebble replays contain the entries.
//
// The engine guarantees:
//
//  1. Derived is a part of the Pebble batch that carries the change of rows, so that both are applied or neither is.
//     There are three exceptions, each of which can leave entries without rows after a crash, and never rows without
//     entries: the entries of an ingestion are on disk before its rows are visible; Emptied has a batch of its own,
//     committed after the purge; Remove for a lost range has a batch of its own, committed after the file was removed.
//  2. Enter, Settle and Ingest run under the read latches of the partitions concerned; Purge, Emptied and Remove run
//     under their write latches. So removing an entry because none of its rows is left never hides a row
//     that is being written.
//  3. Commits are serialized: Settle of a commit returns before Enter of the next is called. Ingestions run beside
//     them.
//
// In these calls, a maintainer may acquire its own locks, but must not acquire a latch while it holds one of them. It
// must not call the engine except through its Host. A Maintainer belongs to one engine.
type Maintainer interface {
	// Space names the keys of this maintainer. It is constant.
	Space() KeySpace
	// Open is called once, before all others, when the engine is opened. It reads the marks.
	Open(h *Host) error
	// Maintains reports whether rows of a table must have entries. It is called for the tables of each commit and
	// must be quick. Its answer may change; the maintainer itself must then process older rows (Host.Walk).
	Maintains(table schema.StorageID) bool
	// Enter adds to d the entries of the rows in a commit. The batch is not committed yet.
	Enter(d Derived, in *Entering)
	// Settle reports the result of the commit, with the rows of Enter. It is called after every Enter, even after a
	// panic.
	Settle(in *Entering, err error)
	// Stage adds to d the entries of a block of rows that will be ingested. No latch is held, and other changes may be
	// made before Ingest commits d. It is called if the table was maintained when the ingestion began.
	Stage(d Derived, in *Entering)
	// Ingest calls commit, once, which writes d and adds the rows of the ingestion. staged is false if the table was
	// not maintained when the ingestion began: its rows are then ingested without entries.
	Ingest(d Derived, table schema.StorageID, staged bool, commit func() error) error
	// Purge removes the entries that no longer belong to a key that the purger overwrites or removes.
	Purge(d Derived, p *Purged)
	// Emptied removes the entries of a partition that was emptied.
	Emptied(d Derived, table schema.StorageID, key row.PartitionKey)
	// Remove removes the entries of a range of tokens, which may wrap and contains no rows any longer. If the range
	// is only a part of the table, it may leave entries.
	Remove(d Derived, table schema.StorageID, tokens ring.Range)
	// Drop removes the mark of a dropped table. It is called after Remove of the whole table.
	Drop(d Derived, table schema.StorageID)
	// LoseEntries calls remove once, which removes a corrupt file with entries between two keys of the engine. From
	// then on, the maintainer must not rely on the entries of tables for which Host.Overlaps is true.
	LoseEntries(first, last []byte, remove func() error) error
}

// KeySpace names the keys of a maintainer. The bytes of two maintainers differ, and never change: they are on disk.
//
//	00000000 │ Entries │ table id 4 │ key      an entry
//	00000000 │ 00 │ Marks │ table id 4         a mark of a table, by convention that its entries are complete
type KeySpace struct {
	Entries byte // from derivedPrefix on
	Marks   byte
}

const (
	// derivedPrefix is the first byte after table id 0 that begins entries: ownPrefix and localPrefix come before.
	derivedPrefix = 2
	derivedFixed  = rowkey.TableSize + 1 + rowkey.TableSize
)

// rowkey.AppendTable appends the prefix of a table's entries.
func (s KeySpace) appendTable(dst []byte, id schema.StorageID) []byte {
	return rowkey.AppendTable(append(rowkey.AppendTable(dst, 0), s.Entries), id)
}

// mark is the engine's own key that marks a table.
func (s KeySpace) mark(id schema.StorageID) []byte {
	return binary.BigEndian.AppendUint32(ownKey(s.Marks), uint32(id))
}

// Derived is what a maintainer writes in a batch. Keys and values are copied.
type Derived struct {
	batch  *pebble.Batch
	space  KeySpace
	staged *any
}

// Staged points to a value that the maintainer may keep for one ingestion: Stage and Ingest of that ingestion receive
// the same pointer, to nil at first. The pointer is nil in other calls.
func (d Derived) Staged() *any { return d.staged }

// The methods of pebble.Batch used here return errors for indexed batches only.

// Set sets an entry.
func (d Derived) Set(table schema.StorageID, key, value []byte) {
	op := d.batch.SetDeferred(derivedFixed+len(key), len(value))
	_ = append(d.space.appendTable(op.Key[:0], table), key...)
	copy(op.Value, value)
	_ = op.Finish()
}

// Delete removes an entry.
func (d Derived) Delete(table schema.StorageID, key []byte) {
	_ = d.batch.Delete(append(d.space.appendTable(nil, table), key...), nil)
}

// DeleteRange removes the entries of a table from start on and before end; nil means no bound.
func (d Derived) DeleteRange(table schema.StorageID, start, end []byte) {
	lower := d.space.appendTable(nil, table)
	upper := rowkey.PrefixEnd(lower)
	if end != nil {
		upper = append(slices.Clone(lower), end...)
	}
	// Reversed bounds would be an error of Pebble in the batch of rows.
	if lower = append(lower, start...); bytes.Compare(lower, upper) < 0 {
		_ = d.batch.DeleteRange(lower, upper, nil)
	}
}

// Mark marks a table.
func (d Derived) Mark(table schema.StorageID) { d.MarkWith(table, nil) }

// MarkWith marks a table, or another object with such an identifier, with a value.
func (d Derived) MarkWith(id schema.StorageID, value []byte) {
	_ = d.batch.Set(d.space.mark(id), value, nil)
}

// Unmark removes the mark of a table.
func (d Derived) Unmark(table schema.StorageID) { _ = d.batch.Delete(d.space.mark(table), nil) }

// Entered is an encoded change of one key that is being written. Its slices are valid until the next one is read.
type Entered struct {
	Table schema.StorageID
	Key   row.PartitionKey
	Kind  row.EntryKind
	// Clustering identifies a row. For a range tombstone it is its bounds, as they are in keys.
	Clustering []byte
	// Value is the change (row.DecodeRow), to be reconciled with what is stored.
	Value []byte
}

// Entering iterates over the changes of a commit, or of a block of an ingestion, to tables that a maintainer maintains.
type Entering struct {
	tables []schema.StorageID // maintained
	source func() (key, value []byte, ok bool)
	repr   []byte // of the batch, without the entries: source of commits
	reader batchrepr.Reader
	prefix []byte // of the last partition
}

// Rewind begins the iteration again. It must not be called in Stage.
func (in *Entering) Rewind() {
	in.reader, in.prefix = batchrepr.Read(in.repr), in.prefix[:0]
}

// Next reads the next change.
func (in *Entering) Next(x *Entered) bool {
	for {
		key, value, ok := in.next()
		if !ok {
			return false
		}
		// Keys of table 0 are entries of maintainers and the engine's own keys.
		if rowkey.TableOf(key) == 0 || !slices.Contains(in.tables, rowkey.TableOf(key)) {
			continue
		}
		table, k, suffix, err := rowkey.Parse(key)
		if err != nil { // the engine made or checked this key
			continue
		}
		*x = Entered{Table: table, Key: k, Kind: row.EntryKind(suffix[0]), Clustering: suffix[1:], Value: value}
		return true
	}
}

// NextPartition reads the next change of another partition than the last one that it read. A partition may occur
// again after another one.
func (in *Entering) NextPartition(x *Entered) bool {
	for in.Next(x) {
		// Most keys fit, and need no allocation.
		var buffer [rowkey.FixedSize + 64]byte
		prefix := rowkey.AppendPartition(buffer[:0], x.Table, x.Key)
		if !bytes.Equal(prefix, in.prefix) {
			in.prefix = append(in.prefix[:0], prefix...)
			return true
		}
	}
	return false
}

func (in *Entering) next() (key, value []byte, ok bool) {
	// A block of an ingestion.
	if in.source != nil {
		return in.source()
	}
	for {
		kind, key, value, ok, err := in.reader.Next()
		if !ok || err != nil {
			return nil, nil, false
		}
		if kind == pebble.InternalKeyKindMerge { // the others are not rows
			return key, value, true
		}
	}
}

// Purged is a key that the purger overwrites or removes, because its value is dead as a whole or in part.
type Purged struct {
	Table schema.StorageID
	Key   row.PartitionKey
	Kind  row.EntryKind
	// Clustering is as in Entered.
	Clustering []byte
	// Before is the stored value. After is the new value, or nil if the key is removed.
	Before, After []byte
}

// maintainer is a Maintainer and the engine's state for it.
type maintainer struct {
	Maintainer
	space    KeySpace
	entering Entering // of the commit that runs
	entered  bool     // Enter was called, Settle was not
}

// maintenance calls the maintainers of an engine.
type maintenance struct {
	*core
	list []*maintainer
}

// open opens the maintainers, and refuses a directory that has marks of a maintainer that is missing: rows would be
// written without its entries.
func (ms *maintenance) open(e *Engine) error {
	marks := []byte{ownHeaderFlag, ownLost, ownBound}
	for _, m := range ms.opts.Maintainers {
		s := m.Space()
		// Two maintainers with one key space would read the entries of each other.
		if s.Entries < derivedPrefix || slices.Contains(marks, s.Marks) ||
			slices.ContainsFunc(ms.list, func(o *maintainer) bool { return o.space.Entries == s.Entries }) {
			return fmt.Errorf("storage: the key space %+v of a maintainer is taken", s)
		}
		marks = append(marks, s.Marks)
		ms.list = append(ms.list, &maintainer{Maintainer: m, space: s})
	}
	if err := ms.db.Scan(append(rowkey.AppendTable(nil, 0), ownPrefix), func(key, _ []byte) error {
		// A mark without its maintainer means that its entries would miss new rows.
		if len(key) > rowkey.TableSize+1 && !slices.Contains(marks, key[rowkey.TableSize+1]) {
			return fmt.Errorf("storage: %s has entries of a maintainer that is not configured (%q)",
				ms.opts.Dir, key[rowkey.TableSize+1])
		}
		return nil
	}); err != nil {
		return err
	}
	// All key spaces are known to be distinct.
	for _, m := range ms.list {
		if err := m.Open(&Host{e: e, space: m.space}); err != nil {
			return err
		}
	}
	return nil
}

// Maintained reports whether any maintainer maintains a table.
func (ms *maintenance) Maintained(id schema.StorageID) bool {
	return slices.ContainsFunc(ms.list, func(m *maintainer) bool { return m.Maintains(id) })
}

// enter lets maintainers add the entries of a group to its batch. The latches of its partitions are held.
func (ms *maintenance) enter(g *group) {
	for _, m := range ms.list {
		in := &m.entering
		// Maintains is called for each commit, because a table may become maintained at any time.
		in.tables = in.tables[:0]
		for _, id := range g.tables {
			if m.Maintains(id) {
				in.tables = append(in.tables, id)
			}
		}
		if len(in.tables) > 0 {
			in.repr = g.batch.Repr() // Pebble takes the memory of a large batch, and does not change it
			in.Rewind()
			// Guarantee 3 of Maintainer: Settle of a commit returns before Enter of the next.
			invariant.Check(!m.entered, "storage: a maintainer was not notified of the end of a commit")
			m.entered = true
			m.Enter(Derived{batch: g.batch, space: m.space}, in)
		}
	}
}

// settle notifies maintainers how the commit of a group ended. The latches are still held.
func (ms *maintenance) settle(err error) {
	for _, m := range ms.list {
		if m.entered {
			// The flag is cleared before the call, so that a panic in Settle does not repeat it.
			m.entered = false
			m.entering.Rewind()
			m.Settle(&m.entering, err)
			// The batch is reused, and its memory may be large.
			m.entering.repr, m.entering.reader = nil, batchrepr.Reader{}
		}
	}
}

// Purge notifies maintainers of a key that a batch overwrites or, if after is nil, removes. The write latch of its
// partition is held.
func (ms *maintenance) Purge(b *pebble.Batch, key, before, after []byte) error {
	if len(ms.list) == 0 {
		return nil
	}
	table, k, suffix, err := rowkey.Parse(key)
	if err != nil {
		return err
	}
	p := Purged{Table: table, Key: k, Kind: row.EntryKind(suffix[0]), Clustering: suffix[1:], Before: before,
		After: after}
	for _, m := range ms.list {
		if m.Maintains(table) {
			m.Purge(Derived{batch: b, space: m.space}, &p)
		}
	}
	return nil
}

// Emptied notifies maintainers of a partition if it has no stored entry.
func (ms *maintenance) Emptied(id schema.StorageID, k row.PartitionKey) error {
	if !ms.Maintained(id) {
		return nil
	}
	stripe := latch.StripeOf(k.Token)
	ms.latches.Lock(stripe)
	defer ms.latches.Unlock(stripe)
	prefix := rowkey.AppendPartition(nil, id, k)
	// Checked under the latch: otherwise a row that is written meanwhile would lose its entries.
	empty, err := ms.db.Empty(prefix, append(slices.Clone(prefix), rowkey.KindEnd))
	if !empty || err != nil {
		return err
	}
	return ms.db.Overwrite(func(b *pebble.Batch) error {
		for _, m := range ms.list {
			if m.Maintains(id) {
				m.Emptied(Derived{batch: b, space: m.space}, id, k)
			}
		}
		return nil
	})
}

// remove notifies maintainers of a range of tokens whose rows a batch removes. The write latches of all partitions
// are held.
func (ms *maintenance) remove(b *pebble.Batch, id schema.StorageID, tokens ring.Range) {
	for _, m := range ms.list {
		m.Remove(Derived{batch: b, space: m.space}, id, tokens)
	}
}

// loseEntries calls remove, which removes a file with entries between two keys, in LoseEntries of all maintainers.
func loseEntries(ms []*maintainer, first, last []byte, remove func() error) error {
	if len(ms) == 0 {
		return remove()
	}
	calls := 0
	err := ms[0].LoseEntries(first, last, func() error {
		calls++
		return loseEntries(ms[1:], first, last, remove)
	})
	// Without a call the corrupt file would stay in use; a second call would remove keys that were written since.
	invariant.Check(calls == 1 || err != nil && calls == 0, "storage: a maintainer removed a file %d times", calls)
	return err
}

// writeDerived commits a batch that maintainers filled, or that concerns them.
func (e *core) writeDerived(o *pebble.WriteOptions, fill func(*pebble.Batch) error) (err error) {
	defer e.db.Recover(&err)
	batch := e.db.NewBatch()
	err = fill(batch)
	if err == nil && !batch.Empty() {
		// The entries of a build are many, so they count as writes for the watcher of free space.
		e.disk.Use()
		err = e.db.Apply(batch, o)
	}
	if failed := e.db.Err(); failed != nil {
		return failed
	}
	return failure.Of(errors.Join(err, batch.Close()))
}
