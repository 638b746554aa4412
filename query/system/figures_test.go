package system

import (
	"bytes"
	"testing"
	"time"

	"cqld/internal/histogram"
	"cqld/ring"
)

// TestFiguresAreShown checks one row of each table of measurements.
func TestFiguresAreShown(t *testing.T) {
	s := source(t)
	s.o.Figures = Figures{
		Caches: func() []Cache {
			return []Cache{{Name: "blocks", Entries: 3, Bytes: 10, Max: 100, Requests: 4, Hits: 3}}
		},
		Hints: func() []PendingHints {
			return []PendingHints{{Node: &ring.Node{Datacenter: "dc9"}, Records: 7, Alive: true}}
		},
		Pools: func() []Pool { return []Pool{{Name: "ReadStage", Active: 2, ActiveMax: 9, Refused: 5}} },
		Queries: func() []Query {
			return []Query{{ThreadID: "Native-Transport-Requests-7", Queued: 2 * time.Microsecond,
				Running: time.Second, Task: "QUERY SELECT"}}
		},
		Snapshots: func() []Snapshot {
			return []Snapshot{{Name: "s1", Keyspace: "k", Table: "t", Created: time.UnixMilli(5)}}
		},
		Tables: func() []TableFigures {
			return []TableFigures{{Keyspace: "k", Table: "t", Bytes: mebibyte + 1,
				LocalRead: histogram.TimerSummary{Count: 4,
					Latency: histogram.Percentiles{Max: 3 * time.Millisecond}},
				LocalScan:        histogram.TimerSummary{Count: 5},
				LocalWrite:       histogram.TimerSummary{Count: 6, PerSecond: 1.5},
				CoordinatorRead:  histogram.TimerSummary{Count: 7},
				CoordinatorScan:  histogram.TimerSummary{Count: 8},
				CoordinatorWrite: histogram.TimerSummary{Count: 9},
				Rows:             histogram.CountPercentiles{Count: 10, P50: 11},
				Tombstones:       histogram.CountPercentiles{Count: 12, Most: 13}}}
		},
	}
	for _, c := range []struct {
		table, column string
		want          []byte
	}{
		{"caches", "hit_ratio", double(0.75)},
		{"caches", "capacity_bytes", bigint(100)},
		{"pending_hints", "dc", text("dc9")},
		{"pending_hints", "status", text("UP")},
		{"pending_hints", "files", integer(7)},
		{"thread_pools", "active_tasks_limit", integer(9)},
		{"thread_pools", "blocked_tasks_all_time", bigint(5)},
		{"queries", "queued_micros", bigint(2)},
		{"queries", "running_micros", bigint(1000000)},
		{"queries", "task", text("QUERY SELECT")},
		{"disk_usage", "mebibytes", bigint(2)},
		{"local_read_latency", "count", bigint(4)},
		{"local_read_latency", "max_ms", double(3)},
		{"snapshots", "created_at", bigint(5)},
		{"snapshots", "ephemeral", boolean(false)},
		{"local_scan_latency", "count", bigint(5)},
		{"local_write_latency", "count", bigint(6)},
		{"local_write_latency", "per_second", double(1.5)},
		{"coordinator_read_latency", "count", bigint(7)},
		{"coordinator_scan_latency", "count", bigint(8)},
		{"coordinator_write_latency", "count", bigint(9)},
		{"rows_per_read", "count", bigint(10)},
		{"rows_per_read", "p50th", double(11)},
		{"tombstones_per_read", "count", bigint(12)},
		{"tombstones_per_read", "max", double(13)},
	} {
		all := partitions(t, s, "system_views", c.table)
		if len(all) != 1 || len(all[0].Rows) != 1 {
			t.Fatalf("%s has %d partitions", c.table, len(all))
		}
		if got := value(s.o.View.Schema().Table("system_views", c.table), &all[0].Rows[0], c.column); !bytes.Equal(got,
			c.want) {
			t.Errorf("%s.%s is %x, want %x", c.table, c.column, got, c.want)
		}
	}
}

// TestStatementsAreCounted checks the tables of statistics of statements, which have one row for each figure.
func TestStatementsAreCounted(t *testing.T) {
	s := source(t)
	s.o.Figures.Statements = func() StatementFigures {
		return StatementFigures{Regular: 3, Prepared: 1, PreparedCached: 7, Evicted: 2,
			Unlogged: histogram.CountPercentiles{Most: 9, P999: 8}}
	}
	s.o.Figures.Prepared = func() []PreparedStatement {
		return []PreparedStatement{{ID: [16]byte{1},
			Text: "SELECT 1"}}
	}
	for _, c := range []struct {
		keyspace, table, key, column string
		want                         []byte
	}{
		{"system_views", "cql_metrics", "prepared_statements_count", "value", double(7)},
		{"system_views", "cql_metrics", "prepared_statements_evicted", "value", double(2)},
		{"system_views", "cql_metrics", "prepared_statements_executed", "value", double(1)},
		{"system_views", "cql_metrics", "prepared_statements_ratio", "value", double(0.25)},
		{"system_views", "cql_metrics", "regular_statements_executed", "value", double(3)},
		{"system_views", "batch_metrics", "partitions_per_unlogged_batch", "max", bigint(9)},
		{"system_views", "batch_metrics", "partitions_per_unlogged_batch", "p999th", double(8)},
		{"system_views", "batch_metrics", "partitions_per_logged_batch", "max", bigint(0)},
		{"system_views", "batch_metrics", "partitions_per_counter_batch", "p50th", double(0)},
		{"system", "prepared_statements", string([]byte{1, 15: 0}), "query_string", text("SELECT 1")},
		{"system", "prepared_statements", string([]byte{1, 15: 0}), "logged_keyspace", nil},
	} {
		found := false
		for _, p := range partitions(t, s, c.keyspace, c.table) {
			if string(p.Key.Bytes) != c.key {
				continue
			}
			found = true
			if got := value(s.o.View.Schema().Table(c.keyspace, c.table), &p.Rows[0], c.column); !bytes.Equal(got,
				c.want) {
				t.Errorf("%s, %s: %s is %x, want %x", c.table, c.key, c.column, got, c.want)
			}
		}
		if !found {
			t.Errorf("%s has no row %s", c.table, c.key)
		}
	}
}
