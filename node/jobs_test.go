package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/wire"
	"cqld/jobs"
	"cqld/node/admin"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/ring"
	"cqld/row"
	"cqld/storage/reading"
)

// silent discards progress.
func silent(control.Progress) {}

// job returns a node's job.
func (r *inProcess) job(i int, id string) control.Job {
	r.t.Helper()
	all, err := r.nodes[i].commands.Jobs.List(r.t.Context(), control.JobArgs{ID: id}, silent)
	if err != nil {
		r.t.Fatal(err)
	}
	return all.Jobs[0]
}

// until waits until a condition holds for a job of a node.
func (r *inProcess) until(i int, id string, what string, is func(control.Job) bool) control.Job {
	r.t.Helper()
	var j control.Job
	if !await.Reached(2*time.Minute, func() bool { j = r.job(i, id); return is(j) }) {
		r.t.Fatalf("job %s is not %s: %+v", id, what, j)
	}
	return j
}

// scatter writes each of n partitions of k.t to one node only.
func (r *inProcess) scatter(n int) {
	r.t.Helper()
	table := r.nodes[0].cluster.Metadata().Schema.Table("k", "t")
	for i := range n {
		m, w := new(row.Mutation), row.NewRow()
		m.Reset(table.StorageID, row.NewPartitionKey(wire.AppendInt32(nil, int32(i))))
		w.Liveness.Timestamp = 5
		w.Cells = append(w.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: 5,
			Value: []byte(strings.Repeat("v", 100))})
		m.AddRow(w)
		done := make(chan error, 1)
		if err := r.nodes[i%len(r.nodes)].engine.Apply([]*row.Mutation{m}, true,
			func(err error) { done <- err }); err != nil {
			r.t.Fatal(err)
		}
		if err := <-done; err != nil {
			r.t.Fatal(err)
		}
	}
}

// equalRows returns the number of rows of k.t on each node, if it is the same on all.
func (r *inProcess) equalRows() (rows uint64, equal bool) {
	r.t.Helper()
	var first reading.LeafHash
	equal = true
	for i, n := range r.nodes {
		var sum reading.LeafHash
		for _, tokens := range []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}} {
			cmd := &reading.HashCommand{Table: r.storage("k", "t"), Tokens: tokens, Leaves: 1, Now: time.Now().Unix(),
				BytesMax: 1 << 40}
			if _, _, err := n.engine.Hash(cmd, func(_ int, h reading.LeafHash) { sum.Add(h) }); err != nil {
				r.t.Fatal(err)
			}
		}
		if i == 0 {
			first = sum
		}
		equal = equal && sum == first
	}
	return first.Rows, equal
}

