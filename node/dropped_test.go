package node

import (
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/integration/cqlclient"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/ring"
	"cqld/schema"
)

// keptTable creates a table with a row in each of ten partitions, and drops it. It returns its number in storage.
func (r *inProcess) keptTable(c *cqlclient.Conn) schema.StorageID {
	r.t.Helper()
	r.query(c, "CREATE TABLE ks.t (k int PRIMARY KEY, v int)")
	r.query(c, "CREATE INDEX ON ks.t (v)")
	for _, k := range strings.Fields("0 1 2 3 4 5 6 7 8 9") {
		r.queryAll(c, "INSERT INTO ks.t (k, v) VALUES ("+k+", 7)")
	}
	id := r.nodes[0].cluster.Metadata().Schema.Table("ks", "t").StorageID
	r.query(c, "DROP TABLE ks.t")
	return id
}

// refused executes a statement, whose error message must contain text.
func (r *inProcess) refused(c *cqlclient.Conn, text, want string) {
	r.t.Helper()
	if _, err := send(c, text, cqlclient.Options{}); err == nil || !strings.Contains(err.Error(), want) {
		r.t.Errorf("%s: %v, want %q", text, err, want)
	}
}

// TestDroppedTablesAreRestored drops a table on a ring, writes to another table with its name, restores the first one,
// and reads its rows, also by its index. A node that was killed in between has them, too.
func TestDroppedTablesAreRestored(t *testing.T) {
	r := openNodes(t, 231, 2, func(o *config.Options) { o.FS, o.DropGrace = vfs.NewCrashableMem(), time.Hour })
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	id := r.keptTable(c)
	r.refused(c, "SELECT * FROM ks.t", "does not exist")
	rows := r.query(c, "SELECT * FROM system_views.dropped_tables WHERE keyspace_name = 'ks'")
	if len(rows.Rows) != 1 {
		t.Errorf("%d dropped tables are shown", len(rows.Rows))
	}
	all := control.RepairArgs{TablesArgs: control.TablesArgs{Keyspace: "ks"}}
	client := control.DialSocket(filepath.Join(r.nodes[0].opts.DataDir, control.SocketName))
	got, err := control.Call(t.Context(), client, control.Repair, all, nil)
	if err != nil || got.Ranges == 0 || got.Different != 0 {
		t.Errorf("the repair of a keyspace does not include its dropped table: %+v, %v", got, err)
	}
	r.query(c, "CREATE TABLE ks.t (k int PRIMARY KEY, w text)")
	r.query(c, "INSERT INTO ks.t (k, w) VALUES (1, 'other')")
	r.refused(c, "UNDROP TABLE ks.t", "another table or view has the name 't'")
	r.refused(c, "UNDROP TABLE ks.u", "No dropped table 'ks.u' can be restored")
	r.kill(1, nil)
	c = r.connect(1)
	r.query(c, "UNDROP TABLE ks.t AS old")
	if n := len(r.query(c, "SELECT * FROM ks.old").Rows); n != 10 {
		t.Errorf("%d rows were restored", n)
	}
	if n := len(r.query(c, "SELECT * FROM ks.old WHERE v = 7").Rows); n != 10 {
		t.Errorf("the index finds %d rows", n)
	}
	if n := len(r.query(c, "SELECT * FROM ks.t").Rows); n != 1 {
		t.Errorf("the new table has %d rows", n)
	}
	r.query(c, "DROP TABLE ks.old")
	r.query(c, "PURGE TABLE ks.old")
	r.refused(c, "UNDROP TABLE ks.old", "No dropped table 'ks.old' can be restored")
	r.eventually("the purge", func() bool { return r.empty(id) })
	if snapshots := r.snapshots(); len(snapshots) != 0 {
		t.Errorf("a purge makes snapshots: %+v", snapshots)
	}
}

// joinNode adds a second node to the ring, and waits until it has its ranges.
func (r *inProcess) joinNode(subnet byte, change func(*config.Options)) {
	r.t.Helper()
	r.openNode(subnet, change)
	for _, n := range r.nodes {
		r.eventually("the end of the join", func() bool {
			return n.Status().Up == 2 && len(n.cluster.Metadata().Topology.Operations()) == 0
		})
	}
}

// TestDroppedTablesMoveWithTheRing drops a table whose rows have one replica, adds a node, and restores the table:
// the new node has the rows of the ranges that it gained, and the index finds them.
func TestDroppedTablesMoveWithTheRing(t *testing.T) {
	change := func(o *config.Options) { o.DropGrace = time.Hour }
	r := openNodes(t, 233, 1, change)
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	id := r.keptTable(c)
	r.joinNode(233, change)
	r.eventually("the new node's clients", func() bool {
		c, err := cqlclient.Dial(r.nodes[1].opts.Native().String(), 5)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if empty, err := r.nodes[1].engine.EmptyRange(id, ring.FullRange()); empty || err != nil {
		t.Errorf("the new node has no rows of the dropped table: %v", err)
	}
	r.query(c, "UNDROP TABLE ks.t")
	for i := range r.nodes {
		c := r.connect(i)
		for _, text := range []string{"SELECT * FROM ks.t", "SELECT * FROM ks.t WHERE v = 7"} {
			if n := len(r.query(c, text).Rows); n != 10 {
				t.Errorf("%s through node %d: %d rows", text, i, n)
			}
		}
	}
}

// TestGraceEnds drops a table and advances time beyond its grace period: the first live node removes it, and no other
// one does.
func TestGraceEnds(t *testing.T) {
	r := openNodes(t, 232, 2, func(o *config.Options) { o.DropGrace = time.Hour })
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 2}")
	id := r.keptTable(c)
	until := r.nodes[0].cluster.Metadata().Schema.Retained()[0].Retention.Until
	purges := 0
	for _, n := range r.nodes {
		if early := (droppedTables{n}).purgeable(until - 1); len(early) != 0 {
			t.Errorf("purged early: %v", early)
		}
		purges += len((droppedTables{n}).purgeable(until))
	}
	if purges != 1 {
		t.Fatalf("%d nodes purge the table", purges)
	}
	r.query(c, "PURGE TABLE ks.t")
	r.eventually("the purge", func() bool { return r.empty(id) })
}
