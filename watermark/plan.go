package watermark

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/coordinator/quorum"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// Options configure a Plan.
type Options struct {
	Coordinator     *coordinator.Coordinator
	View            coordinator.View
	Topology        *ring.Topology
	LocalDatacenter string
	Table           *schema.Table
	Consistency     ring.Consistency
	Reversed        bool // the order of keys is descending
}

// Plan contains the nodes that are queried for entries of some replica sets, and the watermark. The owner of a Plan
// serializes calls to it.
type Plan[E any] struct {
	o      Options
	quotas []quota[E]
	nodes  []*Node[E] // the preferred ones first
	mark   Position
	// number distinguishes the plans of an operation: pages of earlier ones are ignored.
	number int // of the plans of an operation
}

// quota is a set of nodes. At least need of them must reach a position before the watermark does.
type quota[E any] struct {
	// A node may be in several quotas, and its pages count in all of them.
	need  int
	nodes []*Node[E]
}

// Reset begins a plan without replica sets, with the watermark at a position.
func (p *Plan[E]) Reset(o Options, mark Position) { *p = Plan[E]{o: o, mark: mark} }

// Mark returns the watermark.
func (p *Plan[E]) Mark() Position { return p.mark }

// SetMark sets the watermark.
func (p *Plan[E]) SetMark(to Position) { p.mark = to }

// Nodes returns the nodes of the plan.
func (p *Plan[E]) Nodes() []*Node[E] { return p.nodes }

// Compare compares positions in the order of the sequence.
func (p *Plan[E]) Compare(a, b Position) int { return compare(a, b, p.o.Reversed) }

// AppendReaders appends bytes that are equal for replica sets that are read from the same nodes. A Plan needs only one
// of such replica sets.
func AppendReaders(dst []byte, set *ring.ReplicaSet) []byte {
	for _, nodes := range [...][]ring.NodeID{set.Natural, set.Before} {
		var backing [8]ring.NodeID
		// The order of replicas does not matter to a read.
		sorted := append(backing[:0], nodes...)
		slices.Sort(sorted)
		dst = wire.AppendUvarint(dst, uint64(len(sorted)))
		for _, id := range sorted {
			dst = wire.AppendUint64(dst, uint64(id))
		}
	}
	return dst
}

// Members are the nodes of a replica set.
type Members[E any] struct {
	Nodes []*Node[E]
	// Decisive means that the answer of one node is the answer of the set.
	Decisive bool
}

// Add adds what the level requires of one replica set, as for a read of one token, and returns the nodes of the set.
// While the set's ranges move, the level must be met on both sides.
func (p *Plan[E]) Add(set ring.ReplicaSet) (out Members[E]) {
	level, replication := p.o.Consistency, p.o.Table.Replication
	var y quorum.Tally
	y.Reset(level, replication, p.o.Topology, p.o.View.Self(), p.o.LocalDatacenter)
	y.JoinRead(set, level, replication)
	members := slices.Clone(set.Natural)
	for _, id := range set.Before {
		// Previous replicas are read only if the level requires it (quorum.Tally.JoinRead).
		if y.TwoSided() && !slices.Contains(members, id) {
			members = append(members, id)
		}
	}
	needed := 0
	for i := range y.Quotas() {
		covering := &y.Quotas()[i]
		q := quota[E]{need: covering.Need}
		needed += q.need
		for _, id := range members {
			if y.Covers(covering, id) {
				q.nodes = append(q.nodes, p.node(id))
			}
		}
		for _, n := range q.nodes {
			if !slices.Contains(out.Nodes, n) {
				out.Nodes = append(out.Nodes, n)
			}
		}
		p.quotas = append(p.quotas, q)
	}
	out.Decisive = needed == 1 && !y.TwoSided()
	return out
}

// node returns a node of the plan and adds it if it is new.
func (p *Plan[E]) node(id ring.NodeID) *Node[E] {
	for _, n := range p.nodes {
		if n.ID == id {
			return n
		}
	}
	n := &Node[E]{ID: id, plan: p.number, Position: Position{Place: BeforeAll}}
	// A dead node is not queried. If it comes up later, another plan includes it.
	if id != p.o.View.Self() && !p.o.View.Alive(id) {
		n.Fail(coordinator.ErrNoReply)
	}
	p.nodes = append(p.nodes, n)
	return n
}

// Complete sorts the nodes after the last Add. It fails with Unavailable if too few are alive.
func (p *Plan[E]) Complete() error {
	for i := range p.quotas {
		q, alive := &p.quotas[i], 0
		for _, n := range q.nodes {
			if !n.Failed() {
				alive++
			}
		}
		// This is checked before any request is sent, so that the client gets Unavailable and not a timeout.
		if alive < q.need {
			p.o.Coordinator.Note(coordinator.EventUnavailable)
			return &coordinator.Unavailable{Consistency: p.o.Consistency, Required: q.need, Alive: alive}
		}
	}
	coordinator.SortByProximity(p.o.Coordinator, p.o.Topology, p.o.View.Self(), p.nodes,
		func(n *Node[E]) ring.NodeID { return n.ID })
	return nil
}

