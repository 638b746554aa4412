package cluster

import (
	"encoding/binary"
	"errors"
	"fmt"
	"slices"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"cqld/messaging"
	"cqld/ring"
)

// Raft's timing, in ticks of tickEvery. The leader sends heartbeats as often as the failure detector does, in the same
// events. An election begins after 0.6 to 1.2 s without any, or in half of that if the stream to the leader has ended.
// A follower that misses one heartbeat may ask for votes too early; the others refuse, because they have a leader
// (pre-vote).
const (
	electionTicks  = 12
	heartbeatTicks = int(ticksIdle)
)

// The log is compacted after snapshotEvery commands. snapshotKeep entries are kept for followers that are slightly
// behind.
const (
	snapshotEvery = 512
	snapshotKeep  = 128
)

// driver is Raft's state machine with its storage and network. Only the loop uses it.
type driver struct {
	c        *Cluster
	self     ring.NodeID
	node     *raft.RawNode
	conf     *pb.ConfState
	applied  uint64
	snapshot uint64 // index of the last snapshot
	// reconfigured is the tick at which this node last proposed a change of Raft's membership.
	reconfigured uint64

	// State with which check compares messages.
	tail       int            // upper bound of the bytes of entries that may be uncommitted
	confirming confirming     // the last request for a confirmation that this node sent as the leader
	readsAt    uint64         // the tick to which reads applies
	reads      map[uint64]int // ReadIndex requests in this tick, by node
}

// confirming identifies a request for a confirmation: Raft numbers them in each term.
type confirming struct{ term, number uint64 }

// maxUncommitted bounds the uncommitted entries, in bytes, that this node keeps as the leader.
const maxUncommitted = 64 << 20

// startRaft creates the driver of member self from the contents of the log.
func startRaft(c *Cluster, self ring.NodeID) (*driver, error) {
	d := &driver{c: c, self: self}
	fresh := c.log.empty()
	snap, err := c.log.memory.Snapshot()
	if err != nil {
		return nil, err
	}
	d.applied, d.snapshot = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetIndex()
	d.conf = snap.GetMetadata().GetConfState()
	if !raft.IsEmptySnap(snap) {
		m, err := decodeMetadata(snap.GetData())
		if err != nil {
			return nil, err
		}
		c.publish(m)
	}
	d.node, err = raft.NewRawNode(&raft.Config{
		ID: uint64(self), ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: presentStorage{c.log.memory, d}, Applied: d.applied, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 64,
		MaxUncommittedEntriesSize: maxUncommitted, PreVote: true, CheckQuorum: true,
		Logger: raftLogger{c.opts.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: start raft: %w", err)
	}
	if fresh && c.identity.Founder {
		if err := d.node.Bootstrap([]raft.Peer{{ID: uint64(self)}}); err != nil {
			return nil, fmt.Errorf("cluster: create a cluster: %w", err)
		}
	}
	return d, nil
}

// onlyVoter reports whether this node can become the leader without another node's vote.
func (d *driver) onlyVoter() bool {
	cs := d.node.Status().Config.Voters.IDs()
	_, ok := cs[uint64(d.self)]
	return ok && len(cs) == 1
}

// receiveRaft handles a Raft message, or the attempt of a node that is not a known member to send one.
func (c *Cluster) receiveRaft(from messaging.Sender, p []byte, _ messaging.Respond) {
	if !from.Member {
		c.noteUnknownPeer(from)
		return
	}
	message := slices.Clone(p) // the message is used after the call
	c.post(func() {
		if c.driver != nil {
			c.driver.step(from.Node, message)
		}
	})
}

// step passes a message of another member to Raft. It ignores a message for a former node with this node's address.
func (d *driver) step(from ring.NodeID, payload []byte) {
	m := new(pb.Message)
	if err := proto.Unmarshal(payload, m); err != nil {
		d.c.refuseRaft(from, "malformed", err)
		return
	}
	if m.GetTo() != uint64(d.self) {
		d.c.opts.Logger.Debug("raft message for another node", "to", m.GetTo())
		return
	}
	if err := d.check(from, m); err != nil {
		d.c.refuseRaft(from, m.GetType().String(), err)
		return
	}
	d.c.heard = d.c.ticks
	if err := d.node.Step(m); err != nil && !errors.Is(err, raft.ErrProposalDropped) {
		d.c.opts.Logger.Debug("raft message ignored", "err", err)
	}
}

// refuseRaft counts a refused Raft message, and logs it unless one was logged less than refusalTicks ago.
func (c *Cluster) refuseRaft(from ring.NodeID, kind string, err error) {
	c.refused.Add(1)
	if c.refusalLogged != 0 && c.ticks-c.refusalLogged < refusalTicks {
		return
	}
	c.refusalLogged = max(1, c.ticks)
	c.opts.Logger.Error("raft message refused: the sender is faulty, or this node's metadata log lost entries",
		"node", from, "type", kind, "err", err, "refused so far", c.refused.Load())
}

// Refused returns the number of Raft messages of members that this process has refused. It is safe for concurrent
// use.
func (c *Cluster) Refused() uint64 { return c.refused.Load() }

// refusalTicks is the minimum number of ticks between two log messages about refused messages.
const refusalTicks = uint64(10 * time.Second / tickEvery)

// process handles everything that Raft has ready: it stores, sends and applies until nothing is left.
func (d *driver) process() error {
	for d.node.HasReady() {
		rd := d.node.Ready()
		if err := d.c.log.save(&rd); err != nil {
			return fmt.Errorf("cluster: save metadata log: %w", err)
		}
		if rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot) {
			if err := d.install(rd.Snapshot); err != nil {
				return err
			}
		}
		d.noteTail(&rd)
		d.send(rd.Messages)
		for _, e := range rd.CommittedEntries {
			if err := d.apply(e); err != nil {
				return err
			}
		}
		d.c.noteReadStates(rd.ReadStates)
		d.node.Advance(rd)
		if len(rd.CommittedEntries) > 0 || rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot) {
			d.c.noteApplied(d.applied)
		}
	}
	d.c.endConfirmations()
	d.reconfigure()
	return d.compact()
}

