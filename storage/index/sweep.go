package index

import (
	"bytes"
	"encoding/binary"
	"sync"

	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// sweeps records by table whether its entries may be stale. A table is clean if a sweep has examined all its entries
// and nothing has changed since the sweep began. A mark on disk records this, so that neither an idle node nor one
// that restarts reads its indexes:
//
//	sweep of all entries ──▶ clean, marked ── change ──▶ not marked, in the batch of the change
//
// Expiry does not unmark a table: the entry of an expired value is removed with the value (Purge), because the clock by
// which it has expired may step back.
type sweeps struct {
	mu     sync.Mutex
	tables map[schema.StorageID]*tableSweep
	// patience is how long, in seconds, changes that are few compared with the entries wait for a sweep.
	patience int64
	at       sweepPosition // used only by Sweep
}

// tableSweep is the state of the sweeps of one table.
type tableSweep struct {
	clean bool
	// changes counts the changes in this process since the last complete sweep began; entries counts what that sweep
	// examined, and ended is when it ended, in seconds. ended is 0 before the first sweep in this process.
	changes, entries, ended int64
}

// sweepPosition is the position of the running sweep in a table.
type sweepPosition struct {
	table   schema.StorageID
	active  bool
	after   []byte // the last entry of the table that was examined
	entries int64
	changes int64 // when it began
}

// changed records n changes that may make entries of a table stale. d belongs to the batch of the changes. Enter,
// Purge, Remove and Ingest call it with each batch that can leave stale entries.
func (s *sweeps) changed(d storage.Derived, table schema.StorageID, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(table)
	t.changes += n
	// Only the first change after a sweep removes the mark, so a busy table causes no further writes.
	if t.clean {
		t.clean = false
		d.Unmark(table)
	}
}

func (s *sweeps) tableLocked(table schema.StorageID) *tableSweep {
	t := s.tables[table]
	if t == nil {
		if s.tables == nil {
			s.tables = map[schema.StorageID]*tableSweep{}
		}
		t = new(tableSweep)
		s.tables[table] = t
	}
	return t
}

// wanted reports whether a sweep of a table should begin at now, in seconds.
func (s *sweeps) wanted(table schema.StorageID, now int64) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(table)
	if t.clean {
		return false
	}
	return t.ended == 0 || t.changes*sweepShare >= t.entries || now-t.ended >= s.patience
}

// begin starts a sweep of a table at its first entry.
func (s *sweeps) begin(table schema.StorageID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = sweepPosition{table: table, active: true, changes: s.tableLocked(table).changes}
}

// complete ends the sweep of the table at the position. It reports whether the table is clean.
func (s *sweeps) complete(now int64) (clean bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(s.at.table)
	// The sweep covers changes from before it began. Later changes may concern entries that it had already passed.
	t.changes -= s.at.changes
	// ended is never 0, which would mean that no sweep has ended.
	t.entries, t.ended = s.at.entries, max(now, 1)
	t.clean = t.changes == 0
	return t.clean
}

// isClean reports whether a table is clean.
func (s *sweeps) isClean(table schema.StorageID) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.tableLocked(table).clean
}

// forget removes the state of a dropped table.
func (s *sweeps) forget(table schema.StorageID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.tables, table)
}

// The mark of a clean table has the number of the table, which no index has: table 4 │ swept 1 │ reserved 8. Earlier
// versions stored when the first value expires in the last 8 bytes, where 0 means never.
const sweptMark = markFixed + 8

// load sets the state of a table that has a mark.
func (s *sweeps) load(table schema.StorageID) {
	s.mu.Lock()
	defer s.mu.Unlock()
	t := s.tableLocked(table)
	// changes and entries are not stored. A clean table has no changes, and an unknown number of entries makes its next
	// sweep come sooner.
	t.clean, t.ended = true, 1
}

// Sweep examines up to n more entries, including those that no search reaches, and removes stale ones and those of
// indexes that are no longer defined. now is in seconds. It skips clean tables, and tables with few changes for a
// while (wanted). wrapped means that it has reached the end and will begin again. One goroutine at a time may call
// it. An error leaves the position at the entries that were examined last; the next call continues.
func (x *Values) Sweep(n int, now int64) (removed int, wrapped bool, err error) {
	at := &x.sweeps.at
	if !at.active {
		table, ok := x.nextSweep(at.table, now)
		if !ok {
			// No table after the last one wants a sweep. The next call begins at the least table again.
			*at = sweepPosition{}
			return 0, true, nil
		}
		x.sweeps.begin(table)
	}
	// The iterator is closed before latches are acquired, because removals wait for commits and an open iterator
	// keeps files.
	stale, scanned, err := x.staleEntries(at.table, n)
	if err != nil {
		return 0, false, err
	}
	for _, entry := range stale {
		if err := x.removeStale(at.table, entry); err != nil {
			return removed, false, err
		}
		removed++
	}
	// Fewer than n entries means that the table has ended.
	if at.entries += int64(scanned); scanned < n {
		err = x.endSweep(now)
	}
	return removed, false, err
}