// Reached returns the position that as many nodes of each quota have reached as it needs: where the watermark may move.
func (p *Plan[E]) Reached() Position {
	// The slowest quota determines the watermark.
	to := Position{Place: AfterAll}
	for i := range p.quotas {
		if reached := p.reached(&p.quotas[i]); p.Compare(reached, to) < 0 {
			to = reached
		}
	}
	return to
}

// reached returns the position that as many nodes of a quota have reached as it needs.
func (p *Plan[E]) reached(q *quota[E]) Position {
	if q.need == 0 {
		return Position{Place: AfterAll}
	}
	var backing [8]Position
	positions := backing[:0]
	for _, n := range q.nodes {
		positions = append(positions, n.Position)
	}
	// The positions are sorted in descending order: need nodes have reached the position at index need-1.
	slices.SortFunc(positions, func(a, b Position) int { return p.Compare(b, a) })
	return positions[q.need-1]
}

// Needed returns the nodes that must be queried for the watermark to move, and marks them as requested. ok is false if
// the watermark can no longer move.
func (p *Plan[E]) Needed() (asked []*Node[E], ok bool) {
	for best := p.mostNeeded(); best != nil; best = p.mostNeeded() {
		best.state = requested
		asked = append(asked, best)
	}
	for i := range p.quotas {
		// Slow nodes count here, because their pages may still come.
		if q := &p.quotas[i]; p.expected(q, true) < q.need {
			for _, n := range asked {
				// No request is sent, so another plan, or a call after the next answer, may query the nodes.
				n.state = ready
			}
			return nil, false
		}
	}
	return asked, true
}

// mostNeeded returns the node that helps most quotas, or nil.
func (p *Plan[E]) mostNeeded() (best *Node[E]) {
	most := 0
	for _, n := range p.nodes {
		// A node that is ahead of the mark does not help it to move further than others.
		if n.state != ready || p.Compare(n.Position, p.mark) > 0 {
			continue
		}
		helps := 0
		for i := range p.quotas {
			if q := &p.quotas[i]; slices.Contains(q.nodes, n) && p.expected(q, false) < q.need {
				helps++
			}
		}
		// A node that has returned a page has fewer entries left than a node without any request.
		if helps > most || helps == most && helps > 0 && !best.asked && n.asked {
			best, most = n, helps
		}
	}
	return best
}

// expected returns how many nodes of a quota have not reached the watermark or have a request for a page. Slow nodes
// count only if slow is set.
func (p *Plan[E]) expected(q *quota[E], slow bool) (count int) {
	for _, n := range q.nodes {
		if p.Compare(n.Position, p.mark) > 0 || n.state == requested && (slow || !n.slow) {
			count++
		}
	}
	return count
}

// SpeculateAfter returns how long a page may take before other nodes are queried as well. ok is false if there are no
// other nodes, or if the table's speculative_retry forbids it.
func (p *Plan[E]) SpeculateAfter() (after time.Duration, ok bool) {
	// Without another node to query, the timer would have no effect.
	spare := slices.ContainsFunc(p.nodes, func(n *Node[E]) bool {
		return n.state == ready &&
			p.Compare(n.Position, p.mark) <= 0
	})
	if !spare {
		return 0, false
	}
	return p.o.Coordinator.SpeculateAfter(p.o.Table)
}

// Speculate marks the nodes whose pages take too long, so that Needed returns others.
func (p *Plan[E]) Speculate(now time.Duration) {
	after, ok := p.SpeculateAfter()
	if !ok {
		return
	}
	for _, n := range p.nodes {
		if n.state == requested && !n.slow && now-n.sent >= after {
			n.slow = true
			p.o.Coordinator.Note(coordinator.EventSpeculated)
		}
	}
}

// Failure returns the error of the current state: ReadFailure if nodes have answered with errors, otherwise
// ReadTimeout. Its counts come from the quota that is farthest from the level. data means that entries were found.
func (p *Plan[E]) Failure(data bool) error {
	received, blockFor := 0, 0
	for i := range p.quotas {
		q := &p.quotas[i]
		answered := 0
		for _, n := range q.nodes {
			if p.Compare(n.Position, p.mark) > 0 {
				answered++
			}
		}
		// A quota that has reached its level is not the reason of the failure.
		if answered < q.need && (blockFor == 0 || answered < received) {
			received, blockFor = answered, q.need
		}
	}
	var failures []coordinator.NodeFailure
	for _, n := range p.nodes {
		if n.Failed() && !coordinator.Silent(n.Err) {
			failures = append(failures, coordinator.NodeFailure{Node: n.ID, Reason: coordinator.ReasonOf(n.Err)})
		}
	}
	level := p.o.Consistency
	if len(failures) > 0 {
		return &coordinator.ReadFailure{Consistency: level, Received: received, BlockFor: blockFor, Failures: failures,
			DataPresent: data}
	}
	p.o.Coordinator.Note(coordinator.EventReadTimeout)
	return &coordinator.ReadTimeout{Consistency: level, Received: received, BlockFor: blockFor, DataPresent: data}
}

// waiting reports whether a node has a request for a page.
func (p *Plan[E]) waiting() bool {
	return slices.ContainsFunc(p.nodes, func(n *Node[E]) bool { return n.state == requested })
}
