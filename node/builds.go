package node

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"sync"

	"cqld/jobs"
	"cqld/node/control"
	"cqld/query/system"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage/index"
)

// builds shows the builds of indexes as jobs. The builder does the work, and storage keeps how far it is, so that a
// build goes on after a restart; the registry only shows it. A build that ends with its first step was no long-running
// work and has no job, unless an operator asked for it.
type builds struct {
	n  *Node
	mu sync.Mutex
	// open are the builds that have not ended, by index.
	open map[schema.StorageID]*build
}

// build is the job of a build.
type build struct {
	*jobs.Job
	work  index.Work
	total int64 // the size of the table on disk when the job began; 0: its rows are in memory
}

// buildJobPrefix begins the ids of jobs that represent builds. The number of the index in storage follows.
const buildJobPrefix = "index-"

// worked implements search.BuilderOptions.Worked.
func (s *builds) worked(w index.Work, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if w.Drop {
		s.endLocked(w.Index, jobs.ErrCancelled)
		return
	}
	p := s.n.parts.Builder.Progress(w.Table, w.Index)
	b := s.open[w.Index]
	if b == nil && !(p.Built && err == nil) {
		b, _ = s.beginLocked(w) // too many jobs: the build goes on without one
	}
	if b == nil {
		return
	}
	done, phase := p.Bytes, "writing entries of rows"
	if b.total > 0 {
		done = int64(p.Fraction * float64(b.total))
	}
	if err != nil {
		phase = "failed, and tried again: " + err.Error()
	}
	b.Progress(done, b.total, phase)
	if p.Built {
		s.endLocked(w.Index, nil)
	}
}

// beginLocked starts the job of a build.
func (s *builds) beginLocked(w index.Work) (*build, error) {
	catalog := s.n.cluster.Metadata().Schema
	kind, target := jobs.IndexBuild, ""
	if t, x := catalog.IndexByStorage(w.Index); x != nil {
		target = t.Keyspace + "." + t.Name + ": " + x.Name
	} else if v := catalog.TableByStorage(w.Index); v != nil {
		kind, target = jobs.ViewBuild, v.Keyspace+"."+v.Name
	} else {
		return nil, errors.New("the index was dropped")
	}
	b := &build{work: w}
	if size, err := s.n.engine.TableSize(w.Table); err == nil {
		b.total = size.Bytes
	}
	var err error
	b.Job, err = s.n.jobs.Start(jobs.Spec{External: buildJobPrefix + strconv.FormatUint(uint64(w.Index), 10),
		Kind: kind, Target: target, Unit: jobs.Bytes},
		func(*jobs.Job) {})
	if err != nil {
		return nil, err
	}
	s.open[w.Index] = b
	return b, nil
}

func (s *builds) endLocked(id schema.StorageID, err error) {
	if b := s.open[id]; b != nil {
		delete(s.open, id)
		b.End(err)
	}
}

// retain ends the jobs of indexes that a schema does not have.
func (s *builds) retain(catalog *schema.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		if _, x := catalog.IndexByStorage(id); x == nil && catalog.TableByStorage(id) == nil {
			s.endLocked(id, jobs.ErrCancelled)
		}
	}
}

// again builds an index once more, and returns its job.
func (s *builds) again(t *schema.Table, x *schema.Index) (*jobs.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.open[x.ID] != nil || !s.n.parts.Builder.Progress(t.StorageID, x.ID).Built {
		return nil, &control.Error{Code: control.Refused,
			Message: fmt.Sprintf("Cannot rebuild index %s as another index build for the same index is currently in "+
				"progress.", x.Name)}
	}
	b, err := s.beginLocked(index.Work{Table: t.StorageID, Index: x.ID})
	if err != nil {
		return nil, jobRefusal(err)
	}
	if err := s.n.parts.Builder.Rebuild(t.StorageID, x.ID); err != nil {
		s.endLocked(x.ID, err)
		return nil, err
	}
	return b.Job, nil
}

