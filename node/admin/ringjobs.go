package admin

import (
	"fmt"
	"log/slog"
	"strconv"
	"strings"
	"sync"

	"cqld/cluster"
	"cqld/jobs"
	"cqld/rebalance"
	"cqld/ring"
)

// ringJobs shows the operations of the ring as jobs.
type ringJobs struct {
	cluster   *cluster.Cluster
	movements *rebalance.Movements
	registry  *jobs.Registry
	log       *slog.Logger
	mu        struct {
		sync.Mutex
		jobs map[uint64]*ringJob // by operation; nil until the metadata log was replayed
	}
}

// begin shows the operations of a topology, after the metadata log was replayed.
func (r *ringJobs) begin(t *ring.Topology) {
	r.mu.Lock()
	r.mu.jobs = map[uint64]*ringJob{}
	r.mu.Unlock()
	r.follow(t)
}

// RingJobPrefix begins the ids of jobs that represent ring operations. The number of the operation follows.
const RingJobPrefix = "ring-"

func ringJobID(operation uint64) string { return RingJobPrefix + strconv.FormatUint(operation, 10) }

// ringOperation returns the ring operation that a job represents; ok is false for other jobs.
func ringOperation(job string) (operation uint64, ok bool) {
	number, ok := strings.CutPrefix(job, RingJobPrefix)
	operation, err := strconv.ParseUint(number, 10, 64)
	return operation, ok && err == nil
}

// ringJob is the job of a ring operation.
type ringJob struct {
	*jobs.Job
	operation *ring.Operation
	gains     bool // this node gains ranges, so its own progress is shown
}

// follow updates the jobs of ring operations to a topology. The metadata log keeps these operations and continues
// them after a crash; the registry only shows them. It is called once after the log was replayed, and then after every
// change.
func (r *ringJobs) follow(t *ring.Topology) {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.mu.jobs == nil {
		return
	}
	for id, j := range r.mu.jobs {
		if t.Operation(id) != nil {
			continue
		}
		delete(r.mu.jobs, id)
		if j.operation.Completed(t) {
			if m := r.cluster.Metadata(); len(m.MissingFrom(id)) > 0 {
				missing := m.DescribeMissing(m.MissingFrom(id))
				r.log.Warn("operation ended without all data; repair the keyspaces on these nodes", "operation", id,
					"missing", missing)
				done, all := int64(len(j.operation.Compared)), int64(len(j.operation.Gaining))
				j.Progress(done, all, "ended; to be repaired: "+missing)
			}
			j.End(nil)
		} else {
			j.End(jobs.ErrCancelled) // aborted
		}
	}
	for _, o := range t.Operations() {
		j := r.mu.jobs[o.ID]
		if j == nil {
			j = r.newRingJob(t, o)
		}
		if j == nil {
			continue
		}
		r.mu.jobs[o.ID] = j
		if j.operation = o; !j.gains {
			j.Progress(int64(len(o.Streamed)+len(o.Compared)), int64(2*len(o.Gaining)), o.Phase.String())
		}
	}
}

// newRingJob starts the job of an operation. It returns nil if there are too many jobs.
func (r *ringJobs) newRingJob(t *ring.Topology, o *ring.Operation) *ringJob {
	out := &ringJob{operation: o}
	unit := jobs.Nodes
	for _, id := range o.Gaining {
		if id == r.cluster.Self() {
			out.gains, unit = true, jobs.Ranges
		}
	}
	target := fmt.Sprintf("%s (data center %s)", t.NameOf(o.Node), datacenterOf(t, o.Node))
	j, err := r.registry.Start(jobs.Spec{External: ringJobID(o.ID), Kind: jobs.Kind(o.Kind.String()), Target: target,
		Unit: unit}, func(*jobs.Job) {})
	if err != nil {
		r.log.Debug("operation of the ring not shown as a job", "operation", o.ID, "err", err)
		return nil
	}
	out.Job = j
	return out
}

func datacenterOf(t *ring.Topology, id ring.NodeID) string {
	if m := t.Node(id); m != nil {
		return m.Datacenter
	}
	return "unknown"
}

// measure updates the progress of operations by which this node gains ranges. Each range is streamed and then
// compared with its sources.
func (r *ringJobs) measure() {
	all := r.movements.Status()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range all {
		j := r.mu.jobs[s.Operation.ID]
		if j == nil || !j.gains {
			continue
		}
		done, phase := s.Ranges-s.Left, "streaming"
		if s.Comparing {
			done, phase = done+s.Ranges, "comparing"
		}
		j.Progress(int64(done), int64(2*s.Ranges), phase)
	}
}
