package ring

import (
	"slices"
	"sort"
	"sync/atomic"
)

// Topology is who is in the ring and which tokens they own, at one epoch. It never changes: a new
// epoch is a new Topology. Methods are safe for concurrent use.
type Topology struct {
	epoch      uint64
	moved      uint64
	nodes      []*Node // by id
	tokens     []Token // ascending; owner[i] owns tokens[i]
	owner      []*Node
	placements atomic.Pointer[[]*Placement] // a memo, not state; never changed in place
}

// placementsMax bounds the memo of a topology: a placement of 16 nodes with 16 tokens is ≈ 20 KiB,
// and keyspaces that replicate alike share one.
const placementsMax = 32

// NewTopology makes the topology of nodes at epoch. Only Normal and Leaving nodes own ranges.
func NewTopology(epoch uint64, nodes []*Node) *Topology {
	t := &Topology{epoch: epoch, moved: epoch, nodes: slices.Clone(nodes)}
	slices.SortFunc(t.nodes, func(a, b *Node) int { return int(int64(a.ID) - int64(b.ID)) })
	type entry struct {
		token Token
		node  *Node
	}
	var entries []entry
	for _, n := range t.nodes {
		if n.State == Joining {
			continue
		}
		for _, tok := range n.Tokens {
			entries = append(entries, entry{tok, n})
		}
	}
	slices.SortFunc(entries, func(a, b entry) int {
		switch {
		case a.token < b.token:
			return -1
		case a.token > b.token:
			return 1
		}
		return int(int64(a.node.ID) - int64(b.node.ID))
	})
	for _, e := range entries {
		t.tokens = append(t.tokens, e.token)
		t.owner = append(t.owner, e.node)
	}
	return t
}

// Epoch is the version of the metadata this topology is from.
func (t *Topology) Epoch() uint64 { return t.epoch }

// Moved is the epoch at which it last changed who holds what: a request planned before that may go to
// the wrong nodes.
func (t *Topology) Moved() uint64 { return t.moved }

// Nodes are all members by id; not to be changed.
func (t *Topology) Nodes() []*Node { return t.nodes }

// Node finds a member; nil when there is none.
func (t *Topology) Node(id NodeID) *Node {
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].ID >= id })
	if i < len(t.nodes) && t.nodes[i].ID == id {
		return t.nodes[i]
	}
	return nil
}

// Tokens are all owned tokens in ascending order; not to be changed.
func (t *Topology) Tokens() []Token { return t.tokens }

// Owner is the node that owns tokens[i].
func (t *Topology) Owner(i int) *Node { return t.owner[i] }

// position is the index of the token whose range holds tok: the first one ≥ tok, wrapping.
func (t *Topology) position(tok Token) int {
	i := sort.Search(len(t.tokens), func(i int) bool { return t.tokens[i] >= tok })
	if i == len(t.tokens) {
		return 0
	}
	return i
}

// Datacenters are the names of the data centers that own tokens, sorted.
func (t *Topology) Datacenters() []string {
	var names []string
	for _, n := range t.nodes {
		if n.State != Joining && !slices.Contains(names, n.Datacenter) {
			names = append(names, n.Datacenter)
		}
	}
	slices.Sort(names)
	return names
}

// Placement is where every range of t lies under r, which is not Local: such data lies on the node
// that is asked, and the ring does not know which that is. It is computed once per topology and
// replication.
func (t *Topology) Placement(r Replication) *Placement {
	memo := t.placements.Load()
	if memo != nil {
		for _, p := range *memo {
			if p.replication.Equal(r) {
				return p
			}
		}
	}
	p := newPlacement(t, r)
	var kept []*Placement
	if memo != nil {
		kept = (*memo)[max(0, len(*memo)+1-placementsMax):]
	}
	kept = append(slices.Clone(kept), p)
	t.placements.CompareAndSwap(memo, &kept) // who loses the race computes it again later
	return p
}
