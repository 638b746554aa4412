package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"reflect"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"
	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// conf returns the numbers in Raft's membership on node n. While the previous voters also have a vote, it returns no
// voters: the loss of two of them may then be the loss of the majority.
func (n *testNode) conf() (voters, learners int) {
	got := make(chan struct{})
	n.post(func() {
		if n.driver != nil && n.driver.conf != nil {
			voters, learners = len(n.driver.conf.GetVoters()), len(n.driver.conf.GetLearners())
			if len(n.driver.conf.GetVotersOutgoing()) > 0 {
				voters = 0
			}
		}
		close(got)
	})
	<-got
	return voters, learners
}

// The oldest one, three or five members are voters; the others are learners.
func TestVotersGrowInOddNumbers(t *testing.T) {
	first := newTestNode(t, 1).mustOpen()
	nodes := []*testNode{first}
	for size := 2; size <= 5; size++ {
		nodes = append(nodes, newTestNode(t, size, first.addr).mustOpen())
		wanted := []int{0, 1, 1, 3, 3, 5}[size]
		eventually(t, func() bool {
			for _, n := range nodes {
				if v, l := n.conf(); v != wanted || v+l != size {
					return false
				}
			}
			return true
		})
	}
	// Five voters survive the loss of two.
	nodes[0].stop()
	nodes[1].stop()
	eventually(t, func() bool { return !nodes[4].Alive(1) && !nodes[4].Alive(2) })
	if err := createKeyspace(nodes[4], "without_two"); err != nil {
		t.Error(err)
	}
}

// A change of membership takes one entry, not one for each event. Each term may begin with an empty entry, and end a
// change that it found incomplete; a change that took long is proposed again.
func TestTheLogStaysShort(t *testing.T) {
	nodes := startRing(t, 5)
	var ticks, terms uint64
	for _, n := range nodes {
		eventually(t, func() bool { voters, _ := n.conf(); return voters == 5 })
		got := make(chan struct{})
		n.post(func() {
			ticks, terms = max(ticks, n.ticks), max(terms, n.driver.node.BasicStatus().GetTerm())
			close(got)
		})
		<-got
	}
	entries, err := nodes[0].log.memory.Entries(1, nodes[0].log.memoryLastIndex()+1, math.MaxUint64)
	if err != nil {
		t.Fatal(err)
	}
	var changes, empty uint64
	for _, e := range entries {
		switch {
		case e.GetType() != pb.EntryNormal:
			changes++
		case len(e.GetData()) == 0:
			empty++
		}
	}
	// The founder, four learners, and twice two voters at once, and the ends of these changes.
	if most := 9 + terms; changes > most {
		t.Errorf("five nodes that joined made %d entries of membership, in %d terms", changes, terms)
	}
	if most := terms + ticks/retryTicks; empty > most {
		t.Errorf("%d entries of %d are empty, after %d terms and %d ticks", empty, len(entries), terms, ticks)
	}
}

// The whole ring restarts: it elects a leader, and all committed changes exist.
func TestAllNodesRestartAtOnce(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[2], "kept"); err != nil {
		t.Fatal(err)
	}
	before := nodes[0].Metadata().Topology
	for _, n := range nodes {
		n.stop()
	}
	errs := make([]error, len(nodes))
	var wg sync.WaitGroup
	for i, n := range nodes {
		wg.Go(func() { errs[i] = n.open() })
	}
	wg.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	// Commits of which a node did not learn arrive with the next leader.
	for _, n := range nodes {
		eventually(t, func() bool { return n.Metadata().Schema.Keyspace("kept") != nil })
		m := n.Metadata()
		if m.Topology.Epoch() != before.Epoch() || !slices.Equal(m.Topology.Tokens(), before.Tokens()) {
			t.Errorf("node %d came back with another state", n.Self())
		}
	}
	eventually(t, func() bool { return nodes[3].Alive(1) && nodes[3].Alive(2) && nodes[3].Alive(3) })
	if err := createKeyspace(nodes[3], "after"); err != nil {
		t.Error(err)
	}
}

