package admin

import (
	"context"
	"errors"
	"fmt"
	"log/slog"

	"cqld/cluster"
	"cqld/cluster/metadata"
	"cqld/clusterversion"
	"cqld/node/control"
	"cqld/ring"
)

// Upgrade shows and finalizes rolling upgrades.
type Upgrade struct {
	cluster *cluster.Cluster
	members members
	peers   *Peers
	log     *slog.Logger
}

// register adds the operations of upgrades.
func (u *Upgrade) register(s *control.Server) {
	control.Handle(s, control.UpgradeStatus, u.Status)
	control.Handle(s, control.UpgradeFinalize, u.Finalize)
}

// Status returns the cluster version and what each node supports. It asks the live nodes for their builds.
func (u *Upgrade) Status(context.Context, control.None, control.Report) (control.Upgrade, error) {
	m, builds := u.cluster.Metadata(), u.peers.all()
	next := m.NextVersion()
	out := control.Upgrade{ClusterVersion: int(m.ClusterVersion), Next: int(next), Nodes: []control.UpgradeNode{}}
	// What the newest build of the ring supports is what the others have to be upgraded to.
	newest := next
	for _, n := range m.Topology.Nodes() {
		newest = max(newest, n.Versions.Max)
	}
	for _, n := range m.Topology.Nodes() {
		out.Nodes = append(out.Nodes, control.UpgradeNode{Member: u.members.one(n), Build: builds[n.ID].Build,
			Oldest: int(n.Versions.Min), Newest: int(n.Versions.Max), Waits: u.waits(m, n, newest)})
	}
	return out, nil
}

// waits returns why a cluster version has to wait for a node.
func (u *Upgrade) waits(m *metadata.Metadata, n *ring.Node, newest clusterversion.Version) string {
	running, ok := u.cluster.Upgrade().Versions(n.ID)
	switch {
	case m.IsLost(n.ID) || newest == m.ClusterVersion:
		return ""
	case n.Versions.Includes(newest) && ok && !running.Includes(newest):
		return fmt.Sprintf("its process supports %v", running)
	case n.Versions.Includes(newest):
		return ""
	case !u.cluster.Alive(n.ID):
		return fmt.Sprintf("it is down, and its last build supports %v: upgrade or remove it", n.Versions)
	}
	return fmt.Sprintf("its build supports %v: upgrade it", n.Versions)
}

// Finalize raises the cluster version to the newest one that all nodes support. It cannot be undone.
func (u *Upgrade) Finalize(ctx context.Context, _ control.None, report control.Report) (control.Upgrade, error) {
	before := u.cluster.Metadata().ClusterVersion
	after, err := u.cluster.Upgrade().Finalize(ctx)
	var refused *metadata.Refused
	if errors.As(err, &refused) {
		return control.Upgrade{}, &control.Error{Code: control.Refused, Message: refused.Reason}
	}
	if err != nil {
		return control.Upgrade{}, err
	}
	if after != before {
		u.log.Info("upgrade finalized", "from", before, "to", after)
	}
	return u.Status(ctx, control.None{}, report)
}
