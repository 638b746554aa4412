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
// the other, step by step.
//
//	source: hashes of leaves ──▶ this node: hashes of leaves ──▶ parts that differ ──▶ streams, one after the other
//
// It starts with one leaf. When hashing that takes more than one step, it restarts with a number of leaves by the size
// of the range.
type comparison struct {
	pending []ring.Range // pieces of the range that are not compared, at most two
	parts   []ring.Range // that differ, and are not streamed yet
	tokens  ring.Range   // the piece under way
	// now (seconds) is the same for both nodes, so that both decide alike which cells have expired.
	now    int64
	leaves int
	size   int64
	theirs []repair.LeafHash
	own    []repair.LeafHash
	here   bool // this node hashes; before, the source does
}

// compareWith compares the range of a task with its source, and streams the parts that differ.
func (v *movement) compareWith(task *moveTask, out []moveEffect) []moveEffect {
	c := &comparison{pending: []ring.Range{task.session.Range}}
	if r := task.session.Range; r.Start == r.End { // ring.Range.Part cannot divide the whole ring
		c.pending = []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}}
	}
	task.comparison = c
	return v.nextPiece(task, out)
}

// nextPiece compares the next piece, or fetches the parts that differ after the last one.
func (v *movement) nextPiece(task *moveTask, out []moveEffect) []moveEffect {
	c := task.comparison
	// A table that was dropped meanwhile has no parts to fetch.
	if len(c.pending) == 0 || v.m.view.Schema().TableByStorage(task.session.Table) == nil {
		return v.fetchParts(task, out)
	}
	c.tokens, c.now, c.size, c.pending = c.pending[0], v.m.now, 0, c.pending[1:]
	return v.compareLeaves(task, 1, out)
}

// fetchParts streams the next part that differs.
func (v *movement) fetchParts(task *moveTask, out []moveEffect) []moveEffect {
	c := task.comparison
	if len(c.parts) == 0 {
		return v.taskEnded(task, nil, out)
	}
	// A part has a separate ID, because the stream of the whole range has left a record under the ID of the session.
	part := task.session
	part.Range = c.parts[0]
	part.ID = fmt.Sprintf("%d/again/%d/%s/%d", v.operation.ID, part.Table, part.Range, part.Source)
	return v.stream(task, part, out)
}

// compareLeaves hashes the piece with a number of leaves, first at the source and then here.
func (v *movement) compareLeaves(task *moveTask, leaves int, out []moveEffect) []moveEffect {
	c := task.comparison
	c.leaves, c.here = leaves, false
	c.theirs, c.own = make([]repair.LeafHash, leaves), make([]repair.LeafHash, leaves)
	return v.hash(task, nil, out)
}

// hash requests the next step of hashes.
func (v *movement) hash(task *moveTask, after []byte, out []moveEffect) []moveEffect {
	c, node := task.comparison, task.session.Source
	if c.here {
		node = v.m.view.Self()
	}
	task.number = v.m.number()
	// The present epoch, because the ring may move while a long comparison runs; Since is the switch that the source
	// must have applied.
	req := &repair.HashRequest{Epoch: v.m.view.Topology().Epoch(), Since: task.session.Epoch,
		Table: task.session.Table, Tokens: c.tokens, Leaves: c.leaves, Now: c.now, After: after}
	return append(out, moveEffect{kind: effectHash, movement: v, task: task, number: task.number, node: node,
		request: req})
}

// hashed takes a step of hashes. A failure ends the session of the whole range, which is planned and compared again.
func (v *movement) hashed(task *moveTask, ev *moveEvent, out []moveEffect) []moveEffect {
	c, s, err := task.comparison, &ev.hashes, ev.err
	if err == nil {
		err = c.add(s)
	}
	switch {
	case err != nil:
		return v.taskEnded(task, failureOf(v.m.view, task.session, fmt.Errorf("comparing: %w", err)), out)
	// The range is larger than one step: the hashes so far are discarded. One leaf would make all of it differ.
	case s.Next != nil && c.leaves == 1:
		return v.compareLeaves(task, int(min(max(2, c.size/v.m.leafBytes), compareLeavesMax)), out)
	case s.Next != nil:
		return v.hash(task, s.Next, out)
	case !c.here:
		c.here = true
		return v.hash(task, nil, out)
	}
	c.parts = append(c.parts, c.compare()...)
	return v.nextPiece(task, out)
}

// add adds the hashes of a step.
func (c *comparison) add(s *repair.HashStep) error {
	into := c.theirs
	if c.here {
		into = c.own
	}
	for i, leaf := range s.Leaves {
		// A source of another version, or a faulty one, must not make this node index out of range.
		if leaf < 0 || leaf >= len(into) {
			return errForeignLeaf
		}
		into[leaf].Add(s.Hashes[i])
	}
	c.size = max(c.size, s.Size)
	return nil
}

var errForeignLeaf = errors.New("rebalance: hashes of leaves that were not requested")

// compare returns the leaves that differ; adjacent ones are joined.
func (c *comparison) compare() (differing []ring.Range) {
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
	return differing
}
