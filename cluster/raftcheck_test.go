package cluster

import (
	"encoding/json"
	"flag"
	"fmt"
	"log/slog"
	"math"
	"math/rand/v2"
	"net/netip"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/identity"
	"cqld/cluster/metadata"
	"cqld/cluster/raftcheck"
	"cqld/cluster/raftlog"
	"cqld/internal/env"
	"cqld/internal/uuid"
	"cqld/messaging"
	"cqld/ring"
)

var raftMessages = flag.Int("raft-messages", 60_000, "how many messages TestRandomRaftMessages sends")

// silentNetwork delivers nothing.
type silentNetwork struct{ Network }

func (silentNetwork) Handle(messaging.Service)                 {}
func (silentNetwork) SetLineage(messaging.Lineage)             {}
func (silentNetwork) SetSelf(ring.NodeID)                      {}
func (silentNetwork) SetPeers(map[ring.NodeID]netip.AddrPort)  {}
func (silentNetwork) Send(ring.NodeID, messaging.Verb, []byte) {}
func (silentNetwork) AskAddr(netip.AddrPort, messaging.Verb, []byte, time.Duration, messaging.Reply) {
}

// idleClock never calls back.
type idleClock struct{ now time.Duration }

func (c *idleClock) Now() time.Time           { return time.Unix(0, int64(c.now)) }
func (c *idleClock) Monotonic() time.Duration { return c.now }

func (c *idleClock) After(time.Duration, func()) env.Timer { return time.NewTimer(time.Hour) }

// The end of forgedVoter's log.
const (
	forgedIndex = 5
	forgedTerm  = 2
)

// forgedVoter returns node 1 of the voters 1, 2 and 3. The test acts as the others. Events run at once; fatal is set if
// the node would stop.
func forgedVoter(t testing.TB) (c *Cluster, fatal *error) {
	t.Helper()
	fs, fatal := vfs.NewMem(), new(error)
	l, err := raftlog.Open("raft", fs, slog.New(slog.DiscardHandler), func(err error) { *fatal = err })
	if err != nil {
		t.Fatal(err)
	}
	m := metadata.Empty()
	var nodes []*ring.Node
	for i := range 3 {
		a := netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 63, 0, byte(i + 1)}), 7000)
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)}, Datacenter: "dc1",
			Rack: "r1", Internode: a, Native: a,
			State: ring.Normal, Tokens: []ring.Token{ring.Token(i) << 60}, DiskID: [16]byte{byte(i + 1)}})
		admit := &metadata.Admit{Epoch: m.Topology.Epoch(), Tokens: nodes[i].Tokens, Node: metadata.NodeSpec{
			Host: nodes[i].Host, Disk: nodes[i].DiskID, Internode: a, Native: a}}
		if m, err = metadata.Apply(m, &metadata.Command{ID: metadata.CommandID{byte(i + 1)}, Admit: admit},
			uint64(i+1)); err != nil {
			t.Fatal(err)
		}
	}
	m.Topology, m.Epoch = ring.NewTopology(forgedIndex, nodes), forgedIndex
	data, err := m.Encode()
	if err != nil {
		t.Fatal(err)
	}
	ready := &raft.Ready{
		HardState: &pb.HardState{Term: proto.Uint64(forgedTerm), Vote: proto.Uint64(0),
			Commit: proto.Uint64(forgedIndex)},
		Snapshot: &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: proto.Uint64(forgedIndex),
			Term:      proto.Uint64(forgedTerm),
			ConfState: &pb.ConfState{Voters: []uint64{1, 2, 3}}}},
	}
	if err := l.Save(ready); err != nil {
		t.Fatal(err)
	}
	id, err := json.Marshal(identity.Identity{Host: ring.HostID{1}, Disk: [16]byte{1}, Node: 1})
	if err != nil {
		t.Fatal(err)
	}
	if err := l.SaveIdentity(id); err != nil {
		t.Fatal(err)
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	c, err = Open(Options{Name: "test", Dir: "raft", FS: fs, Network: silentNetwork{}, Clock: &idleClock{},
		Rand:   rand.New(rand.NewPCG(1, 1)),
		Logger: slog.New(slog.DiscardHandler), Self: metadata.NodeSpec{Internode: nodes[0].Internode,
			Native: nodes[0].Native, NumTokens: 1},
		ReplicationFactor: 3, Fatal: func(err error) { *fatal = err }})
	if err != nil {
		t.Fatal(err)
	}
	c.opts.Post = func(f func()) { f() }
	t.Cleanup(func() { _ = c.Close() }) // its log may have failed
	return c, fatal
}

