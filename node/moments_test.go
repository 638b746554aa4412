package node

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/internal/await"
	"cqld/node/config"
	"cqld/node/control"
)

// moment returns a moment after everything that was acknowledged, and before everything that is sent later.
func (r *inProcess) moment() int64 {
	at := int64(0)
	for _, n := range r.nodes {
		at = max(at, n.hlc.Next())
	}
	// The clock of the machine, which the nodes share, passes it.
	await.Reached(time.Minute, func() bool { return time.Now().UnixMicro() > at+1000 })
	return at
}

// archived waits until all nodes have archived a moment.
func (r *inProcess) archived(at int64) {
	r.t.Helper()
	for i, n := range r.nodes {
		if !await.Reached(time.Minute, func() bool { s, _, _ := n.commands.Backups.Archived(); return s.Until >= at }) {
			s, _, _ := n.commands.Backups.Archived()
			r.t.Fatalf("node %d: %+v", i, s)
		}
	}
}

// archiving returns a function that configures nodes which archive their logs at a location.
func archiving(location string) func(*config.Options) {
	return func(o *config.Options) { o.FS, o.CommitLog.Archive = vfs.NewCrashableMem(), location }
}

// refusedMoment restores a moment, which must be refused with a text.
func (r *inProcess) refusedMoment(a control.RestoreArgs, want string) {
	r.t.Helper()
	if _, err := r.restore(0, a); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("%+v: %v, want %q", a, err, want)
	}
}

