package cluster

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// follow makes the nodes act like their owners until nothing is left to do. An operation of a node that is not among
// them would never end: see report.
func follow(t *testing.T, nodes ...*testNode) {
	t.Helper()
	eventually(t, func() bool { return report(nodes...) })
}

// report makes the nodes act like their owners once: report their gained ranges as streamed and as compared, and their
// lost ranges as dropped. It reports whether there was nothing to do.
func report(nodes ...*testNode) bool {
	idle := true
	for _, n := range nodes {
		m := n.Metadata()
		for _, o := range m.Topology.Operations() {
			idle = false
			if o.Phase == ring.Streaming && slices.Contains(o.Gaining, n.Self()) &&
				!slices.Contains(o.Streamed, n.Self()) {
				n.StartStreamed(o.ID, nil, func(error) {})
			}
			if o.Hands && !o.Handed && o.Node == n.Self() {
				n.StartHanded(o.ID, func(error) {})
			}
			if o.Known && slices.Contains(o.Gaining, n.Self()) && !slices.Contains(o.Compared, n.Self()) {
				n.StartCompared(o.ID, nil, func(error) {})
			}
		}
		for _, u := range m.PendingCleanup {
			idle = false
			if u.Node == n.Self() {
				n.StartCleaned(u.Epoch, func(error) {})
			}
		}
	}
	time.Sleep(20 * time.Millisecond)
	return idle
}