// forgedLeader returns an elected forgedVoter.
func forgedLeader(t testing.TB) (c *Cluster, fatal *error) {
	t.Helper()
	c, fatal = forgedVoter(t)
	if err := c.driver.node.Campaign(); err != nil {
		t.Fatal(err)
	}
	if err := c.driver.run(); err != nil {
		t.Fatal(err)
	}
	for _, typ := range []pb.MessageType{pb.MsgPreVoteResp, pb.MsgVoteResp} {
		m := forgedMessage(typ, 2)
		m.Term = proto.Uint64(forgedTerm + 1)
		c.receiveForged(t, m)
	}
	if c.driver.node.BasicStatus().RaftState != raft.StateLeader {
		t.Fatal("it was not elected")
	}
	return c, fatal
}

func forgedMessage(typ pb.MessageType, from uint64) *pb.Message {
	return &pb.Message{Type: typ.Enum(), From: proto.Uint64(from), To: proto.Uint64(1)}
}

// receiveForged makes the node receive m from the member in m's sender field.
func (c *Cluster) receiveForged(t testing.TB, m *pb.Message) {
	t.Helper()
	b, err := proto.Marshal(m)
	if err != nil {
		t.Fatal(err)
	}
	c.driver.receive(messaging.Sender{Node: ring.NodeID(m.GetFrom()), Member: true}, b, nil)
}

// forgedEntry returns an entry of a follower's log.
func forgedEntry(index, term uint64, typ pb.EntryType, data []byte) *pb.Entry {
	return &pb.Entry{Index: proto.Uint64(index), Term: proto.Uint64(term), Type: typ.Enum(), Data: data}
}

