package quorum

import (
	"slices"

	"cqld/ring"
)

// Quota is the number of replicas of a group that must answer, and the number that have. The group contains all
// replicas of a side, those of one data center, or only this node.
type Quota struct {
	Need int // answers
	Got  int
	// Need is fixed when the request is planned, and Got+Open < Need means that the level can no longer be met.
	Open int // asked or available, and neither answered nor failed

	asked      int           // by Ask
	datacenter string        // of EACH_QUORUM's groups; otherwise ""
	side       int           // of a change of the ring; 0 is the present one
	members    []ring.NodeID // the only nodes that count, if not nil
}

// Tally counts the answers to one request. It must be Reset before use.
//
// It is a value in the state of a request, whose lock guards it. quotas points into one, so a Tally must not be copied
// after Reset.
type Tally struct {
	quotas []Quota
	one    [1]Quota // backing array of quotas in nearly all cases
	sides  int
	scope  scope
	local  string
	t      *ring.Topology
	self   ring.NodeID

	// Of Reset. The need of each side is computed from them if the strategy is Everywhere.
	level       ring.Consistency
	replication ring.Replication
}

// scope determines whose answers count.
type scope uint8

const (
	scopeAll scope = iota
	scopeDatacenter
	scopeSelf
	scopeEach
)

// Reset prepares the tally for a level and a replication, without replicas.
func (y *Tally) Reset(level ring.Consistency, r ring.Replication, t *ring.Topology, self ring.NodeID, localDC string) {
	y.scope, y.local, y.t, y.self, y.sides = scopeAll, localDC, t, self, 1
	y.level, y.replication = level, r
	y.one[0] = Quota{Need: level.BlockFor(r, localDC)}
	y.quotas = y.one[:]
	switch {
	case level == ring.NodeLocal:
		y.scope = scopeSelf
	// Without data centers, LOCAL_QUORUM and EACH_QUORUM count all replicas, as ring.Consistency.BlockFor does.
	case !r.ByDatacenter():
	case level.IsLocal():
		y.scope = scopeDatacenter
	case level == ring.EachQuorum:
		y.scope = scopeEach
		y.quotas = make([]Quota, 0, len(r.Datacenters))
		for _, f := range r.Datacenters {
			y.quotas = append(y.quotas, Quota{datacenter: f.Datacenter, Need: ring.QuorumOf(f.Factor)})
		}
	}
}

// ResetTo prepares the tally for a request that needs the answers of all of the nodes, at least one, and of no others.
func (y *Tally) ResetTo(nodes []ring.NodeID) {
	if nodes == nil {
		nodes = []ring.NodeID{}
	}
	y.scope, y.sides, y.replication = scopeAll, 1, ring.Replication{}
	y.one[0] = Quota{Need: max(1, len(nodes)), members: nodes}
	y.quotas = y.one[:]
}

// Join prepares the tally for a write to set: the level must be met among the present replicas, and among those before
// and after the pending changes of the ring. It is called right after Reset.
func (y *Tally) Join(set ring.ReplicaSet) {
	if len(set.Others) > 0 {
		y.join(set.Natural, set.Others)
	}
}

// JoinRead prepares the tally for a read of set: while an operation is Switching, the level must also be met among the
// replicas before it, unless two reads of the level need not overlap anyway. It is called right after Reset, with the
// same level and replication.
func (y *Tally) JoinRead(set ring.ReplicaSet, level ring.Consistency, r ring.Replication) {
	if set.Before == nil || level == ring.NodeLocal {
		return
	}
	// A read at a lower level does not promise to see a value that an earlier read has returned.
	quorum := ring.Quorum
	if level.IsLocal() {
		quorum = ring.LocalQuorum
	}
	if level.BlockFor(r, y.local) >= quorum.BlockFor(r, y.local) {
		y.join(set.Natural, [][]ring.NodeID{set.Before})
	}
}

// join repeats the quotas of the level for each side: the natural replicas, and each of others.
func (y *Tally) join(natural []ring.NodeID, others [][]ring.NodeID) {
	// Each side gets a copy of the quotas of the level, which count only the side's members.
	first := y.quotas
	y.sides = 1 + len(others)
	y.quotas = make([]Quota, 0, y.sides*len(first))
	for side := range y.sides {
		members := natural
		if side > 0 {
			members = others[side-1]
		}
		for _, q := range first {
			q.side, q.members = side, members
			// With EverywhereStrategy, a ring that gains or loses a node has another number of replicas on each side.
			if y.replication.Class == ring.Everywhere {
				q.Need = y.needAmong(members, q.datacenter)
			}
			y.quotas = append(y.quotas, q)
		}
	}
}

