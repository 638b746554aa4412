package ring

import (
	"slices"
	"sort"
	"sync/atomic"
)

// Topology is who is in the ring and which tokens they own, at one epoch, and what is changing. It
// never changes itself: a new epoch is a new Topology. Methods are safe for concurrent use.
type Topology struct {
	epoch      uint64
	moved      uint64
	nodes      []*Node // by id
	operations []*Operation
	reads      *tokenRing                   // whom reads ask: operations that are Switching are done
	base       *tokenRing                   // before all operations
	final      *tokenRing                   // after all
	bounds     []Token                      // of the three, ascending: where replica sets may change
	placements atomic.Pointer[[]*Placement] // a memo, not state; never changed in place
}

// placementsMax bounds the memo of a topology: a placement of 16 nodes with 16 tokens is ≈ 20 KiB,
// and keyspaces that replicate alike share one.
const placementsMax = 32

// NewTopology makes the topology of nodes at epoch, in which nothing is changing. Joining nodes own
// nothing.
func NewTopology(epoch uint64, nodes []*Node) *Topology {
	return NewMovingTopology(epoch, epoch, nodes, nil)
}

// NewMovingTopology makes a topology with operations under way; moved is the epoch at which it last
// changed who holds what.
func NewMovingTopology(epoch, moved uint64, nodes []*Node, operations []*Operation) *Topology {
	t := &Topology{epoch: epoch, moved: moved, nodes: slices.Clone(nodes), operations: operations}
	slices.SortFunc(t.nodes, func(a, b *Node) int { return int(int64(a.ID) - int64(b.ID)) })
	t.reads = newTokenRing(t.nodes, operations, func(o *Operation) bool { return o.Phase == Switching })
	t.base, t.final = t.reads, t.reads
	if len(operations) > 0 {
		t.base = newTokenRing(t.nodes, nil, nil)
		t.final = newTokenRing(t.nodes, operations, func(*Operation) bool { return true })
	}
	t.bounds = merged(t.reads, t.base, t.final)
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

// NameOf is a node as operators know it: the address that other nodes reach it by. Of an id that no member has, it
// says so.
func (t *Topology) NameOf(id NodeID) string {
	if n := t.Node(id); n != nil {
		return n.Internode.Addr().String()
	}
	return "a node that has left"
}

// Tokens are all owned tokens in ascending order, as reads see them; not to be changed.
func (t *Topology) Tokens() []Token { return t.reads.tokens }

// Owner is the node that owns Tokens()[i].
func (t *Topology) Owner(i int) *Node { return t.reads.owner[i] }

// OwnedBy are the tokens of a node as reads see them, ascending.
func (t *Topology) OwnedBy(id NodeID) (out []Token) {
	for i, n := range t.reads.owner {
		if n.ID == id {
			out = append(out, t.reads.tokens[i])
		}
	}
	return out
}

// Datacenters are the names of the data centers that own tokens, sorted.
func (t *Topology) Datacenters() []string {
	var names []string
	for _, n := range t.reads.members {
		if !slices.Contains(names, n.Datacenter) {
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
