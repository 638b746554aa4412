package search

import (
	"bytes"
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
)

// position is a place in a search: behind a key, before all keys, or after all.
type position struct {
	key   []byte
	place int8
}

// The places of a position.
const (
	beforeAll = -1
	atKey     = 0
	afterAll  = 1
)

// compare compares positions in the order of the search.
func (op *searchOp) compare(a, b position) int {
	if a.place != atKey || b.place != atKey {
		return int(a.place) - int(b.place)
	}
	if op.req.Reversed {
		return bytes.Compare(b.key, a.key)
	}
	return bytes.Compare(a.key, b.key)
}

// reached returns the position that as many nodes of the quota have reached as it needs.
func (op *searchOp) reached(q *quota) position {
	if q.need == 0 {
		return position{place: afterAll}
	}
	positions := make([]position, 0, len(q.nodes))
	for _, n := range q.nodes {
		positions = append(positions, n.position)
	}
	slices.SortFunc(positions, func(a, b position) int { return op.compare(b, a) })
	return positions[q.need-1]
}

// candidate is a row, or a partition, that matches by the versions of some nodes.
type candidate struct {
	at         position
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
	to := position{place: afterAll}
	for i := range op.sets {
		for k := range op.sets[i].quotas {
			if reached := op.reached(&op.sets[i].quotas[k]); op.compare(reached, to) < 0 {
				to = reached
			}
		}
	}
	if op.compare(to, op.watermark) <= 0 {
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
	for _, n := range op.nodes {
		n.candidates = slices.DeleteFunc(n.candidates, func(c index.Candidate) bool { return op.compare(position{key: c.At}, to) <= 0 })
	}
	if op.watermark = to; to.place == afterAll {
		op.covered = true
		if op.window < len(op.pieces) { // a later window continues there
			op.watermark = position{key: endOf(op.pieces[op.window-1].tokens)}
		}
	}
}

// endOf returns a place behind all keys of a range that is not the last one.
func endOf(tokens ring.Range) []byte {
	return index.AppendPlace(nil, row.PartitionKey{Token: tokens.End + 1}, row.KindHeader, nil)
}

// newLocked returns the positions of the candidates behind the watermark, up to to, in order.
func (op *searchOp) newLocked(to position) (out []position) {
	for _, n := range op.nodes {
		out = slices.Grow(out, len(n.candidates))
		for _, c := range n.candidates {
			if at := (position{key: c.At}); op.compare(at, to) <= 0 && op.compare(at, op.watermark) > 0 {
				out = append(out, at)
			}
		}
	}
	slices.SortFunc(out, op.compare)
	return slices.CompactFunc(out, func(a, b position) bool { return bytes.Equal(a.key, b.key) })
}

// candidateLocked makes c the candidate at a position. It is settled if all replicas that have come so far have returned the same
// page.
func (op *searchOp) candidateLocked(c *candidate, at position) (ok bool) {
	c.at = at
	place := index.PlaceOf(op.req.Order, at.key)
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
		if op.compare(n.position, at) < 0 {
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
func (op *searchOp) pageAt(n *node, at position) []byte {
	i, found := slices.BinarySearchFunc(n.candidates, at, func(c index.Candidate, at position) int {
		return op.compare(position{key: c.At}, at)
	})
	if !found {
		return nil
	}
	return n.candidates[i].Page
}

// neededLocked marks and returns the nodes that must be asked for the watermark to move, if more candidates are needed. It is not ok
// if the watermark cannot move any more.
func (op *searchOp) neededLocked() (asked []*node, ok bool) {
	if op.covered || len(op.queue) >= op.limit-op.out.rows {
		return nil, true
	}
	for {
		best := op.mostNeededLocked()
		if best == nil {
			break
		}
		best.state = nodeRequested
		asked = append(asked, best)
	}
	for i := range op.sets {
		for k := range op.sets[i].quotas {
			if q := &op.sets[i].quotas[k]; op.expected(q, true) < q.need {
				for _, n := range asked {
					n.state = nodeReady
				}
				return nil, false
			}
		}
	}
	return asked, true
}

// mostNeededLocked returns the node that helps most quotas, or nil.
func (op *searchOp) mostNeededLocked() (best *node) {
	most := 0
	for _, n := range op.nodes {
		if n.state != nodeReady || op.compare(n.position, op.watermark) > 0 {
			continue
		}
		helps := 0
		for i := range op.sets {
			for k := range op.sets[i].quotas {
				if q := &op.sets[i].quotas[k]; slices.Contains(q.nodes, n) && op.expected(q, false) < q.need {
					helps++
				}
			}
		}
		// A node that has returned a page has fewer candidates left than one that was not asked before.
		if helps > most || helps == most && helps > 0 && !best.asked && n.asked {
			best, most = n, helps
		}
	}
	return best
}

// expected returns how many nodes of a quota are behind the watermark or have a request for a page. Slow nodes count only if slow
// is set.
func (op *searchOp) expected(q *quota, slow bool) (count int) {
	for _, n := range q.nodes {
		if op.compare(n.position, op.watermark) > 0 || n.state == nodeRequested && (slow || !n.slow) {
			count++
		}
	}
	return count
}