// noteTail maintains an upper bound of the bytes of uncommitted entries.
func (d *driver) noteTail(rd *raft.Ready) {
	for _, e := range rd.Entries {
		d.tail += len(e.GetData())
	}
	if d.node.BasicStatus().HardState.GetCommit() >= d.lastIndex() {
		d.tail = 0
	}
}

// lastIndex returns the index of the last entry on disk.
func (d *driver) lastIndex() uint64 { return d.c.log.memoryLastIndex() }

func (d *driver) install(snap *pb.Snapshot) error {
	m, err := decodeMetadata(snap.GetData())
	if err != nil {
		return err
	}
	d.applied, d.snapshot = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetIndex()
	d.conf = snap.GetMetadata().GetConfState()
	d.c.publish(m)
	d.c.resolveRecent(m)
	return nil
}

func (d *driver) send(ms []*pb.Message) {
	for _, m := range ms {
		if m = d.own(m); m == nil {
			continue
		}
		if m.GetType() == pb.MsgHeartbeat && len(m.GetContext()) == heartbeatContext {
			d.confirming = confirming{m.GetTerm(), binary.LittleEndian.Uint64(m.GetContext())}
		}
		b, err := proto.Marshal(m)
		if err != nil {
			d.c.opts.Logger.Error("raft message not sent", "err", err)
			continue
		}
		d.c.opts.Network.Send(ring.NodeID(m.GetTo()), messaging.VerbRaft, b)
		if m.GetType() == pb.MsgSnap {
			d.node.ReportSnapshot(m.GetTo(), raft.SnapshotFinish)
		}
	}
}

// own makes m a message of this node, which receivers require. Raft forwards messages that another node sent to this
// one as the presumed leader: a proposal becomes this node's, and for a request for a confirmation own returns nil,
// because the node that needs it repeats it.
func (d *driver) own(m *pb.Message) *pb.Message {
	switch {
	case m.GetFrom() == uint64(d.self):
		return m
	case m.GetType() == pb.MsgProp:
		return &pb.Message{Type: m.Type, To: m.To, From: proto.Uint64(uint64(d.self)), Entries: m.GetEntries()}
	}
	return nil
}

func (d *driver) apply(e *pb.Entry) error {
	switch e.GetType() {
	case pb.EntryConfChange:
		cc := new(pb.ConfChange)
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return fmt.Errorf("cluster: malformed membership change: %w", err)
		}
		d.adopt(cc, e.GetIndex())
	case pb.EntryConfChangeV2:
		cc := new(pb.ConfChangeV2)
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return fmt.Errorf("cluster: malformed membership change: %w", err)
		}
		d.adopt(cc, e.GetIndex())
	default:
		d.applied = e.GetIndex()
		if len(e.GetData()) == 0 {
			return nil // the first entry of a new leader
		}
		cmd, err := decodeCommand(e.GetData())
		if err != nil {
			return err
		}
		m, result := applySafely(d.c.Metadata(), cmd, e.GetIndex())
		d.c.publish(m)
		d.c.resolve(cmd.ID, e.GetIndex(), result)
	}
	return nil
}

// adopt applies a change of Raft's membership. Raft may request a snapshot during this (presentStorage), which must
// not combine the new index with the old membership.
func (d *driver) adopt(cc pb.ConfChangeI, index uint64) {
	d.applied = index
	if err := checkConfChange(d.conf, cc); err != nil {
		d.c.opts.Logger.Error("invalid raft membership change skipped", "err", err)
		return
	}
	d.conf, d.reconfigured = d.node.ApplyConfChange(cc), 0
	if m := d.c.Metadata(); len(m.Removed) > 0 {
		d.c.opts.Network.SetPeers(d.c.peersOf(m))
	}
}

