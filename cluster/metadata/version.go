package metadata

import (
	"fmt"
	"strings"

	"cqld/clusterversion"
	"cqld/ring"
)

// CheckVersions refuses a node whose build does not support the cluster version.
func (m *Metadata) CheckVersions(s *NodeSpec) error {
	if err := s.Versions.OrFirst().Check(m.ClusterVersion); err != nil {
		return &Refused{Reason: err.Error()}
	}
	return nil
}

// NextVersion returns the newest cluster version that all members support, and at least the current one. Members that
// were declared lost do not count, because they never return.
func (m *Metadata) NextVersion() clusterversion.Version {
	next := clusterversion.Version(0)
	for i, n := range m.present() {
		if i == 0 || n.Versions.Max < next {
			next = n.Versions.Max
		}
	}
	return max(next, m.ClusterVersion)
}

// present returns the members that were not declared lost.
func (m *Metadata) present() (out []*ring.Node) {
	for _, n := range m.Topology.Nodes() {
		if !m.IsLost(n.ID) {
			out = append(out, n)
		}
	}
	return out
}

// Lacking returns the members that do not support a cluster version.
func (m *Metadata) Lacking(v clusterversion.Version) (out []*ring.Node) {
	for _, n := range m.present() {
		// Members that are down count: they would return with a build that cannot start.
		if !n.Versions.Includes(v) {
			out = append(out, n)
		}
	}
	return out
}

// applyFinalize raises the cluster version. It never decreases, because data may have been written in the formats of
// the current version.
func applyFinalize(m *Metadata, c *Finalize) error {
	// A second operator may request what the first one already did.
	if c.Version == m.ClusterVersion {
		return nil
	}
	if c.Version < m.ClusterVersion {
		// Nodes may have written files in formats that an older version cannot read.
		return &Refused{Reason: fmt.Sprintf("the cluster has version %d, which cannot go back to %d",
			m.ClusterVersion, c.Version)}
	}
	if lacking := m.Lacking(c.Version); len(lacking) > 0 || len(m.present()) == 0 {
		var names []string
		for _, n := range lacking {
			names = append(names, fmt.Sprintf("%s (%v)", n.Internode, n.Versions))
		}
		return &Refused{Reason: fmt.Sprintf("not all nodes support cluster version %d: %s. Upgrade or remove them "+
			"first", c.Version, strings.Join(names, ", "))}
	}
	m.ClusterVersion = c.Version
	return nil
}
