package metadata

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/ring"
	"cqld/schema"
)

// RecoveryID identifies a recovery. It is random.
type RecoveryID [16]byte

// String returns the id as operators see it.
func (id RecoveryID) String() string { return ring.HostID(id).String() }

// Recovery records that the metadata were recovered without a majority of their voters (package cluster/recovery).
//
// The recovered cluster has a new identity: its nodes and nodes of the previous cluster refuse each other.
type Recovery struct {
	ID RecoveryID
	// At is the time of the recovery in Unix seconds, by the clock of the machine on which the operator started it.
	At int64
	// Epoch is the epoch of the recovered metadata. It exceeds all epochs of the previous cluster.
	Epoch uint64
	// Lost are the members that were declared lost, ascending. The leader removes them one after the other.
	Lost []LostMember
}

// LostMember is a member that a recovery declared lost. It never returns with its data.
type LostMember struct {
	Node ring.NodeID
	Host ring.HostID
}

// recoveriesMax bounds Metadata.Recoveries.
const recoveriesMax = 32

// lostIDs is how many node ids a recovery skips: lost voters may have admitted nodes that no survivor knows, and ids
// are never reused.
const lostIDs = 1 << 10

// Recover returns the metadata with which r starts a new cluster. Lost members stay in the topology, because only
// operations move ranges, but the operations of lost members are aborted, because no node can complete them.
func (m *Metadata) Recover(r Recovery) (*Metadata, error) {
	if r.Epoch <= m.Epoch {
		return nil, fmt.Errorf("metadata: a recovery at epoch %d follows epoch %d", r.Epoch, m.Epoch)
	}
	for _, l := range r.Lost {
		if n := m.Topology.Node(l.Node); n == nil || n.Host != l.Host {
			return nil, fmt.Errorf("metadata: node %s is not a member", l.Host)
		}
	}
	if len(r.Lost) >= len(m.Topology.Nodes()) {
		return nil, errors.New("metadata: a recovery without survivors")
	}
	next := *m
	next.Recoveries = append(slices.Clone(m.Recoveries), r)
	next.Recoveries = next.Recoveries[max(0, len(next.Recoveries)-recoveriesMax):]
	next.nextNode += lostIDs
	// An aborted operation returns its node to Normal, or removes it if it was joining.
	for _, o := range m.Topology.Operations() {
		if slices.ContainsFunc(r.Lost, func(l LostMember) bool { return o.Needs(l.Node) && o.Kind != ring.Remove }) {
			if err := applyAbort(&next, &Abort{Operation: o.ID}, r.Epoch); err != nil {
				return nil, err
			}
		}
	}
	next.Topology = ring.NewMovingTopology(r.Epoch, next.Topology.Moved(), next.Topology.Nodes(),
		next.Topology.Operations())
	next.Epoch = r.Epoch
	followMembers(&next, m)
	checkStep(m, &next, nil)
	return &next, next.Check()
}

// Recovery returns the last recovery of the cluster, or nil if it was never recovered.
func (m *Metadata) Recovery() *Recovery {
	if len(m.Recoveries) == 0 {
		return nil
	}
	return &m.Recoveries[len(m.Recoveries)-1]
}

// Lost returns the members that a recovery declared lost and that have not been removed yet, ascending.
func (m *Metadata) Lost() (out []ring.NodeID) {
	for _, r := range m.Recoveries {
		for _, l := range r.Lost {
			if m.Topology.Node(l.Node) != nil {
				out = append(out, l.Node)
			}
		}
	}
	slices.Sort(out)
	return out
}

// IsLost reports whether a recovery declared a node lost.
func (m *Metadata) IsLost(id ring.NodeID) bool {
	// Node ids are never reused, so entries of earlier recoveries count as well.
	return slices.ContainsFunc(m.Recoveries, func(r Recovery) bool {
		return slices.ContainsFunc(r.Lost, func(l LostMember) bool { return l.Node == id })
	})
}

// lostReason returns why a host that a recovery declared lost must not return.
func (m *Metadata) lostReason(h ring.HostID) (reason string, ok bool) {
	for _, r := range m.Recoveries {
		if slices.ContainsFunc(r.Lost, func(l LostMember) bool { return l.Host == h }) {
			return fmt.Sprintf("node %s was declared lost by %s: its data are not part of the cluster. Remove its "+
				"data directory to let it join as a new node", h, r.String()), true
		}
	}
	return "", false
}

// String names the recovery for an operator.
func (r Recovery) String() string {
	return fmt.Sprintf("recovery %s of %s", r.ID, time.Unix(r.At, 0).UTC().Format(time.RFC3339))
}

// Notice returns the message for nodes that did not take part in the last recovery.
func Notice(recoveries []Recovery) string {
	if len(recoveries) == 0 {
		return ""
	}
	var b strings.Builder
	fmt.Fprintf(&b, "the cluster continues without this node since %s. ", recoveries[len(recoveries)-1].String())
	b.WriteString("If this node survived, take part with `cqld recover join`; if it was declared lost, remove its " +
		"data directory and let it join as a new node")
	return b.String()
}

// Describe describes the change that a command makes, for an operator.
func Describe(c *Command) string {
	switch {
	case c.Schema != nil:
		if change, err := schema.DecodeChange(c.Schema.Change); err == nil {
			return fmt.Sprintf("schema: %s", strings.TrimPrefix(fmt.Sprintf("%T", change), "*schema."))
		}
		return "schema"
	case c.Roles != nil:
		return "roles"
	case c.Admit != nil:
		return fmt.Sprintf("admission of node %s (%s)", c.Admit.Node.Host, c.Admit.Node.Internode)
	case c.Update != nil:
		return fmt.Sprintf("address of node %s (%s)", c.Update.Node.Host, c.Update.Node.Internode)
	case c.Begin != nil:
		return fmt.Sprintf("begin of the %s of node %d", c.Begin.Kind, c.Begin.Node)
	}
	return "progress of an operation of the ring, or of a repair"
}