// readyLag bounds the entries that a learner may lack when it becomes a voter.
const readyLag = 16

// reconfigure makes Raft's membership follow that of the metadata, if this node leads: members are learners first,
// and become voters when they are ready.
func (d *driver) reconfigure() {
	if d.node.BasicStatus().RaftState != raft.StateLeader || d.conf == nil || len(d.conf.GetVotersOutgoing()) > 0 ||
		d.reconfigured != 0 && d.c.ticks-d.reconfigured < retryTicks {
		return // before the last change is applied, Raft would log another one as an empty entry
	}
	members := d.c.Metadata().Topology.Nodes()
	var changes []*pb.ConfChangeSingle
	left := d.isFormer(uint64(d.self)) // the next leader decides about the other nodes
	if left {
		changes = d.handOver(members)
	} else {
		changes = d.former(members)
	}
	if len(changes) == 0 {
		changes = d.newLearners(members)
	}
	if len(changes) == 0 && !left {
		changes = d.newVoters(members)
	}
	if len(changes) == 0 {
		return
	}
	d.reconfigured = max(1, d.c.ticks)
	if err := d.node.ProposeConfChange(&pb.ConfChangeV2{Changes: changes}); err != nil {
		d.c.opts.Logger.Debug("membership change not proposed", "err", err)
	}
}

// isFormer reports whether a node is a former member according to the log that this node has applied.
func (d *driver) isFormer(id uint64) bool {
	m := d.c.Metadata()
	return m.Topology.Node(ring.NodeID(id)) == nil && m.removedAt(ring.NodeID(id)) != 0
}

// former returns the changes that remove former members from Raft. A former member that votes becomes a learner
// immediately: it stops soon, and a majority that needs its vote could commit nothing after that. A learner is
// removed when it knows that it is a former member, or is dead.
func (d *driver) former(members []*ring.Node) []*pb.ConfChangeSingle {
	if slices.ContainsFunc(d.conf.GetVoters(), d.isFormer) {
		return d.newVoters(members)
	}
	for _, id := range d.conf.GetLearners() {
		node := ring.NodeID(id)
		if d.isFormer(id) && (d.c.applied[node] >= d.c.Metadata().removedAt(node) || !d.c.Alive(node)) {
			return []*pb.ConfChangeSingle{confChange(pb.ConfChangeRemoveNode, id)}
		}
	}
	return nil
}

// handOver makes another voter the leader. If no other member votes, as in a ring of two, a member that is ready
// becomes a voter first: otherwise no node could lead after this one has left.
func (d *driver) handOver(members []*ring.Node) []*pb.ConfChangeSingle {
	progress := d.node.Status().Progress
	for _, id := range d.conf.GetVoters() {
		if p, ok := progress[id]; ok && id != uint64(d.self) && p.RecentActive &&
			d.c.Metadata().Topology.Node(ring.NodeID(id)) != nil {
			d.node.TransferLeader(id)
			return nil
		}
	}
	isMember := func(id uint64) bool { return d.c.Metadata().Topology.Node(ring.NodeID(id)) != nil }
	if slices.ContainsFunc(d.conf.GetVoters(), isMember) {
		return nil // it does not respond at the moment
	}
	for _, n := range members {
		if id := uint64(n.ID); d.ready(progress, id) {
			return []*pb.ConfChangeSingle{confChange(pb.ConfChangeAddNode, id)}
		}
	}
	return nil
}

// ready reports whether a learner has nearly the whole log.
func (d *driver) ready(progress map[uint64]tracker.Progress, id uint64) bool {
	p, ok := progress[id]
	return ok && p.RecentActive && p.Match > 0 && p.Match+readyLag >= d.applied
}

func (d *driver) newLearners(members []*ring.Node) (changes []*pb.ConfChangeSingle) {
	for _, n := range members {
		if id := uint64(n.ID); !slices.Contains(d.conf.GetVoters(), id) && !slices.Contains(d.conf.GetLearners(), id) {
			changes = append(changes, confChange(pb.ConfChangeAddLearnerNode, id))
		}
	}
	return changes
}

func confChange(typ pb.ConfChangeType, id uint64) *pb.ConfChangeSingle {
	return &pb.ConfChangeSingle{Type: &typ, NodeId: &id}
}

func (d *driver) compact() error {
	if d.applied < d.snapshot+snapshotEvery || d.conf == nil {
		return nil
	}
	state, err := d.c.Metadata().encode()
	if err != nil {
		return err
	}
	if err := d.c.log.compact(d.applied, d.conf, state, snapshotKeep); err != nil {
		return fmt.Errorf("cluster: compact metadata log: %w", err)
	}
	d.snapshot = d.applied
	return nil
}
