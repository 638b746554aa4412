package node

import (
	"strings"

	"cqld/node/admin"
	"cqld/node/assembly"
	"cqld/query/system"
	"cqld/ring"
)

// systemTables returns the content of the system tables of this node.
func (n *Node) systemTables() *system.Source {
	return system.New(system.Options{
		View: shownRing{n.parts.View}, ClusterName: n.opts.ClusterName, Generation: int32(n.clock.Now().Unix()),
		Clients: n.clients, Estimate: n.estimates.Shown, Settings: n.opts.Settings, Jobs: n.shownJobs, Roles: n.roles,
		Figures: n.shownFigures(), Builds: n.commands.Indexes.Shown(),
	})
}

// shownRing is the cluster as clients see it.
type shownRing struct{ assembly.View }

// Topology implements system.View. After decommissioning, clients of this node keep seeing the last topology that
// contained it.
func (v shownRing) Topology() *ring.Topology { return v.Cluster.LastRing() }

// clients returns the open connections. It is first called by a connection, so the server exists.
func (n *Node) clients() []system.Client {
	var out []system.Client
	s := n.servers.CQL()
	if s == nil {
		return nil
	}
	for _, c := range s.Clients() {
		out = append(out, system.Client{Address: c.Address, User: c.User, Stage: strings.ToLower(c.Stage),
			ProtocolVersion: c.ProtocolVersion, Options: c.Options, Keyspace: c.Keyspace, Requests: c.Requests,
			TLS: c.TLS})
	}
	return out
}

// shownJobs returns the jobs for system_views.jobs.
func (n *Node) shownJobs() []system.Job {
	var out []system.Job
	for _, s := range n.commands.Jobs.All() {
		j := admin.ShownJob(&s)
		out = append(out, system.Job{ID: j.ID, Kind: j.Kind, Target: j.Target, State: j.State, Phase: j.Phase,
			Error: j.Error, Done: j.Done,
			Total: j.Total, Unit: j.Unit, Left: j.Left, Attempt: j.Attempt, Resumable: j.Resumable, Created: j.Created,
			Began: j.Began, Ended: j.Ended})
	}
	return out
}
