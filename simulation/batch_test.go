package simulation

import (
	"strings"
	"testing"

	"cqld/internal/mutant"
)

// leaverFaults make nodes leave while they store batches that they could not write.
const leaverFaults = "join leave isolate one-way bad-links pause ring disk-full"

// TestBatchesOfDepartingNodesAreComplete runs logged batches while nodes join and leave. In seed 81142, which is run
// with its original options, the only node that stored a batch left the ring with it.
func TestBatchesOfDepartingNodesAreComplete(t *testing.T) {
	o := DefaultOptions(81142)
	report(t, o, run(t, o))
	runFewReplicas(t, 12, "batch", leaverFaults, func(*Options) {})
}

// TestSimNeedsBatchesHandedOver shows that the simulation finds batches that leave the ring with their holders. Two
// live nodes other than the coordinator hold a batch, if there are two: both would have to leave before the batch is
// replayed. So the ring is small, and coordinators are killed while they write batches.
func TestSimNeedsBatchesHandedOver(t *testing.T) {
	mutant.Need(t, "batchlog/leaves-with-its-holder", "hints/not-handed-over")
	mustFail(t, 0, 300, smallRing, "of its")
}

func smallRing(o *Options) {
	o.Workloads, o.FaultKinds = []string{"batch"}, strings.Fields("join leave kill isolate one-way pause ring "+
		"disk-full")
	o.Nodes, o.Factor = 3, 1
}

// TestSingleVoterLeaves makes the first of two members leave. It is the only voter, so it must make the other one a
// voter first; otherwise no later operation of the ring ends.
func TestSingleVoterLeaves(t *testing.T) {
	o := DefaultOptions(13)
	smallRing(&o)
	report(t, o, run(t, o))
}

// TestLeaderDoesNotWaitForFormerVoter makes one of three members leave, and cuts its links before it learns of its
// removal. The leader must not wait for the former member's vote. The adjacent seeds are run, too.
func TestLeaderDoesNotWaitForFormerVoter(t *testing.T) {
	for seed := uint64(140); seed < 160; seed++ {
		o := DefaultOptions(seed)
		smallRing(&o)
		report(t, o, run(t, o))
	}
}

// TestSimNeedsMoreThanHints shows that the simulation finds batches of which a part was only in the hints of a node
// that left.
func TestSimNeedsMoreThanHints(t *testing.T) {
	mutant.Need(t, "batchlog/hints-are-enough", "hints/not-handed-over")
	mustFail(t, 0, 200, func(o *Options) { leaving(o, 1) }, "of its")
}

// TestHintsOfDepartingNodesAreWritten runs seed 701700 with its original options: a node that left the ring had the
// only copy of a write at ANY, as a hint. coordinator's TestHintsAreWrittenBeforeANodeLeaves shows what happens to
// these hints.
func TestHintsOfDepartingNodesAreWritten(t *testing.T) {
	o := DrawnOptions(701700)
	report(t, o, run(t, o))
}

func leaving(o *Options, factor int) {
	o.Workloads, o.FaultKinds = []string{"batch"}, strings.Fields(leaverFaults)
	o.Nodes, o.Factor = 5, factor
}
