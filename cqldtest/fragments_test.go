package cqldtest_test

import (
	"strings"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
)

// TestMutationFragments reads, page by page, what a node's storage engine contains: cells with their timestamps and
// times to live, tombstones of cells, rows and ranges, and expired cells.
func TestMutationFragments(t *testing.T) {
	clock := cqldtest.NewClock(time.Now())
	ring := cqldtest.Start(t, cqldtest.InMemoryNetwork(), cqldtest.UseClock(clock))
	s := connect(t, ring.Nodes()[0], ring)
	exec(t, s, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	exec(t, s, "CREATE TABLE k.t (p int, c int, v int, s int STATIC, PRIMARY KEY (p, c))")
	for _, text := range []string{
		"UPDATE k.t USING TIMESTAMP 10 SET s = 5 WHERE p = 1",
		"INSERT INTO k.t (p, c, v) VALUES (1, 1, 7) USING TIMESTAMP 11",
		"INSERT INTO k.t (p, c, v) VALUES (1, 2, 8) USING TIMESTAMP 12 AND TTL 1",
		"DELETE v FROM k.t USING TIMESTAMP 13 WHERE p = 1 AND c = 3",
		"DELETE FROM k.t USING TIMESTAMP 14 WHERE p = 1 AND c >= 4 AND c < 9",
		"INSERT INTO k.t (p, c, v) VALUES (1, 9, 9) USING TIMESTAMP 15",
	} {
		exec(t, s, text)
	}
	clock.Advance(time.Minute)
	want := []string{
		`partition start / {"tombstone":{}} / `,
		`static row / {"s":{"is_live":true,"type":"regular","timestamp":10}} / {"s":"5"}`,
		`clustering row / {"marker":{"timestamp":11},"columns":{"v":{"is_live":true,"type":"regular","timestamp":11}}} / {"v":"7"}`,
		`clustering row / {"marker":{"timestamp":12,"ttl":"1s","expiry":T},"columns":{"v":{"is_live":true,"type":"regular","timestamp":12,"ttl":"1s","expiry":T}}} / {"v":"8"}`,
		`clustering row / {"columns":{"v":{"is_live":false,"type":"regular","timestamp":13,"deletion_time":T}}} / {}`,
		`range tombstone change / {"tombstone":{"timestamp":14,"deletion_time":T}} / `,
		`range tombstone change / {"tombstone":{}} / `,
		`clustering row / {"marker":{"timestamp":15},"columns":{"v":{"is_live":true,"type":"regular","timestamp":15}}} / {"v":"9"}`,
		`partition end /  / `,
	}
	for _, size := range []int{2, 1000} {
		got := fragmentsOf(t, s, size)
		if strings.Join(got, "\n") != strings.Join(want, "\n") {
			t.Errorf("by pages of %d:\n%s\nwant\n%s", size, strings.Join(got, "\n"), strings.Join(want, "\n"))
		}
	}
	if n := count(t, s, gocql.One); n != 2 {
		t.Errorf("%d rows are live, want 2", n)
	}
}

// fragmentsOf returns kind, metadata and value of each fragment, with T for times.
func fragmentsOf(t *testing.T, s *gocql.Session, pageSize int) (all []string) {
	t.Helper()
	var kind, metadata, value string
	i := s.Query("SELECT mutation_fragment_kind, metadata, value FROM MUTATION_FRAGMENTS(k.t) WHERE p = " +
		"1").PageSize(pageSize).Iter()
	for i.Scan(&kind, &metadata, &value) {
		for _, name := range []string{`"expiry":`, `"deletion_time":`} {
			parts := strings.Split(metadata, name)
			for j := range parts[1:] {
				parts[j+1] = "T" + strings.SplitN(parts[j+1], `"`, 3)[2]
			}
			metadata = strings.Join(parts, name)
		}
		all = append(all, kind+" / "+metadata+" / "+value)
	}
	must(t, i.Close())
	return all
}
