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
	query(t, c, fmt.Sprintf("CREATE KEYSPACE %s WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': %d}", name, rf), cqlclient.Options{})
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
			query(t, c, fmt.Sprintf("INSERT INTO %s (k, v) VALUES (%d, %d)", table, j, j),
				cqlclient.Options{Consistency: quorum})
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
				a, err := c.Query(fmt.Sprintf("CREATE TABLE race.%s (k int PRIMARY KEY, v%d int)", table, i),
					cqlclient.Options{})
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
		query(t, conns[i%4], fmt.Sprintf("INSERT INTO pages.t (k, c) VALUES (%d, %d)", i%17, i),
			cqlclient.Options{Consistency: 5})
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

// schemaReader is a client of all nodes.
type schemaReader struct {
	conns []*cqlclient.Conn
	t     *testing.T
}

func newSchemaReader(t *testing.T) *schemaReader { return &schemaReader{dial(t), t} }

// find reports whether a node shows a table with all three columns, as drivers read it.
func (r *schemaReader) find(node int, table, why string) {
	for from, want := range map[string]int{"system_schema.tables": 1, "system_schema.columns": 3} {
		text := "SELECT table_name FROM " + from + " WHERE keyspace_name = 'ddlload' AND table_name = '" + table + "'"
		a, err := r.conns[node].Query(text, cqlclient.Options{})
		switch {
		case err != nil || a.Err != nil:
			r.t.Errorf("%s: %v %v", text, err, a)
		case len(a.Rows) != want:
			r.t.Errorf("%s at node %d after %s: %d rows, want %d", table, node+1, why, len(a.Rows), want)
		}
	}
}

// TestDriversFindNewTables creates tables on a ring under load, each through all nodes at once. After any answer all
// nodes, and after an event the node that sent it, show the whole table: a driver reads it then.
func TestDriversFindNewTables(t *testing.T) {
	main := dial(t)
	keyspace(t, main[0], "ddlload", 4)
	query(t, main[0], "CREATE TABLE ddlload.load (k int PRIMARY KEY, v text)", cqlclient.Options{})
	const tables = 25
	var load, drivers sync.WaitGroup
	stop := make(chan struct{})
	for i, c := range dial(t) {
		load.Go(func() {
			for k := 0; ; k++ {
				select {
				case <-stop:
					return
				default:
				}
				text := fmt.Sprintf("INSERT INTO ddlload.load (k, v) VALUES (%d, '%d')", k%500, i)
				a, err := c.Query(text, cqlclient.Options{Consistency: quorum})
				if err != nil || a.Err != nil && a.Err.Code != 0x1100 { // a busy machine may be late
					t.Errorf("%s: %v %v", text, err, a)
					return
				}
			}
		})
	}
	for i, l := range dial(t) {
		if err := l.Register("SCHEMA_CHANGE"); err != nil {
			t.Fatal(err)
		}
		r := newSchemaReader(t)
		drivers.Go(func() {
			for seen := 0; seen < tables; {
				event, err := l.NextEvent(30 * time.Second)
				if err != nil {
					t.Errorf("node %d: %d events, then %v", i+1, seen, err)
					return
				}
				if event[1] == "CREATED" && event[2] == "TABLE" {
					r.find(i, event[4], "its event")
					seen++
				}
			}
		})
	}
	var readers []*schemaReader
	for range main {
		readers = append(readers, newSchemaReader(t))
	}
	for round := range tables {
		table := fmt.Sprintf("t%d", round)
		var creators sync.WaitGroup
		for i, c := range main {
			text := "CREATE TABLE IF NOT EXISTS ddlload." + table + " (k int PRIMARY KEY, a int, b text)"
			if i == 0 {
				text = strings.Replace(text, "IF NOT EXISTS ", "", 1)
			}
			r := readers[i]
			creators.Go(func() {
				a, err := c.Query(text, cqlclient.Options{})
				if err != nil || a.Err != nil && a.Err.Code != 0x2400 {
					t.Errorf("%s: %v %v", text, err, a)
					return
				}
				for node := range r.conns {
					r.find((i+1+node)%len(r.conns), table, "an answer")
				}
			})
		}
		creators.Wait()
	}
	drivers.Wait()
	close(stop)
	load.Wait()
}
