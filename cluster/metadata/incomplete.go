package metadata

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cqld/ring"
)

// Incomplete is an operation that ended although nodes lack data of ranges that they gained: they were dead, or too
// few sources were alive. A repair of the keyspaces on those nodes copies the data.
//
// The record is for operators: `removenode` and the job print it. No request depends on it.
type Incomplete struct {
	Operation uint64
	// Missing has at least one entry, and is ordered by node and keyspace.
	Missing []ring.Shortfall
}

// incompleteMax bounds Metadata.Incomplete, and shortMax the entries of one operation.
const (
	incompleteMax = 32
	shortMax      = 256
)

// MissingFrom returns what nodes lack after an operation that has ended; empty means nothing.
func (m *Metadata) MissingFrom(operation uint64) []ring.Shortfall {
	for _, i := range m.Incomplete {
		if i.Operation == operation {
			return i.Missing
		}
	}
	return nil
}

// DescribeMissing names the nodes and keyspaces of shortfalls for an operator. It is empty if there are none.
func (m *Metadata) DescribeMissing(missing []ring.Shortfall) string {
	var parts []string
	for _, s := range missing {
		parts = append(parts, fmt.Sprintf("%d ranges of keyspace %s on %s", s.Ranges, s.Keyspace,
			m.Topology.NameOf(s.Node)))
	}
	return strings.Join(parts, ", ")
}

// noteIncomplete records what is missing when an operation ends. Absent nodes lack all that they gain, unless they
// returned in time. Data of system keyspaces is not repaired, and not recorded.
func (m *Metadata) noteIncomplete(o *ring.Operation) {
	// Short is part of an immutable operation, so the absent nodes are added to a copy.
	missing := slices.Clone(o.Short)
	for _, id := range o.Absent {
		if !slices.Contains(o.Compared, id) {
			missing = withShort(missing, id, m.GainedBy(o, id))
		}
	}
	if len(missing) == 0 {
		return
	}
	m.Incomplete = append(slices.Clone(m.Incomplete), Incomplete{o.ID, missing})
	// The oldest records are dropped. They are only information, unlike Former, whose bound refuses changes.
	m.Incomplete = m.Incomplete[max(0, len(m.Incomplete)-incompleteMax):]
}

// GainedBy returns the numbers of ranges of the users' keyspaces that a node gains.
func (m *Metadata) GainedBy(o *ring.Operation, id ring.NodeID) (out []ring.Shortfall) {
	for _, name := range userKeyspaces(m.Schema) {
		if n := len(m.Topology.Gains(o, m.Schema.StoredKeyspace(name).Replication, id)); n > 0 {
			out = append(out, ring.Shortfall{Node: id, Keyspace: name, Ranges: n})
		}
	}
	return out
}

// withShort adds the shortfalls of a node; of two for one keyspace it keeps the larger.
func withShort(all []ring.Shortfall, id ring.NodeID, more []ring.Shortfall) []ring.Shortfall {
	all = slices.Clone(all)
	for _, s := range more {
		s.Node = id
		// A node reports when it has streamed and again when it has compared: the larger number includes ranges that
		// were short at either time.
		at := slices.IndexFunc(all, func(o ring.Shortfall) bool { return o.Node == id && o.Keyspace == s.Keyspace })
		switch {
		case at >= 0:
			all[at].Ranges = max(all[at].Ranges, s.Ranges)
		case len(all) < shortMax:
			all = append(all, s)
		}
	}
	// Sorted, so that the list does not depend on the order in which the nodes reported.
	slices.SortFunc(all, func(a, b ring.Shortfall) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Keyspace, b.Keyspace))
	})
	return all
}

// applyExcuse makes an operation continue without dead nodes. The leader proposes it from its own view of who is
// alive; a node that returns in time streams and compares like the others (applyStreamed removes it from Absent).
func applyExcuse(m *Metadata, c *Excuse, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	next := *o
	next.Absent = slices.Clone(o.Absent)
	for _, id := range c.Nodes {
		// The node of the operation itself is never excused: a join without the joining node would give it ranges
		// without their data.
		if id == o.Node || !m.MayExcuse(o, id) {
			return &Refused{Reason: fmt.Sprintf("the %s of %s must wait for %s", o.Kind, m.Topology.NameOf(o.Node),
				m.Topology.NameOf(id))}
		}
		// A node that has reported since the leader's proposal is not absent.
		if slices.Contains(o.Awaits(), id) && !slices.Contains(next.Absent, id) {
			next.Absent = append(next.Absent, id)
		}
	}
	slices.Sort(next.Absent)
	m.advance(&next, others, index)
	return nil
}

// MayExcuse reports whether an operation need not wait for a dead node that gains ranges. The removal of a dead node,
// and an operation that the operator forces, complete with the live nodes. Other operations can be aborted, and wait
// for nodes that gain ranges of users, unless these were declared lost.
func (m *Metadata) MayExcuse(o *ring.Operation, id ring.NodeID) bool {
	return o.Kind == ring.Remove || o.Force || m.IsLost(id) || len(m.GainedBy(o, id)) == 0
}
