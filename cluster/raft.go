package cluster

import (
	"errors"
	"fmt"
	"slices"
	"sync/atomic"
	"time"

	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/metadata"
	"cqld/cluster/raftcheck"
	"cqld/cluster/raftlog"
	"cqld/internal/invariant"
	"cqld/messaging"
	"cqld/ring"
)

// Raft's timing, in ticks of tickEvery. The leader sends heartbeats as often as the failure detector does, in the same
// events. An election begins after 0.6 to 1.2 s without a heartbeat, or half of that if the stream to the leader has
// ended. A follower that missed one heartbeat may campaign too early; the others reject it, because they have a leader
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

// refusalTicks is the minimum number of ticks between two log messages about refused messages.
const refusalTicks = uint64(10 * time.Second / tickEvery)

// driver is Raft's state machine with its storage and network. Only the loop uses it, except refused.
type driver struct {
	opts    *Options
	loop    *loop
	view    *view
	log     *raftlog.Log
	then    consequences
	checker *raftcheck.Checker

	self     ring.NodeID
	node     *raft.RawNode // nil before start
	conf     *pb.ConfState
	applied  uint64
	snapshot uint64 // index of the last snapshot
	// heard is the tick of the last accepted Raft message, or of the last inquiry about this node's membership.
	heard         uint64
	refusalLogged uint64        // tick at which a refused Raft message was last logged
	refused       atomic.Uint64 // Raft messages refused
}

// consequences are callbacks of the driver, in the order in which it calls them. All are required.
type consequences struct {
	publish    func(*metadata.Metadata)
	resolve    func(id metadata.CommandID, index uint64, result error)
	installed  func(*metadata.Metadata) // a snapshot was published instead of single commands
	applied    func(index uint64)       // the end of a batch of entries
	readStates func([]raft.ReadState)
	adopted    func() // Raft's membership has changed
	processed  func() // Raft has no more work ready
	unknown    func(sender messaging.Sender)
}

// start makes this node participate as member self with the contents of the log. A fresh founder creates Raft's
// membership.
func (d *driver) start(self ring.NodeID, founder bool) error {
	fresh := d.log.Empty()
	snap, err := d.log.Storage().Snapshot()
	if err != nil {
		return err
	}
	d.applied, d.snapshot = snap.GetMetadata().GetIndex(), snap.GetMetadata().GetIndex()
	d.conf = snap.GetMetadata().GetConfState()
	if !raft.IsEmptySnap(snap) {
		m, err := metadata.Decode(snap.GetData())
		if err != nil {
			return err
		}
		if err := d.supports(m); err != nil {
			return err
		}
		// Publish the state before the first log entry. run applies the entries.
		d.then.publish(m)
	}
	node, err := raft.NewRawNode(&raft.Config{
		ID: uint64(self), ElectionTick: electionTicks, HeartbeatTick: heartbeatTicks,
		Storage: presentStorage{d.log.Storage(), d}, Applied: d.applied, MaxSizePerMsg: 1 << 20, MaxInflightMsgs: 64,
		MaxUncommittedEntriesSize: raftcheck.MaxUncommitted, PreVote: true, CheckQuorum: true,
		Logger: raftlog.NewRaftLogger(d.opts.Logger),
	})
	if err != nil {
		return fmt.Errorf("cluster: start raft: %w", err)
	}
	// A founder that crashed before its first entry was stored starts over.
	if fresh && founder {
		if err := node.Bootstrap([]raft.Peer{{ID: uint64(self)}}); err != nil {
			return fmt.Errorf("cluster: create a cluster: %w", err)
		}
	}
	d.self, d.node = self, node
	d.checker = raftcheck.New(self, node, d.log.LastIndex, d.run,
		func() uint64 { return d.view.metadata().Epoch })
	return nil
}

// started reports whether this node participates in Raft.
func (d *driver) started() bool { return d.node != nil }

// leads reports whether this node is the leader.
func (d *driver) leads() bool {
	// According to this node: a newer leader may have been elected. Raft rejects proposals of an old one.
	return d.started() && d.node.BasicStatus().RaftState == raft.StateLeader
}

// leader returns the leader that this node knows, or zero.
func (d *driver) leader() ring.NodeID {
	if !d.started() {
		return 0
	}
	return ring.NodeID(d.node.BasicStatus().Lead) // raft.None is zero
}

