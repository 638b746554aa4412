package cluster

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"math"
	"net/netip"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	pb "go.etcd.io/raft/v3/raftpb"
	"google.golang.org/protobuf/proto"

	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema/refused"
)

// conf returns the numbers in Raft's membership on node n. While the previous voters also have a vote, it returns no
// voters: the loss of two of them may then be the loss of the majority.
func (n *testNode) conf() (voters, learners int) {
	got := make(chan struct{})
	n.loop.post(func() {
		if n.driver.started() && n.driver.conf != nil {
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
		n.loop.post(func() {
			ticks, terms = max(ticks, n.loop.ticks), max(terms, n.driver.node.BasicStatus().GetTerm())
			close(got)
		})
		<-got
	}
	entries, err := nodes[0].log.Storage().Entries(1, nodes[0].log.LastIndex()+1, math.MaxUint64)
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
	// The next leader sends commits that a node missed.
	for _, n := range nodes {
		eventually(t, func() bool { return n.Metadata().Schema.Keyspace("kept") != nil })
		m := n.Metadata()
		if m.Topology.Epoch() != before.Epoch() || !slices.Equal(m.Topology.Tokens(), before.Tokens()) {
			t.Errorf("node %d restarted with another state", n.Self())
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
		return nodes[2].loop.wait(ctx, func(done func(error)) func() {
			return nodes[2].proposals.start(&metadata.Command{Found: &metadata.Found{}}, done)
		})
	})
	if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), "may still be") {
		t.Errorf("got %v", err)
	}
	err = within(func(ctx context.Context) error {
		return nodes[2].proposals.propose(ctx, &metadata.Command{Found: &metadata.Found{}})
	})
	var unavailable *refused.Unavailable
	if !errors.As(err, &unavailable) || unavailable.Required != 2 || unavailable.Alive != 1 {
		t.Errorf("got %v", err)
	}
	if took := time.Since(start); took > patience {
		t.Errorf("it took %v", took)
	}
	eventually(t, func() bool {
		left := make(chan int, 1)
		nodes[2].loop.post(func() { left <- len(nodes[2].proposals.open) })
		return <-left == 0
	})
}

// A node that stops ends the waiting proposals.
func TestStoppingEndsProposals(t *testing.T) {
	nodes := startRing(t, 2)
	nodes[0].stop() // the only voter
	done := make(chan error, 1)
	go func() {
		done <- nodes[1].proposals.propose(context.Background(), &metadata.Command{Found: &metadata.Found{}})
	}()
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

// A node that was admitted and crashed before it received any entry joins again as the same member, at its current
// address.
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
	spec := metadata.NodeSpec{Datacenter: "dc1", Rack: "r1", Internode: n.net.Addr(), Native: n.net.Addr(),
		NumTokens: 16}
	c, err := Open(Options{Name: "test", Dir: "raft", FS: n.fs, Network: n.net, Clock: wallClock{time.Now()},
		Rand: &countingRand{}, Logger: slog.New(slog.DiscardHandler), Self: spec})
	if err != nil {
		t.Fatal(err)
	}
	n.Cluster = c
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	admit := func(done func(error)) (stop func()) {
		seed.loop.post(func() { seed.admissions.admit(c.opts.Self, done) })
		return func() {}
	}
	if err := seed.loop.wait(ctx, admit); err != nil {
		t.Fatal(err)
	}
	if knows {
		m := seed.Metadata()
		c.identity.Node, c.identity.Peers = m.NodeByHost(c.identity.Host).ID, m.Peers()
		if err := c.identity.Save(c.log); err != nil {
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
	if err := nodes[1].Operations().Abort(ctx, nodes[1].Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	var refused *metadata.Refused
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
	if err := nodes[1].Operations().Abort(ctx, nodes[1].Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	other, err := proto.Marshal(&pb.Message{Type: pb.MsgHeartbeat.Enum(), To: proto.Uint64(99), From: proto.Uint64(1),
		Term: proto.Uint64(1)})
	if err != nil {
		t.Fatal(err)
	}
	var refused *metadata.Refused
	for beat := time.NewTicker(time.Second); ; {
		select {
		case <-beat.C: // for a dead node whose address it took over: this does not concern it
			fifth.driver.receive(messaging.Sender{Node: 1, Addr: nodes[0].addr.Addr(), Member: true}, other, nil)
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
	for _, tokens := range []int{0, -1, metadata.NumTokensMax + 1} {
		var got error
		first.admissions.handle(messaging.Sender{}, fmt.Appendf(nil, `{"NumTokens":%d}`, tokens),
			func(_ []byte, err error) { got = err })
		if got == nil || !strings.Contains(got.Error(), "num_tokens") {
			t.Errorf("%d tokens: %v", tokens, got)
		}
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

// A node that joins or restarts replays the log, in which members join one after the other; meanwhile, no connection to
// a known member is closed.
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
