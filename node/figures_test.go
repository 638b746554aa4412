package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/node/control"
	"cqld/schema"
	"cqld/storage"
)

// The guarantee of the sketch: a count is never too small, too large by at most its error, and every key above the
// bound is included.
func TestTopKeysFindTheFrequent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var k topKeys
	truth := map[string]int64{}
	const total = 200_000
	for range total {
		key := fmt.Sprint("rare", r.IntN(1_000_000))
		switch n := r.IntN(100); {
		case n < 20:
			key = "hot"
		case n < 30:
			key = "warm"
		}
		truth[key]++
		k.add([]byte(key))
	}
	if len(k.keys) > topKeysKept {
		t.Errorf("%d keys are kept", len(k.keys))
	}
	top := k.top(10)
	if top[0].key != "hot" || top[1].key != "warm" {
		t.Errorf("found %v", top)
	}
	for _, found := range top {
		if found.count < truth[found.key] || found.count-found.error > truth[found.key] {
			t.Errorf("%s: %d ± %d, and it was %d", found.key, found.count, found.error, truth[found.key])
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := newMeasured(&storage.Engine{}, nil)
	for id := range schema.StorageID(1000) {
		m.of(id)
	}
	if n := testing.AllocsPerRun(100, func() {
		m.of(999).write.Begin(8)
		m.of(999).read.End(time.Microsecond,
			time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m.forget(999)
	if len(*m.tables.Load()) != 999 {
		t.Error("a table that is gone is still counted")
	}
}

// A table that was read has a latency: with few reads, tablestats printed NaN beside a count of reads.
func TestTheFirstReadOfATableIsMeasured(t *testing.T) {
	r := openNodes(t, 68, 1, nil)
	c := r.connect(0)
	r.fill(c, "1", 1)
	r.query(c, "SELECT * FROM k.t WHERE a = 0")
	st, err := r.nodes[0].opTableStats(t.Context(), control.TablesArgs{Keyspace: "k"}, nil)
	if err != nil || len(st.Tables) != 1 || st.Tables[0].Reads != 1 || st.Tables[0].ReadLatency <= 0 {
		t.Errorf("tablestats after one read: %+v, %v", st.Tables, err)
	}
}

// TestRequestsAreCountedByTable executes statements, and compares what the tables of system_views then count.
func TestRequestsAreCountedByTable(t *testing.T) {
	r := openNodes(t, 69, 1, nil)
	c := r.connect(0)
	r.fill(c, "1", 3) // three writes
	r.query(c, "CREATE TABLE k.other (a int PRIMARY KEY, v int)")
	r.query(c, "CREATE INDEX ON k.other (v)")
	r.query(c, "DELETE v FROM k.t WHERE a = 2")
	r.query(c, "SELECT * FROM k.t WHERE a IN (0, 1, 2)") // a read for each key
	r.query(c, "SELECT * FROM k.t")
	r.query(c, "SELECT * FROM k.t WHERE v = 7 ALLOW FILTERING")
	r.query(c, "BEGIN UNLOGGED BATCH INSERT INTO k.t (a, v) VALUES (7, 7); INSERT INTO k.t (a, v) VALUES (8, 8); "+
		"INSERT INTO k.other (a, v) VALUES (7, 7) APPLY BATCH")
	r.query(c, "SELECT * FROM k.other WHERE v = 7")
	r.query(c, "UPDATE k.other SET v = 8 WHERE a = 7 IF v = 7")
	read := func(table, column, where string) string {
		t.Helper()
		a := r.query(c, "SELECT cast("+column+" AS text) FROM system_views."+table+" WHERE "+where)
		if len(a.Rows) != 1 {
			t.Fatalf("%s has %d rows where %s", table, len(a.Rows), where)
		}
		return string(a.Rows[0][0])
	}
	for _, want := range []struct{ table, of, count string }{
		{"coordinator_write_latency", "t", "5"}, {"coordinator_read_latency", "t", "3"},
		{"coordinator_scan_latency", "t", "2"},
		{"coordinator_write_latency", "other", "1"}, {"coordinator_read_latency", "other", "0"},
		{"coordinator_scan_latency", "other", "1"},
		{"local_write_latency", "t", "6"}, {"local_read_latency", "t", "3"}, {"local_write_latency", "other", "2"},
	} {
		where := "keyspace_name = 'k' AND table_name = '" + want.of + "'"
		if got := read(want.table, "count", where); got != want.count {
			t.Errorf("%s of %s counts %s, want %s", want.table, want.of, got, want.count)
		}
		if got := read(want.table, "max_ms", where); (got == "0.0") != (want.count == "0") {
			t.Errorf("%s of %s: at most %s ms", want.table, want.of, got)
		}
	}
	for table, most := range map[string]string{"rows_per_read": "3.0", "tombstones_per_read": "1.0"} {
		if got := read(table, "max", "keyspace_name = 'k' AND table_name = 't'"); got != most {
			t.Errorf("%s: at most %s, want %s", table, got, most)
		}
	}
	if got := read("batch_metrics", "max", "name = 'partitions_per_unlogged_batch'"); got != "3" {
		t.Errorf("a batch has at most %s partitions", got)
	}
	if got := read("cql_metrics", "value", "name = 'regular_statements_executed'"); got == "0.0" {
		t.Error("no statement was counted")
	}
}
