package index

import (
	"bytes"
	"encoding/binary"

	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// entryOf is an entry of Values.
type entryOf struct {
	index      schema.StorageID
	term       []byte // escaped, with its end
	place      []byte
	key        row.PartitionKey
	kind       row.EntryKind
	clustering []byte
}

// parseEntry splits the key of an entry. The parts point into key.
func parseEntry(key []byte) (e entryOf, ok bool) {
	if len(key) < indexSize {
		return e, false
	}
	n, ok := splitTerm(key[indexSize:])
	if !ok {
		return e, false
	}
	e.index = schema.StorageID(binary.BigEndian.Uint32(key))
	e.term, e.place = key[indexSize:indexSize+n], key[indexSize+n:]
	e.key, e.kind, e.clustering, ok = ParsePlace(e.place)
	return e, ok
}

// revise removes an entry if nothing that is stored of its row, or of its partition, has its term. What expired graceExpired ago does
// not count. now is in seconds.
func (x *Values) revise(table schema.StorageID, def *Definition, entry []byte, now int64) error {
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
		if !s.yields(def, &e, value, now-graceExpired) {
			d.Delete(table, entry)
			x.forgetVector(def, entry)
		}
	})
}

// yields reports whether a stored value has the term of its entry at the time now. One that cannot be decoded does.
func (s *scratch) yields(def *Definition, e *entryOf, value []byte, now int64) bool {
	if value == nil {
		return false
	}
	if row.DecodeRow(&s.row, value) != nil {
		return true
	}
	s.row.Clustering = e.clustering
	s.found.Reset()
	def.Terms.Append(&s.found, &Source{Key: e.key, Kind: e.kind, Row: &s.row}, now)
	for i := range s.found.Len() {
		s.key = appendTerm(s.key[:0], def.cut(s.found.Term(i)))
		if bytes.Equal(s.key, e.term) {
			return true
		}
	}
	return false
}

// sweptTo is how far Sweep has come.
type sweptTo struct {
	table schema.StorageID
	after []byte // the last entry of the table that was looked at
}

// Sweep looks at up to n more entries, which no reader may meet, and removes those that are stale and those of indexes that are
// defined no more. now is in seconds. wrapped means that it has reached the end and will begin again. One goroutine at a time may
// call it.
func (x *Values) Sweep(n int, now int64) (removed int, wrapped bool, err error) {
	table, ok := x.nextTable(x.swept.table)
	if !ok {
		x.swept = sweptTo{}
		return 0, true, nil
	}
	if table != x.swept.table {
		x.swept = sweptTo{table: table}
	}
	stale, scanned, err := x.staleEntries(table, n, now)
	if err != nil {
		return 0, false, err
	}
	for _, entry := range stale {
		if err := x.removeStale(table, entry, now); err != nil {
			return removed, false, err
		}
		removed++
	}
	if scanned < n {
		x.swept = sweptTo{table: table + 1}
	}
	return removed, false, nil
}

// nextTable returns the first table from id on that has indexes with a mark.
func (x *Values) nextTable(id schema.StorageID) (next schema.StorageID, ok bool) {
	for table := range x.all() {
		if table >= id && (!ok || table < next) {
			next, ok = table, true
		}
	}
	return next, ok
}

// staleEntries returns the stale ones of the next n entries of a table.
func (x *Values) staleEntries(table schema.StorageID, n int, now int64) (stale [][]byte, scanned int, err error) {
	entries, err := x.host.Entries(table, x.swept.after, nil)
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
		suspect, err := x.suspect(table, s, entries.Key(), now)
		if err != nil {
			return nil, scanned, err
		}
		if suspect {
			stale = append(stale, bytes.Clone(entries.Key()))
		}
		x.swept.after = append(append(x.swept.after[:0], entries.Key()...), 0)
	}
	return stale, scanned, nil
}

// suspect reports whether an entry may be stale, without a latch.
func (x *Values) suspect(table schema.StorageID, s *scratch, entry []byte, now int64) (bool, error) {
	e, ok := parseEntry(entry)
	if !ok {
		return true, nil
	}
	def, defined := x.definition(table, e.index)
	if !defined {
		_, marked := x.state(table, e.index)
		return !marked, nil // DropIndex removes those of an index with a mark
	}
	if def.OfKey() {
		return true, nil
	}
	value, err := x.host.Stored(table, e.key, e.kind, e.clustering)
	return err == nil && !s.yields(&def, &e, value, now-graceExpired), err
}

// removeStale removes an entry that suspect reported, unless it is not stale.
func (x *Values) removeStale(table schema.StorageID, entry []byte, now int64) error {
	if e, ok := parseEntry(entry); ok {
		if def, defined := x.definition(table, e.index); defined {
			return x.revise(table, &def, entry, now)
		}
		if _, marked := x.state(table, e.index); marked {
			return nil
		}
	}
	return x.host.Write(false, func(d storage.Derived) error { d.Delete(table, entry); return nil })
}