func TestTheRingGrowsAndShrinks(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	fifth := newTestNode(t, 5, nodes[0].addr).mustOpen()
	o := fifth.Metadata().Topology.Operations()
	if len(o) != 1 || o[0].Kind != ring.Join || !slices.Equal(o[0].Gaining, []ring.NodeID{fifth.Self()}) ||
		o[0].Phase != ring.Streaming {
		t.Fatalf("%+v", o)
	}
	sixth := newTestNode(t, 6, nodes[0].addr)
	joined := make(chan error, 1)
	go func() { joined <- sixth.open() }()
	select {
	case err := <-joined:
		t.Fatalf("a second node joined while the first did: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	all := append(slices.Clone(nodes), fifth)
	eventually(t, func() bool { // the sixth may be in progress before all five have applied the fifth's end
		report(all...)
		select {
		case err := <-joined:
			if err != nil {
				t.Fatal(err)
			}
			return true
		default:
			return false
		}
	})
	all = append(all, sixth)
	follow(t, all...)
	if n := len(nodes[0].Metadata().Topology.Tokens()); n != 96 {
		t.Errorf("%d tokens", n)
	}

	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	for _, n := range []*testNode{fifth, nodes[0]} { // one of them leads, or has led
		id, err := n.Decommission(ctx, false)
		if err != nil || id == 0 {
			t.Fatal(id, err)
		}
		follow(t, all...)
		if err := n.AwaitOperation(ctx, id); err != nil {
			t.Fatal(err)
		}
		all = slices.DeleteFunc(all, func(x *testNode) bool { return x == n })
	}
	m := nodes[1].Metadata()
	if len(m.Topology.Nodes()) != 4 || len(m.Topology.Tokens()) != 64 || len(m.Removed) != 2 {
		t.Errorf("%d nodes, %d tokens, removed %+v", len(m.Topology.Nodes()), len(m.Topology.Tokens()), m.Removed)
	}
	eventually(t, func() bool { // both have been removed from Raft's membership, too
		voters, learners := nodes[1].conf()
		return voters == 3 && learners == 1
	})
	if err := createKeyspace(nodes[2], "after"); err != nil {
		t.Error(err)
	}
	if _, err := nodes[1].Decommission(ctx, false); err == nil ||
		!strings.Contains(err.Error(), "Not enough live nodes to maintain replication factor in keyspace") {
		t.Errorf("got %v", err)
	}
	nodes[0].stop()
	if err := nodes[0].open(); err == nil || !strings.Contains(err.Error(), "was decommissioned") {
		t.Errorf("a former member came back: %v", err)
	}
}

func TestDeadNodeIsReplacedOrRemoved(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	dead := nodes[3]
	id := dead.Self()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if _, err := nodes[0].RemoveNode(ctx, id, true); err == nil || !strings.Contains(err.Error(), "is alive") {
		t.Errorf("got %v", err)
	}
	dead.stop()
	eventually(t, func() bool { return !nodes[0].Alive(id) && !nodes[1].Alive(id) && !nodes[2].Alive(id) })
	wiped := newTestNode(t, 7, nodes[0].addr)
	wiped.addr = dead.addr
	if err := wiped.open(); err == nil || !strings.Contains(err.Error(), "--replace") {
		t.Fatalf("a wiped disk joined: %v", err)
	}
	wiped.stop()
	wiped = newTestNode(t, 8, nodes[0].addr)
	wiped.addr, wiped.replace = dead.addr, dead.addr.String()
	wiped.mustOpen()
	live := append(nodes[:3:3], wiped)
	follow(t, live...)
	topology := nodes[0].Metadata().Topology
	if n := topology.Node(wiped.Self()); topology.Node(id) != nil || n == nil || n.State != ring.Normal ||
		len(n.Tokens) != 16 {
		t.Errorf("after the replacement: %+v", n)
	}

	// The option of the first start may remain set, also if the node returns at another address.
	wiped.stop()
	wiped.addr, wiped.replace = newAddr(), dead.HostID().String()
	wiped.mustOpen()

	wiped.stop()
	eventually(t, func() bool { return !nodes[0].Alive(wiped.Self()) })
	// Fewer nodes than replicas remain, but no live replica is taken away.
	if _, err := nodes[0].RemoveNode(ctx, wiped.Self(), false); err != nil {
		t.Fatal(err)
	}
	follow(t, nodes[:3]...)
	if n := len(nodes[0].Metadata().Topology.Nodes()); n != 3 {
		t.Errorf("%d nodes", n)
	}
}

func TestAbortedJoinLeavesNoState(t *testing.T) {
	nodes := startRing(t, 4)
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	before := nodes[0].Metadata().Topology.Tokens()
	fifth := newTestNode(t, 5, nodes[0].addr).mustOpen()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if err := nodes[1].Abort(ctx, fifth.Metadata().Topology.Operations()[0].ID); err != nil {
		t.Fatal(err)
	}
	m := nodes[1].Metadata()
	if len(m.Topology.Nodes()) != 4 || !slices.Equal(m.Topology.Tokens(), before) || len(m.Topology.Operations()) != 0 {
		t.Errorf("%+v", m.Topology)
	}
	follow(t, nodes...)
	if id, err := nodes[2].Move(ctx, nil); err != nil || id == 0 {
		t.Fatal(id, err)
	}
	follow(t, nodes...)
	if n := nodes[0].Metadata().Topology.Node(nodes[2].Self()); n.State != ring.Normal || len(n.Tokens) != 16 {
		t.Errorf("after the move: %+v", n)
	}
}

// TestDeadNodeDuringOperation checks the remedy if a node dies permanently while the ring changes, in either phase: the
// operation that waits for it is aborted, and then the node is removed.
func TestDeadNodeDuringOperation(t *testing.T) {
	for _, switching := range []bool{false, true} {
		t.Run(fmt.Sprint("switching=", switching), func(t *testing.T) {
			nodes := startRing(t, 4)
			if err := createKeyspace(nodes[0], "ks"); err != nil {
				t.Fatal(err)
			}
			before := nodes[0].Metadata().Topology.Tokens()
			ctx, cancel := context.WithTimeout(context.Background(), patience)
			defer cancel()
			fifth := newTestNode(t, 5, nodes[0].addr).mustOpen()
			dead, o := fifth.Self(), fifth.Metadata().Topology.Operations()[0]
			if switching {
				fifth.StartStreamed(o.ID, nil, func(error) {})
				eventually(t, func() bool { return nodes[0].Metadata().Topology.Operation(o.ID).Known })
			}
			fifth.stop()
			eventually(t, func() bool { return !nodes[0].Alive(dead) && !nodes[1].Alive(dead) })
			_, err := nodes[0].RemoveNode(ctx, dead, false)
			if err == nil || !strings.Contains(err.Error(), fmt.Sprint("cqld ctl abort ", o.ID)) {
				t.Fatalf("the error does not state a remedy: %v", err)
			}
			if err := nodes[1].Abort(ctx, o.ID); err != nil {
				t.Fatal(err)
			}
			follow(t, nodes...)
			m := nodes[1].Metadata()
			if len(m.Topology.Nodes()) != 4 || !slices.Equal(m.Topology.Tokens(), before) ||
				len(m.Topology.Operations()) != 0 {
				t.Errorf("%+v", m.Topology)
			}
			newTestNode(t, 6, nodes[0].addr).mustOpen()
		})
	}
}

// TestOperationsKeepTheirPromises applies random commands and checks the metadata after each: every range has its
// replicas, every replica that serves reads of it has streamed it from enough others, and no other node serves them.
// Applying a snapshot and the rest of the log gives the same metadata as applying the whole log, with any version of
// the command that created the cluster.
func TestOperationsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(60) {
		w := newOperationsWalk(t, seed)
		for range 120 {
			w.step()
		}
		if w.ended == 0 {
			t.Errorf("seed %d: no operation ended", seed)
		}
	}
}

// operationsWalk records, for each node and replication, the sample tokens of which it has all acknowledged writes.
type operationsWalk struct {
	t     *testing.T
	seed  uint64
	rand  *rand.Rand
	m     *Metadata // decoded from a snapshot after each command
	log   *Metadata // never decoded from a snapshot
	index uint64
	has   map[ring.NodeID]map[ring.Token]bool
	ended int
	hosts byte
}

var walkReplication = ring.Replication{Class: ring.Simple, Factor: 3}

func newOperationsWalk(t *testing.T, seed uint64) *operationsWalk {
	w := &operationsWalk{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), m: emptyMetadata(),
		log: emptyMetadata(), has: map[ring.NodeID]map[ring.Token]bool{}}
	if err := w.apply(&command{Found: &foundCommand{Secret: []byte("s"), Schema: otherVersion(t)}}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.join()
	}
	w.apply(&command{Schema: &schemaCommand{Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: "ks",
		Replication: walkReplication})}})
	for _, tok := range w.samples() {
		for _, id := range w.m.Topology.Placement(walkReplication).Replicas(tok).Natural {
			w.keep(id, tok)
		}
	}
	return w
}