// hasVoters reports whether this node knows Raft's membership.
func (d *driver) hasVoters() bool { return d.started() && len(d.conf.GetVoters()) > 0 }

// onlyVoter reports whether this node can become the leader without another node's vote.
func (d *driver) onlyVoter() bool {
	// The union of both sets of voters while Raft's membership changes.
	cs := d.node.Status().Config.Voters.IDs()
	_, ok := cs[uint64(d.self)]
	return ok && len(cs) == 1
}

// tick advances Raft's time. While this node considers the leader down, time advances twice as fast, so that the others
// elect a new leader in half the usual time.
func (d *driver) tick(ticks uint64) {
	if !d.started() {
		return
	}
	if lead := d.leader(); lead != 0 && !d.view.alive(lead) {
		ticks *= 2
	}
	for range ticks {
		d.node.Tick()
	}
}

// receive handles a Raft message, or one from a node that is not a known member. It is safe for concurrent use.
func (d *driver) receive(from messaging.Sender, p []byte, _ messaging.Respond) {
	if !from.Member {
		d.then.unknown(from)
		return
	}
	message := slices.Clone(p) // the transport reuses p after this call
	// If the queue is full, the message is dropped, which Raft tolerates.
	d.loop.post(func() {
		if d.started() {
			d.step(from.Node, message)
		}
	})
}

// step passes a message of another member to Raft. It ignores a message that is addressed to a former node with this
// node's address.
func (d *driver) step(from ring.NodeID, payload []byte) {
	m := new(pb.Message)
	if err := proto.Unmarshal(payload, m); err != nil {
		d.refuse(from, "malformed", err)
		return
	}
	// Accepting it would let this node vote in another node's name.
	if m.GetTo() != uint64(d.self) {
		d.opts.Logger.Debug("raft message for another node", "to", m.GetTo())
		return
	}
	if err := d.checker.Check(from, m, d.loop.ticks); err != nil {
		d.refuse(from, m.GetType().String(), err)
		return
	}
	// Only an accepted message shows that this node is still a member, so refused ones do not reset the silence.
	d.heard = d.loop.ticks
	if err := d.node.Step(m); err != nil && !errors.Is(err, raft.ErrProposalDropped) {
		d.opts.Logger.Debug("raft message ignored", "err", err)
	}
}

// refuse counts a refused Raft message, and logs it unless one was logged less than refusalTicks ago.
func (d *driver) refuse(from ring.NodeID, kind string, err error) {
	// Counted even if it is not logged, because a metric shows the rate.
	d.refused.Add(1)
	if d.refusalLogged != 0 && d.loop.ticks-d.refusalLogged < refusalTicks {
		return
	}
	d.refusalLogged = max(1, d.loop.ticks)
	d.opts.Logger.Error("raft message refused: the sender is faulty, or this node's metadata log lost entries",
		"node", from, "type", kind, "err", err, "refused so far", d.refused.Load())
}

// run performs the actions that Raft requires after the last events. An error makes this node stop.
func (d *driver) run() error {
	if !d.started() {
		return nil
	}
	if err := d.log.Err(); err != nil {
		return err // Fatal was called; the state that Raft's messages promise may not be on disk
	}
	err := d.process()
	if err != nil {
		d.log.Fail(err)
		d.opts.Fatal(err)
	}
	return err
}

// process stores, sends and applies everything in Raft's Ready, until nothing is left.
func (d *driver) process() error {
	for d.node.HasReady() {
		rd := d.node.Ready()
		// Raft's messages promise the state in rd, so it is stored before any message is sent.
		if err := d.log.Save(&rd); err != nil {
			return fmt.Errorf("cluster: save metadata log: %w", err)
		}
		installs := rd.Snapshot != nil && !raft.IsEmptySnap(rd.Snapshot)
		if installs {
			if err := d.install(rd.Snapshot); err != nil {
				return err
			}
		}
		// After the state is stored, so the checker knows only what would survive a crash.
		d.checker.NoteReady(&rd)
		d.send(rd.Messages)
		for _, e := range rd.CommittedEntries {
			if err := d.apply(e); err != nil {
				return err
			}
		}
		// After the entries are applied, so callers whose index is already applied are called immediately.
		d.then.readStates(rd.ReadStates)
		d.node.Advance(rd)
		if len(rd.CommittedEntries) > 0 || installs {
			d.then.applied(d.applied)
		}
	}
	d.then.processed()
	return d.compact()
}

