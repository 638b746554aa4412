package query

import (
	"slices"
	"sync"
	"sync/atomic"
)

// planBytes is the approximate size of a plan without its text and its tokens.
const planBytes = 1500

// planSize returns the approximate size in bytes of a plan whose text and tokens take kept bytes (cql.ParseBytes).
func planSize(kept int) int { return planBytes + kept }

// planID identifies a prepared statement.
type planID [16]byte

// planText identifies a statement by its text and the keyspace of its unqualified names.
type planText struct{ Keyspace, Text string }

// planEntry is a plan in a planCache.
type planEntry[K comparable, P any] struct {
	Key K
	// Changed means that the statement was prepared before with other result columns, which other clients may still
	// use.
	Changed bool

	plan atomic.Pointer[P]
	used atomic.Bool // since the clock hand last passed
	// stale means that the columns of a table have changed: the statement must be prepared again.
	stale atomic.Bool
	size  int
	// resultID is the id of the result metadata when the statement was prepared: clients of v4 know exactly those
	// columns.
	resultID []byte
}

// Plan returns the current plan.
func (e *planEntry[K, P]) Plan() *P { return e.plan.Load() }

// Replace replaces the current plan by one for another schema.
func (e *planEntry[K, P]) Replace(p *P) { e.plan.Store(p) }

// Knows reports whether clients that prepared the statement know the result metadata with this id; an empty id is a
// result without columns.
func (e *planEntry[K, P]) Knows(resultID []byte) bool {
	return len(resultID) == 0 || string(resultID) == string(e.resultID)
}

// MarkStale records that the statement must be prepared again.
func (e *planEntry[K, P]) MarkStale() { e.stale.Store(true) }

// Stale reports whether the statement must be prepared again.
func (e *planEntry[K, P]) Stale() bool { return e.stale.Load() }

// planCache caches plans by key. It evicts entries that were not used since the clock hand last passed (CLOCK: as good
// as LRU, and a hit writes no shared memory). Its methods are safe for concurrent use.
type planCache[K comparable, P any] struct {
	mu struct {
		sync.RWMutex
		byKey map[K]*planEntry[K, P]
		ring  []*planEntry[K, P]
		hand  int
		bytes int
	}
	bytesMax int
	evicted  atomic.Int64
}

// Evicted returns how many entries were removed to make room for others.
func (c *planCache[K, P]) Evicted() int64 { return c.evicted.Load() }

// newPlanCache returns a cache of at most bytesMax bytes.
func newPlanCache[K comparable, P any](bytesMax int) *planCache[K, P] {
	c := &planCache[K, P]{bytesMax: bytesMax}
	c.mu.byKey = map[K]*planEntry[K, P]{}
	return c
}

// Get returns an entry, or nil.
func (c *planCache[K, P]) Get(k K) *planEntry[K, P] {
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
func (c *planCache[K, P]) Put(k K, p *P, text int, resultID []byte) *planEntry[K, P] {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mu.byKey[k]
	if before != nil && before.Knows(resultID) {
		before.plan.Store(p)
		before.stale.Store(false)
		return before
	}
	e := &planEntry[K, P]{Key: k, size: planSize(text), Changed: before != nil, resultID: resultID}
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
	// It comes before the hand, which looks at it after all others.
	c.mu.ring = slices.Insert(c.mu.ring, min(c.mu.hand, len(c.mu.ring)), e)
	c.mu.hand++
	c.mu.bytes += e.size
	return e
}

// evictLocked removes the first plan at the clock hand that was not used during a whole revolution.
func (c *planCache[K, P]) evictLocked() {
	for {
		if c.mu.hand >= len(c.mu.ring) {
			c.mu.hand = 0
		}
		e := c.mu.ring[c.mu.hand]
		if e.used.Swap(false) {
			c.mu.hand++
			continue
		}
		c.mu.ring = slices.Delete(c.mu.ring, c.mu.hand, c.mu.hand+1) // the others keep their order
		c.mu.bytes -= e.size
		delete(c.mu.byKey, e.Key)
		c.evicted.Add(1)
		return
	}
}

// Entries returns all entries in any order.
func (c *planCache[K, P]) Entries() []*planEntry[K, P] {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]*planEntry[K, P](nil), c.mu.ring...)
}