// otherVersion returns the schema with which another version, with different system keyspaces, would create a cluster.
func otherVersion(t *testing.T) []byte {
	s, err := schema.Apply(schema.Own(), &schema.CreateKeyspace{Keyspace: "system_auth",
		Replication: ring.Replication{Class: ring.Simple, Factor: 2}})
	if err != nil {
		t.Fatal(err)
	}
	return schema.Encode(s)
}

func (w *operationsWalk) samples() (out []ring.Token) {
	for i := range 64 {
		out = append(out, ring.Token(uint64(i)<<58+1<<57))
	}
	return out
}

func (w *operationsWalk) keep(id ring.NodeID, tok ring.Token) {
	if w.has[id] == nil {
		w.has[id] = map[ring.Token]bool{}
	}
	w.has[id][tok] = true
}

func (w *operationsWalk) apply(c *command) error {
	w.index++
	c.ID = CommandID{byte(w.index), byte(w.index >> 8), byte(w.index >> 16)}
	m, err := apply(w.m, c, w.index)
	fromLog, logErr := apply(w.log, c, w.index)
	w.m, w.log = recode(w.t, m), fromLog
	a, b := encoded(w.t, w.m), encoded(w.t, w.log)
	if fmt.Sprint(err) != fmt.Sprint(logErr) || !bytes.Equal(a, b) || w.m.Schema.Version() != w.log.Schema.Version() {
		w.t.Fatalf("seed %d: from a snapshot %v\n%s\nfrom the log %v\n%s", w.seed, err, a, logErr, b)
	}
	return err
}

func (w *operationsWalk) join() error {
	w.hosts++
	t := w.m.Topology
	return w.apply(&command{Admit: &admitCommand{Epoch: t.Epoch(), Tokens: w.tokens(),
		Node: NodeSpec{Host: ring.HostID{w.hosts}, Disk: [16]byte{w.hosts}, Datacenter: "dc1", Rack: "r1", NumTokens: 4,
			Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, w.hosts}), 7000)}}})
}

func (w *operationsWalk) tokens() []ring.Token {
	var out []ring.Token
	for range 4 {
		out = append(out, ring.Token(w.rand.Uint64()))
	}
	return slices.Sorted(slices.Values(out))
}

func (w *operationsWalk) step() {
	nodes := w.m.Topology.Nodes()
	some := nodes[w.rand.IntN(len(nodes))].ID
	switch w.rand.IntN(10) {
	case 0:
		_ = w.join() // refused while another operation runs
	case 1:
		_ = w.apply(&command{Begin: &beginCommand{Kind: ring.Leave, Node: some, Hands: w.rand.IntN(2) == 0}})
	case 2:
		_ = w.apply(&command{Begin: &beginCommand{Kind: ring.Remove, Node: some}})
	case 3:
		t := w.m.Topology
		_ = w.apply(&command{Begin: &beginCommand{Kind: ring.Move, Node: some, Epoch: t.Epoch(), Tokens: w.tokens()}})
	case 4:
		if os := w.m.Topology.Operations(); len(os) > 0 && w.rand.IntN(4) == 0 {
			_ = w.apply(&command{Abort: &abortCommand{os[0].ID}})
		}
	case 5:
		for _, u := range w.m.PendingCleanup {
			w.clean(u)
		}
	default:
		w.proceed()
	}
	w.check()
}

