package rebalance

import (
	"errors"
	"fmt"
	"time"

	"cqld/repair"
	"cqld/ring"
)

// Hashes is the way to the hashes of a range on a node, this one or another, as repairs take them.
type Hashes interface {
	Hash(node ring.NodeID, req *repair.HashRequest, timeout time.Duration, done func(repair.HashStep, error))
}

// Bounds of comparisons.
const (
	// compareLeafBytes and compareLeavesMax are those of repairs: scanning is what costs, and 4096 leaves are
	// 96 KiB of hashes.
	compareLeafBytes = 256 << 10
	compareLeavesMax = 4096
	// comparesAhead is how many comparisons of an operation go on at once: each has a core of its source busy.
	comparesAhead = 2
	// compareTimeout is for one step, of a MiB.
	compareTimeout = 10 * time.Second
)

// comparison finds the parts of a range in which a source may have something that this node lacks. One node
// is asked after the other, step by step, so it needs no lock.
//
//	source: hashes of leaves ──▶ this node: the same ──▶ done(the leaves that differ)
//
// A range that takes more than one step as a single leaf begins anew with as many as its size is worth.
type comparison struct {
	m      *Movements
	pull   Session
	tokens ring.Range
	now    int64
	leaves int
	size   int64
	theirs []repair.LeafHash
	own    []repair.LeafHash
	done   func(differing []ring.Range, err error)
}

// compareWith compares the range of a pull with its source, and pulls the parts that differ.
func (v *move) compareWith(p Session) {
	var parts []ring.Range
	pending := []ring.Range{p.Range}
	if p.Range.Start == p.Range.End { // the whole ring has no parts
		pending = []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}}
	}
	var next func()
	next = func() {
		if len(pending) == 0 || v.m.o.View.Schema().TableByStorage(p.Table) == nil {
			v.fetchParts(p, parts)
			return
		}
		c := &comparison{m: v.m, pull: p, tokens: pending[0], now: v.m.o.Clock.Now().Unix()}
		pending = pending[1:]
		c.done = func(differing []ring.Range, err error) {
			if err != nil {
				v.pulled(p, v.m.o.Streams.failure(p, fmt.Errorf("comparing: %w", err)))
				return
			}
			parts = append(parts, differing...)
			next()
		}
		c.begin(1)
	}
	next()
}

// fetchParts pulls what differs, one part after the other.
func (v *move) fetchParts(p Session, parts []ring.Range) {
	if len(parts) == 0 {
		v.pulled(p, nil)
		return
	}
	part := p
	part.Range = parts[0]
	part.ID = fmt.Sprintf("%d/again/%d/%s/%d", v.operation.ID, p.Table, part.Range, p.Source)
	v.start(part, func(err error) {
		if err != nil {
			v.pulled(p, err)
			return
		}
		v.fetchParts(p, parts[1:])
	})
}

func (c *comparison) begin(leaves int) {
	c.leaves = leaves
	c.theirs, c.own = make([]repair.LeafHash, leaves), make([]repair.LeafHash, leaves)
	c.step(c.pull.Source, c.theirs, nil, func() {
		c.step(c.m.o.View.Self(), c.own, nil, c.compare)
	})
}

// step hashes on one node, and goes on there until all is hashed.
func (c *comparison) step(node ring.NodeID, into []repair.LeafHash, after []byte, then func()) {
	req := &repair.HashRequest{Epoch: c.m.o.View.Topology().Epoch(), Since: c.pull.Epoch, Table: c.pull.Table, Tokens: c.tokens,
		Leaves: c.leaves, Now: c.now, After: after}
	c.m.o.Hashes.Hash(node, req, compareTimeout, func(s repair.HashStep, err error) {
		if err != nil {
			c.done(nil, err)
			return
		}
		for i, leaf := range s.Leaves {
			if leaf < 0 || leaf >= len(into) {
				c.done(nil, errForeignLeaf)
				return
			}
			into[leaf].Add(s.Hashes[i])
		}
		c.size = max(c.size, s.Size)
		if s.Next == nil {
			then()
			return
		}
		if c.leaves == 1 {
			c.begin(int(min(max(2, c.size/c.m.o.LeafBytes), compareLeavesMax)))
			return
		}
		c.step(node, into, s.Next, then)
	})
}

var errForeignLeaf = errors.New("rebalance: hashes of leaves that were not asked for")

// compare gives the leaves that differ, neighbours as one.
func (c *comparison) compare() {
	var differing []ring.Range
	for i := range c.leaves {
		if c.own[i] == c.theirs[i] {
			continue
		}
		part := c.tokens
		if c.leaves > 1 {
			part = c.tokens.Part(i, c.leaves)
		}
		if n := len(differing); n > 0 && differing[n-1].End == part.Start {
			differing[n-1].End = part.End
			continue
		}
		differing = append(differing, part)
	}
	c.done(differing, nil)
}
