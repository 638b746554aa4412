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

// ringJobs shows the operations of the ring as jobs. The metadata keeps the operations; the jobs only reflect them.
// Every node shows every operation under the same id, ring-N, so an operator can ask any node.
type ringJobs struct {
	cluster   *cluster.Cluster
	movements *rebalance.Movements
	registry  *jobs.Registry
	log       *slog.Logger
	// The map is nil until begin, because no operation is shown before.
	mu struct {
		sync.Mutex
		jobs map[uint64]*ringJob // by operation; nil until the metadata log was replayed
	}
}

// begin shows the operations of a topology, after the metadata log was replayed. It is called once.
func (r *ringJobs) begin(t *ring.Topology) {
	r.mu.Lock()
	r.mu.jobs = map[uint64]*ringJob{}
	r.mu.Unlock()
	// The operations that are in progress are shown at once.
	r.follow(t)
}

// RingJobPrefix begins the ids of jobs that represent ring operations. The number of the operation follows. The id of a
// job is what an operator sees and resumes. N is the operation's number in the metadata, which is never used twice.
const RingJobPrefix = "ring-"

// ringJobID returns the id of the job of a ring operation.
func ringJobID(operation uint64) string { return RingJobPrefix + strconv.FormatUint(operation, 10) }

// ringOperation returns the ring operation that a job represents; ok is false for other jobs. The registry may contain
// jobs of other kinds with any id.
func ringOperation(job string) (operation uint64, ok bool) {
	number, ok := strings.CutPrefix(job, RingJobPrefix)
	operation, err := strconv.ParseUint(number, 10, 64)
	return operation, ok && err == nil
}

// ringJob is the job of a ring operation. It is replaced by the newest version of the operation.
type ringJob struct {
	*jobs.Job
	operation *ring.Operation
	gains     bool // this node gains ranges, so its own progress is shown
}

// follow updates the jobs of ring operations to a topology. The metadata log keeps these operations and continues them
// after a crash; the registry only shows them. It is called once after the log was replayed, and then after every
// change. Jobs that are not shown because there are too many are tried again at the next change. An operation that is
// missing from the topology has ended: completed if its effect is visible, aborted otherwise.
func (r *ringJobs) follow(t *ring.Topology) {
	r.mu.Lock()
	defer r.mu.Unlock()
	// Before the log was replayed, the topology is not known yet.
	if r.mu.jobs == nil {
		return
	}
	for id, j := range r.mu.jobs {
		// The operation is still in progress.
		if t.Operation(id) != nil {
			continue
		}
		delete(r.mu.jobs, id)
		// A completed operation has ended, an aborted one is cancelled. The last known version of the operation says
		// what its effect would be, for example that the node has left.
		if j.operation.Completed(t) {
			// The metadata lists what an operation could not move, for example from a replica that was down.
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
		// Too many jobs: the operation continues without one.
		if j == nil {
			continue
		}
		r.mu.jobs[o.ID] = j
		// A node that gains ranges measures its own progress instead.
		if j.operation = o; !j.gains {
			j.Progress(int64(len(o.Streamed)+len(o.Compared)), int64(2*len(o.Gaining)), o.Phase.String())
		}
	}
}

// newRingJob starts the job of an operation. It returns nil if there are too many jobs. The unit is ranges on a node
// that gains some, and nodes elsewhere.
func (r *ringJobs) newRingJob(t *ring.Topology, o *ring.Operation) *ringJob {
	out := &ringJob{operation: o}
	unit := jobs.Nodes
	for _, id := range o.Gaining {
		if id == r.cluster.Self() {
			out.gains, unit = true, jobs.Ranges
		}
	}
	// The target names the node of the operation, and its data center.
	target := fmt.Sprintf("%s (data center %s)", t.NameOf(o.Node), datacenterOf(t, o.Node))
	j, err := r.registry.Start(jobs.Spec{External: ringJobID(o.ID), Kind: jobs.Kind(o.Kind.String()), Target: target,
		Unit: unit}, func(*jobs.Job) {})
	// The operation is not affected.
	if err != nil {
		r.log.Debug("operation of the ring not shown as a job", "operation", o.ID, "err", err)
		return nil
	}
	out.Job = j
	return out
}

// datacenterOf returns the data center of a member, or unknown after it has left.
func datacenterOf(t *ring.Topology, id ring.NodeID) string {
	if m := t.Node(id); m != nil {
		return m.Datacenter
	}
	return "unknown"
}

// measure updates the progress of operations by which this node gains ranges. Each range is streamed and then compared
// with its sources. It is called before jobs are listed or watched, because progress is not in the metadata. The
// progress of the ranges is local to a gaining node; other nodes show how many nodes have finished.
func (r *ringJobs) measure() {
	all := r.movements.Status()
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, s := range all {
		j := r.mu.jobs[s.Operation.ID]
		if j == nil || !j.gains {
			// A job that does not gain ranges is shown by its phase.
			continue
		}
		// Two passes over the same ranges, so the total is twice their number.
		done, phase := s.Ranges-s.Left, "streaming"
		if s.Comparing {
			done, phase = done+s.Ranges, "comparing"
		}
		j.Progress(int64(done), int64(2*s.Ranges), phase)
	}
}