// install replaces the metadata by the contents of a snapshot.
func (d *driver) install(snap *pb.Snapshot) error {
	m, err := metadata.Decode(snap.GetData())
	if err != nil {
		return err
	}
	if err := d.supports(m); err != nil {
		return err
	}
	index := snap.GetMetadata().GetIndex()
	invariant.Check(index > d.applied, "cluster: a snapshot of entry %d replaces entry %d", index, d.applied)
	d.applied, d.snapshot = index, index
	// Set together with the index, because presentStorage combines both.
	d.conf = snap.GetMetadata().GetConfState()
	d.then.publish(m)
	d.then.installed(m)
	return nil
}

// send sends Raft's messages. The state that they promise has been stored.
func (d *driver) send(ms []*pb.Message) {
	for _, m := range ms {
		if m = d.own(m); m == nil {
			continue
		}
		d.checker.NoteSent(m)
		b, err := proto.Marshal(m)
		if err != nil {
			d.opts.Logger.Error("raft message not sent", "err", err)
			continue
		}
		d.opts.Network.Send(ring.NodeID(m.GetTo()), messaging.VerbRaft, b)
		// The transport does not report lost messages. Without this call, Raft would pause the follower until it
		// responds.
		if m.GetType() == pb.MsgSnap {
			d.node.ReportSnapshot(m.GetTo(), raft.SnapshotFinish)
		}
	}
}

// own changes a message that Raft forwards, so that this node is its sender, as receivers require. Another node may
// have sent it to this node as the presumed leader. A forwarded proposal becomes this node's. For a forwarded ReadIndex
// request own returns nil, because the requesting node repeats it.
func (d *driver) own(m *pb.Message) *pb.Message {
	switch {
	case m.GetFrom() == uint64(d.self):
		return m
	case m.GetType() == pb.MsgProp:
		return &pb.Message{Type: m.Type, To: m.To, From: proto.Uint64(uint64(d.self)), Entries: m.GetEntries()}
	}
	return nil
}

// apply applies a committed entry: a command to the metadata, or a change to Raft's membership. An error makes this
// node stop.
func (d *driver) apply(e *pb.Entry) error {
	// A skipped or repeated entry would make this node's metadata permanently differ from other nodes' metadata.
	invariant.Check(e.GetIndex() == d.applied+1, "cluster: entry %d is applied after entry %d", e.GetIndex(), d.applied)
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
		// Set before publish, whose callees compare proposals with it.
		d.applied = e.GetIndex()
		if len(e.GetData()) == 0 {
			return nil // a new leader's first entry is empty
		}
		cmd, err := metadata.DecodeCommand(e.GetData())
		if err != nil {
			return err
		}
		m, result := metadata.Apply(d.view.metadata(), cmd, e.GetIndex())
		if err := d.supports(m); err != nil {
			return err
		}
		d.then.publish(m)
		d.then.resolve(cmd.ID, e.GetIndex(), result)
	}
	return nil
}

// adopt applies a change of Raft's membership. Meanwhile, Raft may request a snapshot (presentStorage), which must not
// combine the new index with the old membership.
func (d *driver) adopt(cc pb.ConfChangeI, index uint64) {
	d.applied = index
	if err := raftcheck.CheckConfChange(d.conf, cc); err != nil {
		d.opts.Logger.Error("invalid raft membership change skipped", "err", err)
		return
	}
	d.conf = d.node.ApplyConfChange(cc)
	d.then.adopted()
}

// compact replaces the log by a snapshot after snapshotEvery commands.
func (d *driver) compact() error {
	invariant.Check(d.snapshot <= d.applied, "cluster: the snapshot is ahead of what is applied")
	if d.applied < d.snapshot+snapshotEvery || d.conf == nil {
		return nil
	}
	state, err := d.view.metadata().Encode()
	if err != nil {
		return err
	}
	if err := d.log.Compact(d.applied, d.conf, state, snapshotKeep); err != nil {
		return fmt.Errorf("cluster: compact metadata log: %w", err)
	}
	// The retained entries serve followers that lack only a few.
	d.snapshot = d.applied
	return nil
}
