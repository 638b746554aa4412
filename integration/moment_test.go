//go:build integration

package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// margin is how far the hybrid clocks of processes on one machine may differ from its clock.
const margin = 50 * time.Millisecond

// dated are the times of the insertion of a row.
type dated struct{ sent, acked time.Time }

// dater inserts rows with increasing keys until stop is called.
type dater struct {
	rows []dated
	err  error
	stop func()
}

// insertDated starts a dater with a connection of its own. first is its first key.
func insertDated(address string, first, step int) *dater {
	d := &dater{}
	ended := make(chan struct{})
	var wait sync.WaitGroup
	wait.Go(func() {
		c, err := cqlclient.Dial(address, 4)
		if d.err = err; err != nil {
			return
		}
		defer c.Close()
		for {
			select {
			case <-ended:
				return
			default:
			}
			row := dated{sent: time.Now()}
			a, err := c.Query(fmt.Sprintf("INSERT INTO shop.orders (k, v) VALUES (%d, 'v') USING TIMESTAMP 7",
				first+step*len(d.rows)), cqlclient.Options{Consistency: 4})
			if err == nil && a.Err != nil {
				err = a.Err
			}
			if d.err = err; err != nil {
				return
			}
			row.acked = time.Now()
			d.rows = append(d.rows, row)
			time.Sleep(2 * time.Millisecond)
		}
	})
	d.stop = func() {
		close(ended)
		wait.Wait()
	}
	return d
}

// TestLostRingIsRestoredToAMoment follows docs/BACKUP.md: a ring of four that archives its logs is backed up under
// load. Later, rows are deleted, a table is truncated and one is dropped; then all disks are lost. On a ring of three,
// each node shows the moment before the first mistake.
func TestLostRingIsRestoredToAMoment(t *testing.T) {
	location := "file://" + t.TempDir()
	var at time.Time
	writers := make([]*dater, 2)
	lost := func(t *testing.T) {
		ring := startRing(t, process.Options{Nodes: 4, YAML: []string{"backup_log: " + location}})
		s := ring.Servers[0]
		statements := []string{"CREATE KEYSPACE shop WITH replication = {'class': 'SimpleStrategy', " +
			"'replication_factor': 3}", "CREATE TABLE shop.orders (k int PRIMARY KEY, v text)",
			"CREATE TABLE shop.truncated (k int PRIMARY KEY)", "CREATE TABLE shop.dropped (k int PRIMARY KEY)",
			"CREATE TABLE shop.visits (k int PRIMARY KEY, n counter)"}
		for k := range 100 {
			statements = append(statements, fmt.Sprintf("INSERT INTO shop.truncated (k) VALUES (%d)", k),
				fmt.Sprintf("UPDATE shop.visits SET n = n + %d WHERE k = %d", k, k))
		}
		if err := process.Ask(s.Address, statements...); err != nil {
			t.Fatal(err)
		}
		for i := range writers {
			writers[i] = insertDated(ring.Servers[i].Address, i, len(writers))
		}
		mustCtl(t, ring.Servers[2], "backup", "create", "--to", location, "--name", "base")
		statements = []string{"INSERT INTO shop.dropped (k) VALUES (1)", "CREATE TABLE shop.later (k int PRIMARY KEY)",
			"INSERT INTO shop.later (k) VALUES (1)"}
		for k := range 100 {
			statements = append(statements, fmt.Sprintf("UPDATE shop.visits SET n = n + 1000 WHERE k = %d", k))
		}
		if err := process.Ask(s.Address, statements...); err != nil {
			t.Fatal(err)
		}
		time.Sleep(margin)
		at = time.Now()
		time.Sleep(margin)
		// The mistakes. The deletions hide rows by their timestamps, also those that are inserted later.
		statements = []string{"TRUNCATE shop.truncated", "DROP TABLE shop.dropped",
			"INSERT INTO shop.later (k) VALUES (2)"}
		for k := range 100 {
			statements = append(statements, fmt.Sprintf("DELETE FROM shop.orders USING TIMESTAMP 8 WHERE k = %d", k),
				fmt.Sprintf("UPDATE shop.visits SET n = n + 1000000 WHERE k = %d", k))
		}
		if err := process.Ask(s.Address, statements...); err != nil {
			t.Fatal(err)
		}
		// The data loss is bounded by 10 seconds, also under load.
		for end := at.Add(10 * time.Second); ; time.Sleep(200 * time.Millisecond) {
			_, until, ok := strings.Cut(mustCtl(t, s, "backup", "show", "--at", location, "base"), " until ")
			moment, err := time.Parse(time.RFC3339Nano, strings.Fields(until + " -")[0])
			if ok && err == nil && moment.After(at) {
				t.Logf("%s is archived after %v", at.UTC().Format(time.RFC3339Nano), time.Since(at))
				break
			}
			if time.Now().After(end) {
				t.Fatalf("%s is not archived after %v", at.UTC().Format(time.RFC3339Nano), time.Since(at))
			}
		}
		for i, w := range writers {
			if w.stop(); w.err != nil || len(w.rows) < 200 {
				t.Fatalf("writer %d: %d rows, %v", i, len(w.rows), w.err)
			}
		}
		ring.Stop()
		for _, s := range ring.Servers {
			if err := os.RemoveAll(s.Dir); err != nil {
				t.Fatal(err)
			}
		}
	}
	if !t.Run("lost", lost) {
		return
	}
	t.Run("restored", func(t *testing.T) {
		ring := startRing(t, process.Options{Nodes: 3, YAML: []string{"drop_grace: 1h"}})
		moment := at.UTC().Format(time.RFC3339Nano)
		if plan := mustCtl(t, ring.Servers[1], "restore", "--from", location, "--at", moment, "--dry-run"); !strings.
			Contains(plan, "shop.dropped") || !strings.Contains(plan, "shop.later") {
			t.Errorf("the plan is\n%s", plan)
		}
		mustCtl(t, ring.Servers[1], "restore", "--from", location, "--at", moment)
		for _, s := range ring.Servers {
			mustShowMoment(t, s, at, writers)
		}
		mustReplace(t, ring, location, at, writers)
	})
}

