package metadata

import (
	"fmt"
	"net/netip"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
)

// recoverable returns metadata of four members with a keyspace of users.
func recoverable(t *testing.T) *Metadata {
	t.Helper()
	m := Empty()
	var nodes []*ring.Node
	for id := range ring.NodeID(4) {
		nodes = append(nodes, &ring.Node{ID: id + 1, Host: ring.HostID{byte(id + 1)}, Datacenter: "dc1", Rack: "r1",
			State: ring.Normal, Tokens: []ring.Token{ring.Token(id) * 1000}, DiskID: [16]byte{byte(id + 1)},
			Internode: netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:7000", id+1)),
			Native:    netip.MustParseAddrPort(fmt.Sprintf("127.0.0.%d:9042", id+1))})
	}
	m.Topology, m.Epoch, m.nextNode, m.Secret = ring.NewTopology(5, nodes), 9, 5, []byte("secret")
	return m
}

func lostOf(m *Metadata, ids ...ring.NodeID) (out []LostMember) {
	for _, id := range ids {
		out = append(out, LostMember{id, m.Topology.Node(id).Host})
	}
	return out
}

// TestRecover declares two members lost: they stay in the topology, and are members in no other respect.
func TestRecover(t *testing.T) {
	before := recoverable(t)
	r := Recovery{ID: RecoveryID{7}, At: 1_700_000_000, Epoch: 1000, Lost: lostOf(before, 1, 3)}
	m, err := before.Recover(r)
	if err != nil {
		t.Fatal(err)
	}
	m = recode(t, m)
	if m.Epoch != 1000 || m.Topology.Epoch() != 1000 || m.Topology.Moved() != before.Topology.Moved() ||
		len(m.Topology.Nodes()) != 4 || m.nextNode <= before.nextNode || m.Recovery().ID != r.ID {
		t.Errorf("%+v", m)
	}
	if got := m.Lost(); !slices.Equal(got, []ring.NodeID{1, 3}) || !m.IsLost(1) || m.IsLost(2) {
		t.Errorf("lost: %v", got)
	}
	if p := m.Peers(); len(p) != 2 || !p[2].IsValid() || !p[4].IsValid() {
		t.Errorf("peers: %v", p)
	}
	reason, gone := m.RemovalReason(ring.HostID{1})
	if !gone || !strings.Contains(reason, r.ID.String()) {
		t.Errorf("%q", reason)
	}
	if _, gone := m.RemovalReason(ring.HostID{2}); gone {
		t.Error("a survivor counts as removed")
	}
	// After its removal, the reason still names the recovery.
	m, err = Apply(m, &Command{ID: CommandID{1}, Begin: &Begin{Kind: ring.Remove, Node: 1, Force: true}}, 1001)
	if err != nil {
		t.Fatal(err)
	}
	for i := uint64(1002); len(m.Topology.Operations()) > 0 && i < 1020; i++ {
		o := m.Topology.Operations()[0]
		c := &Command{ID: CommandID{byte(i)}, End: &End{Operation: o.ID}}
		switch {
		case o.Phase == ring.Streaming:
			c.End, c.Excuse = nil, &Excuse{Operation: o.ID, Nodes: o.Awaits()}
		case !o.Known:
			c.End, c.Known = nil, &Known{Operation: o.ID}
		}
		if m, err = Apply(m, c, i); err != nil {
			t.Fatal(err)
		}
	}
	if again, _ := m.RemovalReason(ring.HostID{1}); again != reason || !slices.Equal(m.Lost(), []ring.NodeID{3}) {
		t.Errorf("%q, lost: %v", again, m.Lost())
	}
}

// TestAdmitAtAddressOfLostNode admits new nodes at the address of a member that was declared lost: it belongs to that
// member, which can only be replaced.
func TestAdmitAtAddressOfLostNode(t *testing.T) {
	before := recoverable(t)
	m, err := before.Recover(Recovery{Epoch: 1000, Lost: lostOf(before, 1)})
	if err != nil {
		t.Fatal(err)
	}
	admit := &Admit{Node: NodeSpec{Host: ring.HostID{9}, Disk: [16]byte{9}, Datacenter: "dc1", Rack: "r1",
		Internode: m.Topology.Node(1).Internode, Native: m.Topology.Node(1).Native}, Tokens: []ring.Token{77},
		Epoch: m.Topology.Epoch()}
	_, err = Apply(m, &Command{ID: CommandID{1}, Admit: admit}, 1001)
	if err == nil || !strings.Contains(err.Error(), "belongs to node") {
		t.Errorf("a new node: %v", err)
	}
	admit.Replaced, admit.Tokens = 1, nil
	m, err = Apply(m, &Command{ID: CommandID{2}, Admit: admit}, 1001)
	if err != nil || m.NodeByHost(ring.HostID{9}) == nil {
		t.Errorf("a replacement: %v", err)
	}
}

// TestRecoverEndsOperationsOfLostNodes aborts the operations of a lost node, and no others.
func TestRecoverEndsOperationsOfLostNodes(t *testing.T) {
	for _, c := range []struct {
		node, lost ring.NodeID
		kind       ring.OperationKind
		left       int
	}{
		{1, 1, ring.Leave, 0},
		{1, 2, ring.Leave, 1},
		{1, 1, ring.Remove, 1}, // it is removed anyway
	} {
		before := recoverable(t)
		before, err := Apply(before, &Command{ID: CommandID{1}, Begin: &Begin{Kind: c.kind, Node: c.node, Force: true}},
			10)
		if err != nil {
			t.Fatal(err)
		}
		m, err := before.Recover(Recovery{Epoch: 1000, Lost: lostOf(before, c.lost)})
		if err != nil {
			t.Fatal(err)
		}
		if got := len(m.Topology.Operations()); got != c.left {
			t.Errorf("%+v: %d operations", c, got)
		}
	}
}

// TestRecoverRefuses refuses recoveries that do not match the metadata.
func TestRecoverRefuses(t *testing.T) {
	m := recoverable(t)
	for name, r := range map[string]Recovery{
		"an old epoch":     {Epoch: 9, Lost: lostOf(m, 1)},
		"no member":        {Epoch: 10, Lost: []LostMember{{9, ring.HostID{9}}}},
		"another host":     {Epoch: 10, Lost: []LostMember{{1, ring.HostID{9}}}},
		"without survivor": {Epoch: 10, Lost: lostOf(m, 1, 2, 3, 4)},
	} {
		if _, err := m.Recover(r); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}
