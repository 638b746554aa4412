package metadata

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// reassignable returns metadata with a keyspace of two replicas on three members, which own the tokens 0 and 10, 20 and
// 30, and 40 and 50. A fourth member is in another data center.
func reassignable(t *testing.T) *Metadata {
	m := Empty()
	var nodes []*ring.Node
	for i := range 3 {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Host: ring.HostID{byte(i + 1)}, Datacenter: "a",
			State: ring.Normal, Tokens: []ring.Token{ring.Token(20 * i), ring.Token(20*i + 10)}})
	}
	nodes = append(nodes, &ring.Node{ID: 4, Host: ring.HostID{4}, Datacenter: "b", State: ring.Normal,
		Tokens: []ring.Token{100}})
	m.Topology, m.nextNode, m.Epoch = ring.NewTopology(5, nodes), 5, 5
	var err error
	if m.Schema, err = schema.Apply(m.Schema, &schema.CreateKeyspace{Keyspace: "ks",
		Replication: ring.NewNetworkTopology(ring.DatacenterFactor{Datacenter: "a", Factor: 2})}); err != nil {
		t.Fatal(err)
	}
	return m
}

func begins(transfers ...ring.Transfer) *Begin {
	return &Begin{Kind: ring.Reassign, Node: ring.NodeOf(transfers), Transfers: transfers}
}

// TestSplitAndMergeEndAtOnce checks that tokens that change no replica set need one command, which records no data to
// drop, and that a token that does change one streams.
func TestSplitAndMergeEndAtOnce(t *testing.T) {
	m := reassignable(t)
	for i, c := range []struct {
		x     ring.Transfer
		after []ring.Token // of node 2
	}{
		{ring.Transfer{Token: 15, To: 2}, []ring.Token{15, 20, 30}},
		{ring.Transfer{Token: 19, To: 2}, []ring.Token{15, 19, 20, 30}}, // a range of one token
		{ring.Transfer{Token: 15, From: 2}, []ring.Token{19, 20, 30}},
		{ring.Transfer{Token: 20, From: 2}, []ring.Token{19, 30}},
	} {
		index := uint64(6 + i)
		if err := applyBegin(m, begins(c.x), index); err != nil {
			t.Fatal(err)
		}
		n := m.Topology.Node(2)
		if len(m.Topology.Operations()) > 0 || !slices.Equal(n.Tokens, c.after) || !n.Reassigned ||
			n.State != ring.Normal || len(m.PendingCleanup) > 0 || m.Topology.Moved() != index {
			t.Fatalf("%+v: %+v, %+v, moved at %d", c.x, n, m.PendingCleanup, m.Topology.Moved())
		}
	}
	x := ring.Transfer{Token: 19, From: 2, To: 3}
	if err := applyBegin(m, begins(x), 20); err != nil {
		t.Fatal(err)
	}
	o := m.Topology.Operation(20)
	if o == nil || o.Phase != ring.Streaming || !slices.Equal(o.Gaining, []ring.NodeID{3}) ||
		m.Topology.Node(3).State != ring.Normal || o.Completed(m.Topology) {
		t.Fatalf("%+v", o)
	}
	if m.MayExcuse(o, 3) || applyExcuse(m, &Excuse{Operation: 20, Nodes: []ring.NodeID{3}}, 21) == nil {
		t.Error("the node that gets the token is excused")
	}
	// An abort leaves the ring as it was; a second attempt ends with the new owner.
	if err := applyAbort(m, &Abort{20}, 22); err != nil || !slices.Equal(m.Topology.OwnedBy(2), []ring.Token{19, 30}) {
		t.Fatalf("%v, %v", err, m.Topology.OwnedBy(2))
	}
	// Node 3 drops first what it may have streamed.
	if err := applyBegin(m, begins(x), 23); err == nil || !strings.Contains(err.Error(), "is still dropping data") {
		t.Fatal(err)
	}
	if err := applyCleaned(m, &Cleaned{3, 22}); err != nil {
		t.Fatal(err)
	}
	if err := applyBegin(m, begins(x), 24); err != nil {
		t.Fatal(err)
	}
	if err := applyStreamed(m, &Streamed{Operation: 24, Node: 3}, 25); err != nil {
		t.Fatal(err)
	}
	if applyKnown(m, &Known{24}, 26) != nil || applyCompared(m, &Compared{Operation: 24, Node: 3}, 27) != nil {
		t.Fatal("a step is refused")
	}
	o = m.Topology.Operation(24)
	if err := applyEnd(m, &End{24}, 28); err != nil || !o.Completed(m.Topology) ||
		!slices.Equal(m.Topology.Node(2).Tokens, []ring.Token{30}) ||
		!slices.Equal(m.Topology.Node(3).Tokens, []ring.Token{19, 40, 50}) {
		t.Fatalf("%v: %+v", err, m.Topology.Nodes())
	}
	if len(m.PendingCleanup) != 1 {
		t.Errorf("to be dropped: %+v", m.PendingCleanup)
	}
}

// TestReassignmentIsRefused checks the transfers that do not fit the ring.
func TestReassignmentIsRefused(t *testing.T) {
	x := func(token ring.Token, from, to ring.NodeID) ring.Transfer {
		return ring.Transfer{Token: token, From: from, To: to}
	}
	list := func(all ...ring.Transfer) []ring.Transfer { return all }
	var many []ring.Transfer
	for i := range TransfersMax + 1 {
		many = append(many, x(ring.Token(1000+i), 0, 1))
	}
	for _, c := range []struct {
		transfers []ring.Transfer
		reason    string
	}{
		{nil, "from 1 to 64 tokens, not 0"},
		{many, "not 65"},
		{list(x(5, 0, 1), x(5, 0, 2)), "token 5 is listed twice"},
		{list(x(6, 0, 1), x(5, 0, 2)), "not in order"},
		{list(x(5, 0, 0)), "would keep its owner"},
		{list(x(10, 1, 1)), "would keep its owner"},
		{list(x(10, 0, 2)), "token 10 is owned by"},
		{list(x(11, 1, 2)), "no node owns token 11"},
		{list(x(10, 2, 3)), "token 10 is owned by node"},
		{list(x(5, 0, 9)), "node 9 is no member"},
		{list(x(0, 1, 2), x(10, 1, 2)), "would have 0 tokens"},
		{list(x(10, 1, 4)), "tokens stay in their data center"},
		{list(x(ring.MinToken, 0, 1)), "no token of a partition"},
	} {
		m := reassignable(t)
		before := m.Topology
		var refused *Refused
		if err := applyBegin(m, begins(c.transfers...), 6); !errors.As(err, &refused) ||
			!strings.Contains(refused.Reason, c.reason) || m.Topology != before {
			t.Errorf("%v: %v", c.transfers, err)
		}
	}
	m := reassignable(t)
	if err := applyBegin(m, &Begin{Kind: ring.Leave, Node: 3}, 6); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		x      ring.Transfer
		reason string
	}{{x(40, 3, 1), "is LEAVING: operation 6"}, {x(0, 1, 2), "operation 6 (decommission"}} {
		var refused *Refused
		if err := applyBegin(m, begins(c.x), 7); !errors.As(err, &refused) || !refused.Busy ||
			!strings.Contains(refused.Reason, c.reason) {
			t.Errorf("%v during a decommission: %v", c.x, err)
		}
	}
}
