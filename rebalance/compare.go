package rebalance

import (
	"errors"
	"fmt"
	"time"

	"cqld/repair"
	"cqld/ring"
)

// Hashes requests the hashes of a range from a node, this one included. repair.Service implements it.
type Hashes interface {
	Hash(node ring.NodeID, req *repair.HashRequest, timeout time.Duration, done func(repair.HashStep, error))
}

// comparison finds the parts of a range in which a source may have data that this node lacks. It asks one node after
// the other, step by step, so it needs no lock.
//
//	source: hashes of leaves ──▶ this node: hashes of leaves ──▶ done(leaves that differ)
//
// It starts with one leaf. When hashing that takes more than one step, it restarts with a number of leaves by the size
// of the range.
type comparison struct {
	m       *Movements
	session Session
	tokens  ring.Range
	// now (seconds) is the same for both nodes, so that both decide alike which cells have expired.
	now    int64
	leaves int
	size   int64
	theirs []repair.LeafHash
	own    []repair.LeafHash
	done   func(differing []ring.Range, err error)
}

// compareWith compares the range of a session with its source, and streams the parts that differ.
func (v *movement) compareWith(p Session) {
	var parts []ring.Range
	pending := []ring.Range{p.Range}
	if p.Range.Start == p.Range.End { // ring.Range.Part cannot divide the whole ring
		pending = []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}}
	}
	// The pieces, at most two, are compared one after the other.
	var next func()
	next = func() {
		// A table that was dropped meanwhile has no parts to fetch.
		if len(pending) == 0 || v.m.o.View.Schema().TableByStorage(p.Table) == nil {
			v.fetchParts(p, parts)
			return
		}
		// A failure ends the session of the whole range, which is planned and compared again.
		c := &comparison{m: v.m, session: p, tokens: pending[0], now: v.m.o.Clock.Now().Unix()}
		pending = pending[1:]
		c.done = func(differing []ring.Range, err error) {
			if err != nil {
				v.sessionEnded(p, v.m.o.Streams.failure(p, fmt.Errorf("comparing: %w", err)))
				return
			}
			parts = append(parts, differing...)
			next()
		}
		c.begin(1)
	}
	next()
}

// fetchParts streams the parts that differ, one after the other.
func (v *movement) fetchParts(p Session, parts []ring.Range) {
	if len(parts) == 0 {
		v.sessionEnded(p, nil)
		return
	}
	// A part has an ID of its own, because the stream of the whole range has left a record under the ID of p.
	part := p
	part.Range = parts[0]
	part.ID = fmt.Sprintf("%d/again/%d/%s/%d", v.operation.ID, p.Table, part.Range, p.Source)
	v.startSession(part, func(err error) {
		if err != nil {
			v.sessionEnded(p, err)
			return
		}
		v.fetchParts(p, parts[1:])
	})
}

// begin hashes the range with a number of leaves, first at the source and then here.
func (c *comparison) begin(leaves int) {
	c.leaves = leaves
	c.theirs, c.own = make([]repair.LeafHash, leaves), make([]repair.LeafHash, leaves)
	c.step(c.session.Source, c.theirs, nil, func() {
		c.step(c.m.o.View.Self(), c.own, nil, c.compare)
	})
}

// step hashes on one node until the range is done, and then calls then.
func (c *comparison) step(node ring.NodeID, into []repair.LeafHash, after []byte, then func()) {
	// The present epoch, because the ring may move while a long comparison runs; Since is the switch that the source
	// must have applied.
	req := &repair.HashRequest{Epoch: c.m.o.View.Topology().Epoch(), Since: c.session.Epoch, Table: c.session.Table,
		Tokens: c.tokens,
		Leaves: c.leaves, Now: c.now, After: after}
	c.m.o.Hashes.Hash(node, req, compareTimeout, func(s repair.HashStep, err error) {
		if err != nil {
			c.done(nil, err)
			return
		}
		for i, leaf := range s.Leaves {
			// A source of another version, or a faulty one, must not make this node index out of range.
			if leaf < 0 || leaf >= len(into) {
				c.done(nil, errForeignLeaf)
				return
			}
			into[leaf].Add(s.Hashes[i])
		}
		c.size = max(c.size, s.Size)
		// The node has hashed the whole range.
		if s.Next == nil {
			then()
			return
		}
		// The range is larger than one step: the hashes so far are discarded. One leaf would make all of it differ.
		if c.leaves == 1 {
			c.begin(int(min(max(2, c.size/c.m.o.LeafBytes), compareLeavesMax)))
			return
		}
		c.step(node, into, s.Next, then)
	})
}

var errForeignLeaf = errors.New("rebalance: hashes of leaves that were not requested")

// compare reports the leaves that differ; adjacent ones are joined.
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
		// Fewer sessions, each with its own first block.
		if n := len(differing); n > 0 && differing[n-1].End == part.Start {
			differing[n-1].End = part.End
			continue
		}
		differing = append(differing, part)
	}
	checkParts(c.tokens, differing)
	c.done(differing, nil)
}
