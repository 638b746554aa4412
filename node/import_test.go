package node

import (
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/node/snapshot"
)

// importRows imports rows of a snapshot at node i, and returns the error.
func (r *inProcess) importRows(i int, tag, keyspace, table string) error {
	_, err := r.nodes[i].commands.Imports.Import(r.t.Context(),
		control.ImportArgs{Tag: tag, Keyspace: keyspace, Table: table}, func(control.Progress) {})
	return err
}

// automaticTag returns the name of the newest automatic snapshot of a node, once there are n of them.
func (r *inProcess) automaticTag(i, n int, reason string) string {
	r.t.Helper()
	var tags []string
	r.eventually("snapshots before removals", func() bool {
		all, err := r.nodes[i].commands.Snapshots.List(r.t.Context(), control.None{}, nil)
		if err != nil {
			r.t.Fatal(err)
		}
		tags = nil
		for _, s := range all.Snapshots {
			if s.Reason == reason {
				tags = append(tags, s.Tag)
			}
		}
		return len(tags) == n
	})
	if len(tags) == 0 {
		r.t.FailNow()
	}
	return tags[len(tags)-1]
}

// TestImportsUndoRemovals truncates a table, and drops it and creates it with its columns in another order, on a ring
// of two. Importing the snapshots from before on each node restores everything: statics, collections, deletions, rows
// without cells, and index entries. The snapshots do not change.
func TestImportsUndoRemovals(t *testing.T) {
	r := openNodes(t, 217, 2, func(o *config.Options) { o.FS = vfs.Default })
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	r.query(c, "CREATE TYPE a.place (x int, y int)")
	r.query(c, "CREATE TABLE a.t (k int, c int, gone int, s int static, v text, m set<int>, p frozen<place>, "+
		"PRIMARY KEY (k, c))")
	for _, text := range []string{
		"INSERT INTO a.t (k, c, gone, v, m) VALUES (1, 1, 1, 'one', {1, 2})",
		"INSERT INTO a.t (k, c, v, p) VALUES (1, 2, 'two', {x: 1, y: 2})",
		"INSERT INTO a.t (k, c, v) VALUES (1, 3, 'three')",
		"INSERT INTO a.t (k, c) VALUES (1, 4)",
		"INSERT INTO a.t (k, s) VALUES (2, 7)",
		"INSERT INTO a.t (k, c, v) VALUES (3, 1, 'x')",
		"DELETE FROM a.t WHERE k = 1 AND c = 3",
		"DELETE FROM a.t WHERE k = 3 AND c > 0",
		"UPDATE a.t SET m = m - {2} WHERE k = 1 AND c = 1",
	} {
		r.queryAll(c, text)
	}
	r.query(c, "ALTER TABLE a.t DROP gone")
	r.query(c, "CREATE INDEX i ON a.t (v)")
	rows := func() (all, found [][][]byte) {
		all = r.query(c, "SELECT k, c, s, v, m, p FROM a.t").Rows
		r.eventually("the index", func() bool {
			a, err := c.Query("SELECT k, c FROM a.t WHERE v = 'two'", cqlclient.Options{})
			if err != nil || a.Err != nil {
				return false
			}
			found = a.Rows
			return true
		})
		return all, found
	}
	want, found := rows()
	if len(want) != 4 || len(found) != 1 {
		t.Fatalf("%d rows, %d by the index", len(want), len(found))
	}
	restored := func(reason string, n int) {
		t.Helper()
		for i := range r.nodes {
			tag := r.automaticTag(i, n, reason)
			if err := r.importRows(i, tag, "a", "t"); err != nil {
				t.Fatal(err)
			}
			v, err := r.nodes[i].commands.Snapshots.Verify(t.Context(), control.VerifyArgs{Tag: tag}, nil)
			if err != nil || v.Problems != nil {
				t.Errorf("%+v, %v", v, err)
			}
		}
		if got, index := rows(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(index, found) {
			t.Errorf("after the import of what was %s:\ngot  %q, by the index %q\nwant %q, by the index %q", reason,
				got, index, want, found)
		}
	}
	r.query(c, "TRUNCATE a.t")
	if left := r.query(c, "SELECT k FROM a.t").Rows; len(left) > 0 {
		t.Fatalf("%d rows after TRUNCATE", len(left))
	}
	restored("truncated", 1)
	r.query(c, "DROP TABLE a.t")
	for i := range r.nodes {
		r.automaticTag(i, 1, "dropped")
	}
	r.query(c, "CREATE TABLE a.t (k int, c int, p frozen<place>, m set<int>, more int, v text, s int static, "+
		"PRIMARY KEY (k, c))")
	r.query(c, "CREATE INDEX i ON a.t (v)")
	restored("dropped", 1)
	// A repeated import changes nothing, and a newer value wins.
	r.queryAll(c, "UPDATE a.t SET v = 'newer' WHERE k = 1 AND c = 1")
	want = r.query(c, "SELECT k, c, s, v, m, p FROM a.t").Rows
	restored("dropped", 1)
	// The statements in the manifest create the dropped elements.
	r.query(c, "ALTER TABLE a.t DROP more")
	r.query(c, "DROP KEYSPACE a")
	var tag string
	for i := range r.nodes {
		tag = r.automaticTag(i, 2, "dropped")
	}
	m, err := snapshot.Read(vfs.Default, filepath.Join(r.nodes[1].opts.DataDir, "snapshots", tag))
	if err != nil {
		t.Fatal(err)
	}
	statements := append(m.Keyspaces[0].Statements, m.Tables[0].Create)
	for _, index := range m.Tables[0].Indexes {
		statements = append(statements, index.Create)
	}
	for _, text := range strings.Split(strings.Join(statements, "\n"), ";\n") {
		r.query(c, text)
	}
	restored("dropped", 2)
}

// TestImportsAreRefused imports rows that do not match the table, and checks the error messages.
func TestImportsAreRefused(t *testing.T) {
	r := openNodes(t, 220, 1, func(o *config.Options) { o.FS = vfs.Default })
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY, v int)")
	r.query(c, "CREATE TABLE a.n (k int PRIMARY KEY, v counter)")
	r.query(c, "INSERT INTO a.t (k, v) VALUES (1, 1)")
	if _, err := r.nodes[0].commands.Snapshots.Take(t.Context(), control.SnapshotArgs{Tag: "taken"}, nil); err != nil {
		t.Fatal(err)
	}
	refused := func(tag, keyspace, table, want string) {
		t.Helper()
		if err := r.importRows(0, tag, keyspace, table); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s.%s from %s: %v, want %q", keyspace, table, tag, err, want)
		}
	}
	refused("none", "a", "t", "snapshot none does not exist")
	refused("../taken", "a", "t", "is not a valid snapshot name")
	refused("taken", "a", "other", "snapshot taken has nothing of table a.other")
	refused("taken", "a", "n", "it has counters")
	refused("taken", "system_auth", "roles", "a table of the system")
	r.query(c, "CREATE MATERIALIZED VIEW a.u AS SELECT * FROM a.t WHERE v IS NOT NULL AND k IS NOT NULL "+
		"PRIMARY KEY (v, k)")
	refused("taken", "a", "t", "it has materialized views")
	r.query(c, "DROP MATERIALIZED VIEW a.u")
	r.query(c, "DROP TABLE a.t")
	refused("taken", "a", "t", "table a.t does not exist: create it first")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY, v text)")
	refused("taken", "a", "t", "the column regular v int of the snapshot does not fit the column regular v text")
	r.query(c, "DROP TABLE a.t")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY, v int)")
	if err := r.importRows(0, "taken", "a", "t"); err != nil {
		t.Fatal(err)
	}
	if got := r.query(c, "SELECT v FROM a.t WHERE k = 1").Rows; len(got) != 1 {
		t.Errorf("rows %q", got)
	}
	// The directory may have another name than the manifest.
	dir := filepath.Join(r.nodes[0].opts.DataDir, "snapshots")
	if err := os.Rename(filepath.Join(dir, "taken"), filepath.Join(dir, "renamed")); err != nil {
		t.Fatal(err)
	}
	if err := r.importRows(0, "renamed", "a", "t"); err != nil {
		t.Error(err)
	}
}