// TestRepairIsAJob watches a repair, interrupts its command, cancels it, kills its node in the middle, and resumes it
// both times. When the job is done, the replicas are equal.
func TestRepairIsAJob(t *testing.T) {
	const rows = 900
	r := openNodes(t, 67, 3, func(o *config.Options) {
		o.FS = vfs.NewCrashableMem()
		o.Background.RepairThroughput = 64 << 10 // the replicas have about 200 KiB
	})
	c := r.connect(0)
	r.fill(c, "3", 0)
	r.scatter(rows)
	n := r.nodes[0]
	moving := func(j control.Job) bool { return j.State == "running" && j.Total > 0 && j.Done >= 2 }

	client, gone := context.WithCancel(t.Context())
	id := make(chan string, 1)
	ended := make(chan error, 1)
	go func() {
		_, err := n.commands.Repairs.Repair(client, control.RepairArgs{TablesArgs: control.TablesArgs{Keyspace: "k"}},
			func(p control.Progress) {
				select {
				case id <- p.Job:
				default:
				}
			})
		ended <- err
	}()
	job := <-id
	first := r.until(0, job, "moving", moving)
	if first.Kind != "repair" || first.Target != "k" || first.Unit != "ranges" || first.Total < 24 {
		t.Errorf("the job is %+v", first)
	}
	gone()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("the interrupted command: %v", err)
	}
	if now := r.job(0, job); now.State != "running" {
		t.Errorf("after its command was interrupted, the job is %+v", now)
	}
	a := r.query(c, "SELECT state, kind, unit, total FROM system_views.jobs WHERE id = '"+job+"'")
	if len(a.Rows) != 1 || string(a.Rows[0][0]) != "running" || string(a.Rows[0][1]) != "repair" ||
		string(a.Rows[0][2]) != "ranges" {
		t.Errorf("system_views.jobs has %q", a.Rows)
	}
	if page := metricsOf(t, n); !strings.Contains(page, `cqld_job_active{kind="repair",state="running"} 1`) ||
		!strings.Contains(page, fmt.Sprintf(`cqld_job_extent{id="%s",kind="repair",unit="ranges"} %d`, job,
			first.Total)) {
		t.Errorf("the metrics lack the job:\n%s", page)
	}

	cancelled, err := n.commands.Jobs.Cancel(t.Context(), control.JobArgs{ID: job}, silent)
	if err != nil || cancelled.State != "cancelled" || !cancelled.Resumable {
		t.Fatalf("cancelled: %+v, %v", cancelled, err)
	}
	if _, err := n.commands.Jobs.Resume(t.Context(), control.JobArgs{ID: job}, silent); err != nil {
		t.Fatal(err)
	}
	r.until(0, job, "past the first attempt", func(j control.Job) bool {
		return moving(j) && j.Done > cancelled.Done &&
			j.Attempt == 2
	})

	r.kill(0, func(o *config.Options) { o.Background.RepairThroughput = 64 << 20 })
	n = r.nodes[0]
	if interrupted := r.job(0, job); interrupted.State != "interrupted" || interrupted.Error == "" ||
		!interrupted.Resumable {
		t.Fatalf("after the crash: %+v", interrupted)
	}
	if _, err := n.commands.Jobs.Resume(t.Context(), control.JobArgs{ID: job}, silent); err != nil {
		t.Fatal(err)
	}
	done, err := n.commands.Jobs.Watch(t.Context(), control.JobArgs{ID: job}, silent)
	if err != nil || done.State != "done" || done.Done != done.Total || done.Attempt != 3 {
		t.Fatalf("%+v, %v", done, err)
	}
	if got, equal := r.equalRows(); got != rows || !equal {
		t.Errorf("the repair is done, and the replicas differ, or have %d rows", got)
	}
	if again := n.parts.Repairer.Stats().Ranges; again > done.Total-cancelled.Done {
		t.Errorf("the last process repaired %d of %d ranges, and %d were done before", again, done.Total,
			cancelled.Done)
	}
	if _, err := n.commands.Jobs.Resume(t.Context(), control.JobArgs{ID: job}, silent); err == nil {
		t.Error("a job that is done was resumed")
	}
}

