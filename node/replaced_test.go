package node

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup"
	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/schema"
)

// restoring returns the table that is restored in the place of another one, or nil.
func restoring(s *schema.Schema, keyspace, name string) *schema.Table {
	for _, t := range s.Keyspace(keyspace).Tables() {
		if strings.HasPrefix(t.Name, "restoring_") && strings.HasSuffix(t.Name, "_"+name) {
			return t
		}
	}
	return nil
}

// watchRow reads a row of a.t, which has two values before and after a replacement, until stop is called. It must never
// be missing. stop returns the values that were read, in their order.
func (r *inProcess) watchRow(i int) (stop func() []string) {
	c, ended := r.connect(i), make(chan struct{})
	var seen []string
	var wait sync.WaitGroup
	wait.Go(func() {
		for {
			select {
			case <-ended:
				return
			default:
			}
			a, err := send(c, "SELECT v FROM a.t WHERE k = 7 AND c = 1", cqlclient.Options{Consistency: 4})
			switch {
			case err != nil:
				r.t.Errorf("node %d: %v", i, err)
				return
			case len(a.Rows) != 1:
				r.t.Errorf("node %d: %d rows", i, len(a.Rows))
			default:
				seen = append(seen, string(a.Rows[0][0]))
			}
		}
	})
	return func() []string {
		close(ended)
		wait.Wait()
		return slices.Compact(seen)
	}
}

// events returns the changes of tables of the keyspace a that a connection receives, until one that is the last.
func (r *inProcess) events(c *cqlclient.Conn, last string) (out []string) {
	r.t.Helper()
	for {
		e, err := c.NextEvent(time.Minute)
		if err != nil {
			r.t.Fatalf("after %q: %v", out, err)
		}
		if len(e) == 5 && !strings.HasPrefix(e[4], "restoring_") {
			out = append(out, e[1]+" "+e[4])
		}
		if len(out) > 0 && out[len(out)-1] == last {
			return out
		}
	}
}

