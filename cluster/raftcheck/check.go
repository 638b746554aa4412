package raftcheck

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"

	"go.etcd.io/raft/v3"
	"go.etcd.io/raft/v3/confchange"
	pb "go.etcd.io/raft/v3/raftpb"
	"go.etcd.io/raft/v3/tracker"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/metadata"
	"cqld/ring"
)

// Node is the part of Raft's state machine that Checker compares messages with.
type Node interface {
	// BasicStatus returns the current term, vote and commit index, among others.
	BasicStatus() raft.BasicStatus
	// HasReady reports whether Raft has unsaved entries or unsent messages.
	HasReady() bool
}

// Checker compares messages with the state of one node. It is used by one goroutine.
type Checker struct {
	self      ring.NodeID
	node      Node
	lastIndex func() uint64
	process   func() error
	epoch     func() uint64

	tail       int            // upper bound of the bytes of uncommitted entries
	confirming confirming     // this node's last ReadIndex confirmation as the leader
	readsAt    uint64         // the tick that reads counts
	reads      map[uint64]int // ReadIndex requests in this tick, by node
}

// confirming identifies a ReadIndex confirmation: Raft numbers them within each term.
type confirming struct{ term, number uint64 }

// New returns a checker of the messages that node self receives. lastIndex returns the index of the last entry on disk,
// process performs everything that Raft has ready, and epoch returns the epoch of this node's metadata.
func New(self ring.NodeID, node Node, lastIndex func() uint64, process func() error, epoch func() uint64) *Checker {
	return &Checker{self: self, node: node, lastIndex: lastIndex, process: process, epoch: epoch}
}

// NoteReady maintains the upper bound of the bytes of uncommitted entries. rd has been saved.
func (c *Checker) NoteReady(rd *raft.Ready) {
	for _, e := range rd.Entries {
		// Bytes are counted instead of entries, like Raft's own limit.
		c.tail += len(e.GetData())
	}
	// Everything is committed. Until then the bound may be too high, which only refuses entries early.
	if c.node.BasicStatus().HardState.GetCommit() >= c.lastIndex() {
		c.tail = 0
	}
}

// NoteSent records a sent message, so that heartbeat responses can be checked against the confirmations that this node
// requested.
func (c *Checker) NoteSent(m *pb.Message) {
	if m.GetType() == pb.MsgHeartbeat && len(m.GetContext()) == heartbeatContext {
		c.confirming = confirming{m.GetTerm(), binary.LittleEndian.Uint64(m.GetContext())}
	}
}

// MaxUncommitted bounds the uncommitted entries, in bytes, that this node keeps as the leader.
const MaxUncommitted = 64 << 20

// counterMax bounds terms and indices, so that they do not overflow.
const counterMax = 1 << 62

// termJumpMax and indexJumpMax bound the difference between this node's term and a message's, and between this node's
// index and a snapshot's. At a thousand elections or commands per second, a node reaches it after seven weeks of
// absence. A node without a term or a log accepts any value.
const (
	termJumpMax  = 1 << 32
	indexJumpMax = 1 << 32
)

// ReadIndexContext is the length (bytes) of the context of a ReadIndex request, and heartbeatContext of a leader's
// heartbeat.
const (
	ReadIndexContext = 16
	heartbeatContext = 8
)

// readIndexMax bounds the ReadIndex requests that are accepted from one node in a tick. A node sends one every
// retryTicks, and one for each StartConfirm. Raft keeps them until a majority has responded, or until a leader without
// a majority steps down.
const readIndexMax = 64

// uncommittedMax bounds the uncommitted entries, in bytes, that are accepted from a leader. A correct leader keeps at
// most half as much.
const uncommittedMax = 2 * MaxUncommitted

// voteContextMax bounds the context of a vote request, which names the kind of election.
const voteContextMax = 64

