package node

import (
	"testing"

	"cqld/node/control"
)

// A table that was read has a latency: with few reads, tablestats printed NaN beside a count of reads.
func TestTheFirstReadOfATableIsMeasured(t *testing.T) {
	r := openNodes(t, 68, 1, nil)
	c := r.connect(0)
	r.fill(c, "1", 1)
	r.query(c, "SELECT * FROM k.t WHERE a = 0")
	st, err := r.nodes[0].commands.Tables.Stats(t.Context(), control.TablesArgs{Keyspace: "k"}, nil)
	if err != nil || len(st.Tables) != 1 || st.Tables[0].Reads != 1 || st.Tables[0].ReadLatency <= 0 {
		t.Errorf("tablestats after one read: %+v, %v", st.Tables, err)
	}
}

// TestRequestsAreCountedByTable executes statements, and checks the counts in the tables of system_views.
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
