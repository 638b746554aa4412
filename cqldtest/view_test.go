package cqldtest_test

import (
	"fmt"
	"maps"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	gocql "github.com/apache/cassandra-gocql-driver/v2"

	"cqld/cqldtest"
	"cqld/internal/tier"
)

// TestViewEqualsBase writes to a table with a view from all nodes of a ring at the same time, so that rows of the view
// move, appear and disappear, and stops and starts a node. Afterwards the view has exactly the rows of the table whose
// key in the view is not null.
func TestViewEqualsBase(t *testing.T) {
	tier.Long(t)
	clock := cqldtest.NewClock(time.Now())
	ring := cqldtest.Start(t, cqldtest.Nodes(3), cqldtest.InMemoryNetwork(), cqldtest.UseClock(clock))
	x := &viewed{ring: ring}
	for _, n := range ring.Nodes() {
		x.sessions = append(x.sessions, connect(t, n, ring))
	}
	exec(t, x.sessions[0], "CREATE KEYSPACE k WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	exec(t, x.sessions[0], "CREATE TABLE k.t (a int, b int, v int, w text, unselected int, PRIMARY KEY (a, b))")
	repeat(t, func() error { return x.sessions[2].Query("SELECT a FROM k.t").Exec() })
	x.change(t, 0, 30, true) // rows that exist before the view
	exec(t, x.sessions[0], `CREATE MATERIALIZED VIEW k.by_v AS SELECT v, a, b, w FROM k.t WHERE v IS NOT NULL AND a IS NOT NULL AND b IS NOT NULL
		PRIMARY KEY (v, a, b)`)
	x.equal(t)
	x.change(t, 1, 60, false)
	x.equal(t)
	clock.Advance(101 * time.Second) // the end of USING TTL 100
	if x.equal(t) == 0 {
		t.Error("no rows are left")
	}

	must(t, ring.Node(2).Kill())
	must(t, ring.AwaitDown(patience(t), 2))
	x.sessions = x.sessions[:2]
	x.change(t, 2, 40, true)
	x.equal(t)
	must(t, ring.Node(2).Restart(patience(t)))
	must(t, ring.AwaitUp(patience(t)))
	x.sessions = append(x.sessions, connect(t, ring.Node(2), ring))
	x.equal(t)
}

// viewed is a ring with a table and a view, and a session with each node.
type viewed struct {
	ring     *cqldtest.Cluster
	sessions []*gocql.Session
}

// change makes changes of 12 rows with each session at the same time.
func (x *viewed) change(t *testing.T, seed uint64, each int, insertOnly bool) {
	t.Helper()
	var running sync.WaitGroup
	for i, s := range x.sessions {
		random := rand.New(rand.NewPCG(seed, uint64(i)))
		running.Go(func() {
			for n := range each {
				statement := viewChange(random, insertOnly)
				// A change that times out may have been made. It is made again, which is another change.
				err := fmt.Errorf("not tried")
				for late := time.Now().Add(20 * time.Second); err != nil && time.Now().Before(late); {
					err = s.Query(statement).Consistency(gocql.Quorum).Exec()
				}
				if err != nil {
					t.Errorf("change %d, %s: %v", n, statement, err)
				}
			}
		})
	}
	running.Wait()
}

// viewChange returns a change of a random row.
func viewChange(random *rand.Rand, insertOnly bool) string {
	a, b, v := random.IntN(4), random.IntN(3), random.IntN(5)
	where := fmt.Sprintf(" WHERE a = %d AND b = %d", a, b)
	if insertOnly {
		return fmt.Sprintf("INSERT INTO k.t (a, b, v, w, unselected) VALUES (%d, %d, %d, 'w%d', 1)", a, b, v,
			random.IntN(9))
	}
	switch random.IntN(10) {
	case 0:
		return "DELETE FROM k.t" + where
	case 1:
		return "DELETE v FROM k.t" + where
	case 2:
		return fmt.Sprintf("DELETE FROM k.t WHERE a = %d AND b < 2", a)
	case 3:
		return fmt.Sprintf("UPDATE k.t USING TTL 100 SET v = %d", v) + where
	case 4:
		return fmt.Sprintf("UPDATE k.t SET w = 'u%d'", v) + where
	case 5:
		return fmt.Sprintf("UPDATE k.t SET unselected = %d", v) + where
	case 6:
		return fmt.Sprintf("INSERT INTO k.t (a, b, v) VALUES (%d, %d, null)", a, b)
	}
	return fmt.Sprintf("UPDATE k.t SET v = %d, w = 'm%d'", v, v) + where
}

// equal fails the test if a session sees another view than table at QUORUM, and returns the number of rows of the view.
func (x *viewed) equal(t *testing.T) (rows int) {
	t.Helper()
	for i, s := range x.sessions {
		var base, whole map[string]bool
		repeat(t, func() (err error) {
			if base, err = viewRows(s, "SELECT v, a, b, w FROM k.t"); err != nil {
				return err
			}
			if whole, err = viewRows(s, "SELECT v, a, b, w FROM k.by_v"); err != nil {
				return err
			}
			byKey := map[string]bool{}
			for v := range 5 {
				part, err := viewRows(s, "SELECT v, a, b, w FROM k.by_v WHERE v = ?", v)
				if err != nil {
					return err
				}
				maps.Copy(byKey, part)
			}
			if !maps.Equal(byKey, whole) {
				t.Errorf("node %d: the view has %v, by its keys %v", i, whole, byKey)
			}
			return nil
		})
		if !maps.Equal(base, whole) {
			t.Errorf("node %d: the view has %v, the table %v", i, whole, base)
		}
		rows = len(whole)
	}
	return rows
}

// viewRows returns the rows of a SELECT of v, a, b and w in which v is not null.
func viewRows(s *gocql.Session, statement string, values ...any) (map[string]bool, error) {
	out := map[string]bool{}
	iter := s.Query(statement, values...).Consistency(gocql.Quorum).PageSize(7).Iter()
	var v *int
	var w *string
	var a, b int
	for iter.Scan(&v, &a, &b, &w) {
		if v == nil {
			continue
		}
		row := fmt.Sprint(*v, a, b)
		if w != nil {
			row += " " + *w
		}
		if out[row] {
			return nil, fmt.Errorf("%s: the row %s is returned twice", statement, row)
		}
		out[row] = true
	}
	return out, iter.Close()
}