// forgeries returns messages that make Raft end the process.
func forgeries() map[string]struct {
	leads    bool
	messages []*pb.Message
} {
	type forgery = struct {
		leads    bool
		messages []*pb.Message
	}
	of := func(leads bool, typ pb.MessageType, change func(*pb.Message)) forgery {
		m := forgedMessage(typ, 2)
		if typ != pb.MsgProp && typ != pb.MsgReadIndex {
			m.Term = proto.Uint64(forgedTerm)
			if leads {
				m.Term = proto.Uint64(forgedTerm + 1)
			}
		}
		change(m)
		return forgery{leads, []*pb.Message{m}}
	}
	appended := func(entries ...*pb.Entry) func(*pb.Message) {
		return func(m *pb.Message) {
			m.Index, m.LogTerm, m.Commit, m.Entries = proto.Uint64(forgedIndex), proto.Uint64(forgedTerm),
				proto.Uint64(forgedIndex+1), entries
		}
	}
	snapshot := func(cs *pb.ConfState, data []byte) func(*pb.Message) {
		return func(m *pb.Message) {
			m.Snapshot = &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: proto.Uint64(9),
				Term: proto.Uint64(forgedTerm), ConfState: cs}}
		}
	}
	confirm := of(true, pb.MsgHeartbeatResp, func(m *pb.Message) { m.Context = []byte{9, 0, 0, 0, 0, 0, 0, 0} })
	again := proto.Clone(confirm.messages[0]).(*pb.Message)
	again.From = proto.Uint64(3)
	confirm.messages = append(confirm.messages, again)
	return map[string]forgery{
		"a heartbeat commits beyond the log": of(false, pb.MsgHeartbeat,
			func(m *pb.Message) { m.Commit = proto.Uint64(1000) }),
		"an append replaces what is committed": of(false, pb.MsgApp,
			appended(forgedEntry(3, forgedTerm+1, pb.EntryNormal, nil))),
		"an append leaves a gap": of(false, pb.MsgApp,
			appended(forgedEntry(9, forgedTerm, pb.EntryNormal, nil))),
		"an entry is no command": of(false, pb.MsgApp,
			appended(forgedEntry(6, forgedTerm, pb.EntryNormal, []byte("{")))),
		"an entry is no change of membership": of(false, pb.MsgApp,
			appended(forgedEntry(6, forgedTerm, pb.EntryConfChangeV2, []byte{0xff}))),
		"a proposal has a term": {false, []*pb.Message{
			of(false, pb.MsgHeartbeat, func(*pb.Message) {}).messages[0],
			of(false, pb.MsgProp, func(m *pb.Message) {
				m.Term, m.Entries = proto.Uint64(forgedTerm),
					[]*pb.Entry{forgedEntry(0, 0, pb.EntryNormal, []byte("{}"))}
			}).messages[0],
		}},
		"a snapshot's membership is inconsistent": of(false, pb.MsgSnap,
			snapshot(&pb.ConfState{Voters: []uint64{1, 2}, Learners: []uint64{2}}, nil)),
		"a snapshot has no metadata": of(false, pb.MsgSnap,
			snapshot(&pb.ConfState{Voters: []uint64{1, 2, 3}}, []byte("{}"))),
		"nothing is proposed": of(true, pb.MsgProp, func(*pb.Message) {}),
		"a proposal is no change of membership": of(true, pb.MsgProp, func(m *pb.Message) {
			m.Entries = []*pb.Entry{forgedEntry(0, 0, pb.EntryConfChange, []byte{0xff})}
		}),
		"a confirmation has a short context": of(true, pb.MsgHeartbeatResp,
			func(m *pb.Message) { m.Context = []byte{1, 2, 3} }),
		"a request is confirmed that was never sent": confirm,
	}
}

// TestForgedRaftMessages sends a node messages that would make Raft end the process, and checks that the node refuses
// them.
func TestForgedRaftMessages(t *testing.T) {
	for name, f := range forgeries() {
		open := forgedVoter
		if f.leads {
			open = forgedLeader
		}
		c, _ := open(t)
		if ended := endsBy(func() error {
			for _, m := range f.messages {
				_ = c.driver.node.Step(proto.Clone(m).(*pb.Message)) // Raft's result does not matter
				if err := c.driver.run(); err != nil {
					return err
				}
			}
			return nil
		}); ended == nil {
			t.Errorf("%s: Raft accepts that", name)
		}
		c, fatal := open(t)
		for _, m := range f.messages {
			c.receiveForged(t, m)
		}
		if err := c.driver.run(); err != nil || *fatal != nil || c.Refused() == 0 {
			t.Errorf("%s: %v, %v, %d messages refused", name, err, *fatal, c.Refused())
		}
	}
}

// endsBy returns how f ends the process, or nil.
func endsBy(f func() error) (err error) {
	defer func() {
		if p := recover(); p != nil {
			err = fmt.Errorf("%v", p)
		}
	}()
	return f()
}

