package coordinator

import (
	"slices"

	"cqld/ring"
)

// quota is how many of a group of replicas must answer, and how many have. The group is all
// replicas, those of one data center, or this node alone.
type quota struct {
	datacenter string // of EACH_QUORUM's groups; "" else
	need       int
	got        int
	open       int // asked or askable, and neither answered nor failed
	asked      int // by ask
}

// tally counts one plan's answers: one quota, except one for each data center at EACH_QUORUM.
type tally struct {
	quotas []quota
	one    [1]quota // backing of quotas in all other cases
	scope  scope
	local  string
	t      *ring.Topology
	self   ring.NodeID
	// members, when they are not nil, are the only ones that count.
	members []ring.NodeID
	// also must be satisfied, too: the replicas before or after a change of the ring.
	also []tally
}

// scope says whose answers count.
type scope uint8

const (
	scopeAll scope = iota
	scopeDatacenter
	scopeSelf
	scopeEach
)

// reset makes the tally of a level under a replication, with no replica known yet.
func (y *tally) reset(level ring.Consistency, r ring.Replication, t *ring.Topology, self ring.NodeID, localDC string) {
	y.scope, y.local, y.t, y.self = scopeAll, localDC, t, self
	y.members, y.also = nil, nil
	y.one[0] = quota{need: level.BlockFor(r, localDC)}
	y.quotas = y.one[:]
	switch {
	case level == ring.NodeLocal:
		y.scope = scopeSelf
	case r.Class != ring.NetworkTopology:
	case level.IsLocal():
		y.scope = scopeDatacenter
	case level == ring.EachQuorum:
		y.scope = scopeEach
		y.quotas = make([]quota, 0, len(r.Datacenters))
		for _, f := range r.Datacenters {
			y.quotas = append(y.quotas, quota{datacenter: f.Datacenter, need: ring.QuorumOf(f.Factor)})
		}
	}
}

// join makes the tally one of a write to set: the level must be met among the replicas of now, and
// among those before and after the changes of the ring under way. reset came before, with the same level
// and replication.
func (y *tally) join(set ring.ReplicaSet, level ring.Consistency, r ring.Replication) {
	if len(set.Others) > 0 {
		y.joinGroups(set.Natural, set.Others, level, r)
	}
}

// joinRead makes the tally one of a read of set: while an operation is Switching, the level must be met
// among the replicas before it, too, unless two reads of the level need not meet anyway.
func (y *tally) joinRead(set ring.ReplicaSet, level ring.Consistency, r ring.Replication) {
	if set.Before == nil || level == ring.NodeLocal {
		return
	}
	quorum := ring.Quorum
	if level.IsLocal() {
		quorum = ring.LocalQuorum
	}
	if level.BlockFor(r, y.local) >= quorum.BlockFor(r, y.local) {
		y.joinGroups(set.Natural, [][]ring.NodeID{set.Before}, level, r)
	}
}

func (y *tally) joinGroups(natural []ring.NodeID, others [][]ring.NodeID, level ring.Consistency, r ring.Replication) {
	y.members = natural
	y.also = make([]tally, len(others))
	for i, members := range others {
		y.also[i].reset(level, r, y.t, y.self, y.local)
		y.also[i].members = members
	}
}

// group is the index of the quota that node counts for; -1 when for none.
func (y *tally) group(node ring.NodeID) int {
	if y.members != nil && !slices.Contains(y.members, node) {
		return -1
	}
	switch y.scope {
	case scopeAll:
		return 0
	case scopeSelf:
		if node == y.self {
			return 0
		}
		return -1
	}
	n := y.t.Node(node)
	if n == nil {
		return -1
	}
	if y.scope == scopeDatacenter {
		if n.Datacenter == y.local {
			return 0
		}
		return -1
	}
	for i := range y.quotas {
		if y.quotas[i].datacenter == n.Datacenter {
			return i
		}
	}
	return -1
}