func (w *operationsWalk) clean(u PendingCleanup) {
	for tok := range w.has[u.Node] {
		if !w.m.Topology.Placement(walkReplication).Replicas(tok).Contains(u.Node) {
			delete(w.has[u.Node], tok)
		}
	}
	if err := w.apply(&command{Cleaned: &cleanedCommand{u.Node, w.m.Epoch}}); err != nil {
		w.t.Fatal(err)
	}
}

// proceed makes a node stream its gained ranges, or ends the operation.
func (w *operationsWalk) proceed() {
	for _, o := range w.m.Topology.Operations() {
		if o.Phase == ring.Switching {
			w.finish(o)
			return
		}
		for _, id := range o.Gaining {
			if slices.Contains(o.Streamed, id) {
				continue
			}
			for _, g := range w.m.Topology.Gains(o, walkReplication, id) {
				w.fetch(g)
			}
			if err := w.apply(&command{Streamed: &streamedCommand{Operation: o.ID, Node: id}}); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
}

// finish executes the next step of an operation that is Switching. Premature steps are refused.
func (w *operationsWalk) finish(o *ring.Operation) {
	next := &command{End: &endCommand{o.ID}}
	switch {
	case len(o.Gaining) > 0 && !o.Known:
		if w.apply(next) == nil || w.apply(&command{Compared: &comparedCommand{Operation: o.ID,
			Node: o.Gaining[0]}}) == nil {
			w.t.Fatalf("seed %d: %+v ended before all nodes knew of it", w.seed, *o)
		}
		next = &command{Known: &knownCommand{o.ID}}
	case len(o.Compared) < len(o.Gaining):
		if w.apply(next) == nil {
			w.t.Fatalf("seed %d: %+v ended before all ranges were compared", w.seed, *o)
		}
		next = &command{Compared: &comparedCommand{Operation: o.ID, Node: o.Gaining[len(o.Compared)]}}
	case o.Hands && !o.Handed:
		if w.apply(next) == nil {
			w.t.Fatalf("seed %d: %+v ended before the handover", w.seed, *o)
		}
		next = &command{Handed: &handedCommand{o.ID}}
	}
	if next.End != nil {
		w.ended++
	}
	if err := w.apply(next); err != nil {
		w.t.Fatal(err)
	}
}

func (w *operationsWalk) fetch(g ring.Gain) {
	for _, tok := range w.samples() {
		if !g.Range.Contains(tok) {
			continue
		}
		if w.has[g.Node][tok] {
			w.t.Fatalf("seed %d: node %d gains token %s, whose data it has already", w.seed, g.Node, tok)
		}
		sources := g.Sources
		if g.From != 0 {
			sources = []ring.NodeID{g.From}
		} else if len(sources) < g.Total {
			w.t.Fatalf("seed %d: %d sources of %d", w.seed, len(sources), g.Total)
		}
		for _, s := range sources {
			if !w.has[s][tok] {
				w.t.Fatalf("seed %d: node %d does not have token %s that node %d gains: %+v", w.seed, s, tok, g.Node,
					w.m.Topology.Operations())
			}
		}
		w.keep(g.Node, tok)
	}
}

func (w *operationsWalk) check() {
	p := w.m.Topology.Placement(walkReplication)
	for _, tok := range w.samples() {
		set := p.Replicas(tok)
		if want := min(3, len(w.m.Topology.Nodes())); len(set.Natural) < want && len(w.m.Topology.Operations()) == 0 {
			w.t.Fatalf("seed %d: token %s has replicas %v", w.seed, tok, set)
		}
		for _, id := range set.Natural {
			if !w.has[id][tok] {
				w.t.Fatalf("seed %d: reads of token %s ask node %d, which has not fetched it: %+v %s", w.seed, tok, id,
					set, fmt.Sprint(w.m.Topology.Operations()))
			}
		}
	}
}

func TestOperationsInDifferentDataCentersRunAtOnce(t *testing.T) {
	m, index := emptyMetadata(), uint64(0)
	do := func(c *command) error {
		index++
		c.ID = CommandID{byte(index)}
		next, err := apply(m, c, index)
		m = next
		return err
	}
	admit := func(n byte, dc string) error {
		return do(&command{Admit: &admitCommand{Epoch: m.Topology.Epoch(),
			Tokens: ring.Allocate(m.Topology, dc, "r1", 4, 2),
			Node: NodeSpec{Host: ring.HostID{n}, Datacenter: dc, Rack: "r1", NumTokens: 4,
				Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 7000)}}})
	}
	keyspace := func(name string, r ring.Replication) {
		if err := do(&command{Schema: &schemaCommand{Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: name,
			Replication: r})}}); err != nil {
			t.Fatal(err)
		}
	}
	for n, dc := range []string{"a", "a", "a", "b", "b", "b"} {
		if err := admit(byte(n+1), dc); err != nil {
			t.Fatal(err)
		}
	}
	keyspace("ks", ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 2},
		ring.DatacenterFactor{Datacenter: "b", Factor: 2}))
	if err := admit(7, "a"); err != nil {
		t.Fatal(err)
	}
	if err := admit(8, "a"); err == nil || !strings.Contains(err.Error(), "is in progress") {
		t.Errorf("two nodes join one data center at once: %v", err)
	}
	if err := admit(9, "b"); err != nil || len(m.Topology.Operations()) != 2 {
		t.Errorf("a node of another data center has to wait: %v", err)
	}
	alter := &schema.AlterKeyspace{Keyspace: "ks", Replication: &ring.Replication{Class: ring.Simple, Factor: 2}}
	if err := do(&command{Schema: &schemaCommand{Change: schema.EncodeChange(alter)}}); err == nil ||
		!strings.Contains(err.Error(), "cannot change while the ring is changing") {
		t.Errorf("the replication changed meanwhile: %v", err)
	}
}