// TestTablesAreReplaced restores tables with an index, a view and counters in the place of those that clients read and
// have changed since the backup. Clients see the rows before or the restored ones, drivers the events of DROP TABLE and
// CREATE TABLE, and UNDROP TABLE brings the replaced table back.
func TestTablesAreReplaced(t *testing.T) {
	location := "file://" + t.TempDir()
	r := openNodes(t, 218, 3, func(o *config.Options) { o.FS, o.DropGrace = vfs.Default, time.Hour })
	reads := r.fillAll(3)
	want := r.answers(0, reads)
	if _, err := r.backup(1, control.BackupArgs{Location: location, Name: "b"}); err != nil {
		t.Fatal(err)
	}
	c := r.connect(0)
	r.queryAll(c, "UPDATE a.t SET v = 'changed' WHERE k = 7 AND c = 1")
	r.queryAll(c, "DELETE FROM a.t WHERE k = 8")
	r.queryAll(c, "UPDATE a.n SET v = v + 1000 WHERE k = 7")
	r.query(c, "ALTER TABLE a.t ADD later int")
	r.query(c, "CREATE MATERIALIZED VIEW a.later AS SELECT k, c FROM a.t WHERE k IS NOT NULL AND c IS NOT NULL "+
		"PRIMARY KEY (c, k)")
	changed := r.answers(0, []string{"SELECT k, c, s, v, later FROM a.t", "SELECT k, v FROM a.n"})
	all := control.RestoreArgs{Location: location, Replace: true}
	for want, a := range map[string]control.RestoreArgs{"with --replace": {Location: location},
		"its materialized view 'later' is not restored with it": all} {
		if _, err := r.restore(0, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	r.query(c, "DROP MATERIALIZED VIEW a.later")
	if restoring(r.nodes[0].cluster.Metadata().Schema, "a", "t") != nil {
		t.Error("a refused restoration has created a table")
	}
	dry := all
	dry.DryRun = true
	plan, err := r.restore(0, dry)
	if err != nil || len(plan.Tables) != 2 || !plan.Tables[0].Replaces {
		t.Fatalf("%+v, %v", plan, err)
	}
	prepared, err := c.Prepare("SELECT v FROM a.t WHERE k = 7 AND c = 1")
	if err != nil {
		t.Fatal(err)
	}
	events := r.connect(2)
	if err := events.Register("SCHEMA_CHANGE"); err != nil {
		t.Fatal(err)
	}
	var stops []func() []string
	for i := range r.nodes {
		stops = append(stops, r.watchRow(i))
	}
	if _, err := r.restore(1, all); err != nil {
		t.Fatal(err)
	}
	for i, stop := range stops {
		// The read after the restoration has ended is of the restored table.
		if got := stop(); !slices.Equal(got, []string{"changed", "v2"}) {
			t.Errorf("node %d: %q", i, got)
		}
	}
	got := r.events(events, "CREATED t")
	if want := []string{"DROPPED by_c", "DROPPED n", "DROPPED t", "CREATED by_c", "CREATED n", "CREATED t"}; !slices.
		Equal(got, want) {
		t.Errorf("events %q, want %q", got, want)
	}
	a, err := c.Execute(prepared.Prepared, cqlclient.Options{})
	if err != nil || a.Err == nil || a.Err.Code != 0x2500 {
		t.Errorf("a statement that was prepared for the replaced table: %+v, %v", a, err)
	}
	for i := range r.nodes {
		got := r.answers(i, reads)
		for _, text := range reads {
			if !sameRows(got[text], want[text]) {
				t.Errorf("node %d, %s:\ngot  %q\nwant %q", i, text, got[text], want[text])
			}
		}
	}
	// The restored tables have the names of the backup's indexes, and count.
	r.query(c, "DROP INDEX a.i")
	r.queryAll(c, "UPDATE a.n SET v = v + 1 WHERE k = 7")
	r.query(c, "UNDROP TABLE a.t AS undone")
	r.query(c, "UNDROP TABLE a.n AS undone_n")
	undone := r.answers(2, []string{"SELECT k, c, s, v, later FROM a.undone", "SELECT k, v FROM a.undone_n"})
	for text, rows := range changed {
		text = strings.NewReplacer("a.t", "a.undone", "a.n", "a.undone_n").Replace(text)
		if !sameRows(undone[text], rows) {
			t.Errorf("%s:\ngot  %q\nwant %q", text, undone[text], rows)
		}
	}
}

// TestReplacementsAreResumed refuses the last step of a restoration, because the table has another view then. Its node
// is killed. The resumed job replaces the table without the files of the backup, which are damaged, and the rows of the
// replaced one are removed, because there is no grace.
func TestReplacementsAreResumed(t *testing.T) {
	dir := t.TempDir()
	location := "file://" + dir
	r := openNodes(t, 219, 2, func(o *config.Options) { o.FS = vfs.NewCrashableMem() })
	c := r.connect(1)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY, v int)")
	r.query(c, "CREATE INDEX i ON a.t (v)")
	for k := range 20 {
		r.queryAll(c, fmt.Sprintf("INSERT INTO a.t (k, v) VALUES (%d, 1)", k))
	}
	if _, err := r.backup(0, control.BackupArgs{Location: location, Name: "b", Tables: []string{"a.t"}}); err != nil {
		t.Fatal(err)
	}
	r.queryAll(c, "DELETE FROM a.t WHERE k = 1")
	was := r.nodes[1].cluster.Metadata().Schema.Table("a", "t").StorageID
	ended := make(chan error, 1)
	go func() {
		_, err := r.restore(0, control.RestoreArgs{Location: location, Tables: []string{"a.t"}, Replace: true})
		ended <- err
	}()
	if !await.Reached(time.Minute, func() bool {
		return restoring(r.nodes[1].cluster.Metadata().Schema, "a", "t") != nil
	}) {
		t.Fatal("no table is created")
	}
	r.query(c, "CREATE MATERIALIZED VIEW a.later AS SELECT k, v FROM a.t WHERE k IS NOT NULL AND v IS NOT NULL "+
		"PRIMARY KEY (v, k)")
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "its materialized view 'later' is not restored") {
		t.Fatalf("%v", err)
	}
	count := func(want int) {
		t.Helper()
		for _, text := range []string{"SELECT k FROM a.t", "SELECT k FROM a.t WHERE v = 1"} {
			if n := len(r.answers(1, []string{text})[text]); n != want {
				t.Errorf("%s: %d rows, want %d", text, n, want)
			}
		}
	}
	count(19)
	// The mark of the job was stored without a sync. A write with a sync puts it into the log, too.
	r.queryAll(c, "DELETE FROM a.t WHERE k = 1")
	r.kill(0, nil)
	damageFiles(t, dir, "b")
	r.query(c, "DROP MATERIALIZED VIEW a.later")
	all := r.nodes[0].commands.Jobs
	var id string
	for _, j := range all.All() {
		if j.Kind == "restore" {
			id = j.ID
		}
	}
	if _, err := all.Resume(t.Context(), control.JobArgs{ID: id}, nil); err != nil {
		t.Fatal(err)
	}
	if done, err := all.Watch(t.Context(), control.JobArgs{ID: id}, func(control.Progress) {}); err != nil ||
		done.State != "done" {
		t.Fatalf("%+v, %v", done, err)
	}
	count(20)
	r.eventually("the removal of the replaced table", func() bool { return r.empty(was) })
	// Without the mark of the job, the rows would be read again.
	_, err := r.restore(0, control.RestoreArgs{Location: location, Tables: []string{"a.t"}, Replace: true})
	var refused *control.Error
	if !errors.As(err, &refused) || !strings.Contains(refused.Message, "is damaged, and is not restored") {
		t.Errorf("another restoration: %v", err)
	}
	count(20)
}

// damageFiles changes a byte of each data file of a backup.
func damageFiles(t *testing.T, dir, name string) {
	t.Helper()
	content, err := os.ReadFile(filepath.Join(dir, "backups", name, "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := backup.DecodeManifest(content)
	if err != nil {
		t.Fatal(err)
	}
	damaged := map[string]bool{}
	for _, share := range m.Shares {
		for _, f := range share.Files {
			path := filepath.Join(dir, "objects", f.SHA256[:2], f.SHA256)
			if !strings.HasSuffix(f.Name, ".sst") || damaged[path] {
				continue
			}
			damaged[path] = true
			b, err := os.ReadFile(path)
			if err != nil {
				t.Fatal(err)
			}
			b[20] ^= 0x40
			if err := os.WriteFile(path, b, 0o600); err != nil {
				t.Fatal(err)
			}
		}
	}
	if len(damaged) == 0 {
		t.Fatal("the backup has no data files")
	}
}
