package cluster

import (
	"errors"
	"fmt"
	"slices"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/messaging"
	"cqld/ring"
)

// Raft's timing, in ticks of tickEvery.
const (
	electionTicks  = 12
	heartbeatTicks = 2
)

// votersMax is how many members vote; the others learn. Five survive the loss of two.
const votersMax = 5

// The log is compacted after snapshotEvery commands; snapshotKeep entries stay for followers that
// are a little behind.
const (
	snapshotEvery = 512
	snapshotKeep  = 128
)

// driver is Raft's state machine with what it reads and writes. Only the loop touches it.
type driver struct {
	c        *Cluster
	self     ring.NodeID
	node     *raft.RawNode
	conf     *pb.ConfState
	applied  uint64
	snapshot uint64 // index of the last snapshot
}

// startRaft makes the driver of member self from what the log holds.
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
		Storage: c.log.memory, Applied: d.applied, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 64,
		MaxUncommittedEntriesSize: 64 << 20, PreVote: true, CheckQuorum: true,
		Logger: raftLogger{c.opts.Logger},
	})
	if err != nil {
		return nil, fmt.Errorf("cluster: start raft: %w", err)
	}
	if fresh && c.identity.Founder {
		if err := d.node.Bootstrap([]raft.Peer{{ID: uint64(self)}}); err != nil {
			return nil, fmt.Errorf("cluster: found a cluster: %w", err)
		}
	}
	return d, nil
}

// onlyVoter says whether nobody else needs to agree to this node's leadership.
func (d *driver) onlyVoter() bool {
	cs := d.node.Status().Config.Voters.IDs()
	_, ok := cs[uint64(d.self)]
	return ok && len(cs) == 1
}

// step takes a message from another node.
func (d *driver) step(payload []byte) {
	m := new(pb.Message)
	if err := proto.Unmarshal(payload, m); err != nil {
		d.c.opts.Logger.Warn("malformed raft message", "err", err)
		return
	}
	if err := d.node.Step(m); err != nil && !errors.Is(err, raft.ErrProposalDropped) {
		d.c.opts.Logger.Debug("raft message ignored", "err", err)
	}
}

// process does what Raft has ready: store, send, apply, until nothing is left.
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
		d.send(rd.Messages)
		for _, e := range rd.CommittedEntries {
			if err := d.apply(e); err != nil {
				return err
			}
		}
		d.node.Advance(rd)
		if len(rd.CommittedEntries) > 0 || rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot) {
			d.c.noteApplied(d.applied)
		}
	}
	d.reconfigure()
	return d.compact()
}

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

func (d *driver) apply(e *pb.Entry) error {
	d.applied = e.GetIndex()
	switch e.GetType() {
	case pb.EntryConfChange:
		cc := new(pb.ConfChange)
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return fmt.Errorf("cluster: malformed membership change: %w", err)
		}
		d.conf = d.node.ApplyConfChange(cc)
	case pb.EntryConfChangeV2:
		cc := new(pb.ConfChangeV2)
		if err := proto.Unmarshal(e.GetData(), cc); err != nil {
			return fmt.Errorf("cluster: malformed membership change: %w", err)
		}
		d.conf = d.node.ApplyConfChange(cc)
	default:
		if len(e.GetData()) == 0 {
			return nil // a new leader's first entry
		}
		cmd, err := decodeCommand(e.GetData())
		if err != nil {
			return err
		}
		m, result := apply(d.c.Metadata(), cmd, e.GetIndex())
		d.c.publish(m)
		d.c.resolve(cmd.ID, e.GetIndex(), result)
	}
	return nil
}

// voters are the members that should vote: an odd number of the oldest.
func voters(t *ring.Topology) (ids []uint64) {
	nodes := t.Nodes()
	n := min(len(nodes), votersMax)
	if n%2 == 0 {
		n--
	}
	for i := 0; i < n; i++ {
		ids = append(ids, uint64(nodes[i].ID))
	}
	return ids
}

// reconfigure makes Raft's membership follow the metadata's, when this node leads.
func (d *driver) reconfigure() {
	status := d.node.BasicStatus()
	if status.RaftState != raft.StateLeader || d.conf == nil || len(d.conf.GetVotersOutgoing()) > 0 {
		return
	}
	t := d.c.Metadata().Topology
	wanted := voters(t)
	var changes []*pb.ConfChangeSingle
	for _, n := range t.Nodes() {
		id := uint64(n.ID)
		typ := pb.ConfChangeAddLearnerNode
		if slices.Contains(wanted, id) {
			if slices.Contains(d.conf.GetVoters(), id) {
				continue
			}
			typ = pb.ConfChangeAddNode
		} else if slices.Contains(d.conf.GetLearners(), id) {
			continue
		}
		changes = append(changes, &pb.ConfChangeSingle{Type: &typ, NodeId: &id})
	}
	if len(changes) == 0 {
		return
	}
	if err := d.node.ProposeConfChange(&pb.ConfChangeV2{Changes: changes}); err != nil {
		d.c.opts.Logger.Debug("membership change not proposed", "err", err)
	}
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
