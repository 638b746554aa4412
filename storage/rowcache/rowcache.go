// Package rowcache keeps merged entries of the database in memory, so that a read of one row need not search memtables
// and files. It stores keys and encoded values as bytes: it neither decodes rows nor knows when they expire or are
// deleted. It is no cache of pages or of query results, and holds nothing that the database does not.
//
//	read    Mark ─ Get ─ found: Unchanged ─ answer
//	                  └─ missing: iterator ─ Add, unless the partition was written since Mark
//	write   Begin ─ Key, Range ─ batch becomes visible ─ End
//
// A write removes the entry before it becomes visible, so no reader finds an older value after another reader has seen
// the newer one. A reader adds a value only if no write of its partition was in progress when it began, and none has
// begun since: the value is then the newest. Partitions share counters, so a write may needlessly refuse the addition
// of another partition's row; that costs one more read of the database.
package rowcache

import (
	"sync"
	"sync/atomic"

	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
)

// Cache is a cache of entries by their keys. Its methods are safe for concurrent use. A nil Cache is empty.
type Cache struct {
	shards []shard
	// slots have the counters of partitions, by a hash of table and token, and tables the counters of whole tables.
	slots  []counters
	tables [tableGroups]counters
	writes sync.Pool // *Write
}

// counters count the writes of some partitions, or of some tables. They may wrap: a read would have to last as long as
// 2^32 writes to be deceived.
type counters struct {
	begun, ended atomic.Uint32
	// cleared counts removals of ranges. An entry that was added before the last one is not valid.
	cleared atomic.Uint32
}

// New returns a cache of at most so many bytes, or nil if that is too little for one.
func New(bytes int64) *Cache {
	if bytes < BytesMin {
		return nil
	}
	shards := 1
	for shards < shardsMax && int64(shards)*2*shardBytesMin <= bytes {
		shards *= 2
	}
	slots := slotsMin
	// A slot for each 256 bytes: as many as entries of usual size.
	for slots < slotsMax && int64(slots)*256 < bytes {
		slots *= 2
	}
	c := &Cache{shards: make([]shard, shards), slots: make([]counters, slots)}
	c.writes.New = func() any { return &Write{cache: c} }
	bytes -= int64(slots) * counterBytes
	for i := range c.shards {
		c.shards[i].init(int(bytes / int64(shards)))
	}
	return c
}

// Mark is the state of a partition before a read of it.
type Mark struct {
	slot, table *counters
	hash        uint64 // of table and token
	ended       uint32
	cleared     uint32
}

// Mark returns the state of a partition. It must be called before the read opens its iterator.
func (c *Cache) Mark(id schema.StorageID, t ring.Token) (m Mark) {
	m.hash = hashPartition(id, t)
	m.slot, m.table = c.slotOf(m.hash), c.tableOf(id)
	// The order matters: an entry with the sum of cleared is valid until a clearing that begins later.
	m.cleared = m.slot.cleared.Load() + m.table.cleared.Load()
	m.ended = m.slot.ended.Load() + m.table.ended.Load()
	return m
}

// Unchanged reports whether no write of the partition has become visible since the mark, and none can have become
// visible in part: entries that were found since belong to one state of the partition.
func (m *Mark) Unchanged() bool {
	// Each write that has ended has begun, so the sums are equal only if all that had begun had ended before Mark.
	return m.slot.begun.Load()+m.table.begun.Load() == m.ended
}

// Get appends the value of an entry of the marked partition to dst. found means that the cache has the key, and present
// that the database has. The result is valid only if Unchanged reports so after the last Get of the read.
func (c *Cache) Get(dst []byte, m *Mark, key []byte) (value []byte, found, present bool) {
	h := hashKey(m.hash, key)
	return c.shardOf(h).get(dst, h, m.cleared, key)
}

// Add adds the value that the database has for a key of the marked partition, or that it has none, unless the
// partition was written since. It copies both. The read has taken its iterator after Mark.
func (c *Cache) Add(m *Mark, key, value []byte, present bool) {
	h := hashKey(m.hash, key)
	s := c.shardOf(h)
	if !s.fits(len(key), len(value)) {
		return
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if !s.admit(h) {
		return
	}
	// A write that begins after this comparison waits for the lock, and removes the entry. It looks for the entry only
	// if the shard is not empty, so the count is set before.
	s.count.Store(int64(len(s.index)) + 1)
	if m.Unchanged() {
		s.put(h, m.cleared, key, value, present)
	}
	s.count.Store(int64(len(s.index)))
}

// slotOf returns the counters of a partition.
func (c *Cache) slotOf(hash uint64) *counters { return &c.slots[hash>>32&uint64(len(c.slots)-1)] }

// tableOf returns the counters of a table.
func (c *Cache) tableOf(id schema.StorageID) *counters { return &c.tables[id%tableGroups] }

// shardOf returns the shard of a key.
func (c *Cache) shardOf(hash uint64) *shard { return &c.shards[hash&uint64(len(c.shards)-1)] }

// hashPartition mixes a table and a token. Tokens are hashes already, but similar tables have the same ones.
func hashPartition(id schema.StorageID, t ring.Token) uint64 {
	return mix(uint64(t) ^ uint64(id)*0x9E3779B97F4A7C15)
}

// hashKey hashes a key of a partition, whose bytes after the token distinguish it from others with the same token. Keys
// are compared as a whole when they are found, so equal hashes only make one replace the other.
func hashKey(partition uint64, key []byte) uint64 {
	// The key is read in words of eight bytes; the last word may overlap the one before.
	h, n := partition, len(key)
	for i := 0; i < n; i += 8 {
		h = mix(h ^ word(key, min(i, max(0, n-8))))
	}
	return h
}

// word returns up to eight bytes of b as a number.
func word(b []byte, i int) (w uint64) {
	if i+8 <= len(b) {
		b = b[i : i+8 : i+8]
		return uint64(b[0]) | uint64(b[1])<<8 | uint64(b[2])<<16 | uint64(b[3])<<24 | uint64(b[4])<<32 |
			uint64(b[5])<<40 | uint64(b[6])<<48 | uint64(b[7])<<56
	}
	for ; i < len(b); i++ {
		w = w<<8 | uint64(b[i])
	}
	return w
}

// mix is the finalizer of MurmurHash3: each bit of the result depends on each bit of h.
func mix(h uint64) uint64 {
	h = (h ^ h>>33) * 0xFF51AFD7ED558CCD
	h = (h ^ h>>33) * 0xC4CEB9FE1A85EC53
	return h ^ h>>33
}

// Stats are figures of a cache since it was created.
type Stats struct {
	Entries, Bytes int64
	Hits, Misses   int64
	Added, Removed int64 // by reads, and by writes of their keys
}

// Stats returns the figures. It takes the lock of one shard after the other.
func (c *Cache) Stats() (sum Stats) {
	if c == nil {
		return sum
	}
	for i := range c.shards {
		c.shards[i].addTo(&sum)
	}
	invariant.Check(sum.Entries >= 0, "rowcache: a negative number of entries")
	return sum
}
