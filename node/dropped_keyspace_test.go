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

// keptKeyspace creates the keyspace shop with a table, an index, a materialized view, a type, counters and a table that
// is dropped, with ten rows in each table, and drops the keyspace. It returns the table's number in storage.
func (r *inProcess) keptKeyspace(c *cqlclient.Conn, factor string) schema.StorageID {
	r.t.Helper()
	for _, text := range []string{
		"CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': " + factor + "}",
		"CREATE TYPE shop.money (amount int, currency text)",
		"CREATE TABLE shop.t (k int PRIMARY KEY, v int, m frozen<money>)",
		"CREATE INDEX ON shop.t (v)",
		"CREATE MATERIALIZED VIEW shop.by_v AS SELECT * FROM shop.t WHERE v IS NOT NULL AND k IS NOT NULL " +
			"PRIMARY KEY (v, k)",
		"CREATE TABLE shop.n (k int PRIMARY KEY, c counter)",
		"CREATE TABLE shop.gone (k int PRIMARY KEY)",
	} {
		r.query(c, text)
	}
	for _, k := range strings.Fields("0 1 2 3 4 5 6 7 8 9") {
		r.queryAll(c, "INSERT INTO shop.t (k, v, m) VALUES ("+k+", 7, {amount: "+k+", currency: 'EUR'})")
		r.queryAll(c, "UPDATE shop.n SET c = c + 3 WHERE k = "+k)
		r.queryAll(c, "INSERT INTO shop.gone (k) VALUES ("+k+")")
	}
	r.query(c, "DROP TABLE shop.gone")
	id := r.nodes[0].cluster.Metadata().Schema.Table("shop", "t").StorageID
	r.query(c, "DROP KEYSPACE shop")
	return id
}

// isComplete compares a restored keyspace with what keptKeyspace had created.
func (r *inProcess) isComplete(c *cqlclient.Conn, keyspace string) {
	r.t.Helper()
	for text, want := range map[string]int{"SELECT * FROM ks.t": 10, "SELECT * FROM ks.t WHERE v = 7": 10,
		"SELECT * FROM ks.by_v WHERE v = 7": 10, "SELECT * FROM ks.n WHERE c = 3 ALLOW FILTERING": 10,
		"SELECT k FROM ks.t WHERE m = {amount: 4, currency: 'EUR'} ALLOW FILTERING": 1} {
		text = strings.Replace(text, "ks.", keyspace+".", 1)
		if n := len(r.query(c, text).Rows); n != want {
			r.t.Errorf("%s: %d rows, want %d", text, n, want)
		}
	}
}