// All nodes skip an impossible change of Raft's membership, and refuse commands that make apply panic.
func TestInvalidEntriesAreSkipped(t *testing.T) {
	c, fatal := forgedVoter(t)
	remove := &pb.ConfChangeV2{}
	for id := range uint64(3) {
		remove.Changes = append(remove.Changes, confChange(pb.ConfChangeRemoveNode, id+1))
	}
	data, err := proto.Marshal(remove)
	if err != nil {
		t.Fatal(err)
	}
	m := forgedMessage(pb.MsgApp, 2)
	m.Term, m.Index, m.LogTerm, m.Commit = proto.Uint64(forgedTerm), proto.Uint64(forgedIndex),
		proto.Uint64(forgedTerm), proto.Uint64(forgedIndex+2)
	m.Entries = []*pb.Entry{
		forgedEntry(forgedIndex+1, forgedTerm, pb.EntryConfChangeV2, data),
		forgedEntry(forgedIndex+2, forgedTerm, pb.EntryNormal,
			must((&metadata.Command{Admit: &metadata.Admit{Node: metadata.NodeSpec{Host: ring.HostID{9}},
				Tokens: []ring.Token{1, 1}, Epoch: forgedIndex}}).Encode())),
	}
	c.receiveForged(t, m)
	if c.driver.applied != forgedIndex+2 || *fatal != nil || len(c.driver.conf.GetVoters()) != 3 ||
		len(c.Metadata().Topology.Nodes()) != 3 {
		t.Errorf("applied to %d, %v, %v, %d nodes", c.driver.applied, *fatal, c.driver.conf,
			len(c.Metadata().Topology.Nodes()))
	}
	broken := *metadata.Empty()
	broken.Schema = nil
	m2, err := metadata.Apply(&broken, &metadata.Command{ID: metadata.CommandID{1},
		Schema: &metadata.SchemaChange{}}, 9)
	if err == nil || !slices.Contains(m2.Recent(), metadata.CommandID{1}) {
		t.Errorf("without a schema: %v", err)
	}
}

// TestRandomRaftMessages sends a node messages whose fields are close to the values that Raft compares, from two
// dishonest members. The node must continue.
func TestRandomRaftMessages(t *testing.T) {
	for seed := range uint64(6) {
		r := rand.New(rand.NewPCG(seed, 7))
		c, fatal := forgedVoter(t)
		taken := map[pb.MessageType]int{}
		for range *raftMessages / 6 {
			m := randomMessage(r, c.driver, []int{4, 40, 400}[seed%3])
			before := c.Refused()
			c.receiveForged(t, m)
			if c.Refused() == before {
				taken[m.GetType()]++
			}
			switch r.IntN(20) {
			case 0:
				c.loop.post(func() { c.loop.advance(1) })
			case 1:
				c.driver.node.ReadIndex(make([]byte, raftcheck.ReadIndexContext))
			case 2:
				cmd := metadata.Command{ID: metadata.CommandID(uuid.Random(c.opts.Rand)),
					Cleaned: &metadata.Cleaned{Node: 2}}
				data, err := cmd.Encode()
				if err != nil {
					t.Fatal(err)
				}
				_ = c.driver.node.Propose(data) // refused while no node leads
			}
			if err := c.driver.run(); err != nil || *fatal != nil {
				t.Fatalf("seed %d: %v, %v after %v", seed, err, *fatal, m)
			}
		}
		t.Logf("seed %d: %d refused, taken %v, term %d, log to %d", seed, c.Refused(), taken,
			c.driver.node.BasicStatus().HardState.GetTerm(), c.driver.log.LastIndex())
		for _, typ := range []pb.MessageType{pb.MsgApp, pb.MsgAppResp, pb.MsgHeartbeat, pb.MsgHeartbeatResp,
			pb.MsgVote, pb.MsgPreVoteResp, pb.MsgProp, pb.MsgReadIndex, pb.MsgSnap} {
			if taken[typ] == 0 {
				t.Errorf("seed %d: no %v reached Raft", seed, typ)
			}
		}
	}
}

