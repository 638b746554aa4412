package rowcache

import (
	"encoding/binary"
	"slices"

	"cqld/ring"
	"cqld/schema"
	"cqld/storage/rowkey"
)

// Write is a change of the database that is not visible yet. It is used by one goroutine.
type Write struct {
	cache *Cache
	begun []*counters
}

// Begin begins a write. Its keys and ranges are removed before it becomes visible, and End follows when it is, or when
// it has failed. A nil Cache returns nil, whose methods do nothing.
func (c *Cache) Begin() *Write {
	if c == nil {
		return nil
	}
	return c.writes.Get().(*Write)
}

// Key removes the entry of a key of a row or header; other keys are ignored.
func (w *Write) Key(key []byte) {
	if w == nil {
		return
	}
	id, k, _, err := rowkey.Parse(key)
	// Keys of the engine itself are never read through the cache.
	if err != nil || id < schema.FirstStorageID {
		return
	}
	partition := hashPartition(id, k.Token)
	w.begin(w.cache.slotOf(partition))
	h := hashKey(partition, key)
	w.cache.shardOf(h).remove(h, key)
}

// Range removes the entries of all keys from start on, and before end. A range within a partition removes all entries
// of the partition, and a larger range all entries of its tables.
func (w *Write) Range(start, end []byte) {
	if w == nil {
		return
	}
	if id, token, ok := samePartition(start, end); ok {
		w.clear(w.cache.slotOf(hashPartition(id, token)))
		return
	}
	first, last := tableOf(start), tableOf(end)
	if len(end) == rowkey.TableSize { // the end of the table before
		last--
	}
	if last-first >= tableGroups || last < first {
		w.All()
		return
	}
	for id := first; id <= last; id++ {
		w.Table(schema.StorageID(id))
	}
}

// Table removes all entries of a table.
func (w *Write) Table(id schema.StorageID) {
	if w != nil {
		w.clear(w.cache.tableOf(id))
	}
}

// All removes all entries.
func (w *Write) All() {
	if w == nil {
		return
	}
	for i := range w.cache.tables {
		w.clear(&w.cache.tables[i])
	}
}

// begin counts the write. It is counted again for each of its keys, because comparing them would cost more.
func (w *Write) begin(c *counters) {
	c.begun.Add(1)
	w.begun = append(w.begun, c)
}

// clear makes all entries of the counters invalid.
func (w *Write) clear(c *counters) {
	w.begin(c)
	// Entries that are added from now on are refused, because the write has begun.
	c.cleared.Add(1)
}

// End ends the write: it is visible, or has failed. The Write must not be used after that.
func (w *Write) End() {
	if w == nil {
		return
	}
	for _, c := range w.begun {
		c.ended.Add(1)
	}
	if cap(w.begun) > keptMax {
		w.begun = nil
	}
	w.begun = w.begun[:0]
	w.cache.writes.Put(w)
}

// samePartition returns the partition that contains all keys of a range.
func samePartition(start, end []byte) (id schema.StorageID, t ring.Token, ok bool) {
	id, k, suffix, err := rowkey.Parse(start)
	prefix := len(start) - len(suffix)
	if err != nil || len(end) <= prefix || !slices.Equal(start[:prefix], end[:prefix]) {
		return 0, 0, false
	}
	return id, k.Token, true
}

// tableOf returns the table of a key, as a number that does not wrap.
func tableOf(key []byte) int64 {
	if len(key) < rowkey.TableSize {
		return 0
	}
	return int64(binary.BigEndian.Uint32(key))
}
