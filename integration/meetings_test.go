//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// meetingRows is the number of rows in each table when an operation begins.
const meetingRows = 60

// longOperation is a long-running operation on a server.
type longOperation struct {
	name string
	run  func(m *meeting) (string, error)
}

// longOperations returns those that work on tables, by name.
func longOperations() []longOperation {
	command := func(name string, args ...string) longOperation {
		return longOperation{name, func(m *meeting) (string, error) {
			words := append([]string{}, args...)
			for i := range words {
				words[i] = strings.ReplaceAll(words[i], "KS", m.keyspace)
			}
			return ctl(m.t, m.ring.Servers[1], words...)
		}}
	}
	return []longOperation{
		command("repair", "repair", "KS"), command("repair of all", "repair"), command("rebuild", "rebuild"),
		command("rebuild of one", "rebuild", "-k", "KS"), command("cleanup", "cleanup"),
		command("compact", "compact", "KS"),
		command("flush", "flush", "KS"), command("snapshot", "snapshot", "-t", "KS", "KS"), command("move", "move"),
		{"return", (*meeting).comeBack},
	}
}

// meeting is a long operation while a table that it works on changes.
type meeting struct {
	t        *testing.T
	ring     *process.Ring
	keyspace string
}

// comeBack kills a server, writes rows that it misses, and starts it: hints and logged batches are delivered.
func (m *meeting) comeBack() (string, error) {
	s := m.ring.Servers[2]
	if err := s.Start(); err != nil {
		return "", err
	}
	return "", s.WaitAnswer(30 * time.Second)
}

// tableChanges are the concurrent changes of table a, with its number of rows afterwards; -1 means that it was dropped.
func tableChanges() []struct {
	name, cql string
	rows      int
} {
	return []struct {
		name, cql string
		rows      int
	}{
		{"DROP TABLE", "DROP TABLE KS.a", -1},
		{"DROP and CREATE", "DROP TABLE KS.a; CREATE TABLE KS.a (k int PRIMARY KEY, v text)", 0},
		{"TRUNCATE", "TRUNCATE KS.a", 0},
		{"ALTER ADD", "ALTER TABLE KS.a ADD w text", meetingRows},
		{"ALTER DROP", "ALTER TABLE KS.a DROP v", meetingRows},
		{"DROP KEYSPACE", "DROP KEYSPACE KS", -2},
	}
}

// TestOperationsWhileTablesChange executes every long operation while a table that it works on is dropped, dropped and
// created again with the same name, truncated or altered, or its keyspace is dropped. Each operation succeeds, the
// other table has all its rows, the changed one the expected rows, and no node prints an error or an internal number.
func TestOperationsWhileTablesChange(t *testing.T) {
	ring := startRing(t, process.Options{Nodes: 3})
	n := 0
	for _, o := range longOperations() {
		for _, change := range tableChanges() {
			n++
			t.Run(o.name+" while "+change.name, func(t *testing.T) {
				m := &meeting{t: t, ring: ring, keyspace: fmt.Sprint("meeting", n)}
				m.run(o, strings.ReplaceAll(change.cql, "KS", m.keyspace), change.rows,
					time.Duration(n%7)*10*time.Millisecond)
			})
		}
	}
	numbers := regexp.MustCompile(`(?m)^.*(level=ERROR|table \d+|unknown table|table=\d+|\bnode \d+\b).*$`)
	for _, s := range ring.Servers {
		b, err := os.ReadFile(filepath.Join(s.Dir, "out.log"))
		if err != nil {
			t.Fatal(err)
		}
		for _, line := range numbers.FindAllString(string(b), 10) {
			t.Errorf("%s logs: %s", s.Address, line)
		}
	}
}

func (m *meeting) run(o longOperation, change string, rows int, pause time.Duration) {
	t := m.t
	c, err := cqlclient.Dial(m.ring.Servers[0].Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m.must(c, "CREATE KEYSPACE "+m.keyspace+" WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 3}")
	for _, table := range []string{"a", "b"} {
		m.must(c, "CREATE TABLE "+m.keyspace+"."+table+" (k int PRIMARY KEY, v text)")
	}
	if o.name == "return" {
		m.ring.Servers[2].Kill()
	}
	for i := range meetingRows / 2 {
		m.must(c, fmt.Sprintf("BEGIN BATCH INSERT INTO %[1]s.a (k, v) VALUES (%[2]d, 'x'); INSERT INTO %[1]s.a (k, "+
			"v) VALUES (%[3]d, 'x'); "+
			"INSERT INTO %[1]s.b (k, v) VALUES (%[2]d, 'x'); INSERT INTO %[1]s.b (k, v) VALUES (%[3]d, 'x'); APPLY "+
			"BATCH", m.keyspace, i, i+meetingRows/2))
	}
	var both sync.WaitGroup
	both.Go(func() {
		out, err := o.run(m)
		// An operation that begins after the change reports the missing keyspace or table.
		if err != nil && !(rows < 0 && strings.Contains(out, fmt.Sprintf("Keyspace [%s] does not exist", m.keyspace))) {
			t.Errorf("%s: %v\n%s", o.name, err, out)
		}
		if regexp.MustCompile(`unknown table|table \d+|node \d+`).MatchString(out) {
			t.Errorf("%s prints inner numbers:\n%s", o.name, out)
		}
	})
	time.Sleep(pause)
	for _, s := range strings.Split(change, "; ") {
		m.insist(c, s)
	}
	both.Wait()
	if err := m.ring.WaitAgreed(30 * time.Second); err != nil {
		t.Fatal(err)
	}
	time.Sleep(100 * time.Millisecond) // for hints
	for _, s := range m.ring.Servers {
		m.check(s, rows)
	}
	if rows != -2 {
		m.must(c, "DROP KEYSPACE "+m.keyspace)
	}
}

func (m *meeting) must(c *cqlclient.Conn, cql string) {
	m.t.Helper()
	if err := perform(c, cql); err != nil {
		m.t.Fatalf("%s: %v", cql, err)
	}
}

// insist repeats a statement until it succeeds: while a node starts, TRUNCATE is unavailable.
func (m *meeting) insist(c *cqlclient.Conn, cql string) {
	m.t.Helper()
	var err error
	for end := time.Now().Add(30 * time.Second); time.Now().Before(end); time.Sleep(50 * time.Millisecond) {
		if err = perform(c, cql); err == nil {
			return
		}
	}
	m.t.Fatalf("%s: %v", cql, err)
}

func perform(c *cqlclient.Conn, cql string) error {
	a, err := c.Query(cql, cqlclient.Options{})
	if err == nil && a.Err != nil {
		err = a.Err
	}
	return err
}

// check counts rows through a server.
func (m *meeting) check(s *process.Server, rows int) {
	m.t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		m.t.Fatal(err)
	}
	defer c.Close()
	count := func(table string) int {
		a, err := c.Query("SELECT k FROM "+m.keyspace+"."+table, cqlclient.Options{})
		if err != nil || a.Err != nil {
			return -1
		}
		return len(a.Rows)
	}
	want := meetingRows
	if rows == -2 {
		want = -1
	}
	if got := count("a"); got != max(rows, -1) {
		m.t.Errorf("%s: table a has %d rows, want %d", s.Address, got, max(rows, -1))
	}
	if got := count("b"); got != want {
		m.t.Errorf("%s: table b has %d rows, want %d", s.Address, got, want)
	}
}
