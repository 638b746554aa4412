//go:build integration

package integration

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestClocksApart runs a ring with different clocks, one of them too far off. That node does not serve clients, and no
// write that was acknowledged by the others is lost. A client that reads a value at QUORUM and then writes another one
// through any of them overwrites it, however far that node's clock is behind.
func TestClocksApart(t *testing.T) {
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	for i, offset := range []string{"0s", "300ms", "-150ms", "5s"} {
		if offset != "0s" {
			ring.Servers[i].AddFlags("--unsafe", "--clock-offset="+offset)
		}
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	good, wrong := ring.Servers[:3], ring.Servers[3]
	for end := time.Now().Add(20 * time.Second); ; time.Sleep(50 * time.Millisecond) {
		err := process.Ask(wrong.Address, "SELECT * FROM system_traces.sessions")
		if err != nil && strings.Contains(err.Error(), "this node's clock is 5s ahead of the other nodes") {
			break
		}
		if time.Now().After(end) {
			t.Fatal("a node whose clock is 5 s ahead serves: ", err)
		}
	}
	w := startWorkload(t, []string{good[0].Address, good[1].Address, good[2].Address}, "clocks", 2)
	handOver(t, good, 400*times())
	w.stop()
	for _, o := range w.failures(func(outcome) bool { return false }) {
		t.Errorf("a request to %s failed: %v", o.address, o.err)
	}
	w.readBack(t, good[2].Address)
}

// handOver writes one row through each node in turn, each time after a read of the previous value.
func handOver(t *testing.T, servers []*process.Server, steps int) {
	t.Helper()
	var conns []*cqlclient.Conn
	for _, s := range servers {
		c, err := cqlclient.Dial(s.Address, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	ask := func(c *cqlclient.Conn, text string) *cqlclient.Answer {
		a, err := c.Query(text, cqlclient.Options{Consistency: quorum})
		if err != nil || a.Err != nil {
			t.Fatal(text, err, a)
		}
		return a
	}
	ask(conns[0], "CREATE TABLE clocks.handed (k int PRIMARY KEY, v text)")
	for i := range steps {
		c := conns[i%len(conns)]
		if i > 0 {
			want := fmt.Sprint("step ", i-1)
			if a := ask(c, "SELECT v FROM clocks.handed WHERE k = 1"); len(a.Rows) != 1 ||
				string(a.Rows[0][0]) != want {
				t.Fatalf("%s read %q, want %q: a write lost against an earlier one", servers[i%len(conns)].Address,
					a.Rows, want)
			}
		}
		ask(c, fmt.Sprintf("INSERT INTO clocks.handed (k, v) VALUES (1, 'step %d')", i))
	}
}

// TestDriversWithClocksApart writes one row through all nodes in turn, each time with the timestamp of a driver whose
// clock is up to 5 s off. With write_ordering, reads return the last write; without it some writes are lost, which
// shows that the test is effective.
func TestDriversWithClocksApart(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	var conns []*cqlclient.Conn
	for _, s := range ring.Servers {
		c, err := cqlclient.Dial(s.Address, 4)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		conns = append(conns, c)
	}
	ask := func(c *cqlclient.Conn, text string, timestamp *int64) *cqlclient.Answer {
		a, err := c.Query(text, cqlclient.Options{Consistency: quorum, Timestamp: timestamp})
		if err != nil || a.Err != nil {
			t.Fatal(text, err, a)
		}
		return a
	}
	ask(conns[0], "CREATE KEYSPACE skew WITH replication = {'class': 'SimpleStrategy'}", nil)
	ask(conns[0], "CREATE TABLE skew.ordered (k int, c int, v text, s set<int>, PRIMARY KEY (k, c)) WITH "+
		"write_ordering = 'quorum'", nil)
	ask(conns[0], "CREATE TABLE skew.plain (k int, c int, v text, s set<int>, PRIMARY KEY (k, c))", nil)
	skews := []time.Duration{5 * time.Second, -5 * time.Second, 0, 2 * time.Second, -time.Second}
	lost := map[string]int{}
	for i := range 100 * times() {
		for _, table := range []string{"ordered", "plain"} {
			stamp := time.Now().Add(skews[i%len(skews)]).UnixMicro()
			insert := fmt.Sprintf("INSERT INTO skew.%s (k, c, v, s) VALUES (1, 1, 'step %d', {%d})", table, i, i)
			switch i % 3 {
			case 1:
				insert = "BEGIN BATCH " + insert + strings.Replace("; "+insert, "(1, 1,", "(2, 1,", 1) + "; APPLY BATCH"
			case 2:
				ask(conns[(i+2)%4], fmt.Sprintf("DELETE FROM skew.%s WHERE k = 1", table), &stamp)
				stamp = time.Now().Add(skews[(i+1)%len(skews)]).UnixMicro()
			}
			ask(conns[i%4], insert, &stamp)
			a := ask(conns[(i+1)%4], fmt.Sprintf("SELECT v, toJson(s) FROM skew.%s WHERE k = 1", table), nil)
			if len(a.Rows) != 1 || string(a.Rows[0][0]) != fmt.Sprint("step ", i) ||
				string(a.Rows[0][1]) != fmt.Sprintf("[%d]", i) {
				lost[table]++
			}
		}
	}
	if lost["ordered"] > 0 || lost["plain"] == 0 {
		t.Errorf("writes lost: %v", lost)
	}
	if a := ask(conns[3], "DESCRIBE TABLE skew.ordered", nil); !strings.Contains(fmt.Sprintf("%s", a.Rows),
		"write_ordering = 'quorum'") {
		t.Errorf("described as %s", a.Rows)
	}
}

// TestWrongClockNeedsOption starts a node with a wrong clock and without the option that permits it.
func TestWrongClockNeedsOption(t *testing.T) {
	t.Parallel()
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()),
		process.Options{Nodes: 1, Flags: []string{"--clock-offset=1s"}})
	if err != nil {
		t.Fatal(err)
	}
	s := ring.Servers[0]
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	for end := time.Now().Add(20 * time.Second); s.Running(); time.Sleep(20 * time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the node serves with a wrong clock without the option that permits it")
		}
	}
	if log := s.Log(); !strings.Contains(log, "--unsafe") {
		t.Errorf("it says\n%s", log)
	}
}
