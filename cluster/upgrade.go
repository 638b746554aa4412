package cluster

import (
	"context"
	"fmt"

	"cqld/cluster/metadata"
	"cqld/clusterversion"
	"cqld/ring"
)

// Rolling upgrades (docs/UPGRADING.md):
//
//  1. A node reports the cluster versions that its build supports in its record in the metadata, and in heartbeats.
//  2. The record never promises more than the process supports: a node that starts with an older build changes its
//     record before it serves. A node that starts with a newer build changes it after that, because until then it only
//     delays the end of the upgrade.
//  3. The cluster version rises by one command, to a version that all records include (metadata.Finalize).
//  4. A node that finds a cluster version above its own stops, before it acts on anything that follows in the log.
//
// A node whose build does not support the cluster version is therefore refused when it joins and when it starts, and no
// member receives a message or a file in a format that it cannot read.

// Upgrade handles a node's part in rolling upgrades. Versions and Finalize are safe for concurrent use; the loop calls
// the other methods.
type Upgrade struct {
	opts      *Options
	view      *view
	progress  *progress
	proposals *proposals
}

// supports returns an error if the metadata have a newer cluster version than this node supports. An older one is not
// an error here: a node replays the log from a time at which the cluster had an older version. Admissions, and updates
// of the node's record, check both limits.
func (d *driver) supports(m *metadata.Metadata) error {
	if m.ClusterVersion <= d.opts.Versions.Max {
		return nil
	}
	return fmt.Errorf("cluster: %w", d.opts.Versions.Check(m.ClusterVersion))
}

// mustRecord reports whether this node must update its record before it serves.
func (u *Upgrade) mustRecord(n *ring.Node) bool {
	own := u.opts.Versions
	// The second condition may be caused by outdated metadata. The outcome of the update decides.
	return n.Versions.Max > own.Max || own.Min > u.view.metadata().ClusterVersion
}

// record updates this node's record if its build supports other versions than recorded.
func (u *Upgrade) record(n *ring.Node) {
	if n.Versions == u.opts.Versions {
		return
	}
	// The command is proposed until it is decided, so a majority may become available later.
	u.proposals.start(&metadata.Command{Update: &metadata.Update{Node: u.opts.Self}}, func(err error) {
		if err != nil {
			u.opts.Logger.Warn("cluster versions of this node not recorded", "err", err)
		}
	})
}

// note logs changes of the cluster version, and that a newer one is supported by all nodes.
func (u *Upgrade) note(old, m *metadata.Metadata) {
	if old.ClusterVersion != m.ClusterVersion {
		u.opts.Logger.Info("cluster version changed", "from", old.ClusterVersion, "to", m.ClusterVersion)
	}
	// Records are part of the topology.
	if old.Topology == m.Topology {
		return
	}
	// Logged once, when the last record has changed.
	if next := m.NextVersion(); next > m.ClusterVersion && old.NextVersion() < next {
		u.opts.Logger.Info("all nodes support a newer cluster version: finalize the upgrade when no node has to go "+
			"back", "version", m.ClusterVersion, "next", next, "command", "cqld ctl upgrade finalize")
	}
}

// Upgrade returns the node's handler of rolling upgrades.
func (c *Cluster) Upgrade() *Upgrade { return c.upgrade }

// Versions returns the cluster versions that the running process of a member supports. ok is false if the member is
// down or has not reported them yet.
func (u *Upgrade) Versions(id ring.NodeID) (r clusterversion.Range, ok bool) {
	return u.progress.versions(id)
}

// Finalize raises the cluster version to the newest one that all members support, and returns it when all live nodes
// have applied the change. It returns *metadata.Refused if a live process supports less than its record. If no newer
// version is supported by all, nothing changes.
func (u *Upgrade) Finalize(ctx context.Context) (clusterversion.Version, error) {
	m := u.view.metadata()
	next := m.NextVersion()
	if next == m.ClusterVersion {
		return next, nil
	}
	// Heartbeats are checked in addition to the records, which decide when the command is applied.
	for _, n := range m.Topology.Nodes() {
		if r, ok := u.Versions(n.ID); ok && !r.Includes(next) {
			return m.ClusterVersion, &metadata.Refused{Reason: fmt.Sprintf("node %s runs a build that supports "+
				"cluster %v, and not %d", n.Internode, r, next)}
		}
	}
	err := u.proposals.propose(ctx, finalize(next))
	return u.view.metadata().ClusterVersion, err
}

// StartFinalize is Finalize without blocking and without the check of heartbeats. The loop calls it, and done.
func (u *Upgrade) StartFinalize(done func(error)) {
	u.proposals.start(finalize(u.view.metadata().NextVersion()), done)
}

// finalize returns the command that raises the cluster version.
func finalize(v clusterversion.Version) *metadata.Command {
	return &metadata.Command{Finalize: &metadata.Finalize{Version: v}}
}