// TestMomentsAreRestored writes to a ring of three with archived logs, backs it up, and writes more, with timestamps of
// clients in the far past and future, deletions, conditional writes, counters, a truncation, and tables that are
// dropped and created. The state of a moment in between is restored beside the changed tables, and in another ring.
func TestMomentsAreRestored(t *testing.T) {
	location := "file://" + t.TempDir()
	r := openNodes(t, 236, 3, archiving(location))
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY, v text)")
	r.query(c, "CREATE TABLE a.n (k int PRIMARY KEY, v counter)")
	r.query(c, "CREATE TABLE a.truncated (k int PRIMARY KEY)")
	r.query(c, "CREATE TABLE a.dropped (k int PRIMARY KEY)")
	quorum := func(text string, args ...any) {
		t.Helper()
		if _, err := send(c, fmt.Sprintf(text, args...), cqlclient.Options{Consistency: 4}); err != nil {
			t.Fatalf("%s: %v", text, err)
		}
	}
	for k := range 20 {
		quorum("INSERT INTO a.t (k, v) VALUES (%d, 'old')", k)
		quorum("UPDATE a.n SET v = v + 1 WHERE k = %d", k)
		quorum("INSERT INTO a.truncated (k) VALUES (%d)", k)
	}
	before := r.moment()
	if _, err := r.backup(1, control.BackupArgs{Location: location, Name: "base"}); err != nil {
		t.Fatal(err)
	}
	for k := range 20 {
		switch k % 5 {
		case 0:
			quorum("DELETE FROM a.t WHERE k = %d", k)
		case 1:
			quorum("INSERT INTO a.t (k, v) VALUES (%d, 'future') USING TIMESTAMP 4000000000000000", k)
		case 2:
			quorum("INSERT INTO a.t (k, v) VALUES (%d, 'past') USING TIMESTAMP 5", k+100)
		case 3:
			quorum("UPDATE a.t SET v = 'conditional' WHERE k = %d IF v = 'old'", k)
		}
		quorum("UPDATE a.n SET v = v + %d WHERE k = %d", k, k)
	}
	r.query(c, "TRUNCATE a.truncated")
	quorum("INSERT INTO a.truncated (k) VALUES (77)")
	r.query(c, "CREATE TABLE a.later (k int PRIMARY KEY, v int)")
	quorum("INSERT INTO a.later (k, v) VALUES (1, 1)")
	r.query(c, "ALTER TABLE a.t ADD added int")
	quorum("UPDATE a.t SET added = 9 WHERE k = 4")
	r.query(c, "DROP TABLE a.dropped")
	reads := []string{"SELECT k, v, added FROM a.t", "SELECT k, v FROM a.n", "SELECT k FROM a.truncated",
		"SELECT k, v FROM a.later"}
	want := r.answers(0, reads)
	at := r.moment()
	r.kill(2, nil)
	for k := range 20 {
		quorum("INSERT INTO a.t (k, v, added) VALUES (%d, 'after', 1) USING TIMESTAMP 4000000000000001", k)
		quorum("DELETE FROM a.t USING TIMESTAMP 7 WHERE k = %d", k+100)
		quorum("UPDATE a.n SET v = v + 1000 WHERE k = %d", k)
	}
	r.query(c, "TRUNCATE a.truncated")
	r.query(c, "DROP TABLE a.later")
	r.query(c, "CREATE TABLE a.later (k int PRIMARY KEY, v int)")
	r.query(c, "CREATE TABLE a.dropped (k int PRIMARY KEY, other int)")
	r.archived(r.moment())

	r.refusedMoment(control.RestoreArgs{Location: location, At: before}, "no backup was completed before")
	r.refusedMoment(control.RestoreArgs{Location: location, At: before, Name: "base"}, "use an earlier backup")
	r.refusedMoment(control.RestoreArgs{Location: location, At: time.Now().Add(time.Hour).UnixMicro()},
		"is in the future")
	r.refusedMoment(control.RestoreArgs{Location: location, At: at, Tables: []string{"a.dropped"}, As: "a.x"},
		"no table a.dropped")
	r.refusedMoment(control.RestoreArgs{Location: location, At: at}, "exists: drop it, or restore")
	if _, err := r.restore(1, control.RestoreArgs{Location: location, At: at, Tables: []string{"a.later"},
		As: "a.earlier"}); err != nil {
		t.Fatal(err)
	}
	if got := r.answers(2, []string{"SELECT k, v FROM a.earlier"})["SELECT k, v FROM a.earlier"]; !sameRows(got,
		want[reads[3]]) {
		t.Errorf("beside: %q, want %q", got, want[reads[3]])
	}
	// In its place: the table was dropped and created again since.
	if _, err := r.restore(0, control.RestoreArgs{Location: location, At: at, Tables: []string{"a.later"},
		Replace: true}); err != nil {
		t.Fatal(err)
	}
	if got := r.answers(1, reads[3:])[reads[3]]; !sameRows(got, want[reads[3]]) {
		t.Errorf("in its place: %q, want %q", got, want[reads[3]])
	}

	other := openNodes(t, 237, 2, onDisk)
	plan, err := other.restore(0, control.RestoreArgs{Location: location, At: at, DryRun: true})
	if err != nil || len(plan.Tables) != 4 || plan.Name != "base" || plan.At != at {
		t.Fatalf("%+v, %v", plan, err)
	}
	if _, err := other.restore(1, control.RestoreArgs{Location: location, At: at}); err != nil {
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
	// Rows that were restored are not in the log.
	now := r.moment()
	r.archived(now)
	r.refusedMoment(control.RestoreArgs{Location: location, At: now, Tables: []string{"a.earlier"}, As: "a.again"},
		"rows of table a.earlier were imported or restored")
}

// segments returns the paths of the stored segments of all nodes, in the order in which they were stored.
func segments(t *testing.T, dir string) []string {
	t.Helper()
	all, err := filepath.Glob(filepath.Join(dir, "log", "*", "*", "segments", "*", "*"))
	if err != nil || len(all) == 0 {
		t.Fatalf("%q, %v", all, err)
	}
	slices.SortFunc(all, func(a, b string) int { return strings.Compare(filepath.Base(a), filepath.Base(b)) })
	return all
}

