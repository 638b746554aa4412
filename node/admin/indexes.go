package admin

import (
	"context"
	"fmt"
	"slices"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/query/system"
	"cqld/ring"
	"cqld/schema"
	"cqld/search"
	"cqld/storage/index"
)

// Indexes builds indexes and views once more, and shows their builds. A view is built like an index, and has its state
// in the same place.
type Indexes struct {
	catalog Catalog
	jobs    *Jobs
	peers   *Peers
	builder *search.Builder
	builds  *builds
}

// Rebuild builds indexes of a table once more, and waits for them. An index that has no entries of its own
// (index.DefinitionOf) is left out. An error after some builds have started leaves these running. Only this node's part
// is rebuilt; an operator runs it on each replica. nodetool rebuild_index does the same.
func (x *Indexes) Rebuild(ctx context.Context, a control.IndexArgs, report control.Report) (none control.None,
	err error) {
	t, err := x.catalog.one(a.TableArgs)
	if err != nil {
		return none, err
	}
	var of []*schema.Index
	for _, name := range a.Indexes {
		// An index that does not exist is an error before any build is started.
		i := t.Index(name)
		if i == nil {
			return none, &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("table %s.%s has no index %s", t.Keyspace, t.Name, name)}
		}
		// A name that is listed twice is built once.
		if _, kept := index.DefinitionOf(t, i); kept && !slices.Contains(of, i) {
			of = append(of, i)
		}
	}
	var started []*jobs.Job
	// All builds are started before the first one is awaited, so they run together.
	for _, i := range of {
		j, err := x.builds.again(t, i)
		if err != nil {
			return none, err // those that were started continue
		}
		started = append(started, j)
	}
	// Awaiting them in order is enough: the slowest one decides.
	for _, j := range started {
		s, err := x.jobs.watch(ctx, j.ID(), report)
		if err != nil {
			return none, err
		}
		// An index that was dropped while it was built has no state to report.
		if s.State == jobs.Cancelled {
			return none, &control.Error{Code: control.Failed, Message: "the index was dropped"}
		}
		if err := jobError(&s); err != nil {
			return none, err
		}
	}
	return none, nil
}

// ViewBuild returns the state of a view's build on each node. A view that does not exist is unknown on every node, like
// in nodetool. STARTED and SUCCESS are nodetool's words; a node that does not answer within factsTimeout is UNKNOWN.
func (x *Indexes) ViewBuild(_ context.Context, a control.TableArgs, _ control.Report) (control.ViewBuild, error) {
	out := control.ViewBuild{TableArgs: a, Hosts: []control.HostStatus{}}
	m := x.catalog.cluster.Metadata()
	view := m.Schema.Table(a.Keyspace, a.Table)
	// Unbuilt is nil for a table that is no view, and then every node is unknown.
	var unbuilt map[ring.NodeID][]schema.StorageID
	// The list comes from all nodes, because each knows only its own builds.
	if view != nil && view.IsView() {
		unbuilt = x.peers.Unbuilt()
	}
	for _, node := range m.Topology.Nodes() {
		h := control.HostStatus{Address: node.Internode.Addr().String(), Status: system.UnknownView}
		if unbuilt != nil {
			h.Status = system.ViewStatus(view, node, unbuilt)
		}
		out.Hosts = append(out.Hosts, h)
	}
	return out, nil
}

// Shown returns the builds of indexes for the system tables. The functions are called for every table that a client
// reads.
func (x *Indexes) Shown() system.Builds {
	return system.Builds{Unbuilt: x.peers.Unbuilt, Of: func(table, id schema.StorageID) system.Build {
		p := x.builder.Progress(table, id)
		return system.Build{Built: p.Built, Next: p.Token, Begun: p.Begun, Rows: p.Rows}
	}}
}

// running returns the builds for compactionstats. The builds are jobs of this node; an index that has no job is being
// built by its first step.
func (x *Indexes) running() (out []control.IndexBuild) {
	for _, s := range x.jobs.All() {
		if (s.Kind == jobs.IndexBuild || s.Kind == jobs.ViewBuild) && !s.State.Ended() {
			out = append(out, control.IndexBuild{ID: s.ID, Kind: string(s.Kind), Target: s.Target, Done: s.Done,
				Total: s.Total, Unit: string(s.Unit)})
		}
	}
	return out
}

// Throughput shows the bound of the throughput of builds. A bound of zero means that there is none.
func (x *Indexes) Throughput(context.Context, control.None, control.Report) (control.Throughput, error) {
	return control.Throughput{BytesPerSecond: x.builder.Throughput()}, nil
}

// SetThroughput changes the bound of the throughput of builds. It applies to the running node; the configuration is
// applied again at the next start.
func (x *Indexes) SetThroughput(_ context.Context, a control.Throughput, _ control.Report) (control.Throughput,
	error) {
	if a.BytesPerSecond < 0 {
		return a, &control.Error{Code: control.Invalid,
			Message: "the throughput must not be negative; 0 means no bound"}
	}
	x.builder.SetThroughput(a.BytesPerSecond)
	return a, nil
}
