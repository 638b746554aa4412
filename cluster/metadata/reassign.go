package metadata

import (
	"fmt"
	"maps"
	"slices"

	"cqld/ring"
)

// TransfersMax is the maximum number of tokens that one operation reassigns. Each token changes the replicas of a few
// ranges, so this bounds what an abort discards, and how long other operations of the data center wait.
const TransfersMax = 64

// beginReassign starts an operation that changes the owners of tokens. Its members stay Normal. If no replica set
// changes, the operation also ends by this command.
//
// It waits, like all operations, for other operations that may affect the same ranges, and for nodes that gain a range
// while they drop data (begin).
func beginReassign(m *Metadata, c *Begin, index uint64) error {
	if err := checkTransfers(m, c); err != nil {
		return err
	}
	o := &ring.Operation{ID: index, Kind: ring.Reassign, Node: c.Node, Transfers: c.Transfers, Phase: ring.Streaming}
	return m.begin(o, m.Topology.Nodes(), index)
}

// checkTransfers refuses transfers that do not fit the present ring. Changes of other ranges since they were chosen do
// not matter.
func checkTransfers(m *Metadata, c *Begin) error {
	if len(c.Transfers) == 0 || len(c.Transfers) > TransfersMax {
		return &Refused{Reason: fmt.Sprintf("an operation reassigns from 1 to %d tokens, not %d", TransfersMax,
			len(c.Transfers))}
	}
	if c.Node != ring.NodeOf(c.Transfers) || len(c.Tokens) > 0 || c.Force || c.Hands {
		return &Refused{Reason: "the command has fields that a reassignment of tokens does not have"}
	}
	// All checks are made before anything changes: a refused command leaves the metadata as they were.
	datacenter := ""
	count := map[ring.NodeID]int{}
	for i, x := range c.Transfers {
		switch {
		case i > 0 && x.Token <= c.Transfers[i-1].Token:
			return &Refused{Reason: fmt.Sprintf("token %s is listed twice, or not in order", x.Token)}
		case x.From == x.To:
			return &Refused{Reason: fmt.Sprintf("token %s would keep its owner", x.Token)}
		}
		for _, id := range []ring.NodeID{x.From, x.To} {
			if id == 0 {
				continue
			}
			n, err := mayReassign(m, id)
			if err != nil {
				return err
			}
			// Operations in different data centers run at the same time (independent).
			if datacenter != "" && n.Datacenter != datacenter {
				return &Refused{Reason: fmt.Sprintf("node %s is in data center %s, and another one in %s: tokens "+
					"stay in their data center", m.Topology.NameOf(id), n.Datacenter, datacenter)}
			}
			datacenter = n.Datacenter
			if _, ok := count[id]; !ok {
				count[id] = len(n.Tokens)
			}
		}
		if err := checkTransfer(m, x); err != nil {
			return err
		}
		// Of all transfers together, so that a node may lose its last token and get another one.
		count[x.From]--
		count[x.To]++
	}
	// Zero stands for no node. The nodes are checked in order, so that all nodes refuse with the same text.
	delete(count, 0)
	for _, id := range slices.Sorted(maps.Keys(count)) {
		if n := count[id]; n < 1 || n > NumTokensMax {
			return &Refused{Reason: fmt.Sprintf("node %s would have %d tokens: a member has from 1 to %d",
				m.Topology.NameOf(id), n, NumTokensMax)}
		}
	}
	return nil
}

// mayReassign returns a member that may get or lose tokens: one that does not change otherwise. The refusal of another
// member is Busy, because its operation will end.
func mayReassign(m *Metadata, id ring.NodeID) (*ring.Node, error) {
	n := m.Topology.Node(id)
	if n == nil {
		return nil, &Refused{Reason: fmt.Sprintf("node %d is no member", id)}
	}
	if n.State == ring.Normal {
		return n, nil
	}
	// The node joins, leaves or moves; the operation that does it says when the wait ends.
	reason := fmt.Sprintf("node %s is %s", n.Host, n.State)
	for _, o := range m.Topology.Operations() {
		if o.Node == id {
			reason += ": " + m.describe(o)
		}
	}
	return nil, &Refused{Reason: reason, Busy: true}
}

// checkTransfer checks the owner of one token: the ring for reads must have it exactly if the transfer has a previous
// owner.
func checkTransfer(m *Metadata, x ring.Transfer) error {
	t := m.Topology
	// An operation in another data center may be about to add the token, or own it already for reads.
	for _, o := range t.Operations() {
		if slices.Contains(o.Tokens, x.Token) ||
			slices.ContainsFunc(o.Transfers, func(y ring.Transfer) bool { return y.Token == x.Token }) {
			return &Refused{Reason: fmt.Sprintf("token %s changes its owner already: %s", x.Token, m.describe(o)),
				Busy: true}
		}
	}
	// The owners for reads: in this data center no operation is in progress, so these are the owners at each stage.
	i, used := slices.BinarySearch(t.Tokens(), x.Token)
	switch {
	case x.From == 0 && x.Token == ring.MinToken:
		return &Refused{Reason: fmt.Sprintf("token %s is no token of a partition", x.Token)}
	case x.From == 0 && used:
		return &Refused{Reason: fmt.Sprintf("token %s is owned by node %s", x.Token, t.NameOf(t.Owner(i).ID))}
	case x.From != 0 && !used:
		return &Refused{Reason: fmt.Sprintf("no node owns token %s", x.Token)}
	case x.From != 0 && t.Owner(i).ID != x.From:
		return &Refused{Reason: fmt.Sprintf("token %s is owned by node %s, and not by %s", x.Token,
			t.NameOf(t.Owner(i).ID), t.NameOf(x.From))}
	}
	return nil
}

// withTransfers returns the members with the tokens that they own after a Reassign. Members that take no part in it are
// shared with nodes.
func withTransfers(nodes []*ring.Node, o *ring.Operation) []*ring.Node {
	out := slices.Clone(nodes)
	for i, n := range out {
		if slices.ContainsFunc(o.Transfers, func(x ring.Transfer) bool { return x.From == n.ID || x.To == n.ID }) {
			changed := *n
			changed.Tokens, changed.Reassigned = o.AfterTransfers(n.ID, n.Tokens), true
			out[i] = &changed
		}
	}
	return out
}