// Check returns an error if a message from the member from must not reach Raft. tick is the current time.
func (c *Checker) Check(from ring.NodeID, m *pb.Message, tick uint64) error {
	// Raft counts votes and acknowledgements by the sender field. The connection knows the true sender.
	if m.GetFrom() != uint64(from) || m.GetFrom() == uint64(c.self) {
		return fmt.Errorf("its sender field names node %d", m.GetFrom())
	}
	// Responses are for Raft's asynchronous storage, which this node does not use.
	if len(m.GetResponses()) > 0 {
		return errors.New("it contains responses of local storage")
	}
	// Checked first, because the checks of each type compute with these numbers.
	if err := c.checkCounters(m); err != nil {
		return err
	}
	switch m.GetType() {
	case pb.MsgProp, pb.MsgReadIndex, pb.MsgReadIndexResp, pb.MsgApp: // their entries are checked below
	default:
		if len(m.GetEntries()) > 0 {
			return fmt.Errorf("a %v has entries", m.GetType())
		}
	}
	switch m.GetType() {
	case pb.MsgProp:
		return checkProposal(m)
	case pb.MsgReadIndex:
		return c.checkReadIndex(m, tick)
	case pb.MsgReadIndexResp:
		return checkReadContext(m)
	case pb.MsgApp:
		return c.checkAppend(m)
	case pb.MsgAppResp:
		return c.checkAppendResponse(m)
	case pb.MsgHeartbeat:
		return c.checkHeartbeat(m)
	case pb.MsgHeartbeatResp:
		return c.checkHeartbeatResponse(m)
	case pb.MsgSnap:
		return c.checkSnapshot(m)
	// Raft handles these in any state, so only their size is checked.
	case pb.MsgVote, pb.MsgPreVote, pb.MsgVoteResp, pb.MsgPreVoteResp, pb.MsgTimeoutNow:
		if len(m.GetContext()) > voteContextMax {
			return fmt.Errorf("its context has %d bytes", len(m.GetContext()))
		}
		return nil
	}
	// All other types are local to one Raft instance, such as ticks and requests to campaign.
	return fmt.Errorf("nodes do not send messages of type %d to each other", m.GetType())
}

// checkCounters bounds a message's term and indices. Only messages forwarded to the leader have no term.
func (c *Checker) checkCounters(m *pb.Message) error {
	// Raft sets the term of all messages except these two, which are valid in any term.
	forwarded := m.GetType() == pb.MsgProp || m.GetType() == pb.MsgReadIndex
	own := c.node.BasicStatus().HardState.GetTerm()
	switch term := m.GetTerm(); {
	case forwarded != (term == 0):
		return fmt.Errorf("a %v has term %d", m.GetType(), term)
	case term > counterMax, own > 0 && term > own && term-own > termJumpMax:
		return fmt.Errorf("its term is %d, this node's %d", term, own)
	}
	// Raft adds to these numbers. An overflow would make it index outside its log.
	if max(m.GetIndex(), m.GetLogTerm(), m.GetCommit(), m.GetRejectHint()) > counterMax {
		return errors.New("an index or a term is out of range")
	}
	return nil
}

// checkProposal refuses proposals that are not commands. A member proposes changes of Raft's membership only locally,
// while it leads.
func checkProposal(m *pb.Message) error {
	if len(m.GetEntries()) == 0 {
		return errors.New("the proposal is empty")
	}
	// A proposal that cannot be decoded would be committed and then fail on every node.
	for _, e := range m.GetEntries() {
		if e.GetType() != pb.EntryNormal || len(e.GetData()) == 0 {
			return fmt.Errorf("it proposes an entry of type %v with %d bytes", e.GetType(), len(e.GetData()))
		}
		if _, err := metadata.DecodeCommand(e.GetData()); err != nil {
			return err
		}
	}
	return nil
}

// checkReadIndex refuses malformed ReadIndex requests, and too many of them.
func (c *Checker) checkReadIndex(m *pb.Message, tick uint64) error {
	// Requests are counted for the current tick only.
	if c.reads == nil || c.readsAt != tick {
		c.readsAt, c.reads = tick, map[uint64]int{}
	}
	if c.reads[m.GetFrom()]++; c.reads[m.GetFrom()] > readIndexMax {
		return errors.New("too many requests for a confirmation")
	}
	return checkReadContext(m)
}

