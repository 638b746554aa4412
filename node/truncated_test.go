package node

import (
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/node/config"
)

// truncatable creates a table with an index, a view and rows 0 to 9, whose column v is 7.
func (r *inProcess) truncatable(c *cqlclient.Conn) {
	r.t.Helper()
	for _, text := range []string{
		"CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}",
		"CREATE TABLE ks.t (k int PRIMARY KEY, v int)", "CREATE INDEX ON ks.t (v)",
		"CREATE MATERIALIZED VIEW ks.by_v AS SELECT * FROM ks.t WHERE v IS NOT NULL AND k IS NOT NULL " +
			"PRIMARY KEY (v, k)"} {
		r.query(c, text)
	}
	r.write(c, 10)
}

// write writes rows 0 to n-1 to the table.
func (r *inProcess) write(c *cqlclient.Conn, n int) {
	r.t.Helper()
	for k := range n {
		r.queryAll(c, "INSERT INTO ks.t (k, v) VALUES ("+string(rune('0'+k))+", 7)")
	}
}

// count compares the number of rows of a table, read as a whole, by its index and, with a view, by the view.
func (r *inProcess) count(c *cqlclient.Conn, want int, tables ...string) {
	r.t.Helper()
	for _, from := range tables {
		if n := len(r.query(c, "SELECT * FROM ks."+from).Rows); n != want {
			r.t.Errorf("%s: %d rows, want %d", from, n, want)
		}
	}
}

// TestTruncatedRowsAreRestored truncates a table with an index and a view on a ring. Prepared statements, the index
// and the view are usable at once, also through the other node, and after a node was killed. UNDROP TABLE restores the
// rows beside the table, and under its name after a drop. The newest three truncations are retained.
func TestTruncatedRowsAreRestored(t *testing.T) {
	r := openNodes(t, 251, 2, func(o *config.Options) { o.FS, o.DropGrace = vfs.NewCrashableMem(), time.Hour })
	c := r.connect(0)
	r.truncatable(c)
	read, err := c.Prepare("SELECT * FROM ks.t")
	if err != nil {
		t.Fatal(err)
	}
	for i := range 2 {
		r.query(r.connect(i), "TRUNCATE ks.t")
		for n := range 2 {
			r.count(r.connect(n), 0, "t", "t WHERE v = 7", "by_v WHERE v = 7")
		}
		r.write(c, 3+i)
		r.count(c, 3+i, "t", "t WHERE v = 7", "by_v WHERE v = 7")
	}
	if got, err := c.Execute(read.Prepared, cqlclient.Options{}); err != nil || len(got.Rows) != 4 {
		t.Errorf("a statement that was prepared before: %v", err)
	}
	r.kill(1, nil)
	c = r.connect(1)
	r.refused(c, "UNDROP TABLE ks.t", "another table or view has the name 't'")
	dropped := r.query(c, "SELECT * FROM system_views.dropped_tables WHERE keyspace_name = 'ks'")
	if len(dropped.Rows) != 2 || string(dropped.Rows[0][4]) != "truncate" {
		t.Errorf("truncations are shown as %q", dropped.Rows)
	}
	r.query(c, "UNDROP TABLE ks.t AS last")
	r.query(c, "UNDROP TABLE ks.t AS first")
	r.count(c, 3, "last", "last WHERE v = 7")
	r.count(c, 10, "first", "first WHERE v = 7")
	r.count(c, 4, "t", "t WHERE v = 7", "by_v WHERE v = 7")
	for range 5 {
		r.query(c, "TRUNCATE ks.t")
	}
	if n := len(r.nodes[0].cluster.Metadata().Schema.Retained()); n != 3 {
		t.Errorf("%d truncations are retained", n)
	}
	r.query(c, "PURGE TABLE ks.t")
	if n := len(r.nodes[0].cluster.Metadata().Schema.Retained()); n != 0 {
		t.Errorf("%d truncations are retained after PURGE TABLE", n)
	}
	if snapshots := r.snapshots(); len(snapshots) != 0 {
		t.Errorf("TRUNCATE has made snapshots of rows that are retained: %+v", snapshots)
	}
}
