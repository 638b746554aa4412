package cluster

import (
	"slices"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"

	"cqld/cluster/liveness"
	"cqld/cluster/voters"
	"cqld/internal/invariant"
	"cqld/ring"
)

// readyLag bounds the entries that a learner may lack when it becomes a voter.
const readyLag = 16

// voterDeadTicks is how long a voter is dead before another member replaces it, if the cluster then tolerates more
// failures. It is longer than a machine's restart.
const voterDeadTicks = uint64(5 * time.Minute / tickEvery)

// electorate makes Raft's membership follow the members in the metadata, while this node leads. Only the loop uses it.
//
//	admitted ─▶ learner ── has the log ─▶ may vote (package voters chooses)
//	left or removed, and a voter ─▶ learner ── has applied its removal, or is dead ─▶ removed
type electorate struct {
	opts     *Options
	loop     *loop
	view     *view
	driver   *driver
	dead     *liveness.Dead
	progress *progress
	// reconfigured is the tick at which this node last proposed a change of Raft's membership; zero after it was
	// applied.
	reconfigured uint64
}

// pending reports whether a change may be in progress: a lost proposal is repeated after retryTicks.
func (e *electorate) pending() bool {
	return e.reconfigured != 0 && e.loop.ticks-e.reconfigured <= 2*retryTicks
}

// reconfigure proposes the next change. Members start as learners and become voters when they have the log.
func (e *electorate) reconfigure() {
	d := e.driver
	if !d.leads() || d.conf == nil || len(d.conf.GetVotersOutgoing()) > 0 ||
		e.reconfigured != 0 && e.loop.ticks-e.reconfigured < retryTicks {
		return // Raft logs a change as an empty entry while another one is not applied
	}
	members := e.members()
	var changes []*pb.ConfChangeSingle
	left := e.isFormer(uint64(d.self)) // the next leader handles the other nodes
	if left {
		// This node has left the cluster but leads: it transfers leadership before it stops.
		changes = e.handOver(members)
	} else {
		changes = e.former(members)
	}
	if len(changes) == 0 {
		changes = e.newLearners(members)
	}
	// Learners are added first, because only a learner can become a voter.
	if len(changes) == 0 && !left {
		changes = e.newVoters(members)
	}
	if len(changes) == 0 {
		return
	}
	checkChanges(changes)
	// At least 1, because zero means that no change is in progress.
	e.reconfigured = max(1, e.loop.ticks)
	if err := d.node.ProposeConfChange(&pb.ConfChangeV2{Changes: changes}); err != nil {
		e.opts.Logger.Debug("membership change not proposed", "err", err)
	}
}

// members returns the members for Raft's membership: all except those that were declared lost.
func (e *electorate) members() []*ring.Node {
	m := e.view.metadata()
	nodes := m.Topology.Nodes()
	// The usual case, which reconfigure hits on every call.
	if len(m.Recoveries) == 0 {
		return nodes
	}
	return slices.DeleteFunc(slices.Clone(nodes), func(n *ring.Node) bool { return m.IsLost(n.ID) })
}

// checkChanges checks that no node occurs twice, because Raft does not order changes within one step.
func checkChanges(changes []*pb.ConfChangeSingle) {
	for i, c := range changes {
		invariant.Check(c.GetNodeId() != 0, "cluster: a change of membership names no node")
		for _, other := range changes[:i] {
			invariant.Check(other.GetNodeId() != c.GetNodeId(), "cluster: a change of membership names a node twice")
		}
	}
}

// isFormer reports whether a node is a former member according to the log that this node has applied.
func (e *electorate) isFormer(id uint64) bool {
	m := e.view.metadata()
	return m.Topology.Node(ring.NodeID(id)) == nil && m.RemovedAt(ring.NodeID(id)) != 0
}

// former returns the changes that remove former members from Raft. A former member that is a voter becomes a learner
// immediately: it is about to stop, and could then prevent a majority. A learner is removed once it has applied its own
// removal, or is dead.
func (e *electorate) former(members []*ring.Node) []*pb.ConfChangeSingle {
	// newVoters demotes it in the same step in which its successor is promoted.
	if slices.ContainsFunc(e.driver.conf.GetVoters(), e.isFormer) {
		return e.newVoters(members)
	}
	for _, id := range e.driver.conf.GetLearners() {
		node := ring.NodeID(id)
		// After its removal from Raft, the node receives no more entries.
		knows := e.progress.of(node) >= e.view.metadata().RemovedAt(node)
		if e.isFormer(id) && (knows || !e.view.alive(node)) {
			return []*pb.ConfChangeSingle{confChange(pb.ConfChangeRemoveNode, id)}
		}
	}
	return nil
}

