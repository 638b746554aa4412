package search

import (
	"bytes"
	"slices"

	"cqld/ring"
	"cqld/row"
	"cqld/storage/index"
	"cqld/watermark"
)

// candidate is a row, or a partition, that matches by the versions of some nodes. A candidate in the queue is named by
// its position; key, kind and clustering are parsed from it. It is made by merge and dropped by emit, and changes its
// state under the lock of the operation:
//
//	unsettled ─▶ reading ─▶ read         merge ─▶ settled, if the replicas agree
//	     ▲__________│ the pages were too small
type candidate struct {
	at         watermark.Position
	key        row.PartitionKey
	kind       row.EntryKind
	clustering []byte
	page       []byte // once it is settled, or was read
	state      candidateState
}

// Only settled and read candidates enter the result.
type candidateState uint8

const (
	unsettled candidateState = iota
	reading
	settled // all replicas that were asked returned the same page
	read    // the page comes from a read at the level
)

// merge moves the watermark and adds the candidates up to it to the queue. It is called after each answer of a node,
// and does nothing if the watermark has not moved.
func (s *rowSequence) merge() {
	// The window has no further candidates.
	if s.covered {
		return
	}
	to := s.m.Plan.Reached()
	// Not even one more position is covered by enough nodes.
	if s.m.Plan.Compare(to, s.m.Plan.Mark()) <= 0 {
		return
	}
	found := s.arrivals(to)
	// One allocation for all of them.
	memory := make([]candidate, len(found))
	s.queue = slices.Grow(s.queue, len(found))
	for i, at := range found {
		if c := &memory[i]; s.fill(c, at) {
			s.queue = append(s.queue, c)
		}
	}
	for _, n := range s.m.Plan.Nodes() {
		// The pages of these entries are in the queue now, or are not needed.
		n.Entries = slices.DeleteFunc(n.Entries, func(c index.Candidate) bool {
			return s.m.Plan.Compare(watermark.Position{Key: c.At}, to) <= 0
		})
	}
	// Enough nodes have reported the end of the window.
	if to.Place == watermark.AfterAll {
		s.covered = true
		if s.window < len(s.pieces) { // a later window continues there
			to = watermark.Position{Key: endOf(s.pieces[s.window-1].tokens)}
		}
	}
	s.m.Plan.SetMark(to)
}

// endOf returns a place after all keys of a range that is not the last one.
func endOf(tokens ring.Range) []byte {
	return index.AppendPlace(nil, row.PartitionKey{Token: tokens.End + 1}, row.KindHeader, nil)
}

// arrivals returns the positions of the candidates after the watermark, up to to, in order. A position that several
// nodes have returned appears once.
func (s *rowSequence) arrivals(to watermark.Position) (out []watermark.Position) {
	mark := s.m.Plan.Mark()
	for _, n := range s.m.Plan.Nodes() {
		out = slices.Grow(out, len(n.Entries))
		for _, c := range n.Entries {
			if at := (watermark.Position{Key: c.At}); s.m.Plan.Compare(at, to) <= 0 && s.m.Plan.Compare(at, mark) > 0 {
				out = append(out, at)
			}
		}
	}
	// The candidates of one node are in order, but the candidates of several nodes are not.
	slices.SortFunc(out, s.m.Plan.Compare)
	return slices.CompactFunc(out, func(a, b watermark.Position) bool { return bytes.Equal(a.Key, b.Key) })
}

// fill makes c the candidate at a position. It is settled if all replicas that have reached the position have
// returned the same page. If ok is false, the caller drops the position, because it is malformed or not in the
// window.
func (s *rowSequence) fill(c *candidate, at watermark.Position) (ok bool) {
	c.at = at
	place := index.PlaceOf(s.req.Order, at.Key)
	if c.key, c.kind, c.clustering, ok = index.ParsePlace(place); !ok {
		return false // of a node with a fault
	}
	// Which replicas count for the candidate depends on its piece.
	i := slices.IndexFunc(s.pieces[:s.window], func(p piece) bool { return p.tokens.Contains(c.key.Token) })
	if i < 0 {
		return false
	}
	if s.def.Partitions {
		return true // its rows are read
	}
	equal := true
	for _, n := range s.sets[s.pieces[i].set].nodes {
		// The node has not reached this position yet, so its version is unknown.
		if s.m.Plan.Compare(n.Position, at) < 0 {
			continue
		}
		page := s.pageAt(n, at)
		if c.page == nil {
			c.page = page
		}
		// A replica that has passed the position without the candidate has another version.
		equal = equal && page != nil && bytes.Equal(page, c.page)
	}
	if c.page != nil && equal {
		c.state = settled
		s.counts.settled++
	}
	return true
}

// pageAt returns the page of a node's candidate at a position; nil if it has none. The candidates of a node are sorted,
// because its pages follow each other in order.
func (s *rowSequence) pageAt(n *watermark.Node[index.Candidate], at watermark.Position) []byte {
	i, found := slices.BinarySearchFunc(n.Entries, at, func(c index.Candidate, at watermark.Position) int {
		return s.m.Plan.Compare(watermark.Position{Key: c.At}, at)
	})
	if !found {
		return nil
	}
	return n.Entries[i].Page
}
