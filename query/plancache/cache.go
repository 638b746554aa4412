// Package plancache keeps compiled statements by their id, or by their text and keyspace, within a number of bytes.
//
// It does not know what a plan is and does not compile: package query does.
package plancache

import (
	"slices"
	"sync"
	"sync/atomic"
)

// PlanBytes is about what a plan takes besides its text, which the AST holds once more.
const PlanBytes = 1500

// Size is about the number of bytes that a plan with a text of that length takes.
func Size(text int) int { return PlanBytes + 4*text }

// Key is what a plan is found by: an id, or a text and its keyspace.
type Key struct {
	ID       [16]byte
	Keyspace string
	Text     string
}

// Entry is a plan in a Cache.
type Entry[P any] struct {
	Key Key
	// Changed says that the statement was prepared before, with other columns in its result. Other
	// clients may still know those.
	Changed bool

	plan atomic.Pointer[P]
	used atomic.Bool // since the hand passed
	// stale says that the columns of a table have changed: the statement has to be prepared again.
	stale atomic.Bool
	size  int
	// resultID is the result metadata's id when the statement was prepared: clients of v4 know those
	// columns and no others.
	resultID []byte
}

// Plan returns the current plan.
func (e *Entry[P]) Plan() *P { return e.plan.Load() }

// Replace puts a plan for another schema in place of the current one.
func (e *Entry[P]) Replace(p *P) { e.plan.Store(p) }

// Knows reports whether clients that prepared the statement know the columns of that result metadata;
// an empty id is a result without columns.
func (e *Entry[P]) Knows(resultID []byte) bool {
	return len(resultID) == 0 || string(resultID) == string(e.resultID)
}

// MarkStale makes the statement one that has to be prepared again.
func (e *Entry[P]) MarkStale() { e.stale.Store(true) }

// Stale reports whether the statement has to be prepared again.
func (e *Entry[P]) Stale() bool { return e.stale.Load() }

// Cache keeps plans by key. What was not used since the hand last passed goes first (CLOCK: as good
// as LRU, and a hit writes nothing shared). Its methods are safe for concurrent use.
type Cache[P any] struct {
	mu struct {
		sync.RWMutex
		byKey map[Key]*Entry[P]
		ring  []*Entry[P]
		hand  int
		bytes int
	}
	bytesMax int
}

// New makes a cache of at most that many bytes.
func New[P any](bytesMax int) *Cache[P] {
	c := &Cache[P]{bytesMax: bytesMax}
	c.mu.byKey = map[Key]*Entry[P]{}
	return c
}

// Get finds an entry; nil when there is none.
func (c *Cache[P]) Get(k Key) *Entry[P] {
	c.mu.RLock()
	e := c.mu.byKey[k]
	c.mu.RUnlock()
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

// Put adds a plan whose text has that length, or gives the entry that is there the plan, and returns
// the entry. resultID is the id of its result's metadata, empty without one; it is kept.
func (c *Cache[P]) Put(k Key, p *P, text int, resultID []byte) *Entry[P] {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mu.byKey[k]
	if before != nil && before.Knows(resultID) {
		before.plan.Store(p)
		before.stale.Store(false)
		return before
	}
	e := &Entry[P]{Key: k, size: Size(text), Changed: before != nil, resultID: resultID}
	e.plan.Store(p)
	if before != nil {
		c.mu.byKey[k] = e
		c.mu.ring[slices.Index(c.mu.ring, before)] = e
		return e
	}
	for c.mu.bytes+e.size > c.bytesMax && len(c.mu.ring) > 0 {
		c.evictLocked()
	}
	c.mu.byKey[k] = e
	c.mu.ring = append(c.mu.ring, e)
	c.mu.bytes += e.size
	return e
}

// evictLocked drops the first plan under the hand that was not used for a whole turn.
func (c *Cache[P]) evictLocked() {
	for {
		if c.mu.hand >= len(c.mu.ring) {
			c.mu.hand = 0
		}
		e := c.mu.ring[c.mu.hand]
		if e.used.Swap(false) {
			c.mu.hand++
			continue
		}
		last := len(c.mu.ring) - 1
		c.mu.ring[c.mu.hand] = c.mu.ring[last]
		c.mu.ring[last] = nil
		c.mu.ring = c.mu.ring[:last]
		c.mu.bytes -= e.size
		delete(c.mu.byKey, e.Key)
		return
	}
}

// Entries returns all entries, in no order.
func (c *Cache[P]) Entries() []*Entry[P] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]*Entry[P](nil), c.mu.ring...)
}
