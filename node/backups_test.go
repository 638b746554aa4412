package node

import (
	"context"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cqld/auth"
	"cqld/backup"
	"cqld/integration/cqlclient"
	"cqld/internal/tier"
	"cqld/jobs"
	"cqld/node/config"
	"cqld/node/control"
)

// backup makes a backup at node i.
func (r *inProcess) backup(i int, a control.BackupArgs) (control.Backup, error) {
	return r.nodes[i].commands.Backups.Create(r.t.Context(), a, func(control.Progress) {})
}

// restore restores tables at node i.
func (r *inProcess) restore(i int, a control.RestoreArgs) (control.Restored, error) {
	return r.nodes[i].commands.Backups.Restore(r.t.Context(), a, func(control.Progress) {})
}

// onDisk configures nodes with files of the machine.
func onDisk(o *config.Options) { o.FS = vfs.Default }

// fillAll creates a keyspace with rows of all kinds, and returns the statements that read them.
func (r *inProcess) fillAll(factor int) (reads []string) {
	r.t.Helper()
	c := r.connect(0)
	r.query(c, fmt.Sprintf("CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", factor))
	r.query(c, "CREATE TYPE a.inner (x int)")
	r.query(c, "CREATE TYPE a.place (x int, i frozen<inner>)")
	r.query(c, "CREATE TABLE a.t (k int, c int, gone int, s int static, v text, m set<int>, p frozen<place>, "+
		"PRIMARY KEY (k, c)) WITH CLUSTERING ORDER BY (c DESC) AND comment = 'kept'")
	r.query(c, "CREATE TABLE a.n (k int PRIMARY KEY, v counter)")
	r.query(c, "CREATE TABLE a.dropped (k int PRIMARY KEY)")
	for k := range 50 {
		r.queryAll(c, fmt.Sprintf("INSERT INTO a.t (k, c, gone, v, m, p) VALUES (%d, 1, 1, 'v%d', {1, 2}, "+
			"{x: %d, i: {x: 7}})", k, k%5, k))
		r.queryAll(c, fmt.Sprintf("INSERT INTO a.t (k, c, v) VALUES (%d, 2, 'deleted')", k))
		r.queryAll(c, fmt.Sprintf("UPDATE a.n SET v = v + %d WHERE k = %d", k, k%7))
	}
	r.queryAll(c, "INSERT INTO a.t (k, s) VALUES (100, 9)")
	for k := range 50 {
		r.queryAll(c, fmt.Sprintf("DELETE FROM a.t WHERE k = %d AND c > 1", k))
	}
	r.query(c, "ALTER TABLE a.t DROP gone")
	r.query(c, "CREATE INDEX i ON a.t (v)")
	r.query(c, "CREATE MATERIALIZED VIEW a.by_c AS SELECT k, c, v FROM a.t WHERE k IS NOT NULL AND c IS NOT NULL "+
		"PRIMARY KEY (c, k)")
	r.query(c, "DROP TABLE a.dropped")
	return []string{"SELECT k, c, s, v, m, p FROM a.t", "SELECT k, v FROM a.n", "SELECT k, c FROM a.t WHERE v = 'v3'",
		"SELECT k, v FROM a.by_c WHERE c = 1"}
}

// answers returns the results of statements at a node, with the rows in one order.
func (r *inProcess) answers(i int, reads []string) map[string][]string {
	r.t.Helper()
	c, out := r.connect(i), map[string][]string{}
	for _, text := range reads {
		var rows []string
		r.eventually(text, func() bool {
			// Indexes and views are built in the background.
			a, err := c.Query(text, cqlclient.Options{})
			if err != nil || a.Err != nil {
				return false
			}
			rows = nil
			for _, row := range a.Rows {
				rows = append(rows, fmt.Sprintf("%q", row))
			}
			return true
		})
		out[text] = rows
	}
	return out
}