// opRebuildIndex builds indexes of a table once more, and waits for them.
func (n *Node) opRebuildIndex(ctx context.Context, a control.IndexArgs, report control.Report) (none control.None,
	err error) {
	t, err := n.oneTable(a.TableArgs)
	if err != nil {
		return none, err
	}
	var of []*schema.Index
	for _, name := range a.Indexes {
		x := t.Index(name)
		if x == nil {
			return none, &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("table %s.%s has no index %s", t.Keyspace, t.Name, name)}
		}
		if _, kept := index.DefinitionOf(t, x); kept && !slices.Contains(of, x) {
			of = append(of, x)
		}
	}
	var started []*jobs.Job
	for _, x := range of {
		j, err := n.builds.again(t, x)
		if err != nil {
			return none, err // those that were started go on
		}
		started = append(started, j)
	}
	for _, j := range started {
		s, err := n.watchJob(ctx, j.ID(), report)
		if err != nil {
			return none, err
		}
		if s.State == jobs.Cancelled {
			return none, &control.Error{Code: control.Failed, Message: "the index was dropped"}
		}
		if err := jobError(&s); err != nil {
			return none, err
		}
	}
	return none, nil
}

// opViewBuild returns the state of a view's build on each node.
func (n *Node) opViewBuild(_ context.Context, a control.TableArgs, _ control.Report) (control.ViewBuild, error) {
	out := control.ViewBuild{TableArgs: a, Hosts: []control.HostStatus{}}
	m := n.cluster.Metadata()
	view := m.Schema.Table(a.Keyspace, a.Table)
	var unbuilt map[ring.NodeID][]schema.StorageID
	if view != nil && view.IsView() {
		unbuilt = n.unbuilt()
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

// unbuilt implements system.Builds.Unbuilt.
func (n *Node) unbuilt() map[ring.NodeID][]schema.StorageID {
	out := map[ring.NodeID][]schema.StorageID{}
	for id, f := range n.allFacts() {
		out[id] = f.Unbuilt
	}
	return out
}

// ownUnbuilt returns the indexes that this node has not built.
func (n *Node) ownUnbuilt() (out []schema.StorageID) {
	for _, w := range n.instance.Values.Pending(n.cluster.Metadata().Schema.IndexedIDs()) {
		if !w.Drop {
			out = append(out, w.Index)
		}
	}
	return out
}

// shownBuilds returns the builds of indexes for the system tables.
func (n *Node) shownBuilds() system.Builds {
	return system.Builds{Unbuilt: n.unbuilt, Of: func(table, id schema.StorageID) system.Build {
		p := n.parts.Builder.Progress(table, id)
		return system.Build{Built: p.Built, Next: p.Token, Begun: p.Begun, Rows: p.Rows}
	}}
}

// runningBuilds returns the builds for compactionstats.
func (n *Node) runningBuilds() (out []control.IndexBuild) {
	for _, s := range n.listJobs() {
		if (s.Kind == jobs.IndexBuild || s.Kind == jobs.ViewBuild) && !s.State.Ended() {
			out = append(out, control.IndexBuild{ID: s.ID, Kind: string(s.Kind), Target: s.Target, Done: s.Done,
				Total: s.Total, Unit: string(s.Unit)})
		}
	}
	return out
}

func (n *Node) opBuildThroughput(context.Context, control.None, control.Report) (control.Throughput, error) {
	return control.Throughput{BytesPerSecond: n.parts.Builder.Throughput()}, nil
}

func (n *Node) opSetBuildThroughput(_ context.Context, a control.Throughput, _ control.Report) (control.Throughput,
	error) {
	if a.BytesPerSecond < 0 {
		return a, &control.Error{Code: control.Invalid,
			Message: "the throughput must not be negative; 0 means no bound"}
	}
	n.parts.Builder.SetThroughput(a.BytesPerSecond)
	return a, nil
}