// TestDroppedKeyspacesAreRestored drops a keyspace on a ring, creates another one with its name, and restores the first
// one beside it, after a node was killed. It is purged afterwards, which removes its rows.
func TestDroppedKeyspacesAreRestored(t *testing.T) {
	r := openNodes(t, 234, 2, func(o *config.Options) { o.FS, o.DropGrace = vfs.NewCrashableMem(), time.Hour })
	c := r.connect(0)
	id := r.keptKeyspace(c, "2")
	hidden := r.nodes[0].cluster.Metadata().Schema.DroppedKeyspaces()[0].Name
	for text, want := range map[string]string{"SELECT * FROM shop.t": "does not exist", "USE shop": "does not exist",
		"UNDROP TABLE shop.gone":             "Keyspace 'shop' was dropped: restore it first",
		"UNDROP KEYSPACE other":              "No dropped keyspace 'other' can be restored",
		"UNDROP KEYSPACE shop WITH id = 1":   "No dropped keyspace 'shop' can be restored",
		`SELECT * FROM "` + hidden + `".t`:   "does not exist",
		`USE "` + hidden + `"`:               "does not exist",
		`UNDROP TABLE "` + hidden + `".gone`: "doesn't exist",
		`UNDROP KEYSPACE "` + hidden + `"`:   "can be restored"} {
		r.refused(c, text, want)
	}
	if rows := r.query(c, "SELECT * FROM system_schema.tables WHERE keyspace_name = 'shop'"); len(rows.Rows) != 0 {
		t.Errorf("%d tables are shown", len(rows.Rows))
	}
	rows := r.query(c, "SELECT * FROM system_views.dropped_keyspaces WHERE keyspace_name = 'shop'")
	if tables := r.query(c, "SELECT * FROM system_views.dropped_tables"); len(rows.Rows) != 1 || len(tables.Rows) != 0 {
		t.Errorf("%d dropped keyspaces and %d dropped tables are shown", len(rows.Rows), len(tables.Rows))
	}
	client := control.DialSocket(filepath.Join(r.nodes[0].opts.DataDir, control.SocketName))
	got, err := control.Call(t.Context(), client, control.Repair, control.RepairArgs{}, nil)
	if err != nil || got.Ranges == 0 || got.Different != 0 {
		t.Errorf("repair: %+v, %v", got, err)
	}
	stats, err := control.Call(t.Context(), client, control.StatsOfTables, control.TablesArgs{Keyspace: "shop"}, nil)
	if err != nil || len(stats.Tables) != 0 || len(stats.Dropped) != 3 || stats.Dropped[0].Keyspace != "shop" ||
		stats.Dropped[0].KeyspaceID == 0 || stats.Dropped[0].Until.Sub(stats.Dropped[0].Dropped) != time.Hour {
		t.Errorf("tablestats: %+v, %v", stats, err)
	}
	// Another replication: rows of the dropped keyspace must stay on two nodes.
	r.query(c, "CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE shop.t (k int PRIMARY KEY, w text)")
	r.query(c, "INSERT INTO shop.t (k, w) VALUES (1, 'other')")
	r.refused(c, "UNDROP KEYSPACE shop", "UNDROP KEYSPACE … AS another name")
	r.kill(1, nil)
	c = r.connect(1)
	r.query(c, "UNDROP KEYSPACE shop AS old")
	r.isComplete(c, "old")
	r.query(c, "UNDROP TABLE old.gone")
	if n := len(r.query(c, "SELECT * FROM old.gone").Rows); n != 10 {
		t.Errorf("%d rows of the table that was dropped before", n)
	}
	// The type has the new name of the keyspace, and can be written.
	r.query(c, "INSERT INTO old.t (k, v, m) VALUES (10, 7, {amount: 10, currency: 'CHF'})")
	if n := len(r.query(c, "SELECT * FROM shop.t").Rows); n != 1 {
		t.Errorf("the new table has %d rows", n)
	}
	r.query(c, "DROP KEYSPACE old")
	r.query(c, "PURGE KEYSPACE old")
	r.refused(c, "UNDROP KEYSPACE old", "No dropped keyspace 'old' can be restored")
	r.eventually("the purge", func() bool { return r.empty(id) })
	if snapshots := r.snapshots(); len(snapshots) != 0 {
		t.Errorf("a purge makes snapshots: %+v", snapshots)
	}
}

// TestDroppedKeyspacesMoveWithTheRing drops a keyspace whose rows have one replica, adds a node, and restores the
// keyspace: the new node has the rows of the ranges that it gained, and indexes and views find them.
func TestDroppedKeyspacesMoveWithTheRing(t *testing.T) {
	change := func(o *config.Options) { o.DropGrace = time.Hour }
	r := openNodes(t, 235, 1, change)
	c := r.connect(0)
	id := r.keptKeyspace(c, "1")
	r.joinNode(235, change)
	r.eventually("the new node's clients", func() bool {
		c, err := cqlclient.Dial(r.nodes[1].opts.Native().String(), 5)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	if empty, err := r.nodes[1].engine.EmptyRange(id, ring.FullRange()); empty || err != nil {
		t.Errorf("the new node has no rows of the dropped keyspace: %v", err)
	}
	r.query(c, "UNDROP KEYSPACE shop")
	for i := range r.nodes {
		r.isComplete(r.connect(i), "shop")
	}
}

// TestGraceOfKeyspacesEnds drops a keyspace and advances time beyond its grace period: the first live node removes it,
// and no other one does.
func TestGraceOfKeyspacesEnds(t *testing.T) {
	r := openNodes(t, 236, 2, func(o *config.Options) { o.DropGrace = time.Hour })
	c := r.connect(0)
	id := r.keptKeyspace(c, "2")
	until := r.nodes[0].cluster.Metadata().Schema.DroppedKeyspaces()[0].Dropped.Until
	var purged map[string]int64
	for _, n := range r.nodes {
		if early := (droppedTables{n}).purgeableKeyspaces(until - 1); len(early) != 0 {
			t.Errorf("purged early: %v", early)
		}
		if now := (droppedTables{n}).purgeableKeyspaces(until); len(now) > 0 {
			if purged != nil {
				t.Error("several nodes purge the keyspace")
			}
			purged = now
		}
	}
	// The ring uses the real clock, so the change is proposed here, through a node that may not purge.
	done := make(chan error, 1)
	r.nodes[1].cluster.StartSchema(&schema.PurgeKeyspaces{Keyspaces: purged}, func(err error) { done <- err })
	if err := <-done; err != nil {
		t.Fatal(err)
	}
	r.eventually("the purge", func() bool { return r.empty(id) })
}
