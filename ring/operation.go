package ring

import "slices"

// OperationKind identifies the type of a change of the ring.
type OperationKind uint8

// The kinds. A node that joins or replaces another has an empty disk. A node that leaves hands its data over; a node
// that is removed is dead.
const (
	Join OperationKind = iota + 1
	Leave
	Remove
	Replace
	Move
	Reassign // tokens are added, removed, or given to other members
)

// String returns the name that operators use.
func (k OperationKind) String() string {
	//exhaustive:enforce
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
	case Reassign:
		return "reassign"
	}
	return "unknown"
}

// Phase is the phase of an operation.
//
//	Streaming   reads: old replicas             writes: old and new replicas
//	Switching   reads: new and old replicas     writes: new and old replicas
//	  (known)   the same; no reader is left that does not know of Switching, and the nodes that gain a
//	            range compare it with those that lose it
//	(ended)     reads and writes: new replicas
//
// In both phases a write must meet its level among the old replicas and among the new ones:
//
//  1. The quorum of any reader, whether or not it knows of the next phase, overlaps with every acknowledged write.
//  2. An unacknowledged write may be on the old replicas only, and be read there. A reader in the second phase reads
//     it, because it contacts both sides, and repairs both.
//  3. A reader after the end reads it because of the comparison.
type Phase uint8

// The phases.
const (
	Streaming Phase = iota + 1
	Switching
)

// String returns the name of the phase.
func (p Phase) String() string {
	if p == Switching {
		return "switching"
	}
	return "streaming"
}

// Operation is a change of the ring in progress. Values are immutable.
type Operation struct {
	ID   uint64 // epoch at which it began
	Kind OperationKind
	// Node joins, leaves, is removed, replaces or moves. For Reassign, it is the first member that gets a token or, if
	// none does, the first that loses one (NodeOf).
	Node     NodeID
	Replaced NodeID  // the node whose tokens Node takes over; Replace only
	Tokens   []Token // tokens of Node afterwards; Join and Move only
	// Transfers are the changes of a Reassign, ascending by token. The members in them stay Normal.
	Transfers []Transfer `json:",omitempty"`
	Phase     Phase
	Switched  uint64   // epoch at which Switching began
	Gaining   []NodeID // nodes that must stream data, ascending
	Streamed  []NodeID // those of Gaining that have streamed it, ascending
	// Known means that no quorum of readers is left that has not applied Switching. Compared lists the nodes that
	// have compared their gained ranges since then, ascending.
	Known    bool     `json:",omitempty"`
	Compared []NodeID `json:",omitempty"`
	// Hands means that Node must hand over batches and hints before the operation ends, and Handed that it has. They
	// are set for Leave only, and not by earlier versions.
	Hands  bool `json:",omitempty"`
	Handed bool `json:",omitempty"`
	// Force allows the operation although a range has no replica from which to stream it.
	Force bool
	// Absent are nodes of Gaining for which the operation does not wait, because they are dead, ascending. Such a node
	// lacks the ranges that it gains until they are repaired.
	Absent []NodeID `json:",omitempty"`
	// Short are the ranges that nodes fetched from too few live sources, ordered by node and keyspace: a write that
	// only dead nodes have is missing until they are repaired.
	Short []Shortfall `json:",omitempty"`
}

// Shortfall counts the ranges of a keyspace that a node gained by an operation without all data.
type Shortfall struct {
	Node     NodeID
	Keyspace string
	Ranges   int
}

// Awaits returns the nodes that must still stream, or compare, the ranges that they gain, ascending.
func (o *Operation) Awaits() (out []NodeID) {
	done := o.Streamed
	if o.Phase == Switching {
		done = o.Compared
	}
	// A node that was excused is not awaited in either phase, but its reports are still recorded.
	for _, id := range o.Gaining {
		if !slices.Contains(done, id) && !slices.Contains(o.Absent, id) {
			out = append(out, id)
		}
	}
	return out
}

// apply changes the ownership of tokens.
func (o *Operation) apply(owned map[NodeID][]Token) {
	//exhaustive:enforce
	switch o.Kind {
	case Join, Move:
		owned[o.Node] = o.Tokens
	case Leave, Remove:
		delete(owned, o.Node)
	case Reassign:
		reassign(owned, o.Transfers)
	// The new node takes over exactly the ranges of the old one, so no other node gains or loses anything.
	case Replace:
		owned[o.Node] = owned[o.Replaced]
		delete(owned, o.Replaced)
	}
}

// Completed reports whether the operation, which has ended, took effect in t. If it did not, it was aborted.
//
// An operation that has ended is no longer listed, so its effect on the members is examined, which differs by kind.
func (o *Operation) Completed(t *Topology) bool {
	n := t.Node(o.Node)
	switch o.Kind {
	// An abort removes the joining node.
	case Join:
		return n != nil && n.State != Joining
	// An abort returns the node to Normal.
	case Leave, Remove:
		return n == nil
	case Replace:
		return n != nil && n.State != Joining && t.Node(o.Replaced) == nil
	// The member exists before and after: only its tokens show the result. Their order does not matter.
	case Move:
		return n != nil && slices.Equal(slices.Sorted(slices.Values(n.Tokens)), slices.Sorted(slices.Values(o.Tokens)))
	case Reassign:
		return reassigned(t, o.Transfers)
	}
	return false
}

