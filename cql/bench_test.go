package cql

import (
	"strings"
	"testing"
)

var statements = []struct{ name, text string }{
	{"insert_binds", "INSERT INTO ks.t (a, b, c, d, e) VALUES (?, ?, ?, ?, ?)"},
	{"insert_literals", "INSERT INTO ks.t (id, name, age, tags) VALUES (123e4567-e89b-12d3-a456-426614174000, " +
		"'it''s me', 42, {'a', 'b'}) USING TTL 3600"},
	{"select_clauses", "SELECT a, b, c FROM ks.t WHERE k = ? AND c >= ? AND c < ? ORDER BY c DESC LIMIT 100 ALLOW " +
		"FILTERING"},
	{"select_star", "SELECT * FROM ks.t WHERE k = ?"},
	{"select_functions", "SELECT count(*), max(a), min(b), CAST(c AS text), writetime(d), ttl(d), to_json(e) FROM t " +
		"WHERE k = 1"},
	{"update_collections", "UPDATE t USING TIMESTAMP ? SET m['k'] = ?, l = l + [1, 2], s = s - {3}, u.f = 'x' WHERE " +
		"k = ? IF a = 1 AND b IN (1, 2)"},
	{"batch_of_10", "BEGIN BATCH " + strings.Repeat("INSERT INTO t (a, b, c) VALUES (?, ?, ?); ", 10) + "APPLY BATCH"},
	{"create_table", "CREATE TABLE ks.t (a uuid, b timestamp, c map<text, frozen<list<int>>>, d text STATIC, " +
		"PRIMARY KEY ((a), b)) WITH CLUSTERING ORDER BY (b DESC) AND gc_grace_seconds = 3600 AND compaction = " +
		"{'class': 'LeveledCompactionStrategy'}"},
}

func BenchmarkParse(b *testing.B) {
	for _, s := range statements {
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := Parse(s.text); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

func BenchmarkFormat(b *testing.B) {
	for _, s := range statements {
		statement, err := Parse(s.text)
		if err != nil {
			b.Fatal(err)
		}
		b.Run(s.name, func(b *testing.B) {
			b.ReportAllocs()
			var buffer []byte
			for b.Loop() {
				buffer = AppendFormat(buffer[:0], statement)
			}
		})
	}
}
