package ring

import "slices"

// OperationKind is how the ring changes.
type OperationKind uint8

// The kinds. A node that joins or replaces brings an empty disk; one that leaves hands over while it
// lives, one that is removed is dead.
const (
	Join OperationKind = iota + 1
	Leave
	Remove
	Replace
	Move
)

// String is the word operators use.
func (k OperationKind) String() string {
	switch k {
	case Join:
		return "join"
	case Leave:
		return "decommission"
	case Remove:
		return "removenode"
	case Replace:
		return "replace"
	case Move:
		return "move"
	}
	return "unknown"
}

// Phase is how far an operation is.
//
//	Streaming   reads: old replicas             writes: old and new replicas
//	Switching   reads: new and old replicas     writes: new and old replicas
//	  (known)   the same; nobody reads any more who has not heard of Switching, and those that gain a
//	            range compare it with those that lose it
//	(ended)     reads and writes: new replicas
//
// In both phases a write must meet its level among the old replicas and among the new ones, so whatever
// quorum a reader asks, whether it has heard of the next phase or not, meets the write. A write that
// nobody acknowledged may be on the old ones alone, and be read there: a reader of the second phase meets
// it, because it asks both sides, and repairs both; and a reader after the end, because of the comparison.
type Phase uint8

// The phases.
const (
	Streaming Phase = iota + 1
	Switching
)

// String names the phase.
func (p Phase) String() string {
	if p == Switching {
		return "switching"
	}
	return "streaming"
}

// Operation is a change of the ring under way. Values are immutable.
type Operation struct {
	ID       uint64 // epoch at which it began
	Kind     OperationKind
	Node     NodeID  // who joins, leaves, is removed, replaces or moves
	Replaced NodeID  // whose tokens Node takes over; Replace only
	Tokens   []Token // Node's afterwards; Join and Move only
	Phase    Phase
	Switched uint64   // epoch at which Switching began
	Gaining  []NodeID // who must fetch data, ascending
	Streamed []NodeID // who of them has it, ascending
	// Known says that no quorum of readers is left that has not heard of Switching; Compared are those who
	// have compared what they gained since then, ascending.
	Known    bool     `json:",omitempty"`
	Compared []NodeID `json:",omitempty"`
	// Hands says that Node keeps things for others that it must hand over before the operation ends, Handed that it
	// has; Leave only, and not of a node of a version that did not.
	Hands  bool `json:",omitempty"`
	Handed bool `json:",omitempty"`
	// Force goes on where no replica is left to fetch a range from.
	Force bool
}

// apply changes who owns which tokens.
func (o *Operation) apply(owned map[NodeID][]Token) {
	switch o.Kind {
	case Join, Move:
		owned[o.Node] = o.Tokens
	case Leave, Remove:
		delete(owned, o.Node)
	case Replace:
		owned[o.Node] = owned[o.Replaced]
		delete(owned, o.Replaced)
	}
}

// Operation finds an operation under way by its id; nil when there is none.
func (t *Topology) Operation(id uint64) *Operation {
	for _, o := range t.operations {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// Operations are those under way, by id; not to be changed.
func (t *Topology) Operations() []*Operation { return t.operations }

// Gain is a range that Node gains by an operation.
type Gain struct {
	Node  NodeID
	Range Range // does not wrap
	// From is who has it all: the only one when a living node loses it, else as many of Sources as
	// Enough says.
	From NodeID // zero: nobody loses it, or the one who does is dead
	// Sources had the range before, in the strategy's order, without the dead one that loses it.
	Sources []NodeID
	// Local is how many of Sources in Node's own data center must be fetched from, Total how many in
	// all, so that every write that a quorum acknowledged is met.
	Local, Total int
}

// Gains are the ranges that change hands by o under a replication, of all nodes or of one (zero:
// all). alive says who can be a source.
func (t *Topology) Gains(o *Operation, r Replication, node NodeID) []Gain {
	if r.Class == Local {
		return nil
	}
	// By id, not by pointer: o may be from an earlier topology.
	others := func(x *Operation) bool { return x.ID != o.ID && x.Phase == Switching }
	before := newTokenRing(t.nodes, t.operations, others)
	after := newTokenRing(t.nodes, t.operations, func(x *Operation) bool { return x.ID == o.ID || others(x) })
	var out []Gain
	bounds := merged(before, after)
	for i, end := range bounds {
		start := MinToken
		if i > 0 {
			start = bounds[i-1]
		}
		out = t.gainsAt(out, o, r, node, Range{start, end}, before.replicas(r, end), after.replicas(r, end))
	}
	if n := len(bounds); n > 0 && bounds[n-1] != MaxToken { // the rest belongs to the first token
		out = t.gainsAt(out, o, r, node, Range{bounds[n-1], MinToken}, before.replicas(r, bounds[0]), after.replicas(r, bounds[0]))
	}
	return joined(out)
}

// gainsAt adds who gains one range.
func (t *Topology) gainsAt(out []Gain, o *Operation, r Replication, node NodeID, at Range, before, after []NodeID) []Gain {
	for _, id := range after {
		if slices.Contains(before, id) || node != 0 && node != id {
			continue
		}
		g := Gain{Node: id, Range: at}
		dc := t.Node(id).Datacenter
		local := 0
		for _, b := range before {
			same := t.Node(b).Datacenter == dc
			if same {
				local++
			}
			if same && !slices.Contains(after, b) && !o.gone(b) && g.From == 0 && !t.claimed(out, at, b) {
				g.From = b
			}
			if !o.gone(b) {
				g.Sources = append(g.Sources, b)
			}
		}
		g.Total = max(1, len(before)-QuorumOf(r.Total())+1)
		if r.Class == NetworkTopology {
			g.Local = max(0, local-QuorumOf(r.In(dc))+1)
		}
		out = append(out, g)
	}
	return out
}

// claimed says whether another node gains the range from b already: each loser has one heir, so that
// no two replicas rest on one copy.
func (t *Topology) claimed(out []Gain, at Range, b NodeID) bool {
	for i := len(out) - 1; i >= 0 && out[i].Range == at; i-- {
		if out[i].From == b {
			return true
		}
	}
	return false
}

// gone says whether a node is dead as far as o is concerned.
func (o *Operation) gone(id NodeID) bool {
	return o.Kind == Remove && id == o.Node || o.Kind == Replace && id == o.Replaced
}

// gone says whether an operation counts a node as dead: it is neither asked nor waited for when it
// loses a range.
func (t *Topology) gone(id NodeID) bool {
	for _, o := range t.operations {
		if o.gone(id) {
			return true
		}
	}
	return false
}

// joined puts neighbouring ranges of one node with the same sources together.
func joined(gains []Gain) []Gain {
	var out []Gain
	last := map[NodeID]int{}
	for _, g := range gains {
		if i, ok := last[g.Node]; ok {
			p := &out[i]
			if p.Range.End == g.Range.Start && p.From == g.From && p.Local == g.Local && p.Total == g.Total && slices.Equal(p.Sources, g.Sources) {
				p.Range.End = g.Range.End
				continue
			}
		}
		last[g.Node] = len(out)
		out = append(out, g)
	}
	return out
}

// GainingOf are the nodes that gain any range by o under the replications, ascending.
func (t *Topology) GainingOf(o *Operation, replications []Replication) []NodeID {
	var out []NodeID
	for _, r := range replications {
		for _, g := range t.Gains(o, r, 0) {
			if !slices.Contains(out, g.Node) {
				out = append(out, g.Node)
			}
		}
	}
	slices.Sort(out)
	return out
}
