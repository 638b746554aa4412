package metadata

import (
	"bytes"
	"cmp"
	"fmt"
	"math/rand/v2"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cqld/internal/tier"
	"cqld/ring"
	"cqld/schema"
)

// TestOperationsKeepTheirPromises applies random commands and checks the metadata after each: every range has its
// replicas, every replica that serves reads of it has streamed it from enough others, and no other node serves them.
// Applying a snapshot and the rest of the log gives the same metadata as applying the whole log, with any version of
// the command that created the cluster. Every fourth ring has a replica on each node.
func TestOperationsKeepTheirPromises(t *testing.T) {
	for seed := range uint64(tier.Draws(60, 10)) {
		r := walkReplication
		if seed%4 == 3 {
			r = ring.Replication{Class: ring.Everywhere}
		}
		w := newOperationsWalk(t, seed, r)
		w.reassigns = rand.New(rand.NewPCG(seed, 2))
		for range 120 {
			w.step()
		}
		if w.ended == 0 || w.reassigned == 0 {
			t.Errorf("seed %d: no operation ended, or none reassigned tokens", seed)
		}
	}
}

// operationsWalk records, for each node and replication, the sample tokens whose acknowledged writes it has.
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
	// reassigns draws reassignments of tokens; nil means none.
	reassigns  *rand.Rand
	reassigned int
}

var walkReplication = ring.Replication{Class: ring.Simple, Factor: 3}

