package node

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/node/config"
	"cqld/node/control"
)

// restorer is a ring of one node on the real file system, whose data can be replaced.
type restorer struct {
	*inProcess
	c *cqlclient.Conn
}

// stop stops the node.
func (r *restorer) stop() {
	r.t.Helper()
	r.c.Close()
	n := r.nodes[0]
	if r.killed == nil {
		r.killed = map[*Node]bool{}
	}
	r.killed[n] = true
	if err := n.Close(context.Background()); err != nil {
		r.t.Fatal(err)
	}
}

// replace replaces the rows of the node, which is stopped, by the files of a directory.
func (r *restorer) replace(from string) {
	r.t.Helper()
	rows := r.nodes[0].rows()
	if err := os.RemoveAll(rows); err != nil {
		r.t.Fatal(err)
	}
	if err := os.CopyFS(rows, os.DirFS(from)); err != nil {
		r.t.Fatal(err)
	}
}

// start starts the node, or returns the error with which it refuses.
func (r *restorer) start() error {
	n, err := open(context.Background(), r.nodes[0].opts, faults{})
	if err != nil {
		return err
	}
	r.nodes[0] = n
	r.t.Cleanup(func() {
		if !r.killed[n] {
			n.Close(context.Background())
		}
	})
	r.c = r.connect(0)
	return nil
}

// snapshot makes a snapshot, and returns its directory of data.
func (r *restorer) snapshot(tag string, keyspaces ...string) string {
	r.t.Helper()
	all := r.nodes[0].commands.Snapshots
	made, err := all.Take(r.t.Context(), control.SnapshotArgs{Tag: tag, Keyspaces: keyspaces}, nil)
	if err != nil || made.Problem != "" {
		r.t.Fatal(err, made.Problem)
	}
	v, err := all.Verify(r.t.Context(), control.VerifyArgs{Tag: tag}, nil)
	if err != nil || v.Files == 0 || v.Unchecked != 0 || v.Problems != nil {
		r.t.Fatalf("%+v, %v", v, err)
	}
	return filepath.Join(made.Directory, "data")
}

// refused restores an inconsistent snapshot. The node must refuse to start, each time, with all causes in its error,
// and starts with its own data.
func (r *restorer) refused(data string, parts ...string) {
	r.t.Helper()
	r.stop()
	rows, own := r.nodes[0].rows(), filepath.Join(r.t.TempDir(), "own")
	if err := os.CopyFS(own, os.DirFS(rows)); err != nil {
		r.t.Fatal(err)
	}
	r.replace(data)
	for range 2 {
		err := r.start()
		if err == nil {
			r.t.Fatalf("the node starts with %s", data)
		}
		for _, part := range parts {
			if !strings.Contains(err.Error(), part) {
				r.t.Errorf("%v\ndoes not contain %q", err, part)
			}
		}
	}
	r.replace(own)
	if err := r.start(); err != nil {
		r.t.Fatal(err)
	}
}

// TestRestoredDataMustFitTheMetadata restores snapshots as docs/OPERATING_JOBS.md says. A complete one is accepted with
// its rows. One that the metadata does not describe is refused with the names of the snapshot and of the tables, and
// the node serves its own data when they are back.
func TestRestoredDataMustFitTheMetadata(t *testing.T) {
	r := &restorer{inProcess: openNodes(t, 211, 1, func(o *config.Options) { o.FS = vfs.Default })}
	r.c = r.connect(0)
	for _, k := range []string{"kept", "other"} {
		r.query(r.c, "CREATE KEYSPACE "+k+
			" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
		r.query(r.c, "CREATE TABLE "+k+".t (k int PRIMARY KEY, v int)")
		r.query(r.c, "INSERT INTO "+k+".t (k, v) VALUES (1, 1)")
	}
	all, one := r.snapshot("all"), r.snapshot("one", "kept")
	rows := func(want int) {
		t.Helper()
		for _, k := range []string{"kept", "other"} {
			if got := len(r.query(r.c, "SELECT k FROM "+k+".t").Rows); got != want {
				t.Errorf("%s.t has %d rows, want %d", k, got, want)
			}
		}
	}
	for _, k := range []string{"kept", "other"} {
		r.query(r.c, "INSERT INTO "+k+".t (k, v) VALUES (2, 2)")
	}
	r.refused(one, "snapshot one", "the snapshot does not contain table other.t")
	rows(2)
	r.stop()
	r.replace(all)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	rows(1)
	// The data is the node's own from now on, and changes with the schema.
	r.query(r.c, "DROP TABLE kept.t")
	r.query(r.c, "CREATE TABLE kept.t (k int PRIMARY KEY, v int)")
	r.stop()
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	r.refused(all, "snapshot all", "table kept.t was dropped and created again after the snapshot")
	// A table that was dropped since is not reported. The remains of another snapshot, from before a crash, are
	// removed.
	r.query(r.c, "DROP TABLE kept.t")
	interrupted := filepath.Join(r.nodes[0].opts.DataDir, "snapshots", ".making-cut")
	if err := os.MkdirAll(filepath.Join(interrupted, "data"), 0o700); err != nil {
		t.Fatal(err)
	}
	r.stop()
	r.replace(all)
	if err := r.start(); err != nil {
		t.Fatal(err)
	}
	if got := len(r.query(r.c, "SELECT k FROM other.t").Rows); got != 1 {
		t.Errorf("other.t has %d rows, want 1", got)
	}
	if _, err := os.Stat(interrupted); !os.IsNotExist(err) {
		t.Errorf("an interrupted snapshot is still there: %v", err)
	}
	incomplete := filepath.Join(t.TempDir(), "incomplete")
	if err := os.CopyFS(incomplete, os.DirFS(all)); err != nil {
		t.Fatal(err)
	}
	files, err := filepath.Glob(filepath.Join(incomplete, "*.log"))
	if err != nil || len(files) == 0 {
		t.Fatal(files, err)
	}
	if err := os.Remove(files[0]); err != nil {
		t.Fatal(err)
	}
	r.refused(incomplete, "not a complete copy of snapshot all", filepath.Base(files[0])+": the file is missing")
	another := &restorer{inProcess: openNodes(t, 212, 1, func(o *config.Options) { o.FS = vfs.Default })}
	another.c = another.connect(0)
	another.refused(all, "snapshot all of node "+r.nodes[0].cluster.HostID().String(), "--replace")
}
