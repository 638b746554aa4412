package node

import (
	"fmt"
	"strconv"
	"strings"

	"cqld/jobs"
	"cqld/ring"
)

// ringJobPrefix begins the ids of jobs that represent ring operations. The number of the operation follows.
const ringJobPrefix = "ring-"

func ringJobID(operation uint64) string { return ringJobPrefix + strconv.FormatUint(operation, 10) }

// ringOperation returns the ring operation that a job represents; ok is false for other jobs.
func ringOperation(job string) (operation uint64, ok bool) {
	number, ok := strings.CutPrefix(job, ringJobPrefix)
	operation, err := strconv.ParseUint(number, 10, 64)
	return operation, ok && err == nil
}

// ringJob is the job of a ring operation.
type ringJob struct {
	*jobs.Job
	operation *ring.Operation
	gains     bool // this node gains ranges, so its own progress is shown
}

// followRing updates the jobs of ring operations to a topology. The metadata log keeps these operations and continues
// them after a crash; the registry only shows them. It is called once after the log was replayed, and then after every
// change.
func (n *Node) followRing(t *ring.Topology) {
	n.mu.Lock()
	defer n.mu.Unlock()
	if n.mu.ringJobs == nil {
		return
	}
	for id, j := range n.mu.ringJobs {
		if t.Operation(id) != nil {
			continue
		}
		delete(n.mu.ringJobs, id)
		if j.operation.Completed(t) {
			if m := n.cluster.Metadata(); len(m.MissingFrom(id)) > 0 {
				missing := m.DescribeMissing(m.MissingFrom(id))
				n.log.Warn("operation ended without all data; repair the keyspaces on these nodes", "operation", id,
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
		j := n.mu.ringJobs[o.ID]
		if j == nil {
			j = n.newRingJob(t, o)
		}
		if j == nil {
			continue
		}
		n.mu.ringJobs[o.ID] = j
		if j.operation = o; !j.gains {
			j.Progress(int64(len(o.Streamed)+len(o.Compared)), int64(2*len(o.Gaining)), o.Phase.String())
		}
	}
}

// newRingJob starts the job of an operation. It returns nil if there are too many jobs.
func (n *Node) newRingJob(t *ring.Topology, o *ring.Operation) *ringJob {
	out := &ringJob{operation: o}
	unit := jobs.Nodes
	for _, id := range o.Gaining {
		if id == n.cluster.Self() {
			out.gains, unit = true, jobs.Ranges
		}
	}
	target := fmt.Sprintf("%s (data center %s)", t.NameOf(o.Node), datacenterOf(t, o.Node))
	j, err := n.jobs.Start(jobs.Spec{External: ringJobID(o.ID), Kind: jobs.Kind(o.Kind.String()), Target: target,
		Unit: unit}, func(*jobs.Job) {})
	if err != nil {
		n.log.Debug("operation of the ring not shown as a job", "operation", o.ID, "err", err)
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

// measureRing updates the progress of operations by which this node gains ranges. Each range is streamed and then
// compared with its sources.
func (n *Node) measureRing() {
	all := n.moves.Status()
	n.mu.Lock()
	defer n.mu.Unlock()
	for _, s := range all {
		j := n.mu.ringJobs[s.Operation.ID]
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