// checkReadContext requires exactly one entry, whose data identifies a ReadIndex request.
func checkReadContext(m *pb.Message) error {
	if es := m.GetEntries(); len(es) != 1 || len(es[0].GetData()) != ReadIndexContext {
		return fmt.Errorf("a %v has no context of a confirmation", m.GetType())
	}
	return nil
}

// checkAppend requires consecutive entries with terms that do not decrease, and a form in which they can be applied.
func (c *Checker) checkAppend(m *pb.Message) error {
	// The first entry follows the entry named in the message; each entry is compared with its predecessor.
	index, term, size := m.GetIndex(), m.GetLogTerm(), 0
	if term > m.GetTerm() || (term == 0) != (index == 0) {
		return fmt.Errorf("an append after entry %d of term %d has term %d", index, term, m.GetTerm())
	}
	for _, e := range m.GetEntries() {
		if e.GetIndex() != index+1 || e.GetTerm() < max(term, 1) || e.GetTerm() > m.GetTerm() {
			return fmt.Errorf("entry %d of term %d follows entry %d of term %d in an append of term %d",
				e.GetIndex(), e.GetTerm(), index, term, m.GetTerm())
		}
		if err := checkEntry(e); err != nil {
			return err
		}
		index, term, size = e.GetIndex(), e.GetTerm(), size+len(e.GetData())
	}
	// Otherwise a leader whose entries are never committed could exhaust this node's memory.
	if size > 0 && c.tail+size > uncommittedMax {
		return fmt.Errorf("%d bytes of entries are not committed", c.tail)
	}
	return nil
}

// checkEntry decodes an entry.
func checkEntry(e *pb.Entry) (err error) {
	switch e.GetType() {
	// The result is discarded: the entry is decoded again when it is applied.
	case pb.EntryNormal:
		if len(e.GetData()) > 0 { // a new leader's first entry is empty
			_, err = metadata.DecodeCommand(e.GetData())
		}
	// A change of membership has one of two encodings. One that does not decode could not be applied.
	case pb.EntryConfChange:
		err = proto.Unmarshal(e.GetData(), new(pb.ConfChange))
	case pb.EntryConfChangeV2:
		err = proto.Unmarshal(e.GetData(), new(pb.ConfChangeV2))
	default:
		err = errors.New("unknown type")
	}
	if err != nil {
		err = fmt.Errorf("entry %d of type %d: %w", e.GetIndex(), e.GetType(), err)
	}
	return err
}

// checkAppendResponse refuses an acknowledgement of entries that this node does not have.
func (c *Checker) checkAppendResponse(m *pb.Message) error {
	s := c.node.BasicStatus()
	// Checked only in the current term, in which this node may be the leader: Raft would set the follower's progress
	// beyond its own log.
	if last := c.lastIndex(); m.GetTerm() == s.HardState.GetTerm() && !m.GetReject() && m.GetIndex() > last {
		return fmt.Errorf("it acknowledges entry %d, the last one is %d", m.GetIndex(), last)
	}
	return nil
}

// checkHeartbeat refuses a commit index beyond this node's log, which no leader sends.
func (c *Checker) checkHeartbeat(m *pb.Message) error {
	// Entries that Raft has not returned yet may truncate the log.
	if m.GetCommit() > c.node.BasicStatus().HardState.GetCommit() && c.node.HasReady() {
		if err := c.process(); err != nil {
			return err
		}
	}
	if last := c.lastIndex(); m.GetCommit() > last {
		return fmt.Errorf("it commits entry %d, the last one is %d", m.GetCommit(), last)
	}
	return checkHeartbeatContext(m)
}

// checkHeartbeatContext requires an empty context, or the number of a ReadIndex confirmation.
func checkHeartbeatContext(m *pb.Message) error {
	if n := len(m.GetContext()); n != 0 && n != heartbeatContext {
		return fmt.Errorf("its context has %d bytes", n)
	}
	return nil
}