// endSweep marks the table as clean if it is. A change meanwhile removes the mark, but its batch may be committed
// before the mark.
func (x *Values) endSweep(now int64) error {
	at := &x.sweeps.at
	table := at.table
	clean := x.sweeps.complete(now)
	*at = sweepPosition{table: table + 1}
	if !clean {
		return nil
	}
	// The mark is not synced, because losing it in a crash only costs a sweep.
	if err := x.host.Write(false, func(d storage.Derived) error {
		mark := append(binary.BigEndian.AppendUint32(nil, uint32(table)), byte(swept))
		d.MarkWith(table, append(mark, make([]byte, sweptMark-markFixed)...))
		return nil
	}); err != nil || x.sweeps.isClean(table) {
		return err
	}
	// A change was recorded between complete and the mark, so the mark is removed again.
	return x.host.Write(false, func(d storage.Derived) error { d.Unmark(table); return nil })
}

// nextSweep returns the first table from id on that has indexes with a mark and should be swept.
func (x *Values) nextSweep(id schema.StorageID, now int64) (next schema.StorageID, ok bool) {
	for table := range x.all() {
		if table >= id && (!ok || table < next) && x.sweeps.wanted(table, now) {
			next, ok = table, true
		}
	}
	return next, ok
}

// staleEntries returns the stale ones of the next n entries of a table.
func (x *Values) staleEntries(table schema.StorageID, n int) (stale [][]byte, scanned int, err error) {
	at := &x.sweeps.at
	entries, err := x.host.Entries(table, at.after, nil)
	if err != nil {
		return nil, 0, err
	}
	defer func() {
		if closeErr := entries.Close(); err == nil {
			err = closeErr
		}
	}()
	s := x.scratch.Get().(*scratch)
	defer x.scratch.Put(s)
	for valid := entries.First(); valid && scanned < n; valid = entries.Next() {
		scanned++
		suspect, err := x.suspect(table, s, entries.Key())
		if err != nil {
			return nil, scanned, err
		}
		if suspect {
			stale = append(stale, bytes.Clone(entries.Key()))
		}
		// The appended zero byte makes the next key, so that the next call does not examine this entry again.
		at.after = append(append(at.after[:0], entries.Key()...), 0)
	}
	return stale, scanned, nil
}

// suspect reports whether an entry may be stale, without a latch.
func (x *Values) suspect(table schema.StorageID, s *scratch, entry []byte) (bool, error) {
	e, ok := parseEntry(entry)
	if !ok {
		return true, nil
	}
	def, defined := x.definition(table, e.index)
	if !defined {
		_, marked := x.state(table, e.index)
		return !marked, nil // DropIndex removes those of an index with a mark
	}
	// Only under the latch is it known whether the partition is empty, so all entries of partition keys are suspects.
	if def.OfKey() {
		return true, nil
	}
	// The stored value is not shadowed by deletions of a wider scope: rows that they delete keep their entries until
	// they are purged.
	value, err := x.host.Stored(table, e.key, e.kind, e.clustering)
	return err == nil && !s.yields(&def, &e, value), err
}

// removeStale removes an entry that suspect reported, unless it is not stale. Definitions may have changed since
// suspect looked at them, so they are looked up again.
func (x *Values) removeStale(table schema.StorageID, entry []byte) error {
	if e, ok := parseEntry(entry); ok {
		if def, defined := x.definition(table, e.index); defined {
			return x.revise(table, &def, entry)
		}
		if _, marked := x.state(table, e.index); marked {
			return nil
		}
	}
	return x.host.Write(false, func(d storage.Derived) error { d.Delete(table, entry); return nil })
}

// revise removes an entry if its stored row, or its stored partition, no longer has its term.
func (x *Values) revise(table schema.StorageID, def *Definition, entry []byte) error {
	e, ok := parseEntry(entry)
	if !ok {
		return x.host.Write(false, func(d storage.Derived) error { d.Delete(table, entry); return nil })
	}
	if def.OfKey() {
		return x.host.Emptied(table, e.key)
	}
	return x.host.Revise(table, e.key, e.kind, e.clustering, func(d storage.Derived, value []byte) {
		s := x.scratch.Get().(*scratch)
		defer x.scratch.Put(s)
		// The term is looked up again under the write latch, so that no commit can add it before the removal.
		if !s.yields(def, &e, value) {
			d.Delete(table, entry)
			x.forgetVector(def, entry)
		}
	})
}

// yields reports whether a stored value has the term of its entry, whether it has expired or not. One that cannot be
// decoded does.
//
// Invariant: no clock decides which entries are removed. A node's clock may step forward and back, and a client sets
// the time of its search: an entry that was removed because its value had expired by such a clock would be missing for
// the rest of the value's life.
func (s *scratch) yields(def *Definition, e *entryOf, value []byte) bool {
	if value == nil {
		return false
	}
	if row.DecodeRow(&s.row, value) != nil {
		return true
	}
	s.row.Clustering = e.clustering
	s.found.Reset()
	def.Terms.Append(&s.found, &Source{Key: e.key, Kind: e.kind, Row: &s.row}, anyTime)
	for i := range s.found.Len() {
		// The terms are compared in the form of entries, cut and escaped.
		s.key = appendTerm(s.key[:0], def.cut(s.found.Term(i)))
		if bytes.Equal(s.key, e.term) {
			return true
		}
	}
	return false
}
