package admin

import (
	"errors"
	"fmt"
	"strconv"
	"sync"

	"cqld/cluster"
	"cqld/jobs"
	"cqld/node/control"
	"cqld/schema"
	"cqld/search"
	"cqld/storage"
	"cqld/storage/index"
)

// builds shows the builds of indexes as jobs. The builder does the work, and storage keeps how far it is, so that a
// build continues after a restart; the registry only shows it. A build that ends with its first step was no
// long-running work and has no job, unless an operator asked for it. The registry is shared with the other jobs of the
// node. One build of an index has at most one job. The builder calls worked from its goroutine, and operators call
// again from theirs.
type builds struct {
	cluster  *cluster.Cluster
	engine   *storage.Engine
	builder  *search.Builder
	registry *jobs.Registry
	// mu guards open, and is held while a job is begun or ended.
	mu sync.Mutex
	// open are the builds that have not ended, by index.
	open map[schema.StorageID]*build
}

// build is the job of a build. A build has a job only if it did not end with its first step, or if an operator has
// started it.
type build struct {
	*jobs.Job            // the job shows the progress of the work
	work      index.Work // the index and its table
	total     int64      // the size of the table on disk when the job began; 0: its rows are in memory
}

// buildJobPrefix begins the ids of jobs that represent builds. The number of the index in storage follows. For example
// index-1042.
const buildJobPrefix = "index-"

// worked implements search.BuilderOptions.Worked. It is called for every step of every build. err is the error of the
// step, if it failed; the builder then repeats it.
func (s *builds) worked(w index.Work, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// The index was dropped: its build has ended without a result. Storage works on an index that is dropped as well,
	// to remove its entries; that is no build.
	if w.Drop {
		s.endLocked(w.Index, jobs.ErrCancelled)
		return
	}
	// The builder is queried for the progress here, because the step itself does not know the table's size.
	p := s.builder.Progress(w.Table, w.Index)
	b := s.open[w.Index]
	// A build that this step completes needs no job. One with an error is shown, because it is tried again.
	if b == nil && !(p.Built && err == nil) {
		b, _ = s.beginLocked(w) // too many jobs: the build continues without one
	}
	if b == nil {
		return
	}
	// Bytes of rows that the build has read.
	done, phase := p.Bytes, "writing entries of rows"
	// The job counts bytes of the table on disk, and the builder bytes of rows.
	if b.total > 0 {
		done = int64(p.Fraction * float64(b.total))
	}
	// The builder tries a failed step again by itself.
	if err != nil {
		phase = "failed, and tried again: " + err.Error()
	}
	b.Progress(done, b.total, phase)
	// Built means that the index answers queries.
	if p.Built {
		s.endLocked(w.Index, nil)
	}
}

// beginLocked starts the job of a build. The job is shown to operators and does not do the work: its function is empty.
// The caller holds mu, and no build of the index is in open.
func (s *builds) beginLocked(w index.Work) (*build, error) {
	catalog := s.cluster.Metadata().Schema
	// Work without an index builds a view, whose storage id belongs to a table.
	kind, target := jobs.IndexBuild, ""
	if t, x := catalog.IndexByStorage(w.Index); x != nil {
		// The index of a table. Names of indexes are unique in a keyspace only, so the table is shown, too.
		target = t.Keyspace + "." + t.Name + ": " + x.Name
	} else if v := catalog.TableByStorage(w.Index); v != nil {
		// An id that belongs to no index is the storage of a view.
		kind, target = jobs.ViewBuild, v.Keyspace+"."+v.Name
		// Between the step and here, the index was dropped.
	} else {
		// The index or view was dropped between the step and here.
		return nil, errors.New("the index was dropped")
	}
	b := &build{work: w}
	// Without a size, the job shows the bytes of rows that were read.
	if size, err := s.engine.TableSize(w.Table); err == nil {
		b.total = size.Bytes
	}
	// The registry refuses a job if too many are active; the build continues without one.
	var err error
	b.Job, err = s.registry.Start(jobs.Spec{External: buildJobPrefix + strconv.FormatUint(uint64(w.Index), 10),
		Kind: kind, Target: target, Unit: jobs.Bytes},
		func(*jobs.Job) {})
	if err != nil {
		return nil, err
	}
	s.open[w.Index] = b
	return b, nil
}

// endLocked ends the job of an index, if there is one. The caller holds mu. A nil err means that the job is done.
func (s *builds) endLocked(id schema.StorageID, err error) {
	if b := s.open[id]; b != nil {
		delete(s.open, id)
		b.End(err)
	}
}

// retain ends the jobs of indexes that a schema does not have. It is called after every change of the metadata.
func (s *builds) retain(catalog *schema.Schema) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for id := range s.open {
		// A view's storage is a table of its own.
		if _, x := catalog.IndexByStorage(id); x == nil && catalog.TableByStorage(id) == nil {
			s.endLocked(id, jobs.ErrCancelled)
		}
	}
}

// again builds an index once more, and returns its job. It is refused while the index is built, so that two builds of
// one index never overlap. Until the build is complete, searches do not use this node for the index (search.Builder).
func (s *builds) again(t *schema.Table, x *schema.Index) (*jobs.Job, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	// Built is the state on this node; another node may still be building its part.
	if s.open[x.ID] != nil || !s.builder.Progress(t.StorageID, x.ID).Built {
		return nil, &control.Error{Code: control.Refused,
			Message: fmt.Sprintf("Cannot rebuild index %s as another index build for the same index is currently in "+
				"progress.", x.Name)}
	}
	b, err := s.beginLocked(index.Work{Table: t.StorageID, Index: x.ID})
	if err != nil {
		return nil, jobRefusal(err)
	}
	// The builder starts again from the beginning of the table.
	if err := s.builder.Rebuild(t.StorageID, x.ID); err != nil {
		s.endLocked(x.ID, err)
		return nil, err
	}
	return b.Job, nil
}
