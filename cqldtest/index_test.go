package cqldtest_test

import (
	"fmt"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
)

// TestSelectByIndex reads rows by an index at QUORUM, from one node and from a ring: page by page, with LIMIT, in one
// partition, and after rows were updated, were deleted and have expired.
func TestSelectByIndex(t *testing.T) {
	for _, c := range []struct{ nodes, partitions int }{{1, 100}, {4, 20}} {
		t.Run(fmt.Sprint(c.nodes), func(t *testing.T) {
			x := startIndexed(t, c.nodes, c.partitions)
			x.pages(t)
			x.changes(t)
		})
	}
}

// indexedRows is a ring with an indexed table. Its partitions have 100 rows each, all with v = 7.
type indexedRows struct {
	session    *gocql.Session
	clock      *cqldtest.Clock
	partitions int
}

const indexedRowsEach = 100 // rows of a partition

func startIndexed(t *testing.T, nodes, partitions int) *indexedRows {
	clock := cqldtest.NewClock(time.Now())
	ring := cqldtest.Start(t, cqldtest.Nodes(nodes), cqldtest.InMemoryNetwork(), cqldtest.UseClock(clock))
	x := &indexedRows{connect(t, ring.Nodes()[0], ring), clock, partitions}
	exec(t, x.session, fmt.Sprintf("CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", min(3, nodes)))
	exec(t, x.session, "CREATE TABLE k.t (a int, b int, v int, PRIMARY KEY (a, b))")
	exec(t, x.session, "CREATE INDEX ON k.t (v)")
	for a := range partitions {
		repeat(t, func() error {
			batch := x.session.Batch(gocql.UnloggedBatch).Consistency(gocql.Quorum)
			for b := range indexedRowsEach {
				batch.Query("INSERT INTO k.t (a, b, v) VALUES (?, ?, 7)", a, b)
			}
			return batch.Exec()
		})
	}
	return x
}

// find returns the rows of a SELECT, and fails the test if a row comes twice.
func (x *indexedRows) find(t *testing.T, pageSize int, where string, values ...any) map[[2]int]bool {
	t.Helper()
	var out map[[2]int]bool
	repeat(t, func() error {
		out = map[[2]int]bool{}
		var a, b int
		iter := x.session.Query("SELECT a, b FROM k.t WHERE "+where,
			values...).Consistency(gocql.Quorum).PageSize(pageSize).Iter()
		for iter.Scan(&a, &b) {
			if out[[2]int{a, b}] {
				t.Errorf("%s: the row %d, %d is returned twice", where, a, b)
			}
			out[[2]int{a, b}] = true
		}
		return iter.Close()
	})
	return out
}

func (x *indexedRows) expect(t *testing.T, want, pageSize int, where string, values ...any) {
	t.Helper()
	if got := x.find(t, pageSize, where, values...); len(got) != want {
		t.Errorf("%s: %d rows, want %d", where, len(got), want)
	}
}

func (x *indexedRows) pages(t *testing.T) {
	all := x.partitions * indexedRowsEach
	x.expect(t, all, 777, "v = 7")
	x.expect(t, all, 5000, "v = 7")
	x.expect(t, 1234, 777, "v = 7 LIMIT 1234")
	x.expect(t, 3, 2, "v = 7 LIMIT 3")
	x.expect(t, 0, 777, "v = 8")
	x.expect(t, indexedRowsEach, 33, "a = ? AND v = 7", 5)
	x.expect(t, 10, 3, "a = ? AND b >= 90 AND v = 7", 5)
	x.expect(t, 0, 33, "a = ? AND v = 7", x.partitions)
}

func (x *indexedRows) changes(t *testing.T) {
	all := x.partitions * indexedRowsEach
	change := func(statement string) {
		t.Helper()
		repeat(t, func() error { return x.session.Query(statement).Consistency(gocql.Quorum).Exec() })
	}
	change("UPDATE k.t SET v = 8 WHERE a = 1 AND b IN (1, 2, 3)")
	change("DELETE FROM k.t WHERE a = 2")
	change("DELETE FROM k.t WHERE a = 3 AND b < 10")
	change("DELETE v FROM k.t WHERE a = 4 AND b = 4")
	change("UPDATE k.t USING TTL 100 SET v = 7 WHERE a = 5 AND b = 5")
	gone := 3 + indexedRowsEach + 10 + 1
	x.expect(t, all-gone, 500, "v = 7")
	x.expect(t, 3, 2, "v = 8")
	x.expect(t, 0, 2, "a = 2 AND v = 7")
	x.expect(t, indexedRowsEach-10, 50, "a = 3 AND v = 7")
	x.clock.Advance(101 * time.Second)
	x.expect(t, indexedRowsEach-1, 50, "a = 5 AND v = 7")
	x.expect(t, all-gone-1, 500, "v = 7")
	change("INSERT INTO k.t (a, b, v) VALUES (2, 2, 7)")
	x.expect(t, all-gone, 500, "v = 7")
}