// counts says whether node's answer counts for any group, and whether for all of them.
func (y *tally) counts(node ring.NodeID) (some, all bool) {
	all = y.group(node) >= 0
	some = all
	for i := range y.also {
		s, a := y.also[i].counts(node)
		some, all = some || s, all && a
	}
	return some, all
}

// ask says whether node is one more that must be asked for the level to be met, and counts it then.
func (y *tally) ask(node ring.NodeID) bool {
	if !y.wants(node) {
		return false
	}
	y.addAsked(node)
	return true
}

func (y *tally) wants(node ring.NodeID) bool {
	if g := y.group(node); g >= 0 && y.quotas[g].asked < y.quotas[g].need {
		return true
	}
	for i := range y.also {
		if y.also[i].wants(node) {
			return true
		}
	}
	return false
}

func (y *tally) addAsked(node ring.NodeID) {
	if g := y.group(node); g >= 0 {
		y.quotas[g].asked++
	}
	for i := range y.also {
		y.also[i].addAsked(node)
	}
}

// replaces says whether node's answer counts wherever that of another, which failed, would be missed.
func (y *tally) replaces(node, failed ring.NodeID) bool {
	if g := y.group(failed); g >= 0 && y.quotas[g].got < y.quotas[g].need && y.group(node) != g {
		return false
	}
	for i := range y.also {
		if !y.also[i].replaces(node, failed) {
			return false
		}
	}
	return true
}

// helps says whether node's answer counts for any group in which that of another, which failed, is missed.
func (y *tally) helps(node, failed ring.NodeID) bool {
	if g := y.group(failed); g >= 0 && y.quotas[g].got < y.quotas[g].need && y.group(node) == g {
		return true
	}
	for i := range y.also {
		if y.also[i].helps(node, failed) {
			return true
		}
	}
	return false
}

// addOpen says that node may answer.
func (y *tally) addOpen(node ring.NodeID) {
	if g := y.group(node); g >= 0 {
		y.quotas[g].open++
	}
	for i := range y.also {
		y.also[i].addOpen(node)
	}
}

// answered and failed take one answer of an open node.
func (y *tally) answered(node ring.NodeID) {
	if g := y.group(node); g >= 0 {
		y.quotas[g].open--
		y.quotas[g].got++
	}
	for i := range y.also {
		y.also[i].answered(node)
	}
}

// again says that node, which has answered, is asked once more.
func (y *tally) again(node ring.NodeID) {
	if g := y.group(node); g >= 0 {
		y.quotas[g].got--
		y.quotas[g].open++
	}
	for i := range y.also {
		y.also[i].again(node)
	}
}

func (y *tally) failed(node ring.NodeID) {
	if g := y.group(node); g >= 0 {
		y.quotas[g].open--
	}
	for i := range y.also {
		y.also[i].failed(node)
	}
}

// satisfied says whether enough have answered; hopeless that they never will.
func (y *tally) satisfied() bool {
	for i := range y.quotas {
		if y.quotas[i].got < y.quotas[i].need {
			return false
		}
	}
	for i := range y.also {
		if !y.also[i].satisfied() {
			return false
		}
	}
	return true
}

func (y *tally) hopeless() bool { return y.short() != nil }

// short is the first quota that cannot be met; nil when all can.
func (y *tally) short() *quota {
	for i := range y.quotas {
		if q := &y.quotas[i]; q.got+q.open < q.need {
			return q
		}
	}
	for i := range y.also {
		if q := y.also[i].short(); q != nil {
			return q
		}
	}
	return nil
}

// totals are what errors tell: answers that count, and how many were needed; where the ring changes, those of a
// side that lacks some, if one does.
func (y *tally) totals() (received, blockFor int) {
	for i := range y.quotas {
		received += min(y.quotas[i].got, y.quotas[i].need)
		blockFor += y.quotas[i].need
	}
	if received < blockFor {
		return received, blockFor
	}
	for i := range y.also {
		if r, b := y.also[i].totals(); r < b {
			return r, b
		}
	}
	return received, blockFor
}
