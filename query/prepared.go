package query

import (
	"slices"
	"sync"
	"sync/atomic"
)

// cacheKey is what a plan is found by: an id, or a text and its keyspace.
type cacheKey struct {
	id       [16]byte
	keyspace string
	text     string
}

// cached is a plan in a cache.
type cached struct {
	key  cacheKey
	plan atomic.Pointer[plan]
	used atomic.Bool // since the hand passed
	// stale says that the columns of a table have changed: the statement has to be prepared again.
	stale atomic.Bool
	size  int
	// preparedID is the result metadata's id when the statement was prepared: clients of v4 know
	// those columns and no others.
	preparedID []byte
	changed    bool // it was prepared before, with other columns in its result
}

// knows tells whether who prepared the statement knows the columns that the plan gives.
func (e *cached) knows(pl *plan) bool {
	m := pl.metadata()
	return m == nil || string(m.ID) == string(e.preparedID)
}

// planCache keeps plans by key within a number of bytes. What was not used since the hand last
// passed goes first (CLOCK: as good as LRU, and a hit writes nothing shared).
type planCache struct {
	mu struct {
		sync.RWMutex
		byKey map[cacheKey]*cached
		ring  []*cached
		hand  int
		bytes int
	}
	bytesMax int
}

func newPlanCache(bytesMax int) *planCache {
	c := &planCache{bytesMax: bytesMax}
	c.mu.byKey = map[cacheKey]*cached{}
	return c
}

// planBytes is about what a plan takes besides its text, which the AST holds once more.
const planBytes = 1500

func (c *planCache) get(k cacheKey) *cached {
	c.mu.RLock()
	e := c.mu.byKey[k]
	c.mu.RUnlock()
	if e != nil && !e.used.Load() {
		e.used.Store(true)
	}
	return e
}

// put adds a plan, or gives the one that is there a new plan, and returns its entry.
func (c *planCache) put(k cacheKey, pl *plan) *cached {
	c.mu.Lock()
	defer c.mu.Unlock()
	before := c.mu.byKey[k]
	if before != nil && before.knows(pl) {
		before.plan.Store(pl)
		before.stale.Store(false)
		return before
	}
	e := &cached{key: k, size: planBytes + 4*len(pl.text), changed: before != nil}
	e.plan.Store(pl)
	if m := pl.metadata(); m != nil {
		e.preparedID = m.ID
	}
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
func (c *planCache) evictLocked() {
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
		delete(c.mu.byKey, e.key)
		return
	}
}

// entries are all plans, for system.prepared_statements.
func (c *planCache) entries() []*cached {
	c.mu.RLock()
	defer c.mu.RUnlock()
	return append([]*cached(nil), c.mu.ring...)
}

// PreparedStatement is a prepared statement as system.prepared_statements shows it.
type PreparedStatement struct {
	ID       [16]byte
	Keyspace string // empty: none
	Text     string
}

// PreparedStatements are all that are known at the moment, in no order.
func (p *Processor) PreparedStatements() []PreparedStatement {
	var out []PreparedStatement
	for _, e := range p.prepared.entries() {
		pl := e.plan.Load()
		out = append(out, PreparedStatement{ID: e.key.id, Keyspace: pl.keyspace, Text: pl.text})
	}
	return out
}