// A majority of the voters is dead. A change that was proposed before this node detected it ends, reports that it may
// still be made, and is not proposed forever. Later changes are refused.
func TestWithoutALeaderAChangeEndsWithItsContext(t *testing.T) {
	nodes := startRing(t, 3)
	eventually(t, func() bool { return len(votersOf(t, nodes[2])) == 3 })
	nodes[0].stop()
	nodes[1].stop()
	eventually(t, func() bool { return !nodes[2].Alive(1) && !nodes[2].Alive(2) })
	start := time.Now()
	within := func(propose func(ctx context.Context) error) error {
		ctx, cancel := context.WithTimeout(context.Background(), 300*time.Millisecond)
		defer cancel()
		return propose(ctx)
	}
	err := within(func(ctx context.Context) error {
		return nodes[2].wait(ctx, func(done func(error)) func() {
			return nodes[2].start(&command{Found: &foundCommand{}}, done)
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may still be") {
		t.Errorf("got %v", err)
	}
	err = within(func(ctx context.Context) error { return nodes[2].proposeNew(ctx, &command{Found: &foundCommand{}}) })
	var unavailable *schema.Unavailable
	if !errors.As(err, &unavailable) || unavailable.Required != 2 || unavailable.Alive != 1 {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
	eventually(t, func() bool {
		left := make(chan int, 1)
		nodes[2].post(func() { left <- len(nodes[2].proposals) })
		return <-left == 0
	})
}

// A node that stops ends the waiting proposals.
func TestStoppingEndsProposals(t *testing.T) {
	nodes := startRing(t, 2)
	nodes[0].stop() // the only voter
	done := make(chan error, 1)
	go func() { done <- nodes[1].proposeNew(context.Background(), &command{Found: &foundCommand{}}) }()
	time.Sleep(50 * time.Millisecond)
	nodes[1].stop()
	select {
	case err := <-done:
		if err == nil {
			t.Error("a proposal succeeded without a majority")
		}
	case <-time.After(patience):
		t.Error("it hangs")
	}
}

// A node that was admitted and crashed before it received any of the log joins again: as the same member, at its
// present address.
func TestJoiningNodeCrashesAfterAdmission(t *testing.T) {
	first := newTestNode(t, 1).mustOpen()
	for _, knows := range []bool{true, false} { // in the second case, the first node is stopped
		t.Run(fmt.Sprintf("with its identity written %v", knows), func(t *testing.T) {
			n := newTestNode(t, 7, first.addr)
			size := len(first.Metadata().Topology.Nodes())
			crashAfterAdmission(t, n, first, knows)
			n.addr = newAddr()
			if knows {
				n.addr = n.Cluster.opts.Self.Internode // its peers dial the registered address
			}
			n.t = t
			n.mustOpen()
			m := first.Metadata()
			if got := m.Topology.Nodes(); len(got) != size+1 {
				t.Fatalf("%d members", len(got))
			}
			if member := m.NodeByHost(n.HostID()); member == nil || member.ID != n.Self() ||
				member.Internode != n.addr {
				t.Errorf("member %+v, node %d at %s", member, n.Self(), n.addr)
			}
			eventually(t, func() bool { return n.Alive(1) && first.Alive(n.Self()) })
			n.stop()
		})
	}
}

// crashAfterAdmission makes n be admitted, possibly store its admission, and crash.
func crashAfterAdmission(t *testing.T, n, seed *testNode, knows bool) {
	t.Helper()
	n.net = messaging.NewStreamTransport(messaging.Options{Cluster: "test", Listen: n.addr,
		Limits: messaging.DefaultLimits()})
	if err := n.net.Open(); err != nil {
		t.Fatal(err)
	}
	defer n.net.Close()
	spec := NodeSpec{Datacenter: "dc1", Rack: "r1", Internode: n.net.Addr(), Native: n.net.Addr(), NumTokens: 16}
	c, err := Open(Options{Name: "test", Dir: "raft", FS: n.fs, Network: n.net, Clock: wallClock{time.Now()},
		Rand: &countingRand{}, Logger: slog.New(slog.DiscardHandler), Self: spec})
	if err != nil {
		t.Fatal(err)
	}
	n.Cluster = c
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admit := func(done func(error)) (stop func()) {
		seed.post(func() { seed.admit(c.opts.Self, done) })
		return func() {}
	}
	if err := seed.wait(ctx, admit); err != nil {
		t.Fatal(err)
	}
	if knows {
		m := seed.Metadata()
		c.identity.Node, c.identity.Peers = m.NodeByHost(c.identity.Host).ID, m.peers()
		if err := c.saveIdentity(); err != nil {
			t.Fatal(err)
		}
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
}

// deafNetwork drops received Raft messages while it is deaf.
type deafNetwork struct {
	Network
	deaf *atomic.Bool
}

func (n deafNetwork) Handle(s messaging.Service) {
	h := s.Any
	if s.Verb == messaging.VerbRaft {
		s.Any = func(from messaging.Sender, p []byte, respond messaging.Respond) {
			if !n.deaf.Load() {
				h(from, p, respond)
			}
		}
	}
	n.Network.Handle(s)
}

// deafen makes a node that is not open yet deaf while deaf is set.
func deafen(n *testNode, deaf *atomic.Bool) {
	n.network = func(n Network) Network { return deafNetwork{n, deaf} }
}

// A node that was admitted and removed before it received any of the log is notified: Raft has dropped it, and would
// never notify it.
func TestAdmissionUndoneBeforeDelivery(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	fifth := newTestNode(t, 5, nodes[0].addr)
	var deaf atomic.Bool
	deaf.Store(true)
	deafen(fifth, &deaf)
	joined := make(chan error, 1)
	go func() { joined <- fifth.open() }()
	eventually(t, func() bool { return len(nodes[1].Metadata().Topology.Operations()) == 1 })
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := nodes[1].Abort(ctx, nodes[1].Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	var refused *Refused
	if err := <-joined; !errors.As(err, &refused) || !strings.Contains(err.Error(), "aborted") {
		t.Errorf("it received %v", err)
	}
}

// A running node that receives nothing while its join is aborted, for example because it is paused, asks other members
// after a long silence, and stops: Raft notifies a former member for some seconds only.
func TestRemovedMemberStopsAfterSilence(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	fifth := newTestNode(t, 5, nodes[0].addr)
	var deaf atomic.Bool
	deafen(fifth, &deaf)
	stops := make(chan error, 100)
	fifth.fatal = func(err error) { stops <- err }
	fifth.mustOpen()
	deaf.Store(true)
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := nodes[1].Abort(ctx, nodes[1].Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	other, err := proto.Marshal(&pb.Message{Type: pb.MsgHeartbeat.Enum(), To: proto.Uint64(99), From: proto.Uint64(1),
		Term: proto.Uint64(1)})
	if err != nil {
		t.Fatal(err)
	}
	var refused *Refused
	for beat := time.NewTicker(time.Second); ; {
		select {
		case <-beat.C: // for a dead node whose address it took over: this does not concern it
			fifth.receiveRaft(messaging.Sender{Node: 1, Addr: nodes[0].addr.Addr(), Member: true}, other, nil)
			continue
		case err := <-stops:
			if !errors.As(err, &refused) || !strings.Contains(err.Error(), "aborted") {
				t.Errorf("it stops with %v", err)
			}
		case <-ctx.Done():
			t.Error("it is not notified that it is no longer a member")
		}
		beat.Stop()
		return
	}
}

// countingRand returns different numbers.
type countingRand struct{ n uint64 }

func (r *countingRand) Uint64() uint64 {
	r.n++
	return uint64(time.Now().UnixNano()) * (2*r.n + 1)
}

func TestSpecWithTooManyTokensIsRefused(t *testing.T) {
	first := newTestNode(t, 1).mustOpen()
	for _, tokens := range []int{0, -1, numTokensMax + 1} {
		var got error
		first.handleJoin(messaging.Sender{}, fmt.Appendf(nil, `{"NumTokens":%d}`, tokens),
			func(_ []byte, err error) { got = err })
		if got == nil || !strings.Contains(got.Error(), "num_tokens") {
			t.Errorf("%d tokens: %v", tokens, got)
		}
	}
}

// All fields that admissions and plans compare persist in a snapshot.
func TestMetadataSurvivesItsEncoding(t *testing.T) {
	m := emptyMetadata()
	m.Topology = ring.NewTopology(5, []*ring.Node{{ID: 1, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
		Tokens:    []ring.Token{-3, 4},
		Internode: netip.MustParseAddrPort("127.0.0.1:7000"), Native: netip.MustParseAddrPort("127.0.0.1:9042"),
		DiskID: [16]byte{1}}})
	m.Epoch, m.nextNode, m.Secret, m.recent = 9, 2, []byte("s"), []CommandID{{1}, {2}}
	got := recode(t, m)
	if got.Epoch != 9 || got.Topology.Epoch() != 5 || got.nextNode != 2 || string(got.Secret) != "s" ||
		!slices.Equal(got.recent, m.recent) {
		t.Errorf("%+v became %+v", m, got)
	}
	if !reflect.DeepEqual(got.Topology.Nodes(), m.Topology.Nodes()) {
		t.Errorf("%+v became %+v", m.Topology.Nodes()[0], got.Topology.Nodes()[0])
	}
	if v := recode(t, got).Schema.Version(); v != got.Schema.Version() {
		t.Errorf("schema version %v became %v", got.Schema.Version(), v)
	}
}

func recode(t *testing.T, m *Metadata) *Metadata {
	t.Helper()
	m, err := decodeMetadata(encoded(t, m))
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func encoded(t *testing.T, m *Metadata) []byte {
	t.Helper()
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// Entries that a snapshot replaces are also removed from the disk, including the later ones, which were never
// committed.
func TestSnapshotReplacesLog(t *testing.T) {
	fs := vfs.NewMem()
	logger := pebbleLogger{log: slog.New(slog.DiscardHandler), fatal: func(err error) { t.Error(err) }}
	l, err := openRaftLog("raft", fs, logger)
	if err != nil {
		t.Fatal(err)
	}
	var stale []*pb.Entry
	for i := uint64(1); i <= 9; i++ {
		term, index := uint64(1), i
		stale = append(stale, &pb.Entry{Term: &term, Index: &index})
	}
	if err := l.save(&raft.Ready{Entries: stale}); err != nil {
		t.Fatal(err)
	}
	term, index := uint64(3), uint64(6)
	snap := &pb.Snapshot{Data: []byte("state"), Metadata: &pb.SnapshotMetadata{Term: &term, Index: &index,
		ConfState: &pb.ConfState{Voters: []uint64{1}}}}
	if err := l.save(&raft.Ready{Snapshot: snap}); err != nil {
		t.Fatal(err)
	}
	if err := l.close(); err != nil {
		t.Fatal(err)
	}
	if l, err = openRaftLog("raft", fs, logger); err != nil {
		t.Fatal(err)
	}
	defer l.close()
	if last := l.memoryLastIndex(); last != 6 {
		t.Errorf("the log ends at %d, the snapshot at 6", last)
	}
}

// A duplicated command is applied once, and a refused command has no effect.
func TestDuplicateCommandIsAppliedOnce(t *testing.T) {
	m := emptyMetadata()
	found := &command{ID: CommandID{1}, Found: &foundCommand{Secret: []byte("a")}}
	m, err := apply(m, found, 3)
	if err != nil || m.Epoch != 3 {
		t.Fatal(err, m.Epoch)
	}
	if again, err := apply(m, found, 4); err != nil || again != m {
		t.Errorf("applied twice: %v", err)
	}
	other, err := apply(m, &command{ID: CommandID{2}, Found: &foundCommand{Secret: []byte("b")}}, 5)
	var refused *Refused
	if !errors.As(err, &refused) || string(other.Secret) != "a" || other.Epoch != 3 || !other.seen(CommandID{2}) {
		t.Errorf("%v: %+v", err, other)
	}
	for i := range recentMax + 10 {
		if m, err = apply(m, &command{ID: CommandID{9, byte(i), byte(i >> 8)}}, uint64(10+i)); err == nil {
			t.Fatal("an empty command was applied")
		}
	}
	if len(m.recent) != recentMax {
		t.Errorf("%d commands are remembered", len(m.recent))
	}
}

// peersNetwork records its peers.
type peersNetwork struct {
	Network
	given func(map[ring.NodeID]netip.AddrPort)
}

func (n peersNetwork) SetPeers(peers map[ring.NodeID]netip.AddrPort) {
	n.given(peers)
	n.Network.SetPeers(peers)
}

// A node that joins or restarts replays the log, in which members join one after the other; no connection to a known
// member is closed meanwhile.
func TestReplayCutsNoStreams(t *testing.T) {
	nodes := startRing(t, 3)
	watch := func(n *testNode) {
		var mu sync.Mutex
		known := map[ring.NodeID]netip.AddrPort{}
		given := func(peers map[ring.NodeID]netip.AddrPort) {
			mu.Lock()
			defer mu.Unlock()
			for id := range known {
				if _, ok := peers[id]; !ok {
					t.Errorf("node %d was known, and is not of %v", id, peers)
				}
			}
			maps.Copy(known, peers)
		}
		n.network = func(n Network) Network { return peersNetwork{n, given} }
	}
	third, fourth := nodes[2], newTestNode(t, 4, nodes[0].addr)
	third.stop()
	for _, n := range []*testNode{third, fourth} {
		watch(n)
		n.mustOpen()
	}
	for _, n := range []*testNode{third, fourth} {
		eventually(t, func() bool { return n.Alive(1) && n.Alive(2) && len(n.Metadata().Topology.Nodes()) == 4 })
	}
}

// TestFoundCommandOfEarlierVersion replays the foundCommand of an earlier version, which contains no keyspaces.
func TestFoundCommandOfEarlierVersion(t *testing.T) {
	m, err := apply(emptyMetadata(), &command{Found: &foundCommand{Cluster: "old", Secret: []byte("s")}}, 1)
	if err != nil {
		t.Fatal(err)
	}
	if m.Schema.Keyspace("system_auth") == nil {
		t.Errorf("it has only %v", m.Schema.KeyspaceNames())
	}
}