func newOperationsWalk(t *testing.T, seed uint64, r ring.Replication) *operationsWalk {
	w := &operationsWalk{t: t, seed: seed, rand: rand.New(rand.NewPCG(seed, 1)), m: Empty(),
		log: Empty(), has: map[ring.NodeID]map[ring.Token]bool{}}
	if err := w.apply(&Command{Found: &Found{Secret: []byte("s"), Schema: otherVersion(t)}}); err != nil {
		t.Fatal(err)
	}
	for range 4 {
		w.join()
	}
	w.apply(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: "ks",
		Replication: r})}})
	for _, tok := range w.samples() {
		for _, id := range w.m.Topology.Placement(w.replication()).Replicas(tok).Natural {
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

// replication returns the replication of the walk's keyspace, with the present number of members.
func (w *operationsWalk) replication() ring.Replication { return w.m.Schema.Keyspace("ks").Replication }

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

func (w *operationsWalk) apply(c *Command) error {
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
	return w.apply(&Command{Admit: &Admit{Epoch: t.Epoch(), Tokens: w.tokens(),
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
	if w.reassigns != nil && w.reassigns.IntN(4) == 0 {
		w.reassign()
	}
	switch w.rand.IntN(10) {
	case 0:
		_ = w.join() // refused while another operation runs
	case 1:
		_ = w.apply(&Command{Begin: &Begin{Kind: ring.Leave, Node: some, Hands: w.rand.IntN(2) == 0}})
	case 2:
		_ = w.apply(&Command{Begin: &Begin{Kind: ring.Remove, Node: some}})
	case 3:
		t := w.m.Topology
		_ = w.apply(&Command{Begin: &Begin{Kind: ring.Move, Node: some, Epoch: t.Epoch(), Tokens: w.tokens()}})
	case 4:
		if os := w.m.Topology.Operations(); len(os) > 0 && w.rand.IntN(4) == 0 {
			_ = w.apply(&Command{Abort: &Abort{os[0].ID}})
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

// reassign adds, removes and gives away a few tokens. A refusal is an outcome like any other.
func (w *operationsWalk) reassign() {
	t, r := w.m.Topology, w.reassigns
	nodes := t.Nodes()
	var all []ring.Transfer
	for range 1 + r.IntN(3) {
		at := r.IntN(len(t.Tokens()))
		tok, owner := t.Tokens()[at], t.Owner(at).ID
		other := nodes[r.IntN(len(nodes))].ID
		switch r.IntN(4) {
		case 0:
			all = append(all, ring.Transfer{Token: tok - ring.Token(1+r.IntN(1<<50)), To: owner}) // a split
		case 1:
			all = append(all, ring.Transfer{Token: ring.Token(r.Uint64()), To: other})
		case 2:
			all = append(all, ring.Transfer{Token: tok, From: owner})
		default:
			all = append(all, ring.Transfer{Token: tok, From: owner, To: other})
		}
	}
	slices.SortFunc(all, func(a, b ring.Transfer) int { return cmp.Compare(a.Token, b.Token) })
	if w.apply(&Command{Begin: &Begin{Kind: ring.Reassign, Node: ring.NodeOf(all), Transfers: all}}) == nil {
		w.reassigned++
	}
}

// clean drops what a node holds at no stage of the operations in progress, as rebalance.Drops does.
func (w *operationsWalk) clean(u PendingCleanup) {
	for tok := range w.has[u.Node] {
		if !w.m.Topology.Placement(w.replication()).Replicas(tok).Involves(u.Node) {
			delete(w.has[u.Node], tok)
		}
	}
	if err := w.apply(&Command{Cleaned: &Cleaned{u.Node, w.m.Epoch}}); err != nil {
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
			for _, g := range w.m.Topology.Gains(o, w.replication(), id) {
				w.fetch(g)
			}
			if err := w.apply(&Command{Streamed: &Streamed{Operation: o.ID, Node: id}}); err != nil {
				w.t.Fatal(err)
			}
			return
		}
	}
}

// finish executes the next step of an operation that is Switching. Premature steps are refused.
func (w *operationsWalk) finish(o *ring.Operation) {
	next := &Command{End: &End{o.ID}}
	switch {
	case len(o.Gaining) > 0 && !o.Known:
		if w.apply(next) == nil || w.apply(&Command{Compared: &Compared{Operation: o.ID,
			Node: o.Gaining[0]}}) == nil {
			w.t.Fatalf("seed %d: %+v ended before all nodes knew of it", w.seed, *o)
		}
		next = &Command{Known: &Known{o.ID}}
	case len(o.Compared) < len(o.Gaining):
		if w.apply(next) == nil {
			w.t.Fatalf("seed %d: %+v ended before all ranges were compared", w.seed, *o)
		}
		next = &Command{Compared: &Compared{Operation: o.ID, Node: o.Gaining[len(o.Compared)]}}
	case o.Hands && !o.Handed:
		if w.apply(next) == nil {
			w.t.Fatalf("seed %d: %+v ended before the handover", w.seed, *o)
		}
		next = &Command{Handed: &Handed{o.ID}}
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
	p := w.m.Topology.Placement(w.replication())
	for _, tok := range w.samples() {
		set := p.Replicas(tok)
		want := len(w.m.Topology.Nodes())
		if w.replication().Class == ring.Simple {
			want = min(3, want)
		}
		if len(set.Natural) < want && len(w.m.Topology.Operations()) == 0 {
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
	m, index := Empty(), uint64(0)
	do := func(c *Command) error {
		index++
		c.ID = CommandID{byte(index)}
		next, err := apply(m, c, index)
		m = next
		return err
	}
	admit := func(n byte, dc string) error {
		return do(&Command{Admit: &Admit{Epoch: m.Topology.Epoch(),
			Tokens: ring.Allocate(m.Topology, dc, "r1", 4, 2),
			Node: NodeSpec{Host: ring.HostID{n}, Datacenter: dc, Rack: "r1", NumTokens: 4,
				Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, n}), 7000)}}})
	}
	keyspace := func(name string, r ring.Replication) {
		if err := do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: name,
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
		t.Errorf("two nodes join one data center concurrently: %v", err)
	}
	if err := admit(9, "b"); err != nil || len(m.Topology.Operations()) != 2 {
		t.Errorf("a node of another data center has to wait: %v", err)
	}
	alter := &schema.AlterKeyspace{Keyspace: "ks", Replication: &ring.Replication{Class: ring.Simple, Factor: 2}}
	if err := do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(alter)}}); err == nil ||
		!strings.Contains(err.Error(), "cannot change while the ring is changing") {
		t.Errorf("the replication changed during an operation: %v", err)
	}
}

// TestOperationDoesNotWaitForDepartedNode makes nodes of two data centers leave concurrently: each gains ranges of a
// system keyspace because the other leaves, and the one that has left first does not delay the other.
func TestOperationDoesNotWaitForDepartedNode(t *testing.T) {
	m, index := Empty(), uint64(0)
	m.Schema = schema.Initial()
	do := func(c *Command) {
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
		do(&Command{Admit: &Admit{Epoch: m.Topology.Epoch(), Tokens: ring.Allocate(m.Topology, dc, "r1", 4, 2),
			Node: NodeSpec{Host: ring.HostID{byte(n + 1)}, Datacenter: dc, Rack: "r1", NumTokens: 4,
				Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(n + 1)}), 7000)}}})
	}
	local := ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 1},
		ring.DatacenterFactor{Datacenter: "b", Factor: 1})
	do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(&schema.CreateKeyspace{Keyspace: "ks",
		Replication: local})}})
	first, second := m.Topology.Nodes()[0].ID, m.Topology.Nodes()[3].ID
	do(&Command{Begin: &Begin{Kind: ring.Leave, Node: first}})
	staying := m.Topology.Operations()[0].ID
	do(&Command{Begin: &Begin{Kind: ring.Leave, Node: second}})
	leaving := m.Topology.Operations()[1].ID
	if o := m.Topology.Operation(staying); !slices.Contains(o.Gaining, second) {
		t.Fatalf("node %d gains nothing by %+v: the test tests nothing", second, *o)
	}
	for _, id := range m.Topology.Operation(staying).Gaining {
		if id != second {
			do(&Command{Streamed: &Streamed{Operation: staying, Node: id}})
		}
	}
	gaining := m.Topology.Operation(leaving).Gaining
	for _, id := range gaining {
		do(&Command{Streamed: &Streamed{Operation: leaving, Node: id}})
	}
	do(&Command{Known: &Known{Operation: leaving}})
	for _, id := range gaining {
		do(&Command{Compared: &Compared{Operation: leaving, Node: id}})
	}
	do(&Command{End: &End{Operation: leaving}})
	o := m.Topology.Operation(staying)
	if slices.Contains(o.Gaining, second) || o.Phase != ring.Switching || o.Switched != index {
		t.Fatalf("node %d has left, and the other operation waits for it: %+v", second, *o)
	}
	do(&Command{Known: &Known{Operation: staying}})
	for _, id := range o.Gaining {
		do(&Command{Compared: &Compared{Operation: staying, Node: id}})
	}
	do(&Command{End: &End{Operation: staying}})
	if len(m.Topology.Operations()) != 0 || len(m.Topology.Nodes()) != 4 {
		t.Errorf("left are %d operations and %d nodes", len(m.Topology.Operations()), len(m.Topology.Nodes()))
	}
}
