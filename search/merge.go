package search

import (
	"bytes"
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
	"cqld/watermark"
)

// candidate is a row, or a partition, that matches by the versions of some nodes.
type candidate struct {
	at         watermark.Position
	key        row.PartitionKey
	kind       row.EntryKind
	clustering []byte
	page       []byte // once it is settled, or was read
	state      candidateState
}

type candidateState uint8

const (
	unsettled candidateState = iota
	reading
	settled // all replicas that were asked returned the same page
	read    // the page is that of a read at the level
)

// mergeLocked moves the watermark and adds the candidates up to it to the queue.
func (op *searchOp) mergeLocked() {
	if op.covered {
		return
	}
	to := op.plan.Reached()
	if op.plan.Compare(to, op.plan.Mark()) <= 0 {
		return
	}
	found := op.newLocked(to)
	memory := make([]candidate, len(found))
	op.queue = slices.Grow(op.queue, len(found))
	for i, at := range found {
		if c := &memory[i]; op.candidateLocked(c, at) {
			op.queue = append(op.queue, c)
		}
	}
	for _, n := range op.plan.Nodes() {
		n.Entries = slices.DeleteFunc(n.Entries, func(c index.Candidate) bool {
			return op.plan.Compare(watermark.Position{Key: c.At}, to) <= 0
		})
	}
	if to.Place == watermark.AfterAll {
		op.covered = true
		if op.window < len(op.pieces) { // a later window continues there
			to = watermark.Position{Key: endOf(op.pieces[op.window-1].tokens)}
		}
	}
	op.plan.SetMark(to)
}

// endOf returns a place behind all keys of a range that is not the last one.
func endOf(tokens ring.Range) []byte {
	return index.AppendPlace(nil, row.PartitionKey{Token: tokens.End + 1}, row.KindHeader, nil)
}

// newLocked returns the positions of the candidates behind the watermark, up to to, in order.
func (op *searchOp) newLocked(to watermark.Position) (out []watermark.Position) {
	mark := op.plan.Mark()
	for _, n := range op.plan.Nodes() {
		out = slices.Grow(out, len(n.Entries))
		for _, c := range n.Entries {
			if at := (watermark.Position{Key: c.At}); op.plan.Compare(at, to) <= 0 && op.plan.Compare(at, mark) > 0 {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, op.plan.Compare)
	return slices.CompactFunc(out, func(a, b watermark.Position) bool { return bytes.Equal(a.Key, b.Key) })
}

// candidateLocked makes c the candidate at a position. It is settled if all replicas that have come so far have
// returned the same page.
func (op *searchOp) candidateLocked(c *candidate, at watermark.Position) (ok bool) {
	c.at = at
	place := index.PlaceOf(op.req.Order, at.Key)
	if c.key, c.kind, c.clustering, ok = index.ParsePlace(place); !ok {
		return false // of a node with a fault
	}
	i := slices.IndexFunc(op.pieces[:op.window], func(p piece) bool { return p.tokens.Contains(c.key.Token) })
	if i < 0 {
		return false
	}
	if op.def.Partitions {
		return true // its rows are read
	}
	equal := true
	for _, n := range op.sets[op.pieces[i].set].nodes {
		if op.plan.Compare(n.Position, at) < 0 {
			continue
		}
		page := op.pageAt(n, at)
		if c.page == nil {
			c.page = page
		}
		equal = equal && page != nil && bytes.Equal(page, c.page)
	}
	if c.page != nil && (equal || op.s.unsafe.TrustReplicas) {
		c.state = settled
		op.s.counts.settled.Add(1)
	}
	return true
}

// pageAt returns the page of a node's candidate at a position; nil if it has none.
func (op *searchOp) pageAt(n *watermark.Node[index.Candidate], at watermark.Position) []byte {
	i, found := slices.BinarySearchFunc(n.Entries, at, func(c index.Candidate, at watermark.Position) int {
		return op.plan.Compare(watermark.Position{Key: c.At}, at)
	})
	if !found {
		return nil
	}
	return n.Entries[i].Page
}

// neededLocked marks and returns the nodes that must be asked for the watermark to move, if more candidates are needed.
// It is not ok if the watermark cannot move any more.
func (op *searchOp) neededLocked() (asked []*watermark.Node[index.Candidate], ok bool) {
	if op.covered || len(op.queue) >= op.limit-op.out.rows {
		return nil, true
	}
	return op.plan.Needed()
}
