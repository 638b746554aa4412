package sysviews

import (
	"strings"

	"cqld/auth"
	"cqld/internal/env"
	"cqld/node/admin"
	"cqld/node/assembly"
	"cqld/node/clients"
	"cqld/node/config"
	"cqld/node/tablestats"
	"cqld/query"
	"cqld/query/system"
	"cqld/ring"
)

// Options configure New. All fields are required. Functions are used where the part exists only after the tables.
type Options struct {
	Config    *config.Options
	Instance  *assembly.Instance
	Servers   *clients.Servers
	Tables    *tablestats.Engine
	Estimates *tablestats.Estimates
	Commands  *admin.Commands
	Roles     func() *auth.Directory
	// Processor returns what executes statements. It is called by statements only.
	Processor func() *query.Processor
	Clock     env.Clock
}

// views reads what the system tables show. It has no state of its own and is safe for concurrent use.
type views struct{ o Options }

// New returns the content of the system tables of a node. The parts need not run yet: they are read by statements only.
func New(o Options) *system.Source {
	v := &views{o}
	return system.New(system.Options{
		View: shownRing{o.Instance.View}, ClusterName: o.Config.ClusterName,
		// Cassandra's gossip generation is the time of the start, in seconds.
		Generation: int32(o.Clock.Now().Unix()),
		Clients:    v.clients, Estimate: o.Estimates.Shown, Settings: o.Config.Settings, Jobs: v.jobs, Roles: o.Roles,
		Figures: v.figures(), Builds: o.Commands.Indexes.Shown(), Ranges: o.Commands.Ranges.Shown,
	})
}

// shownRing is the cluster as clients see it.
type shownRing struct{ assembly.View }

// Topology implements system.View. After decommissioning, clients of this node keep seeing the last topology that
// contained it.
func (r shownRing) Topology() *ring.Topology { return r.Cluster.LastRing() }

// clients returns the open connections. It is first called by a connection, so the server exists. A closed server has
// no connections.
func (v *views) clients() []system.Client {
	var out []system.Client
	s := v.o.Servers.CQL()
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

// jobs returns the jobs for system_views.jobs. Ended jobs are listed as long as the registry keeps them. It converts
// through admin.ShownJob, so that the table and `cqld ctl jobs` never differ.
func (v *views) jobs() []system.Job {
	var out []system.Job
	for _, s := range v.o.Commands.Jobs.All() {
		j := admin.ShownJob(&s)
		out = append(out, system.Job{ID: j.ID, Kind: j.Kind, Target: j.Target, State: j.State, Phase: j.Phase,
			Error: j.Error, Done: j.Done,
			Total: j.Total, Unit: j.Unit, Left: j.Left, Attempt: j.Attempt, Resumable: j.Resumable, Created: j.Created,
			Began: j.Began, Ended: j.Ended})
	}
	return out
}
