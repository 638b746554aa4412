// Package backlog keeps maintenance work that reads and commits discover: partitions to be purged and rows to be
// collapsed. Both lists are bounded; work that does not fit is discovered again by a later read.
package backlog

import (
	"bytes"
	"sync"
	"sync/atomic"

	"cqld/internal/invariant"
)

// Span is the interval of keys [Start, End).
type Span struct{ Start, End []byte }

// Sweep is the state of a sweep over a part of the database. It belongs to the purger.
type Sweep struct {
	Position []byte // the key to continue from; empty at the start
	End      []byte // the first key that does not belong to it; nil means no bound
}

// Dead contains partitions in which a read met many rows that deletions shadow. The purger removes these rows soon,
// with range deletions, so that later reads need not skip each of them again.
type Dead struct {
	// Wake receives a value when the purger has new work; nil in an engine without goroutines. It is set before the
	// other methods are called.
	Wake  chan struct{}
	max   int
	count atomic.Int32
	mu    sync.Mutex
	spans map[string]*Sweep // by the first key
	// suspects are deleted partitions and ranges whose size has not been examined yet.
	suspects []Span
}

// NewDead returns a list for up to max partitions, and as many suspects.
func NewDead(max int) *Dead { return &Dead{max: max, spans: map[string]*Sweep{}} }

func (d *Dead) wake() {
	select {
	case d.Wake <- struct{}{}:
	default:
	}
}

// Suspect records deleted spans, which it keeps. It drops those that exceed the bound.
func (d *Dead) Suspect(deleted []Span) {
	if len(deleted) == 0 {
		return
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.suspects = append(d.suspects, deleted[:min(len(deleted), d.max-len(d.suspects))]...)
	invariant.Check(len(d.suspects) <= d.max, "backlog: more suspects wait than the bound")
	d.wake()
}

// TakeSuspects returns what Suspect recorded.
func (d *Dead) TakeSuspects() []Span {
	d.mu.Lock()
	defer d.mu.Unlock()
	out := d.suspects
	d.suspects = nil
	return out
}

// Add records a span, which it keeps. It drops the span if too many are queued.
func (d *Dead) Add(x Span) {
	// A sweep of an empty span would never end, because it never passes a key.
	invariant.Check(len(x.Start) > 0 && bytes.Compare(x.Start, x.End) < 0,
		"backlog: span [%x, %x) is empty", x.Start, x.End)
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.spans[string(x.Start)]; known || len(d.spans) >= d.max {
		return
	}
	d.spans[string(x.Start)] = &Sweep{Position: append([]byte{}, x.Start...), End: x.End}
	n := d.count.Add(1)
	// Len is read without the lock, and decides whether the purger looks at the spans.
	invariant.Check(int(n) == len(d.spans), "backlog: %d spans are counted as %d", len(d.spans), n)
	d.wake()
}

// Any returns a queued span and its first key, preferably one whose sweep has begun; nil means that none is queued.
func (d *Dead) Any() (start string, x *Sweep) {
	d.mu.Lock()
	defer d.mu.Unlock()
	for start, x = range d.spans {
		if len(x.Position) > len(start) {
			break
		}
	}
	return start, x
}

// Remove removes the span that begins with start.
func (d *Dead) Remove(start string) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if _, known := d.spans[start]; known {
		delete(d.spans, start)
		n := d.count.Add(-1)
		invariant.Check(int(n) == len(d.spans), "backlog: %d spans are counted as %d", len(d.spans), n)
	}
}

// Len returns the number of queued spans.
func (d *Dead) Len() int { return int(d.count.Load()) }

// Crowded contains keys whose merge had many operands: in the memtable, every reader pays for every operand. The read
// that found them collapses them when it has finished.
type Crowded struct {
	max   int
	count atomic.Int32
	mu    sync.Mutex
	keys  map[string]bool // true while being collapsed
}

// NewCrowded returns a list for up to max keys.
func NewCrowded(max int) *Crowded { return &Crowded{max: max, keys: map[string]bool{}} }

// Add is called by the merger, in reads and in compactions. A compaction collapses rows itself. Collapsing its keys
// again costs little, and the two cannot be distinguished here.
func (c *Crowded) Add(key []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if _, known := c.keys[string(key)]; known || len(c.keys) >= c.max {
		return
	}
	c.keys[string(key)] = false
	n := c.count.Add(1)
	invariant.Check(int(n) <= len(c.keys) && len(c.keys) <= c.max, "backlog: more crowded rows wait than the bound")
}

// Len returns the number of keys that no goroutine is collapsing.
func (c *Crowded) Len() int { return int(c.count.Load()) }

// Take returns a key that no goroutine is collapsing. The caller calls Forget when it has collapsed it.
func (c *Crowded) Take() (key string, ok bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	for k, folding := range c.keys {
		if !folding {
			c.keys[k] = true
			n := c.count.Add(-1)
			invariant.Check(n >= 0, "backlog: a crowded row was taken twice")
			return k, true
		}
	}
	return "", false
}

// Forget removes a key that was taken.
func (c *Crowded) Forget(key string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	// A key that was not taken is still counted, so forgetting it would keep Len from ever reaching zero.
	invariant.Check(c.keys[key], "backlog: a crowded row is forgotten that was not taken")
	delete(c.keys, key)
}