// mustReplace makes mistakes in the restored ring, and restores the moment in the place of the tables. UNDROP TABLE
// then shows one of them with its mistake.
func mustReplace(t *testing.T, ring *process.Ring, location string, at time.Time, writers []*dater) {
	t.Helper()
	statements := []string{"TRUNCATE shop.truncated", "INSERT INTO shop.later (k) VALUES (2)",
		"DROP TABLE shop.dropped"}
	for k := range 100 {
		statements = append(statements, fmt.Sprintf("DELETE FROM shop.orders USING TIMESTAMP 8 WHERE k = %d", k),
			fmt.Sprintf("UPDATE shop.visits SET n = n + 1 WHERE k = %d", k))
	}
	if err := process.Ask(ring.Servers[0].Address, statements...); err != nil {
		t.Fatal(err)
	}
	moment := at.UTC().Format(time.RFC3339Nano)
	if complaint, err := ctl(t, ring.Servers[1], "restore", "--from", location, "--at", moment); err == nil ||
		!strings.Contains(complaint, "with --replace") {
		t.Errorf("tables that exist are restored: %v\n%s", err, complaint)
	}
	began := time.Now()
	mustCtl(t, ring.Servers[2], "restore", "--from", location, "--at", moment, "--replace")
	t.Logf("replaced in %v", time.Since(began))
	for _, s := range ring.Servers {
		mustShowMoment(t, s, at, writers)
	}
	if err := process.Ask(ring.Servers[1].Address, "UNDROP TABLE shop.later AS undone"); err != nil {
		t.Fatal(err)
	}
	c, err := cqlclient.Dial(ring.Servers[0].Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if rows := len(mustReadAtOne(t, c, "SELECT k FROM shop.undone")); rows != 2 {
		t.Errorf("the replaced table had %d rows, want 2", rows)
	}
}

// mustShowMoment reads the state of a moment at ONE.
func mustShowMoment(t *testing.T, s *process.Server, at time.Time, writers []*dater) {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	one := func(text string) [][][]byte { return mustReadAtOne(t, c, text) }
	seen := map[int]bool{}
	for _, row := range one("SELECT k FROM shop.orders") {
		seen[int(binary.BigEndian.Uint32(row[0]))] = true
	}
	before, after := 0, 0
	for i, w := range writers {
		for n, row := range w.rows {
			k := i + len(writers)*n
			if row.acked.Before(at.Add(-margin)) {
				if before++; !seen[k] {
					t.Fatalf("%s: row %d was acknowledged %v before the moment, and is missing", s.Address, k,
						at.Sub(row.acked))
				}
			}
			if row.sent.After(at.Add(margin)) {
				if after++; seen[k] {
					t.Fatalf("%s: row %d was sent %v after the moment, and is there", s.Address, k, row.sent.Sub(at))
				}
			}
		}
	}
	if before == 0 || after == 0 {
		t.Errorf("%d rows are from before the moment, %d from after it", before, after)
	}
	for text, want := range map[string]int{"SELECT k FROM shop.truncated": 100, "SELECT k FROM shop.dropped": 1,
		"SELECT k FROM shop.later": 1} {
		if rows := len(one(text)); rows != want {
			t.Errorf("%s: %s: %d rows, want %d", s.Address, text, rows, want)
		}
	}
	for _, row := range one("SELECT k, n FROM shop.visits") {
		k, n := binary.BigEndian.Uint32(row[0]), binary.BigEndian.Uint64(row[1])
		if n != uint64(k)+1000 {
			t.Errorf("%s: the counter %d is %d", s.Address, k, n)
		}
	}
}
