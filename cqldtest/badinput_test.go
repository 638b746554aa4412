package cqldtest_test

import (
	"fmt"
	"strings"
	"testing"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/internal/tier"
)

// TestBadInput sends requests that are far larger than usual ones to a node. Those beyond a bound are answered with an
// error that names it, and the connection and the node serve further requests.
func TestBadInput(t *testing.T) {
	tier.Long(t)
	ring := cqldtest.Start(t, cqldtest.InMemoryNetwork())
	x := &badInput{connect(t, ring.Node(0), ring)}
	exec(t, x.session, "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}")
	exec(t, x.session, "CREATE TABLE k.t (a int, b int, v blob, PRIMARY KEY (a, b))")
	t.Run("cell", x.cell)
	t.Run("IN", x.in)
	t.Run("batch", x.batch)
	t.Run("columns", x.columns)
	t.Run("index", x.index)
	t.Run("distinct values", x.distinct)
}

type badInput struct{ session *gocql.Session }

// refused executes a statement that must fail with want in its message, and then another statement on the same
// connection.
func (x *badInput) refused(t *testing.T, want, statement string, values ...any) {
	t.Helper()
	if err := x.session.Query(statement, values...).Exec(); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%.80s: got %.300v, want %s", statement, err, want)
	}
	x.alive(t)
}

// alive checks that the only connection of the session serves a request.
func (x *badInput) alive(t *testing.T) {
	t.Helper()
	if err := x.session.Query("SELECT a FROM k.t WHERE a = -1").Exec(); err != nil {
		t.Fatal("after a refused request:", err)
	}
}

// cell writes values of 100 MB, and of 8 MiB, which is within the bounds.
func (x *badInput) cell(t *testing.T) {
	const insert = "INSERT INTO k.t (a, b, v) VALUES (1, 1, ?)"
	x.refused(t, "exceeds allowed maximum of 16777216 bytes", insert, make([]byte, 100_000_000))
	exec(t, x.session, insert, make([]byte, 8<<20))
	var v []byte
	if err := x.session.Query("SELECT v FROM k.t WHERE a = 1 AND b = 1").Scan(&v); err != nil || len(v) != 8<<20 {
		t.Fatal(len(v), err)
	}
}

func numbers(n int) []int {
	list := make([]int, n)
	for i := range list {
		list[i] = i
	}
	return list
}

// in selects and writes with long lists.
func (x *badInput) in(t *testing.T) {
	const product = "in_select_cartesian_product"
	x.refused(t, product, "SELECT a FROM k.t WHERE a IN ?", numbers(1_000_000))
	x.refused(t, product, "SELECT a FROM k.t WHERE a IN ? AND b IN ?", numbers(1_000), numbers(1_000))
	x.refused(t, product, "DELETE FROM k.t WHERE a IN ? AND b IN ?", numbers(1_000), numbers(1_000))
	x.refused(t, "/16777216) for keyspace: k. Top keys are: t.1", "UPDATE k.t SET v = ? WHERE a = 1 AND b IN ?",
		make([]byte, 1<<20), numbers(10_000))
	x.refused(t, "more than 67108864 bytes", "UPDATE k.t SET v = ? WHERE a IN ? AND b = 1", make([]byte, 1<<20),
		numbers(10_000))
	if n := x.session.Query("SELECT a FROM k.t WHERE a IN ?", numbers(2_000)).Iter().NumRows(); n != 1 {
		t.Errorf("an IN of 2,000 values selects %d rows", n)
	}
}

