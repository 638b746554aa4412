package metadata

import (
	"cmp"
	"fmt"
	"slices"
	"strings"

	"cqld/ring"
)

// Incomplete records an operation that ended although nodes lack data of ranges that they gained, because they were
// dead, or too few sources were alive. A repair of the keyspaces on those nodes copies the data.
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

// MissingFrom returns which data nodes lack after an operation that has ended; empty means none.
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

// noteIncomplete records what is missing when an operation ends. Absent nodes lack everything that they gain, unless
// they returned in time. System keyspaces are not repaired, and not recorded.
func (m *Metadata) noteIncomplete(o *ring.Operation) {
	// Short belongs to an immutable operation, so it is cloned before absent nodes are added.
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
	// The oldest records are dropped. They are informational only, unlike Former, whose bound refuses changes.
	m.Incomplete = m.Incomplete[max(0, len(m.Incomplete)-incompleteMax):]
}

// GainedBy returns the numbers of ranges of user keyspaces that a node gains.
func (m *Metadata) GainedBy(o *ring.Operation, id ring.NodeID) (out []ring.Shortfall) {
	for _, name := range userKeyspaces(m.Schema) {
		if n := len(m.Topology.Gains(o, m.Schema.StoredKeyspace(name).Replication, id)); n > 0 {
			out = append(out, ring.Shortfall{Node: id, Keyspace: name, Ranges: n})
		}
	}
	return out
}

// withShort adds a node's shortfalls. Of two for one keyspace it keeps the larger.
func withShort(all []ring.Shortfall, id ring.NodeID, more []ring.Shortfall) []ring.Shortfall {
	all = slices.Clone(all)
	for _, s := range more {
		s.Node = id
		// A node reports after streaming and again after comparing: the larger number includes ranges that were short
		// at either time.
		at := slices.IndexFunc(all, func(o ring.Shortfall) bool { return o.Node == id && o.Keyspace == s.Keyspace })
		switch {
		case at >= 0:
			all[at].Ranges = max(all[at].Ranges, s.Ranges)
		case len(all) < shortMax:
			all = append(all, s)
		}
	}
	// Sorted, so the list does not depend on the order of the reports.
	slices.SortFunc(all, func(a, b ring.Shortfall) int {
		return cmp.Or(cmp.Compare(a.Node, b.Node), cmp.Compare(a.Keyspace, b.Keyspace))
	})
	return all
}

// applyExcuse makes an operation continue without dead nodes. The leader proposes it based on its view of liveness. An
// excused node that returns in time streams and compares like the others (applyStreamed removes it from Absent).
func applyExcuse(m *Metadata, c *Excuse, index uint64) error {
	o, others, err := m.operation(c.Operation)
	if err != nil {
		return err
	}
	next := *o
	next.Absent = slices.Clone(o.Absent)
	for _, id := range c.Nodes {
		// A node that gets tokens is never excused: a join without the joining node would give it ranges without their
		// data.
		if o.Needs(id) || !m.MayExcuse(o, id) {
			return &Refused{Reason: fmt.Sprintf("the %s of %s must wait for %s", o.Kind, m.Topology.NameOf(o.Node),
				m.Topology.NameOf(id))}
		}
		// A node that has reported since the proposal is not absent.
		if slices.Contains(o.Awaits(), id) && !slices.Contains(next.Absent, id) {
			next.Absent = append(next.Absent, id)
		}
	}
	slices.Sort(next.Absent)
	m.advance(&next, others, index)
	return nil
}

// MayExcuse reports whether an operation may continue without a dead node that gains ranges. The removal of a dead
// node, and a forced operation, complete with the live nodes. Other operations can be aborted, so they wait for nodes
// that gain ranges of user keyspaces, unless these were declared lost.
func (m *Metadata) MayExcuse(o *ring.Operation, id ring.NodeID) bool {
	return o.Kind == ring.Remove || o.Force || m.IsLost(id) || len(m.GainedBy(o, id)) == 0
}
