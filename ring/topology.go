package ring

import (
	"cmp"
	"errors"
	"slices"
	"sort"
	"sync/atomic"

	"cqld/internal/invariant"
)

// Topology contains the members of the ring and their tokens at one epoch, and the operations in progress. It is
// immutable: a new epoch is a new Topology. Methods are safe for concurrent use.
type Topology struct {
	// moved is at most epoch: an operation that only changes its state raises epoch alone.
	epoch      uint64
	moved      uint64
	nodes      []*Node // by id
	operations []*Operation
	reads      *tokenRing                   // for reads: operations that are Switching are complete
	base       *tokenRing                   // before all operations
	final      *tokenRing                   // after all operations
	bounds     []Token                      // tokens of the three rings, ascending: replica sets may change there
	placements atomic.Pointer[[]*Placement] // a cache; replaced, never modified
}

// placementsMax bounds the cache of a topology: a placement of 16 nodes with 16 tokens takes ≈ 20 KiB, and keyspaces
// with the same replication share one.
const placementsMax = 32

// NewTopology returns the topology of nodes at epoch, with no operations in progress. Joining nodes own no tokens.
func NewTopology(epoch uint64, nodes []*Node) *Topology {
	return NewMovingTopology(epoch, epoch, nodes, nil)
}

// NewMovingTopology returns a topology with operations in progress. moved is the epoch of the last change of
// ownership.
func NewMovingTopology(epoch, moved uint64, nodes []*Node, operations []*Operation) *Topology {
	t, err := RestoreTopology(epoch, moved, nodes, operations)
	if err != nil {
		invariant.Fail(err.Error())
	}
	return t
}

// RestoreTopology is NewMovingTopology for values from a disk or another node: it returns an error if they break an
// invariant of topologies.
func RestoreTopology(epoch, moved uint64, nodes []*Node, operations []*Operation) (*Topology, error) {
	// JSON of another node may contain null.
	if slices.Contains(nodes, nil) || slices.Contains(operations, nil) {
		return nil, errors.New("ring: a node or an operation of a topology is missing")
	}
	t := &Topology{epoch: epoch, moved: moved, nodes: slices.Clone(nodes), operations: operations}
	slices.SortFunc(t.nodes, func(a, b *Node) int { return cmp.Compare(a.ID, b.ID) })
	t.reads = newTokenRing(t.nodes, operations, func(o *Operation) bool { return o.Phase == Switching })
	// Without operations all three rings are the same, and placements compute one set for each range.
	t.base, t.final = t.reads, t.reads
	if len(operations) > 0 {
		t.base = newTokenRing(t.nodes, nil, nil)
		t.final = newTokenRing(t.nodes, operations, func(*Operation) bool { return true })
	}
	t.bounds = merged(t.reads, t.base, t.final)
	return t, t.check()
}

// Epoch returns the version of the metadata from which this topology is.
func (t *Topology) Epoch() uint64 { return t.epoch }

// Moved returns the epoch of the last change of ownership. A request that was planned before may go to the wrong
// nodes.
func (t *Topology) Moved() uint64 { return t.moved }

// Nodes returns all members, ordered by id. Callers must not modify the slice.
func (t *Topology) Nodes() []*Node { return t.nodes }

// Node returns a member, or nil.
func (t *Topology) Node(id NodeID) *Node {
	// Called for each replica of each request, so it searches instead of scanning.
	i := sort.Search(len(t.nodes), func(i int) bool { return t.nodes[i].ID >= id })
	if i < len(t.nodes) && t.nodes[i].ID == id {
		return t.nodes[i]
	}
	return nil
}

// NameOf returns the internode address of a node, by which operators know it. If no member has the id, it returns a
// text which states that the node has left.
func (t *Topology) NameOf(id NodeID) string {
	if n := t.Node(id); n != nil {
		return n.Internode.Addr().String()
	}
	return "a node that has left"
}

// Tokens returns all owned tokens for reads, ascending. Callers must not modify the slice.
func (t *Topology) Tokens() []Token { return t.reads.tokens }

// Owner returns the node that owns Tokens()[i].
func (t *Topology) Owner(i int) *Node { return t.reads.owner[i] }

// Bounds returns the ends of all ranges of the ring, ascending: between two of them, the replica set of each
// replication is the same, also at every stage of the operations in progress. Callers must not modify the slice.
func (t *Topology) Bounds() []Token { return t.bounds }

// OwnedBy returns the tokens of a node for reads, ascending.
func (t *Topology) OwnedBy(id NodeID) (out []Token) {
	for i, n := range t.reads.owner {
		if n.ID == id {
			out = append(out, t.reads.tokens[i])
		}
	}
	return out
}

// Datacenters returns the names of the data centers that own tokens, sorted.
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

// Placement returns the replica sets of all ranges of t under r, which must not be Local: such data is on the node
// that receives the request, which the ring does not know. It is computed once per topology and replication.
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
		// The oldest placements are dropped. Readers of the old slice are not affected, because it is never modified.
		kept = (*memo)[max(0, len(*memo)+1-placementsMax):]
	}
	kept = append(slices.Clone(kept), p)
	t.placements.CompareAndSwap(memo, &kept) // a goroutine that loses the race computes it again later
	return p
}