// randomMessage returns an almost valid message. One of elections messages has a higher term.
func randomMessage(r *rand.Rand, d *driver, elections int) *pb.Message {
	s := d.node.BasicStatus()
	m := forgedMessage(pb.MessageType(r.IntN(int(pb.MsgForgetLeader)+2)), 2+uint64(r.IntN(2)))
	near := func(n uint64) *uint64 {
		switch r.IntN(12 + elections) {
		case 0:
			return proto.Uint64([]uint64{0, 1, math.MaxUint64, 1 << 63, 1 << 62}[r.IntN(5)])
		case 1, 2, 3, 4:
			return proto.Uint64(n + uint64(r.IntN(7)) - 3)
		}
		return proto.Uint64(n)
	}
	last := d.log.LastIndex()
	term := s.HardState.GetTerm()
	if m.GetType() != pb.MsgProp && m.GetType() != pb.MsgReadIndex || r.IntN(9) == 0 {
		m.Term = near(term)
		if r.IntN(elections) == 0 {
			m.Term = proto.Uint64(term + 1)
		}
	}
	m.Index, m.LogTerm, m.Commit, m.RejectHint = near(last), near(term), near(last), near(last)
	if i := m.GetIndex(); i <= last && r.IntN(3) > 0 { // otherwise the storage panics
		if t, err := d.log.Storage().Term(i); err == nil {
			m.LogTerm = proto.Uint64(t)
		}
	}
	m.Reject = proto.Bool(r.IntN(3) == 0)
	switch r.IntN(3) {
	case 0:
		m.Context = make([]byte, r.IntN(10))
	case 1:
		m.Context = []byte{byte(r.IntN(4)), 0, 0, 0, 0, 0, 0, 0}
	}
	randomEntries(r, m)
	if m.GetType() == pb.MsgSnap || r.IntN(50) == 0 {
		data, err := d.view.metadata().Encode()
		if err != nil {
			panic(err)
		}
		if r.IntN(4) == 0 {
			data[r.IntN(len(data))] ^= 1 << r.IntN(8)
		}
		cs := &pb.ConfState{Voters: []uint64{1, 2, 3}}
		for range r.IntN(3) {
			set := []*[]uint64{&cs.Voters, &cs.Learners, &cs.VotersOutgoing, &cs.LearnersNext}[r.IntN(4)]
			*set = append(*set, uint64(r.IntN(6)))
		}
		m.Snapshot = &pb.Snapshot{Data: data, Metadata: &pb.SnapshotMetadata{Index: near(last + 1), Term: near(term),
			ConfState: cs}}
	}
	return m
}

// randomEntries adds entries to a message, which often follow its index.
func randomEntries(r *rand.Rand, m *pb.Message) {
	count := 0
	switch m.GetType() {
	case pb.MsgApp, pb.MsgProp:
		count = r.IntN(4)
	case pb.MsgReadIndex, pb.MsgReadIndexResp:
		count = 1
	default:
		if r.IntN(30) == 0 {
			count = 1
		}
	}
	for i := range count {
		e := forgedEntry(m.GetIndex()+1+uint64(i), m.GetTerm(), pb.EntryNormal, nil)
		if r.IntN(30) == 0 {
			e.Index = proto.Uint64(r.Uint64N(20))
		}
		switch r.IntN(6) {
		case 0:
			cc := &pb.ConfChangeV2{}
			for range r.IntN(3) {
				cc.Changes = append(cc.Changes, confChange(pb.ConfChangeType(r.IntN(5)), uint64(r.IntN(6))))
			}
			e.Type, e.Data = pb.EntryConfChangeV2.Enum(), must(proto.Marshal(cc))
		case 1:
			e.Type, e.Data = pb.EntryConfChange.Enum(), []byte{byte(r.Uint32()), byte(r.Uint32())}
		default:
			e.Data = must((&metadata.Command{ID: metadata.CommandID{byte(r.Uint32()), byte(r.Uint32())},
				Cleaned: &metadata.Cleaned{}}).Encode())
		}
		if m.GetType() == pb.MsgReadIndex || m.GetType() == pb.MsgReadIndexResp {
			e.Data = make([]byte, raftcheck.ReadIndexContext)
		}
		m.Entries = append(m.Entries, e)
	}
}

func must(b []byte, err error) []byte {
	if err != nil {
		panic(err)
	}
	return b
}
