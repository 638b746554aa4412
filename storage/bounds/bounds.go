// Package bounds keeps upper bounds of the timestamps (µs) of stored rows, by partition. A deletion that is as new as
// the bound of its partition shadows every row that it covers: reads need not look at these rows, and the purger
// removes them without reading them.
//
// Package storage keeps these invariants:
//
//  1. The timestamps of a row are noted before the row is committed or ingested. So a bound that is loaded after an
//     iterator was created, or under the write latch of the partition, applies to all rows that the iterator, or a
//     deletion of keys under that latch, can find.
//  2. A bound never decreases while the engine is open.
//  3. The ceiling of a table on disk is at least as great as every timestamp of its rows on disk: it is raised in the
//     batch that contains the row, or synced before the ingestion. Bounds start there when the engine is opened again.
//
// A collapse, a purge and a removal write no timestamp that was not stored before. A bound that is too great is safe:
// reads then examine the rows, as they do if any of them was written after the deletion.
package bounds

import (
	"maps"
	"math"
	"sync"
	"sync/atomic"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// buckets is the number of bounds of timestamps: 128 KiB. At 10,000 writes per second, in 6 of 1,000 cases another
// partition with the same bucket is written in the 10 ms between a deletion and the removal of its rows.
const buckets = 1 << 14

// Bounds contains the bounds of one engine. Its methods are safe for concurrent use.
type Bounds struct {
	// Prefix is the prefix of the keys of ceilings. Slack is the distance of a new ceiling from the timestamp that
	// requires it. Both are set before the methods are called.
	Prefix []byte
	Slack  int64

	// noted contains the greatest timestamp noted since the engine was opened, by the hash of the partition. Zero is
	// also the bound of negative timestamps.
	noted  [buckets]atomic.Int64
	tables atomic.Pointer[map[schema.StorageID]*table] // replaced, never modified; nil if there are none
	mu     sync.Mutex                                  // held while tables is replaced
	// unknown means that Load failed, and that all bounds are infinite.
	unknown bool
}

// table contains the bounds of a whole table.
type table struct {
	opened  int64        // the ceiling when the engine was opened
	noted   atomic.Int64 // the greatest timestamp noted since
	ceiling atomic.Int64 // the greatest ceiling on disk
}

// bucket returns the bound of a partition, and of all others with the same hash.
func (b *Bounds) bucket(id schema.StorageID, token ring.Token) *atomic.Int64 {
	h := (uint64(token) ^ uint64(id)*0x9e3779b97f4a7c15) * 0xbf58476d1ce4e5b9
	return &b.noted[h>>32%buckets]
}

// all returns the tables, which the caller must not modify.
func (b *Bounds) all() map[schema.StorageID]*table {
	if p := b.tables.Load(); p != nil {
		return *p
	}
	return nil
}

// table returns the bounds of a table, and creates them if necessary.
func (b *Bounds) table(id schema.StorageID) *table {
	if t := b.all()[id]; t != nil {
		return t
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	// Readers load the map without the lock, so a table is added to a copy. Tables are created rarely.
	next := maps.Clone(b.all())
	if next == nil {
		next = map[schema.StorageID]*table{}
	}
	// Another goroutine may have added it before this one acquired the lock.
	if next[id] == nil {
		next[id] = new(table)
	}
	b.tables.Store(&next)
	return next[id]
}

// Note records a timestamp of a row that will be written.
func (b *Bounds) Note(id schema.StorageID, token ring.Token, timestamp int64) {
	raise(b.bucket(id, token), timestamp)
	raise(&b.table(id).noted, timestamp)
	if invariant.Enabled { // invariant 1: from here on, no deletion older than the timestamp shadows all rows
		invariant.Check(timestamp <= 0 || !b.Reached(id, token, timestamp-1),
			"bounds: timestamp %d of table %d was noted and is not bounded", timestamp, id)
	}
}

// raise sets a value to least unless it is greater.
func raise(value *atomic.Int64, least int64) {
	for old := value.Load(); old < least; old = value.Load() {
		if value.CompareAndSwap(old, least) {
			return
		}
	}
}

// Reached reports whether no row of a partition has a timestamp after the given one.
func (b *Bounds) Reached(id schema.StorageID, token ring.Token, timestamp int64) bool {
	if b.unknown || b.bucket(id, token).Load() > timestamp {
		return false
	}
	t := b.all()[id]
	return t == nil || t.opened <= timestamp
}

// open sets the least bound of a table, for a ceiling that was found on disk.
func (t *table) open(ceiling int64) {
	t.opened = max(t.opened, ceiling)
	t.ceiling.Store(t.opened)
}

// required returns the ceiling on disk, zero if there is none, and the one that must replace it before the rows are
// written whose timestamps were noted. Both are equal if no new ceiling is required; a new one exceeds the necessary
// value by Slack.
func (t *table) required(slack int64) (stored, required int64) {
	noted, stored := t.noted.Load(), t.ceiling.Load()
	if noted <= stored {
		return stored, stored
	}
	return stored, noted + min(slack, math.MaxInt64-noted)
}

// Newest returns the greatest timestamp of an encoded row. A malformed row counts as infinitely new, so that reads
// examine and report it.
func Newest(encoded []byte) int64 {
	newest, err := row.TimestampMax(encoded)
	if err != nil {
		return math.MaxInt64
	}
	return newest
}