// TestBackupsAreRestoredToARingOfAnotherSize backs a ring of three up, which encrypts its files, restores the backup to
// a ring of two without keys, and a table of it beside the one that exists. Both have the rows, the index, the view and
// the counters, and the counters continue to count.
func TestBackupsAreRestoredToARingOfAnotherSize(t *testing.T) {
	location := "file://" + t.TempDir()
	r := openNodes(t, 230, 3, func(o *config.Options) {
		onDisk(o)
		o.AtRest.Keys = firstKey
	})
	reads := r.fillAll(3)
	want := r.answers(0, reads)
	if err := r.nodes[0].cluster.ProposeRoles(t.Context(), &auth.CreateRole{Name: "reader"}); err != nil {
		t.Fatal(err)
	}
	made, err := r.backup(1, control.BackupArgs{Location: location, Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	if made.Nodes != 3 || made.Size == 0 || made.Stored == 0 {
		t.Errorf("%+v", made)
	}
	v, err := r.nodes[0].commands.Backups.Verify(t.Context(), control.BackupArgs{Location: location, Name: "first"},
		func(control.Progress) {})
	if err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}

	other := openNodes(t, 231, 2, onDisk)
	plan, err := other.restore(0, control.RestoreArgs{Location: location, DryRun: true})
	if err != nil || len(plan.Tables) != 2 {
		t.Fatalf("%+v, %v", plan, err)
	}
	// Each of the two nodes compares half of the files, and then needs the rows of all.
	if want := plan.Bytes/2 + plan.Bytes; plan.NodeBytes < want-1 || plan.NodeBytes > want+1 || plan.Estimate <= 0 {
		t.Errorf("the estimate is %d bytes of %d and %s", plan.NodeBytes, plan.Bytes, plan.Estimate)
	}
	if other.nodes[0].cluster.Metadata().Schema.Keyspace("a") != nil {
		t.Error("a dry run has created a keyspace")
	}
	if _, err := other.restore(1, control.RestoreArgs{Location: location}); err != nil {
		t.Fatal(err)
	}
	for i := range other.nodes {
		got := other.answers(i, reads)
		for _, text := range reads {
			if !sameRows(got[text], want[text]) {
				t.Errorf("node %d, %s:\ngot  %q\nwant %q", i, text, got[text], want[text])
			}
		}
	}
	if _, ok := other.nodes[1].cluster.Metadata().Roles.Role("reader"); !ok {
		t.Error("a role is missing")
	}
	c := other.connect(0)
	before := other.query(c, "SELECT v FROM a.n WHERE k = 3").Rows[0][0]
	// The factor is greater than the ring, so a quorum is all of it.
	if _, err := send(c, "UPDATE a.n SET v = v + 1 WHERE k = 3", cqlclient.Options{Consistency: 4}); err != nil {
		t.Fatal(err)
	}
	if after := other.query(c, "SELECT v FROM a.n WHERE k = 3").Rows[0][0]; after[7] != before[7]+1 {
		t.Errorf("the counter is %x after %x", after, before)
	}
	// Beside the table, which stays.
	if _, err := other.restore(0, control.RestoreArgs{Location: location, Tables: []string{"a.t"}}); err == nil ||
		!strings.Contains(err.Error(), "table a.t exists") {
		t.Errorf("a restoration over a table: %v", err)
	}
	if _, err := other.restore(0, control.RestoreArgs{Location: location, Tables: []string{"a.t"},
		As: "a.t2"}); err != nil {
		t.Fatal(err)
	}
	beside := other.answers(1, []string{"SELECT k, c, s, v, m, p FROM a.t2"})["SELECT k, c, s, v, m, p FROM a.t2"]
	if !sameRows(beside, want[reads[0]]) {
		t.Errorf("beside:\ngot  %q\nwant %q", beside, want[reads[0]])
	}
}

// sameRows reports whether two results have the same rows. Rings with other tokens return partitions in the same order:
// the order of their tokens.
func sameRows(got, want []string) bool { return len(want) > 0 && reflect.DeepEqual(got, want) }

// TestLaterBackupsStoreOnlyWhatIsNew makes two backups and deletes the first. The second one can still be restored.
func TestLaterBackupsStoreOnlyWhatIsNew(t *testing.T) {
	dir := t.TempDir()
	location := "file://" + dir
	r := openNodes(t, 232, 1, onDisk)
	reads := r.fillAll(1)
	want := r.answers(0, reads)
	first, err := r.backup(0, control.BackupArgs{Location: location, Name: "first"})
	if err != nil {
		t.Fatal(err)
	}
	second, err := r.backup(0, control.BackupArgs{Location: location, Name: "second"})
	if err != nil {
		t.Fatal(err)
	}
	if second.Stored >= first.Stored {
		t.Errorf("the second backup has stored %d bytes, the first %d", second.Stored, first.Stored)
	}
	if _, err := r.backup(0, control.BackupArgs{Location: location, Name: "second"}); err == nil {
		t.Error("a backup was made twice")
	}
	var now time.Duration
	swept, err := r.nodes[0].commands.Backups.Delete(t.Context(), control.DeleteBackupArgs{Location: location,
		Name: "first", Grace: &now}, nil)
	if err != nil || !reflect.DeepEqual(swept.Removed, []string{"first"}) {
		t.Errorf("%+v, %v", swept, err)
	}
	all, err := r.nodes[0].commands.Backups.List(t.Context(), control.BackupArgs{Location: location}, nil)
	if err != nil || len(all.Backups) != 1 || all.Backups[0].Name != "second" {
		t.Errorf("%+v, %v", all, err)
	}
	r.query(r.connect(0), "DROP MATERIALIZED VIEW a.by_c")
	r.query(r.connect(0), "DROP KEYSPACE a")
	if _, err := r.restore(0, control.RestoreArgs{Location: location}); err != nil {
		t.Fatal(err)
	}
	if got := r.answers(0, reads); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	left, err := os.ReadDir(r.nodes[0].opts.DataDir + "/backups")
	if len(left) > 0 {
		t.Errorf("a checkpoint is left: %v, %v", left, err)
	}
}

// TestBackupsThatCannotBeMadeAreRefused asks for backups of what does not exist, at places that do not work, and while
// a node is down.
func TestBackupsThatCannotBeMadeAreRefused(t *testing.T) {
	dir := t.TempDir()
	location := "file://" + dir
	r := openNodes(t, 233, 2, onDisk)
	r.fillAll(2)
	refused := func(a control.BackupArgs, want string) {
		t.Helper()
		if _, err := r.backup(0, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
	refused(control.BackupArgs{Location: location, Tables: []string{"none"}}, "there is no keyspace none")
	refused(control.BackupArgs{Location: location, Tables: []string{"system"}}, "there is no keyspace system of users")
	refused(control.BackupArgs{Location: location, Tables: []string{"a.by_c"}}, "there is no table a.by_c")
	refused(control.BackupArgs{Location: location, Name: "../x"}, "is not a valid name")
	refused(control.BackupArgs{Location: location + "/missing"}, "create or mount the directory first")
	refused(control.BackupArgs{Location: "s3://user:s3cret@bucket"}, "contains credentials")
	for _, j := range r.nodes[0].commands.Jobs.All() {
		if strings.Contains(j.Target+j.Error+string(j.Args), "s3cret") {
			t.Errorf("a job has a password: %+v", j)
		}
	}
	made := control.BackupArgs{Location: location, Name: "made", Tables: []string{"a.n"}}
	if _, err := r.backup(0, made); err != nil {
		t.Fatal(err)
	}
	for want, a := range map[string]control.RestoreArgs{
		"there is no backup with this name":     {Location: location, Name: "other"},
		"does not contain table a.t":            {Location: location, Tables: []string{"a.t"}},
		"needs exactly one table":               {Location: location, As: "a.x"},
		"table a.n exists":                      {Location: location},
		"there are no backups at this location": {Location: "file://" + t.TempDir()},
		"there is no keyspace nowhere":          {Location: location, Tables: []string{"a.n"}, As: "nowhere.n"},
	} {
		if _, err := r.restore(1, a); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", a, err, want)
		}
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	r.killed = map[*Node]bool{r.nodes[1]: true}
	if err := r.nodes[1].Close(ctx); err != nil {
		t.Fatal(err)
	}
	r.eventually("the node to be down", func() bool { return r.nodes[0].Status().Up == 1 })
	refused(control.BackupArgs{Location: location}, "is down")
}

// TestDamagedBackupsAreNotRestored changes a byte of a backup. A restoration fails, and its job is resumed when the
// byte is right again.
func TestDamagedBackupsAreNotRestored(t *testing.T) {
	dir := t.TempDir()
	location := "file://" + dir
	r := openNodes(t, 234, 1, onDisk)
	reads := r.fillAll(1)
	want := r.answers(0, reads)
	if _, err := r.backup(0, control.BackupArgs{Location: location, Name: "b", Tables: []string{"a"}}); err != nil {
		t.Fatal(err)
	}
	r.query(r.connect(0), "DROP MATERIALIZED VIEW a.by_c")
	r.query(r.connect(0), "DROP KEYSPACE a")
	content, err := os.ReadFile(filepath.Join(dir, "backups", "b", "manifest.json"))
	if err != nil {
		t.Fatal(err)
	}
	m, err := backup.DecodeManifest(content)
	if err != nil {
		t.Fatal(err)
	}
	var table backup.File
	for _, f := range m.Shares[0].Files {
		if strings.HasSuffix(f.Name, ".sst") && f.Size > table.Size {
			table = f
		}
	}
	largest := filepath.Join(dir, "objects", table.SHA256[:2], table.SHA256)
	flip := func() {
		b, err := os.ReadFile(largest)
		if err != nil {
			t.Fatal(err)
		}
		b[20] ^= 0x40
		if err := os.WriteFile(largest, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	flip()
	v, err := r.nodes[0].commands.Backups.Verify(t.Context(), control.BackupArgs{Location: location, Name: "b"},
		func(control.Progress) {})
	if err != nil || len(v.Problems) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := r.restore(0, control.RestoreArgs{Location: location}); err == nil {
		t.Error("a damaged backup was restored")
	}
	if r.nodes[0].cluster.Metadata().Schema.Keyspace("a") != nil {
		t.Error("a table of a damaged backup is visible")
	}
	flip()
	registry := r.nodes[0].commands.Jobs
	failed := registry.All()[len(registry.All())-1]
	if !failed.Resumable {
		t.Fatalf("%+v", failed)
	}
	if _, err := registry.Resume(t.Context(), control.JobArgs{ID: failed.ID}, nil); err != nil {
		t.Fatal(err)
	}
	done, err := registry.Watch(t.Context(), control.JobArgs{ID: failed.ID}, func(control.Progress) {})
	if err != nil || done.State != "done" {
		t.Fatalf("%+v, %v", done, err)
	}
	if got := r.answers(0, reads); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestFailuresOfTheDirectoryFailTheJob fails operations on the directory of a backup while it is made, and while it is
// restored. The job fails, the backup is not valid, and the resumed job completes it.
func TestFailuresOfTheDirectoryFailTheJob(t *testing.T) {
	store := vfs.NewMem()
	if err := store.MkdirAll("/mnt", 0o700); err != nil {
		t.Fatal(err)
	}
	var left atomic.Int64 // operations until one fails
	r := openNodes(t, 244, 1, func(o *config.Options) {
		o.BackupFS = errorfs.Wrap(store, errorfs.InjectorFunc(func(errorfs.Op) error {
			if left.Add(-1) == 0 {
				return errorfs.ErrInjected
			}
			return nil
		}))
	})
	c := r.connect(0)
	r.fill(c, "1", 20)
	commands := r.nodes[0].commands
	// failed returns whether the last job of a kind has failed, after resuming it.
	failed := func(kind string) bool {
		t.Helper()
		all := commands.Jobs.All()
		last := all[len(all)-1]
		if string(last.Kind) != kind || last.State == jobs.Done {
			return false // the command has failed before or after its job
		}
		if _, err := commands.Jobs.Resume(t.Context(), control.JobArgs{ID: last.ID}, nil); err != nil {
			t.Fatal(err)
		}
		done, err := commands.Jobs.Watch(t.Context(), control.JobArgs{ID: last.ID}, func(control.Progress) {})
		if err != nil || done.State != "done" {
			t.Fatalf("%+v, %v", done, err)
		}
		return true
	}
	s, err := backup.Places{Disk: store}.Open("file:///mnt")
	if err != nil {
		t.Fatal(err)
	}
	failures := map[string]int{}
	for at := int64(5); ; at += 20 {
		name := fmt.Sprint("b", at)
		left.Store(at)
		_, err := r.backup(0, control.BackupArgs{Location: "file:///mnt", Name: name})
		left.Store(0)
		_, missing := s.Manifest(t.Context(), name)
		if failed("backup") {
			failures["backup"]++
			if missing == nil {
				t.Errorf("after %v, there is a manifest", err)
			}
		}
		v, unread := commands.Backups.Verify(t.Context(), control.BackupArgs{Location: "file:///mnt", Name: name},
			func(control.Progress) {})
		if unread != nil || len(v.Problems) > 0 {
			t.Errorf("%+v, %v", v, unread)
		}
		if err == nil {
			break
		}
	}
	for at := int64(10); ; at += 40 {
		r.query(c, "DROP KEYSPACE k")
		left.Store(at)
		args := control.RestoreArgs{Location: "file:///mnt", Name: "b5"}
		_, err := r.restore(0, args)
		struck := left.Swap(0) <= 0
		if failed("restore") {
			failures["restore"]++
		} else if _, again := r.restore(0, args); err != nil && again != nil {
			t.Fatal(again) // the first one has failed before its job
		}
		if a := r.query(c, "SELECT a, v FROM k.t"); len(a.Rows) != 20 {
			t.Errorf("%d rows after a failure of operation %d", len(a.Rows), at)
		}
		// Without its note in the location, a restoration succeeds.
		if !struck {
			break
		}
	}
	if failures["backup"] == 0 || failures["restore"] == 0 {
		t.Errorf("failed jobs: %v", failures)
	}
}

// TestCancelledBackupsAreResumed cancels a backup while files are stored. It is not valid then, and no checkpoint is
// left; the resumed job completes it with the time of the first attempt.
func TestCancelledBackupsAreResumed(t *testing.T) {
	tier.Long(t) // the least rate takes some seconds
	location := "file://" + t.TempDir()
	r := openNodes(t, 235, 2, func(o *config.Options) {
		onDisk(o)
		o.Background.StreamThroughput = 64 << 10 // the least
	})
	r.fillAll(2)
	// Values that cannot be compressed, for some seconds.
	c, random := r.connect(0), rand.New(rand.NewPCG(1, 2))
	r.query(c, "CREATE TABLE a.large (k int PRIMARY KEY, v blob)")
	for k := range 40 {
		v := make([]byte, 4096)
		for i := range v {
			v[i] = byte(random.Uint32())
		}
		r.queryAll(c, fmt.Sprintf("INSERT INTO a.large (k, v) VALUES (%d, 0x%x)", k, v))
	}
	ended := make(chan error, 1)
	go func() {
		_, err := r.backup(0, control.BackupArgs{Location: location, Name: "b"})
		ended <- err
	}()
	commands := r.nodes[0].commands
	var id string
	r.eventually("files to be stored", func() bool {
		for _, j := range commands.Jobs.All() {
			if j.Kind == "backup" && j.Phase == "storing files" {
				id = j.ID
			}
		}
		return id != ""
	})
	if _, err := commands.Jobs.Cancel(t.Context(), control.JobArgs{ID: id}, func(control.Progress) {}); err != nil {
		t.Fatal(err)
	}
	if err := <-ended; err == nil || !strings.Contains(err.Error(), "was cancelled") {
		t.Errorf("a cancelled backup: %v", err)
	}
	all, err := commands.Backups.List(t.Context(), control.BackupArgs{Location: location}, nil)
	if err != nil || len(all.Backups) != 1 || all.Backups[0].Problem == "" {
		t.Errorf("%+v, %v", all, err)
	}
	for _, n := range r.nodes {
		if left, err := os.ReadDir(filepath.Join(n.opts.DataDir, "backups")); len(left) > 0 {
			t.Errorf("a checkpoint is left: %v, %v", left, err)
		}
	}
	if _, err := commands.Jobs.Resume(t.Context(), control.JobArgs{ID: id}, nil); err != nil {
		t.Fatal(err)
	}
	done, err := commands.Jobs.Watch(t.Context(), control.JobArgs{ID: id}, func(control.Progress) {})
	if err != nil || done.State != "done" {
		t.Errorf("%+v, %v", done, err)
	}
	v, err := commands.Backups.Verify(t.Context(), control.BackupArgs{Location: location, Name: "b"},
		func(control.Progress) {})
	if err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
}