// Operation returns the operation in progress with an id, or nil.
func (t *Topology) Operation(id uint64) *Operation {
	for _, o := range t.operations {
		if o.ID == id {
			return o
		}
	}
	return nil
}

// Operations returns the operations in progress, ordered by id. Callers must not modify the slice.
func (t *Topology) Operations() []*Operation { return t.operations }

// Gain is a range that Node gains by an operation.
type Gain struct {
	Node  NodeID
	Range Range // does not wrap
	// From is the live node that loses the range, which is then the only source. Otherwise the range is streamed from
	// as many of Sources as Enough requires.
	From NodeID // zero if no node loses the range, or the one that does is dead
	// Sources are the nodes that had the range before, in the strategy's order, without a dead one that loses it.
	Sources []NodeID
	// Local is the number of Sources in Node's data center, and Total the number of all Sources, from which the range
	// must be streamed so that every write that a quorum acknowledged is included.
	Local, Total int
}

// Gains returns the ranges that change hands by o under a replication, for all nodes (zero) or for one.
func (t *Topology) Gains(o *Operation, r Replication, node NodeID) []Gain {
	if r.Class == Local {
		return nil
	}
	// Compare by id, not by pointer, because o may be from an earlier topology.
	others := func(x *Operation) bool { return x.ID != o.ID && x.Phase == Switching }
	// Other operations that are Switching count as complete in both rings, because their ranges have moved already.
	// Operations that still stream count as not begun, because they may be aborted.
	before := newTokenRing(t.nodes, t.operations, others)
	after := newTokenRing(t.nodes, t.operations, func(x *Operation) bool { return x.ID == o.ID || others(x) })
	var out []Gain
	// Between two neighboring bounds, each ring has the same replicas for all tokens.
	bounds := merged(before, after)
	for i, end := range bounds {
		start := MinToken
		if i > 0 {
			start = bounds[i-1]
		}
		out = t.gainsAt(out, o, r, node, Range{start, end}, before.replicas(r, end), after.replicas(r, end))
	}
	if n := len(bounds); n > 0 && bounds[n-1] != MaxToken { // the rest of the ring belongs to the first token
		out = t.gainsAt(out, o, r, node, Range{bounds[n-1], MinToken}, before.replicas(r, bounds[0]),
			after.replicas(r, bounds[0]))
	}
	// Bounds of both rings cut ranges into more pieces than the streams need.
	out = joined(out)
	checkGains(out)
	return out
}

// gainsAt appends the nodes that gain one range.
func (t *Topology) gainsAt(out []Gain, o *Operation, r Replication, node NodeID, at Range, before,
	after []NodeID) []Gain {
	for _, id := range after {
		// A node that had the range before gains nothing, also if its place in the order of replicas changes.
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
			// Only a source in the same data center can replace the gained replica in quorums, because quorums of a
			// data center count its own replicas.
			if same && !slices.Contains(after, b) && !o.gone(b) && g.From == 0 && !t.claimed(out, at, b) {
				g.From = b
			}
			if !o.gone(b) {
				g.Sources = append(g.Sources, b)
			}
		}
		// A quorum of the previous replicas has every acknowledged write, and any len(before)-quorum+1 of them include
		// a member of it. In the data center, the same holds for writes at LOCAL_QUORUM.
		g.Total = max(1, len(before)-QuorumOf(r.Total())+1)
		if r.ByDatacenter() {
			g.Local = max(0, local-QuorumOf(r.In(dc))+1)
		}
		out = append(out, g)
	}
	return out
}

// claimed reports whether another node already gains the range from b. Each losing node has one successor, so that no
// two replicas depend on one copy.
func (t *Topology) claimed(out []Gain, at Range, b NodeID) bool {
	// The gains of one range are appended one after the other, so the search ends at the first other range.
	for i := len(out) - 1; i >= 0 && out[i].Range == at; i-- {
		if out[i].From == b {
			return true
		}
	}
	return false
}

// gone reports whether o considers a node dead.
func (o *Operation) gone(id NodeID) bool {
	return o.Kind == Remove && id == o.Node || o.Kind == Replace && id == o.Replaced
}

// Gone reports whether an operation considers a node dead: when such a node loses a range, it is neither contacted
// nor awaited.
func (t *Topology) Gone(id NodeID) bool {
	for _, o := range t.operations {
		if o.gone(id) {
			return true
		}
	}
	return false
}

// joined merges adjacent ranges of one node with the same sources.
func joined(gains []Gain) []Gain {
	var out []Gain
	// The gains of several nodes are interleaved: last has the index in out of the latest gain of each node.
	last := map[NodeID]int{}
	for _, g := range gains {
		if i, ok := last[g.Node]; ok {
			p := &out[i]
			if p.Range.End == g.Range.Start && p.From == g.From && p.Local == g.Local && p.Total == g.Total &&
				slices.Equal(p.Sources, g.Sources) {
				p.Range.End = g.Range.End
				continue
			}
		}
		last[g.Node] = len(out)
		out = append(out, g)
	}
	return out
}

// GainingOf returns the nodes that gain any range by o under the replications, ascending.
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
