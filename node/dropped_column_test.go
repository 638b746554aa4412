package node

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/node/config"
)

// TestDroppedColumnsMoveWithTheRing drops columns of a table whose rows have one replica, changes rows, compacts, adds
// a node, compacts again, and restores the columns: each node answers as if they had never been dropped, also for rows
// that have cells of dropped columns only. Rows that were read while the columns were dropped may be cached.
func TestDroppedColumnsMoveWithTheRing(t *testing.T) {
	change := func(o *config.Options) { o.DropGrace = time.Hour }
	r := openNodes(t, 141, 1, change)
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE ks WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	r.query(c, "CREATE TABLE ks.t (k int, c int, v int, d int, l set<int>, e int static, PRIMARY KEY (k, c))"+
		" WITH caching = {'keys': 'ALL', 'rows_per_partition': 'ALL'}")
	for k := range 20 {
		// Rows of UPDATE exist only as long as they have a cell.
		r.query(c, fmt.Sprintf("UPDATE ks.t SET d = %d, l = {1, %d} WHERE k = %d AND c = 0", k, k+2, k))
		r.query(c, fmt.Sprintf("UPDATE ks.t SET d = 7 WHERE k = %d AND c = 1", k))
		r.query(c, fmt.Sprintf("UPDATE ks.t SET e = %d WHERE k = %d", k, k))
	}
	id := r.nodes[0].cluster.Metadata().Schema.Table("ks", "t").StorageID
	r.query(c, "ALTER TABLE ks.t DROP (d, l, e)")
	if n := len(r.query(c, "SELECT * FROM ks.t").Rows); n != 0 {
		t.Fatalf("%d rows have no cells except dropped ones", n)
	}
	for k := range 20 {
		r.query(c, fmt.Sprintf("SELECT * FROM ks.t WHERE k = %d AND c = 0", k))
	}
	r.query(c, "DELETE FROM ks.t WHERE k = 3")
	r.query(c, "DELETE FROM ks.t WHERE k = 4 AND c = 1")
	r.query(c, "UPDATE ks.t SET v = 9 WHERE k = 5 AND c = 1")
	compact := func() {
		for _, n := range r.nodes {
			if err := n.engine.CompactTable(context.Background(), id, func(int, int) {}); err != nil {
				t.Fatal(err)
			}
		}
	}
	compact()
	r.joinNode(141, change)
	compact()
	r.eventually("the new node's clients", func() bool {
		c, err := cqlclient.Dial(r.nodes[1].opts.Native().String(), 5)
		if err == nil {
			c.Close()
		}
		return err == nil
	})
	r.query(c, "ALTER TABLE ks.t UNDROP (d, l, e)")
	r.eventually("the schema of the new node", func() bool {
		return r.nodes[1].cluster.Metadata().Schema.Table("ks", "t").Column("d") != nil
	})
	for i := range r.nodes {
		c := r.connect(i)
		if n := len(r.query(c, "SELECT * FROM ks.t").Rows); n != 37 {
			t.Errorf("node %d: %d rows", i, n)
		}
		for k := range 20 {
			want := 1
			if k == 3 {
				want = 0
			}
			if n := len(r.query(c, fmt.Sprintf(
				"SELECT k FROM ks.t WHERE k = %d AND c = 0 AND d = %d AND l CONTAINS 1 AND e = %d ALLOW FILTERING",
				k, k, k)).Rows); n != want {
				t.Errorf("node %d: %d rows of partition %d", i, n, k)
			}
		}
		one := r.query(c, "SELECT v, d FROM ks.t WHERE k = 5 AND c = 1").Rows
		if len(one) != 1 || !slices.Equal(one[0][0], []byte{0, 0, 0, 9}) ||
			!slices.Equal(one[0][1], []byte{0, 0, 0, 7}) {
			t.Errorf("node %d: %v", i, one)
		}
	}
}