// batch executes batches of 20,000 statements, and one whose statements write large values again and again.
func (x *badInput) batch(t *testing.T) {
	batch := x.session.Batch(gocql.UnloggedBatch)
	for a := range 20_000 {
		batch.Query("INSERT INTO k.t (a, b) VALUES (?, ?)", a, a)
	}
	if err := batch.Exec(); err == nil || !strings.Contains(err.Error(), "Batch too large") {
		t.Errorf("a batch over 20,000 partitions: %v", err)
	}
	x.alive(t)
	batch = x.session.Batch(gocql.UnloggedBatch)
	for range 10 {
		batch.Query("UPDATE k.t SET v = ? WHERE a = 1 AND b IN ?", make([]byte, 1<<20), numbers(10))
	}
	if err := batch.Exec(); err == nil || !strings.Contains(err.Error(), "oversized mutation") {
		t.Errorf("a batch that writes 100 MiB: %v", err)
	}
	x.alive(t)
	batch = x.session.Batch(gocql.LoggedBatch)
	for b := range 20_000 {
		batch.Query("INSERT INTO k.t (a, b) VALUES (3, ?)", b)
	}
	if err := batch.Exec(); err != nil {
		t.Fatal("a batch of 20,000 rows of a partition:", err)
	}
	var n int
	if err := x.session.Query("SELECT count(*) FROM k.t WHERE a = 3").Scan(&n); err != nil || n != 20_000 {
		t.Fatal(n, err)
	}
}

// columns creates a table of 10,000 columns, the most by default, writes all of them and reads them.
func (x *badInput) columns(t *testing.T) {
	const columns = 9_999 // and the partition key
	var define, names, values strings.Builder
	for i := range columns {
		fmt.Fprintf(&define, ", c%d int", i)
		fmt.Fprintf(&names, ", c%d", i)
		fmt.Fprintf(&values, ", %d", i)
	}
	exec(t, x.session, "CREATE TABLE k.wide (a int PRIMARY KEY"+define.String()+")")
	exec(t, x.session, "INSERT INTO k.wide (a"+names.String()+") VALUES (1"+values.String()+")")
	row := map[string]any{}
	if err := x.session.Query("SELECT * FROM k.wide").MapScan(row); err != nil {
		t.Fatal(err)
	}
	if len(row) != columns+1 || row["c0"] != 0 || row["c9998"] != 9998 {
		t.Errorf("%d columns, c0 = %v, c9998 = %v", len(row), row["c0"], row["c9998"])
	}
}

// index reads 100,000 rows with the same value by an index.
func (x *badInput) index(t *testing.T) {
	const partitions, rows = 50, 2_000
	exec(t, x.session, "CREATE TABLE k.same (a int, b int, v text, PRIMARY KEY (a, b))")
	exec(t, x.session, "CREATE INDEX ON k.same (v)")
	for a := range partitions {
		batch := x.session.Batch(gocql.UnloggedBatch)
		for b := range rows {
			batch.Query("INSERT INTO k.same (a, b, v) VALUES (?, ?, 'same')", a, b)
		}
		if err := batch.Exec(); err != nil {
			t.Fatal(err)
		}
	}
	for _, c := range []struct {
		suffix         string
		pageSize, want int
	}{{"", 10_000, partitions * rows}, {" LIMIT 12345", 5_000, 12_345}, {" AND a = 7 LIMIT 3", 2, 3},
		{" AND a = 7", 777, rows}} {
		n := 0
		scanner := x.session.Query("SELECT a, b FROM k.same WHERE v = 'same'" +
			c.suffix).PageSize(c.pageSize).Iter().Scanner()
		for scanner.Next() {
			n++
		}
		if err := scanner.Err(); err != nil || n != c.want {
			t.Errorf("SELECT%s: %d rows, want %d (%v)", c.suffix, n, c.want, err)
		}
	}
}

// distinct writes values that are all different to an indexed column, and finds some of them.
func (x *badInput) distinct(t *testing.T) {
	const rows = 20_000
	exec(t, x.session, "CREATE TABLE k.distinct_values (a int, b int, v int, PRIMARY KEY (a, b))")
	exec(t, x.session, "CREATE INDEX ON k.distinct_values (v)")
	for a := range rows / 2_000 {
		batch := x.session.Batch(gocql.UnloggedBatch)
		for b := range 2_000 {
			batch.Query("INSERT INTO k.distinct_values (a, b, v) VALUES (?, ?, ?)", a, b, a*2_000+b)
		}
		if err := batch.Exec(); err != nil {
			t.Fatal(err)
		}
	}
	for v := 0; v < rows; v += 1_777 {
		var a, b int
		if err := x.session.Query("SELECT a, b FROM k.distinct_values WHERE v = ?", v).Scan(&a, &b); err != nil ||
			a*2_000+b != v {
			t.Errorf("v = %d: %d, %d (%v)", v, a, b, err)
		}
	}
	x.alive(t)
}
