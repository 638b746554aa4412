package node

import (
	"context"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node/config"
	"cqld/node/control"
)

// TestBuildsOfIndexesAreJobs builds an index slowly. Its job and the system tables show it, searches fail as in
// Cassandra, a killed node continues it, and an operator repeats it.
func TestBuildsOfIndexesAreJobs(t *testing.T) {
	const rows = 5_000
	r := openNodes(t, 81, 1, func(o *config.Options) {
		o.FS = vfs.NewCrashableMem()
		o.Background.IndexBuildThroughput = 64 << 10 // a step reads about 240 KB
	})
	c := r.connect(0)
	r.fill(c, "1", 0)
	r.scatter(rows)
	r.query(c, "CREATE INDEX by_v ON k.t (v)")
	id := r.indexJob("by_v")
	begun := r.until(0, id, "begun", func(j control.Job) bool { return j.State == "running" && j.Done > 0 })
	if begun.Kind != "index_build" || begun.Target != "k.t: by_v" || begun.Unit != "bytes" {
		t.Errorf("the job is %+v", begun)
	}
	if a := r.query(c, `SELECT * FROM system."IndexInfo" WHERE table_name = 'k'`); len(a.Rows) != 0 {
		t.Errorf("the index is shown as built: %q", a.Rows)
	}
	if all, err := r.nodes[0].commands.Activity.Compactions(t.Context(), control.None{}, silent); err != nil ||
		len(all.Builds) != 1 {
		t.Errorf("compactionstats: %+v, %v", all.Builds, err)
	}
	again := control.IndexArgs{TableArgs: control.TableArgs{Keyspace: "k", Table: "t"}, Indexes: []string{"by_v"}}
	if _, err := r.nodes[0].commands.Indexes.Rebuild(t.Context(), again, silent); err == nil ||
		!strings.Contains(err.Error(), "another index build for the same index is currently in progress") {
		t.Errorf("a second build: %v", err)
	}

	r.kill(0, func(o *config.Options) { o.Background.IndexBuildThroughput = 64 << 20 })
	c = r.connect(0)
	built := func() bool {
		return len(r.query(c, `SELECT index_name FROM system."IndexInfo" WHERE table_name = 'k'`).Rows) == 1
	}
	r.eventually("built", built)
	if n := r.nodes[0].parts.Builder.Stats().Rows; n == 0 || n > 3*rows/2 {
		t.Errorf("after the restart, %d of %d entries were read", n, 2*rows)
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	if _, err := r.nodes[0].commands.Indexes.Rebuild(ctx, again, silent); err != nil || !built() {
		t.Errorf("the second build: %v", err)
	}
	if j := r.job(0, id); j.State != "done" || j.Resumable {
		t.Errorf("the job is %+v", j)
	}
	r.query(c, "INSERT INTO k.t (a, v) VALUES (-1, 7)")
	if a := r.query(c, "SELECT a FROM k.t WHERE v = 7"); len(a.Rows) != 1 {
		t.Errorf("found %d rows", len(a.Rows))
	}
}

// indexJob returns the id of the job of an index of k.t.
func (r *inProcess) indexJob(name string) string {
	r.t.Helper()
	target := "k.t: " + name
	id := ""
	r.eventually("a job", func() bool {
		for _, s := range r.nodes[0].commands.Jobs.All() {
			if s.Target == target {
				id = s.ID
			}
		}
		return id != ""
	})
	return id
}