// handOver transfers leadership to another voter. If no other member is a voter, as in a ring of two, it first promotes
// a member that has the log: otherwise no node could lead after this one has left.
func (e *electorate) handOver(members []*ring.Node) []*pb.ConfChangeSingle {
	d := e.driver
	progress := d.node.Status().Progress
	isMember := func(id uint64) bool { return e.view.metadata().Topology.Node(ring.NodeID(id)) != nil }
	for _, id := range d.conf.GetVoters() {
		if p, ok := progress[id]; ok && id != uint64(d.self) && p.RecentActive && isMember(id) {
			// The transfer may fail; the next call tries again.
			d.node.TransferLeader(id)
			return nil
		}
	}
	if slices.ContainsFunc(d.conf.GetVoters(), isMember) {
		return nil // no candidate responds
	}
	for _, n := range members {
		if id := uint64(n.ID); e.ready(progress, id) {
			return []*pb.ConfChangeSingle{confChange(pb.ConfChangeAddNode, id)}
		}
	}
	return nil
}

// ready reports whether a learner has nearly the whole log.
func (e *electorate) ready(progress map[uint64]tracker.Progress, id uint64) bool {
	p, ok := progress[id]
	// Nearly, because entries are appended while it catches up; the rest follows after its promotion.
	return ok && p.RecentActive && p.Match > 0 && p.Match+readyLag >= e.driver.applied
}

// newLearners returns the changes that add members that are not in Raft's membership.
func (e *electorate) newLearners(members []*ring.Node) (changes []*pb.ConfChangeSingle) {
	conf := e.driver.conf
	for _, n := range members {
		// Several learners can be added in one step, because they do not affect the majority.
		if id := uint64(n.ID); !slices.Contains(conf.GetVoters(), id) && !slices.Contains(conf.GetLearners(), id) {
			changes = append(changes, confChange(pb.ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

// confChange returns one change of a node.
func confChange(typ pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: &typ, NodeId: &id}
}

// candidates returns the members that may vote: current voters, and other members that are alive and have the log. A
// node without the log must not become a voter: if it never starts, a majority that needs it can commit nothing, not
// even another change of membership.
func (e *electorate) candidates(members []*ring.Node) (out []voters.Candidate) {
	d := e.driver
	progress := d.node.Status().Progress
	for _, n := range members {
		id := uint64(n.ID)
		self := n.ID == d.self
		c := voters.Candidate{
			ID:         id,
			Datacenter: n.Datacenter,
			Rack:       n.Rack,
			Leads:      self,
			Alive:      self || e.view.alive(n.ID),
			Votes:      slices.Contains(d.conf.GetVoters(), id),
		}
		// A voter that is down stays a candidate, so a restart does not move its vote.
		if c.Votes || c.Alive && e.ready(progress, id) {
			out = append(out, c)
		}
	}
	return out
}

// newVoters returns the changes towards the voters that package voters chooses. They are made in one step, because
// between two steps a majority could depend on a voter that is down. If this node should no longer vote, it first
// transfers leadership.
func (e *electorate) newVoters(members []*ring.Node) (changes []*pb.ConfChangeSingle) {
	d := e.driver
	candidates := e.candidates(members)
	voting, next := d.conf.GetVoters(), voters.Replace(candidates, func(id uint64) bool {
		return e.dead.For(ring.NodeID(id), e.loop.ticks) >= voterDeadTicks
	})
	// Without a live majority among the next voters, the cluster could commit nothing after the change.
	if len(next) == 0 || voters.Spare(candidates, next) < 0 {
		return nil // the change could not be committed
	}
	// A leader that demotes itself would stop leading in the middle of the change.
	if !slices.Contains(next, uint64(d.self)) {
		if to := e.successor(next); to != 0 {
			e.reconfigured = max(1, e.loop.ticks)
			d.node.TransferLeader(to)
			return nil
		}
		next = append(next, uint64(d.self)) // until one of the others votes
	}
	for _, id := range next {
		if !slices.Contains(voting, id) {
			changes = append(changes, confChange(pb.ConfChangeAddNode, id))
		}
	}
	for _, id := range voting {
		if !slices.Contains(next, id) {
			// Demoted instead of removed: it is still a member and needs the log.
			changes = append(changes, confChange(pb.ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

// successor returns a voter among ids that can lead, or zero.
func (e *electorate) successor(ids []uint64) uint64 {
	progress := e.driver.node.Status().Progress
	for _, id := range ids {
		// Only a current voter can be elected.
		if p, ok := progress[id]; ok && p.RecentActive && e.view.alive(ring.NodeID(id)) &&
			slices.Contains(e.driver.conf.GetVoters(), id) {
			return id
		}
	}
	return 0
}
