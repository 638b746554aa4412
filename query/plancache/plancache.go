// Package plancache caches the plans of statements. It bounds their memory, evicts plans that were not used recently,
// and records which statements clients have to prepare again. It does not compile plans.
package plancache

import (
	"maps"
	"slices"
	"sync"
	"sync/atomic"
)

// PlanBytes is the approximate size of a plan without its text and its tokens.
const PlanBytes = 1500

// Size returns the approximate size in bytes of a plan whose text and tokens take kept bytes (cql.ParseBytes).
func Size(kept int) int { return PlanBytes + kept }

// Entry is a plan in a Cache. Its methods are safe for concurrent use.
type Entry[K comparable, P any] struct {
	Key K
	// Changed means that the statement was prepared earlier with different result columns, which other clients may
	// still use.
	Changed bool

	plan atomic.Pointer[P]
	used atomic.Bool // since the clock hand last passed
	// stale means that the columns of a table have changed: the statement must be prepared again.
	stale atomic.Bool
	size  int
	// resultID is the id of the result metadata when the statement was prepared: clients of v4 know exactly those
	// columns.
	resultID []byte

	// next and previous are the neighbours in the clock, in the direction of the hand and against it. The mutex of
	// the cache guards them.
	next, previous *Entry[K, P]
}

// Plan returns the current plan.
func (e *Entry[K, P]) Plan() *P { return e.plan.Load() }

// Replace replaces the current plan by one for another schema.
func (e *Entry[K, P]) Replace(p *P) { e.plan.Store(p) }

// Knows reports whether clients that prepared the statement know the result metadata with this id; an empty id stands
// for a result without columns.
func (e *Entry[K, P]) Knows(resultID []byte) bool {
	return len(resultID) == 0 || string(resultID) == string(e.resultID)
}

// MarkStale records that the statement must be prepared again.
func (e *Entry[K, P]) MarkStale() { e.stale.Store(true) }

// Stale reports whether the statement must be prepared again.
func (e *Entry[K, P]) Stale() bool { return e.stale.Load() }

// Cache caches plans by key. It evicts entries that were not used since the clock hand last passed. This algorithm,
// CLOCK, approximates LRU, but a hit changes no shared list. Its methods are safe for concurrent use.
type Cache[K comparable, P any] struct {
	mu struct {
		sync.RWMutex
		byKey map[K]*Entry[K, P]
		hand  *Entry[K, P] // the next candidate for eviction; nil if there are no entries
		bytes int
	}
	bytesMax int
	evicted  atomic.Int64
}

// Evicted returns how many entries were evicted to make room for others.
func (c *Cache[K, P]) Evicted() int64 { return c.evicted.Load() }

// New returns a cache of at most bytesMax bytes.
func New[K comparable, P any](bytesMax int) *Cache[K, P] {
	c := &Cache[K, P]{bytesMax: bytesMax}
	c.mu.byKey = map[K]*Entry[K, P]{}
	return c
}

// Get returns an entry, or nil.
func (c *Cache[K, P]) Get(k K) *Entry[K, P] {
	c.mu.RLock()
	e := c.mu.byKey[k]
	c.mu.RUnlock()
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

// Put adds a plan with the length of its text, or replaces the plan of the existing entry, and returns the entry.
// resultID is the id of the result's metadata, empty without one; it is retained.
func (c *Cache[K, P]) Put(k K, p *P, text int, resultID []byte) *Entry[K, P] {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mu.byKey[k]
	if before != nil && before.Knows(resultID) {
		before.plan.Store(p)
		before.stale.Store(false)
		return before
	}
	e := &Entry[K, P]{Key: k, size: Size(text), Changed: before != nil, resultID: resultID}
	e.plan.Store(p)
	if before != nil {
		c.mu.bytes -= before.size
		c.insertLocked(e, before)
		if c.mu.hand == before {
			c.mu.hand = e
		}
		c.removeLocked(before)
	} else {
		for c.mu.bytes+e.size > c.bytesMax && c.mu.hand != nil {
			c.evictLocked()
		}
		c.insertLocked(e, c.mu.hand) // the hand reaches it last
	}
	c.mu.byKey[k] = e
	c.mu.bytes += e.size
	return e
}

// insertLocked inserts an entry into the clock in front of another one, which the hand reaches next; nil if there is
// none.
func (c *Cache[K, P]) insertLocked(e, at *Entry[K, P]) {
	if at == nil {
		e.next, e.previous = e, e
		c.mu.hand = e
		return
	}
	e.next, e.previous = at, at.previous
	e.previous.next, e.next.previous = e, e
}

// removeLocked removes an entry from the clock.
func (c *Cache[K, P]) removeLocked(e *Entry[K, P]) {
	if c.mu.hand == e {
		c.mu.hand = e.next
	}
	if c.mu.hand == e {
		c.mu.hand = nil // it was the only entry
	}
	e.previous.next, e.next.previous = e.next, e.previous
	e.next, e.previous = nil, nil // a caller may retain the entry, which must not retain its neighbours
}

// evictLocked removes the first plan at the clock hand that was not used during a whole revolution.
func (c *Cache[K, P]) evictLocked() {
	for c.mu.hand.used.Swap(false) {
		c.mu.hand = c.mu.hand.next
	}
	e := c.mu.hand
	c.removeLocked(e)
	c.mu.bytes -= e.size
	delete(c.mu.byKey, e.Key)
	c.evicted.Add(1)
}

// Entries returns all entries in any order.
func (c *Cache[K, P]) Entries() []*Entry[K, P] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return slices.Collect(maps.Values(c.mu.byKey))
}
