//go:build integration

package integration

import (
	"bytes"
	"crypto/md5"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
)

// dial connects to every node of the shared ring with the newest protocol version.
func dial(t *testing.T) []*cqlclient.Conn {
	t.Helper()
	var conns []*cqlclient.Conn
	for _, s := range sharedRing(t).Servers {
		c, err := cqlclient.Dial(s.Address, 5)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { c.Close() })
		conns = append(conns, c)
	}
	return conns
}

// query sends a statement, and fails the test if the answer is an error.
func query(t *testing.T, c *cqlclient.Conn, text string, o cqlclient.Options) *cqlclient.Answer {
	t.Helper()
	a, err := c.Query(text, o)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	if a.Err != nil {
		t.Fatalf("%s: %v", text, a.Err)
	}
	return a
}

// keyspace creates a keyspace that is dropped at the end of the test.
func keyspace(t *testing.T, c *cqlclient.Conn, name string, rf int) {
	t.Helper()
	query(t, c, "DROP KEYSPACE IF EXISTS "+name, cqlclient.Options{})
	query(t, c, fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', 'replication_factor': %d}", name, rf), cqlclient.Options{})
	t.Cleanup(func() { query(t, c, "DROP KEYSPACE "+name, cqlclient.Options{}) })
}

func TestDefinitionsAreEverywhereWhenTheyReturn(t *testing.T) {
	conns := dial(t)
	keyspace(t, conns[0], "ddl", 2)
	for i := range 12 {
		table := fmt.Sprintf("ddl.t%d", i)
		query(t, conns[i%4], "CREATE TABLE "+table+" (k int PRIMARY KEY)", cqlclient.Options{})
		query(t, conns[(i+1)%4], "ALTER TABLE "+table+" ADD v int", cqlclient.Options{})
		for j, c := range conns {
			query(t, c, fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, %d)", table, j, j), cqlclient.Options{Consistency: quorum})
		}
		query(t, conns[(i+2)%4], "DROP TABLE "+table, cqlclient.Options{})
		for _, c := range conns {
			a, err := c.Query("SELECT * FROM "+table, cqlclient.Options{})
			if err != nil || a.Err == nil || a.Err.Code != cqlclient.CodeInvalid {
				t.Fatalf("a read of a dropped table returned %v %v", a, err)
			}
		}
	}
}

func TestRacingDefinitionsGiveOneTable(t *testing.T) {
	conns := dial(t)
	keyspace(t, conns[0], "race", 4)
	for round := range 5 {
		table := fmt.Sprintf("t%d", round)
		var wg sync.WaitGroup
		results := make([]string, len(conns))
		for i, c := range conns {
			wg.Go(func() {
				// The definitions differ, so that a mixture of two is detected.
				a, err := c.Query(fmt.Sprintf("CREATE TABLE race.%s (k int PRIMARY KEY, v%d int)", table, i), cqlclient.Options{})
				switch {
				case err != nil:
					results[i] = err.Error()
				case a.Err != nil:
					results[i] = fmt.Sprintf("%#x", a.Err.Code)
				default:
					results[i] = "created"
				}
			})
		}
		wg.Wait()
		winner := -1
		for i, r := range results {
			if r == "created" && winner < 0 {
				winner = i
			} else if r != "0x2400" {
				t.Fatalf("racing CREATE TABLE: %v", results)
			}
		}
		for _, c := range conns {
			a := query(t, c, "SELECT * FROM race."+table, cqlclient.Options{})
			if len(a.Columns) != 2 || a.Columns[1].Name != fmt.Sprint("v", winner) {
				t.Fatalf("the table of %d has columns %v", winner, a.Columns)
			}
		}
	}
}

func TestPagingGoesOnAtAnotherNode(t *testing.T) {
	conns := dial(t)
	keyspace(t, conns[0], "pages", 2)
	query(t, conns[0], "CREATE TABLE pages.t (k int, c int, PRIMARY KEY (k, c))", cqlclient.Options{})
	for i := range 300 {
		query(t, conns[i%4], fmt.Sprintf("INSERT INTO pages.t (k, c) VALUES (%d, %d)", i%17, i), cqlclient.Options{Consistency: 5})
	}
	seen, o := map[string]bool{}, cqlclient.Options{PageSize: 7, Consistency: quorum}
	for i := 0; ; i++ {
		a := query(t, conns[i%4], "SELECT c FROM pages.t", o)
		for _, row := range a.Rows {
			if seen[string(row[0])] {
				t.Fatalf("duplicate row on page %d", i)
			}
			seen[string(row[0])] = true
		}
		if o.PagingState = a.PagingState; o.PagingState == nil {
			break
		}
	}
	if len(seen) != 300 {
		t.Errorf("%d rows of 300", len(seen))
	}
}

// Drivers prepare on one node and execute on another: the ids must be the same, and equal to Cassandra's.
func TestPreparedIDsAreCassandras(t *testing.T) {
	conns := dial(t)
	keyspace(t, conns[0], "ids", 1)
	query(t, conns[0], "CREATE TABLE ids.t (k int PRIMARY KEY, v int)", cqlclient.Options{})
	const text = "SELECT v FROM ids.t WHERE k = ?"
	want := md5.Sum([]byte(text))
	for i, c := range conns {
		a, err := c.Prepare(text)
		if err != nil || a.Err != nil {
			t.Fatal(err, a.Err)
		}
		if !bytes.Equal(a.Prepared.ID, want[:]) {
			t.Errorf("node %d: id %x, want %x", i+1, a.Prepared.ID, want)
		}
	}
}

func TestSchemaEventsReachEveryNode(t *testing.T) {
	conns := dial(t)
	keyspace(t, conns[0], "events", 1)
	var listeners []*cqlclient.Conn
	for _, s := range sharedRing(t).Servers {
		c, err := cqlclient.Dial(s.Address, 5)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		if err := c.Register("SCHEMA_CHANGE", "STATUS_CHANGE", "TOPOLOGY_CHANGE"); err != nil {
			t.Fatal(err)
		}
		listeners = append(listeners, c)
	}
	for _, step := range []struct{ statement, want string }{
		{"CREATE TABLE events.t (k int PRIMARY KEY)", "SCHEMA_CHANGE CREATED TABLE events t"},
		{"ALTER TABLE events.t ADD v int", "SCHEMA_CHANGE UPDATED TABLE events t"},
		{"DROP TABLE events.t", "SCHEMA_CHANGE DROPPED TABLE events t"},
	} {
		query(t, conns[2], step.statement, cqlclient.Options{})
		for i, l := range listeners {
			event, err := l.NextEvent(5 * time.Second)
			if err != nil || strings.Join(event, " ") != step.want {
				t.Errorf("node %d after %s: %v %v", i+1, step.statement, event, err)
			}
		}
	}
}