// TestMomentsThatAreNotInTheArchiveAreRefused damages and removes segments. A restoration says what is missing, and
// creates nothing. Moments before and after a change of the ring are restored.
func TestMomentsThatAreNotInTheArchiveAreRefused(t *testing.T) {
	dir := t.TempDir()
	location := "file://" + dir
	r := openNodes(t, 238, 1, archiving(location))
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY)")
	if _, err := r.backup(0, control.BackupArgs{Location: location, Name: "base"}); err != nil {
		t.Fatal(err)
	}
	var moments []int64
	var before []string // the segments until the second moment
	for k := range 4 {
		r.query(c, fmt.Sprintf("INSERT INTO a.t (k) VALUES (%d)", k))
		moments = append(moments, r.moment())
		r.archived(moments[k])
		if k == 1 {
			before = segments(t, dir)
		}
	}
	shown, err := r.nodes[0].commands.Backups.List(t.Context(), control.BackupArgs{Location: location}, nil)
	if err != nil || len(shown.Backups) != 1 || shown.Backups[0].MomentsUntil < moments[2] {
		t.Errorf("%+v, %v", shown, err)
	}
	other := openNodes(t, 239, 1, onDisk)
	last := control.RestoreArgs{Location: location, At: moments[2]}
	changed := func(path string, change func(b []byte) []byte, want string) {
		t.Helper()
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		if damaged := change(slices.Clone(b)); damaged == nil {
			err = os.Remove(path)
		} else {
			err = os.WriteFile(path, damaged, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		other.refusedMoment(last, want)
		if other.nodes[0].cluster.Metadata().Schema.Keyspace("a") != nil {
			t.Fatalf("%s: a keyspace was created", want)
		}
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	// The backup may have all earlier ones, and later ones follow the third moment.
	all := segments(t, dir)
	needed := all[slices.IndexFunc(all, func(s string) bool { return !slices.Contains(before, s) })]
	changed(needed, func(b []byte) []byte { b[len(b)/2] ^= 1; return b }, "its checksum is wrong")
	changed(needed, func(b []byte) []byte { return b[:len(b)-1] }, "bytes instead of")
	changed(needed, func([]byte) []byte { return nil }, "has a gap from")
	// A moment before the gap, and one of a new ring.
	if _, err := other.restore(0, control.RestoreArgs{Location: location, At: moments[0]}); err != nil {
		t.Fatal(err)
	}
	rows := other.answers(0, []string{"SELECT k FROM a.t"})["SELECT k FROM a.t"]
	if len(rows) != 1 {
		t.Errorf("%q", rows)
	}
	r.openNode(238, archiving(location))
	if !await.Reached(time.Minute, func() bool {
		t := r.nodes[0].cluster.Metadata().Topology
		return len(t.Nodes()) == 2 && len(t.Operations()) == 0
	}) {
		t.Fatal("the node has not joined")
	}
	// The new node has got rows by streams, which its log has.
	for k := 3; k < 20; k++ {
		r.query(c, fmt.Sprintf("INSERT INTO a.t (k) VALUES (%d)", k))
	}
	joined := r.moment()
	r.archived(joined)
	if _, err := r.restore(1, control.RestoreArgs{Location: location, At: joined, Tables: []string{"a.t"},
		As: "a.joined"}); err != nil {
		t.Fatal(err)
	}
	if rows := r.answers(0, []string{"SELECT k FROM a.joined"})["SELECT k FROM a.joined"]; len(rows) != 20 {
		t.Errorf("after a join: %d rows: %q", len(rows), rows)
	}
	shown, err = r.nodes[0].commands.Backups.List(t.Context(), control.BackupArgs{Location: location}, nil)
	if err != nil || len(shown.Backups) != 1 || shown.Backups[0].MomentsUntil < joined {
		t.Errorf("after a join: %+v, %v", shown, err)
	}
	if _, err := r.restore(0, control.RestoreArgs{Location: location, At: moments[1], Tables: []string{"a.t"},
		As: "a.x"}); err != nil {
		t.Error(err)
	}
}
