package watermark

import (
	"fmt"
	"slices"
	"time"

	"cqld/ring"
)

// Node is a node of a Plan that returns entries of the type E.
type Node[E any] struct {
	ID ring.NodeID
	// Position is the position up to which the node has returned its entries.
	Position Position
	// Entries are those that the node has returned and the owner of the Plan has not taken yet, in order.
	Entries []E
	Scanned int // entries that the node examined for its pages
	Err     error

	plan  int      // the number of its plan
	from  Position // the page that was requested last begins after it
	state state
	asked bool // a page was requested at least once
	slow  bool // its page is late, so pages of other nodes are requested as well
	sent  time.Duration
}

type state uint8

const (
	ready     state = iota // may be asked for a page
	requested              // has a request for a page
	failed                 // failed, or is down
)

// Failed reports whether the node failed, or is down. Err is the reason.
func (n *Node[E]) Failed() bool { return n.state == failed }

// Fail records that the node failed.
func (n *Node[E]) Fail(err error) { n.state, n.Err = failed, err }

// Sent records that a page was requested from the node at a monotonic time.
func (n *Node[E]) Sent(now time.Duration) { n.asked, n.sent = true, now }

// Latency returns how long the node has taken for its page.
func (n *Node[E]) Latency(now time.Duration) time.Duration { return now - n.sent }

// Page is the answer of a node.
type Page[E any] struct {
	Entries []E
	Scanned int
	More    bool   // the node may have further entries
	Last    []byte // the key up to which the page has all entries of the node, if More is set
}

// Take records the answer of a node that was asked for its entries after from. The node fails if there is an error, or
// if the page does not go further than from.
func (p *Plan[E]) Take(n *Node[E], from Position, page *Page[E], err error) {
	n.slow = false
	reached := Position{Place: AfterAll}
	if err == nil && page.More {
		// A page that makes no progress would be requested again forever.
		if reached = (Position{Key: page.Last}); p.Compare(reached, from) <= 0 {
			err = fmt.Errorf("watermark: the page of node %s ends at %x, which is not behind its beginning",
				p.o.Topology.NameOf(n.ID), page.Last)
		}
	}
	if err != nil {
		n.Fail(err)
		return
	}
	n.state, n.Position = ready, reached
	// The usual case: the slice of the page is kept without a copy.
	if len(n.Entries) == 0 {
		n.Entries = page.Entries
	} else {
		n.Entries = append(n.Entries, page.Entries...)
	}
	n.Scanned += page.Scanned
}

// SelfLast moves this node to the end of the nodes to query, because its page may arrive before the request returns.
func SelfLast[E any](nodes []*Node[E], self ring.NodeID) {
	slices.SortStableFunc(nodes, func(a, b *Node[E]) int {
		switch {
		case a.ID == self && b.ID != self:
			return 1
		case b.ID == self && a.ID != self:
			return -1
		}
		return 0
	})
}