func metricsOf(t *testing.T, n *Node) string {
	t.Helper()
	w := httptest.NewRecorder()
	n.metrics.Page().ServeHTTP(w, httptest.NewRequest("GET", "/metrics", nil))
	b, err := io.ReadAll(w.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

// TestOperatorsCommandsAreJobs runs each command that is a job, and checks the registry of the node.
func TestOperatorsCommandsAreJobs(t *testing.T) {
	r := openNodes(t, 68, 2, nil)
	r.fill(r.connect(0), "2", 50)
	n := r.nodes[0]
	tables := control.TablesArgs{Keyspace: "k", Tables: []string{"t"}}
	if _, err := n.commands.Data.Compact(t.Context(), tables, silent); err != nil {
		t.Error(err)
	}
	if _, err := n.commands.Movement.Cleanup(t.Context(), tables, silent); err != nil {
		t.Error(err)
	}
	if _, err := n.commands.Movement.Rebuild(t.Context(), control.RebuildArgs{Keyspace: "k"}, silent); err != nil {
		t.Error(err)
	}
	result, err := n.commands.Repairs.Repair(t.Context(), control.RepairArgs{TablesArgs: tables}, silent)
	if err != nil || result.Ranges == 0 {
		t.Errorf("%+v, %v", result, err)
	}
	if _, err := n.commands.Movement.Rebuild(t.Context(), control.RebuildArgs{Keyspace: "k", Datacenter: "nowhere"},
		silent); err == nil {
		t.Error("a rebuild from an unknown data center began")
	}
	if _, err := n.commands.Repairs.Repair(t.Context(),
		control.RepairArgs{TablesArgs: control.TablesArgs{Keyspace: "nowhere"}},
		silent); err == nil {
		t.Error("a repair of an unknown keyspace began")
	}
	all, err := n.commands.Jobs.List(t.Context(), control.JobArgs{}, silent)
	if err != nil {
		t.Fatal(err)
	}
	var got []string
	for _, j := range all.Jobs {
		if !strings.HasPrefix(j.ID, admin.RingJobPrefix) {
			got = append(got, j.Kind+" "+j.Target+" "+j.State)
		}
	}
	if want := "compaction k.t done, cleanup k.t done, rebuild k done, repair k.t done"; strings.Join(got,
		", ") != want {
		t.Errorf("the jobs are %q, want %q", got, want)
	}
	if !strings.Contains(metricsOf(t, n), `cqld_job_ended_total{kind="rebuild",state="done"} 1`) {
		t.Error("the metrics lack the rebuild")
	}
	for _, id := range []string{"", "99", "ring-99"} {
		if _, err := n.commands.Jobs.Cancel(t.Context(), control.JobArgs{ID: id}, silent); err == nil {
			t.Errorf("job %q was cancelled", id)
		}
		if _, err := n.commands.Jobs.Resume(t.Context(), control.JobArgs{ID: id}, silent); err == nil {
			t.Errorf("job %q was resumed", id)
		}
		if _, err := n.commands.Jobs.Watch(t.Context(), control.JobArgs{ID: id}, silent); err == nil {
			t.Errorf("job %q was watched", id)
		}
	}
}

// TestOperationsOfTheRingAreJobs checks that ring operations have the same ids on every node, and that their commands
// name them.
func TestOperationsOfTheRingAreJobs(t *testing.T) {
	r := openNodes(t, 69, 3, nil)
	r.fill(r.connect(0), "1", 50)
	run := func(kind string, do func(report control.Report) error) {
		t.Helper()
		named := ""
		if err := do(func(p control.Progress) {
			if p.Job != "" {
				named = p.Job
			}
		}); err != nil {
			t.Fatal(err)
		}
		var ids []string
		for i := range 2 {
			var found []string
			if !await.Reached(time.Minute, func() bool {
				for _, s := range r.nodes[i].commands.Jobs.All() {
					if s.Kind == jobs.Kind(kind) && s.State == jobs.Done && s.External {
						found = append(found, s.ID)
					}
				}
				return len(found) > 0
			}) {
				t.Fatalf("node %d shows %+v", i+1, r.nodes[i].commands.Jobs.All())
			}
			ids = append(ids, found...)
		}
		if len(ids) != 2 || ids[0] != ids[1] || named != "" && named != ids[0] {
			t.Errorf("%s is job %q on node 1 and 2, and its command named %q", kind, ids, named)
		}
		if _, err := r.nodes[0].commands.Jobs.Resume(t.Context(), control.JobArgs{ID: ids[0]}, silent); err == nil {
			t.Errorf("job %s was resumed", ids[0])
		}
	}
	run("move", func(report control.Report) error {
		_, err := r.nodes[1].commands.Topology.Move(t.Context(), control.MoveArgs{Tokens: []int64{-7<<60 + 9,
			-5<<60 + 9, -3<<60 + 9,
			-1<<60 + 9, 1<<60 + 9, 3<<60 + 9, 5<<60 + 9, 7<<60 + 9}}, report)
		return err
	})
	run("decommission", func(report control.Report) error {
		_, err := r.nodes[2].commands.Topology.Decommission(t.Context(), control.ForceArgs{}, report)
		return err
	})
}