// needAmong returns how many of an Everywhere keyspace's replicas on one side must answer: in a data center for
// EACH_QUORUM, and otherwise as the level says.
func (y *Tally) needAmong(members []ring.NodeID, datacenter string) int {
	side := y.replication.Among(y.t, members)
	if y.scope == scopeEach {
		return ring.QuorumOf(side.In(datacenter))
	}
	return y.level.BlockFor(side, y.local)
}

// TwoSided reports whether the level must be met on more than one side of a change of the ring.
func (y *Tally) TwoSided() bool { return y.sides > 1 }

// Quotas returns all quotas that must be met.
func (y *Tally) Quotas() []Quota { return y.quotas }

// Covers reports whether node's answer counts for q, which is one of the tally's.
func (y *Tally) Covers(q *Quota, node ring.NodeID) bool {
	if q.members != nil && !slices.Contains(q.members, node) {
		return false
	}
	switch y.scope {
	case scopeAll:
		return true
	case scopeSelf:
		return node == y.self
	}
	// A node that has left the ring since it was asked counts in no data center.
	n := y.t.Node(node)
	if n == nil {
		return false
	}
	if y.scope == scopeDatacenter {
		return n.Datacenter == y.local
	}
	return n.Datacenter == q.datacenter
}

// Counts reports whether node's answer counts on any side, and whether on all of them.
func (y *Tally) Counts(node ring.NodeID) (some, all bool) {
	sides := 0
	for i := range y.quotas {
		if y.Covers(&y.quotas[i], node) { // at most one on each side
			sides++
		}
	}
	return sides > 0, sides == y.sides
}

// Ask reports whether node must also be asked for the level to be met; it then counts node as asked.
func (y *Tally) Ask(node ring.NodeID) bool {
	wanted := false
	for i := range y.quotas {
		q := &y.quotas[i]
		wanted = wanted || q.asked < q.Need && y.Covers(q, node)
	}
	// The answer counts for all quotas that cover the node, including those that did not need it.
	if wanted {
		y.each(node, func(q *Quota) { q.asked++ })
	}
	return wanted
}

// Replaces reports whether node's answer counts wherever the answer of a failed node is missing.
func (y *Tally) Replaces(node, failed ring.NodeID) bool {
	for i := range y.quotas {
		if q := &y.quotas[i]; q.missed() && y.Covers(q, failed) && !y.Covers(q, node) {
			return false
		}
	}
	return true
}

// Helps reports whether node's answer counts for any group in which the answer of a failed node is missing.
func (y *Tally) Helps(node, failed ring.NodeID) bool {
	for i := range y.quotas {
		if q := &y.quotas[i]; q.missed() && y.Covers(q, failed) && y.Covers(q, node) {
			return true
		}
	}
	return false
}

// Opened records that node may answer.
func (y *Tally) Opened(node ring.NodeID) { y.each(node, func(q *Quota) { q.Open++ }) }

// Answered records the answer of an open node.
func (y *Tally) Answered(node ring.NodeID) { y.each(node, func(q *Quota) { q.Open--; q.Got++ }) }

// Failed records that an open node will not answer.
func (y *Tally) Failed(node ring.NodeID) { y.each(node, func(q *Quota) { q.Open-- }) }

// Again records that node, which has answered, is asked once more.
func (y *Tally) Again(node ring.NodeID) { y.each(node, func(q *Quota) { q.Got--; q.Open++ }) }

// each calls f for every quota that the answer of node counts for.
func (y *Tally) each(node ring.NodeID, f func(*Quota)) {
	for i := range y.quotas {
		if q := &y.quotas[i]; y.Covers(q, node) {
			f(q)
		}
	}
}

// Satisfied reports whether enough replicas have answered.
func (y *Tally) Satisfied() bool {
	for i := range y.quotas {
		if y.quotas[i].missed() {
			return false
		}
	}
	return true
}

// Hopeless reports whether the level can no longer be met.
func (y *Tally) Hopeless() bool { return y.Short() != nil }

// Short returns the first quota that cannot be met; nil means that all can.
func (y *Tally) Short() *Quota {
	for i := range y.quotas {
		if q := &y.quotas[i]; q.Got+q.Open < q.Need {
			return q
		}
	}
	return nil
}

// Totals returns the numbers for errors: answers that count, and the number required. During a change of the ring,
// they are taken from the first side that lacks answers, or else from the present side.
func (y *Tally) Totals() (received, blockFor int) {
	for side := range y.sides {
		got, need := 0, 0
		for i := range y.quotas {
			if q := &y.quotas[i]; q.side == side {
				got, need = got+min(q.Got, q.Need), need+q.Need
			}
		}
		// The protocol's errors have one pair of numbers, so one side is chosen.
		if side == 0 || got < need {
			received, blockFor = got, need
		}
		if got < need {
			break
		}
	}
	return received, blockFor
}

// missed reports whether q has fewer answers than it needs.
func (q *Quota) missed() bool { return q.Got < q.Need }