// TestOperationDoesNotWaitForDepartedNode makes nodes of two data centers leave concurrently: each gains ranges of a
// system keyspace by the departure of the other, and the one that has left first delays nothing.
func TestOperationDoesNotWaitForDepartedNode(t *testing.T) {
	m, index := emptyMetadata(), uint64(0)
	m.Schema = schema.Initial()
	do := func(c *command) {
		t.Helper()
		index++
		c.ID = CommandID{byte(index), byte(index >> 8)}
		next, err := apply(m, c, index)
		if err != nil {
			t.Fatal(err)
		}
		m = next
	}
	for n, dc := range []string{"a", "a", "a", "b", "b", "b"} {
		do(&command{Admit: &admitCommand{Epoch: m.Topology.Epoch(), Tokens: ring.Allocate(m.Topology, dc, "r1", 4, 2),
			Node: NodeSpec{Host: ring.HostID{byte(n + 1)}, Datacenter: dc, Rack: "r1", NumTokens: 4,
				Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(n + 1)}), 7000)}}})
	}
	local := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 1},
		ring.DatacenterFactor{Datacenter: "b", Factor: 1})
	do(&command{Schema: &schemaCommand{Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: "ks",
		Replication: local})}})
	first, second := m.Topology.Nodes()[0].ID, m.Topology.Nodes()[3].ID
	do(&command{Begin: &beginCommand{Kind: ring.Leave, Node: first}})
	staying := m.Topology.Operations()[0].ID
	do(&command{Begin: &beginCommand{Kind: ring.Leave, Node: second}})
	leaving := m.Topology.Operations()[1].ID
	if o := m.Topology.Operation(staying); !slices.Contains(o.Gaining, second) {
		t.Fatalf("node %d gains nothing by %+v: the test tests nothing", second, *o)
	}
	for _, id := range m.Topology.Operation(staying).Gaining {
		if id != second {
			do(&command{Streamed: &streamedCommand{Operation: staying, Node: id}})
		}
	}
	gaining := m.Topology.Operation(leaving).Gaining
	for _, id := range gaining {
		do(&command{Streamed: &streamedCommand{Operation: leaving, Node: id}})
	}
	do(&command{Known: &knownCommand{Operation: leaving}})
	for _, id := range gaining {
		do(&command{Compared: &comparedCommand{Operation: leaving, Node: id}})
	}
	do(&command{End: &endCommand{Operation: leaving}})
	o := m.Topology.Operation(staying)
	if slices.Contains(o.Gaining, second) || o.Phase != ring.Switching || o.Switched != index {
		t.Fatalf("node %d has left, and the other operation waits for it: %+v", second, *o)
	}
	do(&command{Known: &knownCommand{Operation: staying}})
	for _, id := range o.Gaining {
		do(&command{Compared: &comparedCommand{Operation: staying, Node: id}})
	}
	do(&command{End: &endCommand{Operation: staying}})
	if len(m.Topology.Operations()) != 0 || len(m.Topology.Nodes()) != 4 {
		t.Errorf("left are %d operations and %d nodes", len(m.Topology.Operations()), len(m.Topology.Nodes()))
	}
}
