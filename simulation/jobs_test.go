package simulation

import (
	"bytes"
	"fmt"
	"slices"
	"testing"
	"testing/cryptotest"
	"time"

	"cqld/jobs"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/storage"
	"cqld/storage/reading"
)

// jobRun is one run of a repair as a job of node 1, which is cancelled, killed and loses power during the run.
type jobRun struct {
	*Cluster
	rand     *kernel.Stream
	table    *schema.Table
	registry *jobs.Registry
	process  *process // of the registry
	id       string
	// disturb changes the disk of a node that has restarted; nil does not.
	disturb func(l *process)
}

// newJobRun returns a cluster in which each of n rows is on only one replica.
func newJobRun(t *testing.T, seed uint64, n int) *jobRun {
	t.Helper()
	cryptotest.SetGlobalRandom(t, seed) // for Raft
	o := DefaultOptions(seed)
	o.Nodes, o.Factor, o.Workloads, o.FaultKinds, o.PageBytes, o.Unsafe.Sync = 3, 3, []string{"register"}, nil, 0,
		storage.SyncBatch
	r := &jobRun{Cluster: NewCluster(o), rand: kernel.NewStream(seed, "jobs")}
	if len(r.failures) > 0 {
		t.Fatalf("seed %d: %v", seed, r.failures)
	}
	r.table = r.tables()[0]
	for i := range n {
		m, w := new(row.Mutation), row.NewRow()
		m.Reset(r.table.StorageID, row.NewPartitionKey(fmt.Append(nil, "key", i)))
		w.Clustering = []byte("c")
		w.Liveness.Timestamp = r.order.stamp()
		m.AddRow(w)
		if err := r.nodes[r.rand.Intn(3)].process.engine.Apply([]*row.Mutation{m}, true, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	return r
}

// open does the same as package node when a process starts.
func (r *jobRun) open(t *testing.T) {
	l := r.nodes[0].process
	registry, err := jobs.Open(jobs.Options{Clock: clock{l}, Store: l.engine,
		OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	r.process, r.registry = l, registry
}

func (r *jobRun) work(j *jobs.Job) {
	r.id = j.ID()
	plan := repair.Plan{Keep: true, Targets: []repair.Target{{Name: "sim." + r.table.Name, Table: r.table.StorageID,
		Range: ring.FullRange()}}}
	r.process.repairer.StartTables(j, plan, func(_ repair.Summary, err error) { j.End(err) })
}

// stop interrupts the job in one of three ways.
func (r *jobRun) stop(t *testing.T) {
	switch n := r.nodes[0]; r.rand.Intn(3) {
	case 0:
		if err := r.registry.Cancel(r.id); err != nil {
			t.Fatal(err)
		}
		r.kernel.RunUntil(r.kernel.Now()+time.Second, func() bool { return r.ended(t) })
	case 1:
		n.crash(false)
	default:
		n.crash(true)
	}
	if n := r.nodes[0]; n.process == nil {
		n.start()
		r.kernel.RunUntil(r.kernel.Now()+30*time.Second, func() bool { return n.process.serves() && r.allSeen() })
		r.open(t)
		if r.disturb != nil {
			r.disturb(r.process)
		}
	}
	if s, err := r.registry.Get(r.id); err != nil || s.State != jobs.Cancelled && s.State != jobs.Interrupted &&
		s.State != jobs.Done {
		t.Fatalf("after the interruption: %+v, %v", s, err)
	}
}

func (r *jobRun) ended(t *testing.T) bool {
	s, err := r.registry.Get(r.id)
	if err != nil {
		t.Fatal(err)
	}
	return s.State.Ended()
}

// run runs the job to its end. It returns the number of interruptions, and the final state of the job.
func (r *jobRun) run(t *testing.T) (interrupted int, last jobs.Snapshot) {
	r.open(t)
	if _, err := r.registry.Start(jobs.Spec{Kind: jobs.Repair, Unit: jobs.Ranges, Resumable: true},
		r.work); err != nil {
		t.Fatal(err)
	}
	for range 100 {
		patience := time.Minute
		if interrupted < 6 {
			patience = r.rand.Between(time.Millisecond, 100*time.Millisecond)
		}
		r.kernel.RunUntil(r.kernel.Now()+patience, func() bool { return r.ended(t) })
		if !r.ended(t) {
			interrupted++
			r.stop(t)
		}
		s, err := r.registry.Get(r.id)
		if err != nil {
			t.Fatal(err)
		}
		if s.State == jobs.Done {
			return interrupted, s
		}
		if _, err := r.registry.Resume(r.id, r.work); err != nil {
			t.Fatal(err)
		}
	}
	t.Fatalf("the job does not end")
	return interrupted, last
}

// roots returns the numbers of rows of the nodes, and whether all have the same rows.
func (r *jobRun) roots(t *testing.T) (rows []uint64, equal bool) {
	var roots []reading.LeafHash
	for _, n := range r.nodes {
		var root reading.LeafHash
		for _, tokens := range []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}} {
			cmd := &reading.HashCommand{Table: r.table.StorageID, Tokens: tokens, Leaves: 1, Now: int64(epoch),
				BytesMax: 1 << 40}
			if _, _, err := n.process.engine.Hash(cmd, func(_ int, h reading.LeafHash) { root.Add(h) }); err != nil {
				t.Fatal(err)
			}
		}
		rows, roots = append(rows, root.Rows), append(roots, root)
	}
	return rows, len(slices.Compact(roots)) == 1
}

const jobRows = 60

// TestSimInterruptedRepairContinues cancels a repair, kills its process and cuts its power at random times. When the
// job is done, all replicas have all rows.
func TestSimInterruptedRepairContinues(t *testing.T) {
	n := max(3, *seeds/15)
	if testing.Short() {
		n = 3
	}
	interrupted := 0
	for i := range n {
		seed := *firstSeed + uint64(i)
		r := newJobRun(t, seed, jobRows)
		times, s := r.run(t)
		interrupted += times
		if rows, equal := r.roots(t); !equal || rows[0] != jobRows || s.Done != s.Total {
			t.Errorf("seed %d: the job is %+v, and the nodes have %d rows of %d", seed, s, rows, jobRows)
		}
		result := r.result()
		for _, f := range result.Failures {
			t.Errorf("seed %d: %s", seed, f)
		}
		if i == 0 {
			again := newJobRun(t, seed, jobRows)
			again.run(t)
			if again.result().Trace != result.Trace {
				t.Errorf("seed %d: two runs of it differ", seed)
			}
		}
	}
	t.Logf("%d seeds, %d interruptions", n, interrupted)
	if interrupted < 2*n {
		t.Errorf("only %d interruptions in %d seeds", interrupted, n)
	}
}

// TestSimNeedsPositionsBehindTheRepair shows that the test above detects a position that is stored before its ranges
// are done.
func TestSimNeedsPositionsBehindTheRepair(t *testing.T) {
	for seed := range uint64(20) {
		r := newJobRun(t, seed, jobRows)
		r.disturb = func(l *process) {
			var key, value []byte
			if err := l.engine.ScanLocal([]byte("repair/job/"), func(k, v []byte) error {
				key, value = bytes.Clone(k), bytes.Clone(v)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if key == nil {
				return
			}
			value[len(value)-8] += 1 << 5 // the token is the last field; this is an eighth of the ring
			if err := l.engine.SetLocal(key, value, false); err != nil {
				t.Fatal(err)
			}
		}
		r.run(t)
		if _, equal := r.roots(t); !equal {
			t.Logf("seed %d: the replicas differ", seed)
			r.result()
			return
		}
		r.result()
	}
	t.Error("20 seeds did not find a position ahead of the repair")
}