// checkHeartbeatResponse refuses confirmations of requests that this node did not send as the leader of that term.
func (c *Checker) checkHeartbeatResponse(m *pb.Message) error {
	if err := checkHeartbeatContext(m); err != nil || len(m.GetContext()) == 0 {
		return err
	}
	// Confirmations of earlier terms are ignored by Raft.
	if got := binary.LittleEndian.Uint64(m.GetContext()); m.GetTerm() == c.confirming.term &&
		got > c.confirming.number {
		return fmt.Errorf("it confirms request %d, the last one is %d", got, c.confirming.number)
	} else if m.GetTerm() > c.confirming.term {
		return fmt.Errorf("it confirms request %d of a term in which there was none", got)
	}
	return nil
}

// checkSnapshot requires metadata that can be decoded and used, and a membership that Raft can restore.
func (c *Checker) checkSnapshot(m *pb.Message) (err error) {
	s := m.GetSnapshot()
	// The snapshot replaces this node's metadata without applying commands one by one, so it is checked as a whole.
	index, term := s.GetMetadata().GetIndex(), s.GetMetadata().GetTerm()
	if index == 0 || index > counterMax || term == 0 || term > m.GetTerm() {
		return fmt.Errorf("a snapshot of entry %d of term %d has term %d", index, term, m.GetTerm())
	}
	if last := c.lastIndex(); last > 0 && index > last && index-last > indexJumpMax {
		return fmt.Errorf("a snapshot of entry %d is too far ahead of entry %d", index, last)
	}
	if err := checkConfState(s.GetMetadata().GetConfState()); err != nil {
		return err
	}
	state, err := metadata.Decode(s.GetData())
	if err != nil {
		return err
	}
	// Epoch is the index of the last command that changed the metadata: it cannot be after the snapshot, and must not
	// be before this node's epoch.
	if state.Epoch > index || state.Epoch < c.epoch() {
		return fmt.Errorf("a snapshot of entry %d has metadata of epoch %d, this node %d", index, state.Epoch,
			c.epoch())
	}
	return state.Check()
}

// checkConfState returns the reason why Raft cannot restore a membership.
func checkConfState(cs *pb.ConfState) (err error) {
	defer func() {
		if p := recover(); p != nil { // package confchange panics for inconsistent input
			err = fmt.Errorf("the membership is inconsistent: %v", p)
		}
	}()
	if cs == nil || len(cs.GetVoters()) == 0 {
		return errors.New("the membership has no voters")
	}
	// Restoring the membership here shows whether Raft can do so, and with which result.
	changer, err := restoreConf(cs)
	if err != nil {
		return err
	}
	return cs.Equivalent(changer.Tracker.ConfState())
}

// restoreConf returns a changer for the membership cs.
func restoreConf(cs *pb.ConfState) (confchange.Changer, error) {
	// The arguments only size buffers of the tracker; they do not affect the membership.
	c := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, math.MaxUint64), LastIndex: 1}
	cfg, progress, err := confchange.Restore(c, cs)
	if err != nil {
		return c, fmt.Errorf("the membership cannot be restored: %w", err)
	}
	c.Tracker.Config, c.Tracker.Progress = cfg, progress
	return c, nil
}

// CheckConfChange returns an error if Raft cannot apply the change cc to its membership cs. It depends only on its
// arguments, so all nodes skip the same changes.
func CheckConfChange(cs *pb.ConfState, cc pb.ConfChangeI) (err error) {
	defer func() {
		if p := recover(); p != nil { // package confchange panics for inconsistent input
			err = fmt.Errorf("the change of membership is inconsistent: %v", p)
		}
	}()
	// A new cluster has no membership to restore: its first change applies to an empty one.
	changer := confchange.Changer{Tracker: tracker.MakeProgressTracker(1, math.MaxUint64), LastIndex: 1}
	if cs != nil && len(cs.GetVoters()) > 0 {
		if changer, err = restoreConf(cs); err != nil {
			return err
		}
	}
	// The same cases as in Raft, which panics where this function returns an error.
	v2 := cc.AsV2()
	if v2.LeaveJoint() {
		_, _, err = changer.LeaveJoint()
	} else if autoLeave, joint := v2.EnterJoint(); joint {
		_, _, err = changer.EnterJoint(autoLeave, v2.GetChanges()...)
	} else {
		_, _, err = changer.Simple(v2.GetChanges()...)
	}
	return err
}