// TestImportsOfSmallRangesArePaced imports a table whose rows are in eight ranges, each smaller than a block. The rate
// holds for all ranges together.
func TestImportsOfSmallRangesArePaced(t *testing.T) {
	const rows, rowBytes, rate = 24, 8 << 10, 64 << 10
	r := openNodes(t, 239, 1, func(o *config.Options) { o.FS, o.Background.StreamThroughput = vfs.Default, rate })
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE a WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE a.t (k int PRIMARY KEY, v text)")
	for k := range rows {
		r.query(c, fmt.Sprintf("INSERT INTO a.t (k, v) VALUES (%d, '%s')", k, strings.Repeat("x", rowBytes)))
	}
	r.query(c, "TRUNCATE a.t")
	tag := r.automaticTag(0, 1, "truncated")
	began := time.Now()
	if err := r.importRows(0, tag, "a", "t"); err != nil {
		t.Fatal(err)
	}
	// The read of the last range is not waited for. Tokens are random; one range hardly ever has 7/8 of the rows.
	if took, least := time.Since(began), rows*rowBytes*time.Second/rate/8; took < least {
		t.Errorf("the import took %v, want %v", took, least)
	}
	if got := r.query(c, "SELECT k FROM a.t").Rows; len(got) != rows {
		t.Errorf("%d rows, want %d", len(got), rows)
	}
}
