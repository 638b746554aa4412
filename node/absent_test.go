package node

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"cqld/node/config"
	"cqld/storage"
)

// TestAbsentKeysAreInsertedWithoutReads executes INSERT IF NOT EXISTS of absent keys over CQL. The rows are in the last
// level of the storage, in files whose blocks are not cached. Filters must answer nearly all reads of the conditional
// change: of the row, its partition's header and range tombstones, and of the Paxos state.
func TestAbsentKeysAreInsertedWithoutReads(t *testing.T) {
	const stored, tries = 1500, 400
	r := openNodes(t, 97, 1, func(o *config.Options) { o.Memory.CacheBytes = 64 << 20 }) // memtables are part of it
	c := r.connect(0)
	r.query(c, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	for _, shape := range []struct{ name, columns, absent string }{
		{"partitions", "a text PRIMARY KEY, v text", "(a, v) VALUES ('absent-%[1]d', '')"},
		{"rows of absent partitions", "a text, b int, v text, PRIMARY KEY (a, b)",
			"(a, b, v) VALUES ('absent-%[1]d', 2, '')"},
		{"rows", "a text, b int, v text, PRIMARY KEY (a, b)", "(a, b, v) VALUES ('stored-%[2]d', %[1]d, '')"},
	} {
		t.Run(shape.name, func(t *testing.T) {
			name := "k." + strings.ReplaceAll(shape.name, " ", "_")
			r.query(c, "CREATE TABLE "+name+" ("+shape.columns+")")
			clustering := strings.Contains(shape.columns, "b int")
			for i := range stored {
				columns, values := "a, v", fmt.Sprintf("'stored-%d', '%01000d'", i, i)
				if clustering {
					columns, values = "a, b, v", fmt.Sprintf("'stored-%d', 1, '%01000d'", i, i)
				}
				r.query(c, "INSERT INTO "+name+" ("+columns+") VALUES ("+values+")")
			}
			engine := r.nodes[0].engine
			if err := engine.Flush(); err != nil {
				t.Fatal(err)
			}
			if err := engine.CompactTable(context.Background(), r.storage("k", strings.TrimPrefix(name, "k.")),
				nil); err != nil {
				t.Fatal(err)
			}
			next := 10
			insert := func() {
				a := r.query(c, "INSERT INTO "+name+" "+fmt.Sprintf(shape.absent, next, next%stored)+" IF NOT EXISTS")
				if len(a.Rows) != 1 || a.Rows[0][0][0] != 1 {
					t.Fatalf("the row is not absent: %v", a.Rows)
				}
				next++
			}
			for range 20 { // loads filters and indexes of the files
				insert()
			}
			for range 50 {
				before := engine.Metrics()
				for range tries {
					insert()
				}
				after := engine.Metrics()
				if quiet(before, after) {
					if n := after.Pebble.BlockCache.Misses - before.Pebble.BlockCache.Misses; n > tries*5/100 {
						t.Fatalf("%d insertions of absent keys read %d blocks", tries, n)
					} else {
						t.Logf("%d insertions of absent keys read %d blocks", tries, n)
					}
					return
				}
			}
			t.Fatal("the purger or a compaction always runs")
		})
	}
}

// quiet reports whether no purge, flush or compaction read blocks between two readings.
func quiet(a, b storage.Metrics) bool {
	return a.Swept == b.Swept && a.Pebble.Flush.Count == b.Pebble.Flush.Count &&
		a.Pebble.Compact.Count == b.Pebble.Compact.Count && b.Pebble.Compact.NumInProgress == 0
}
