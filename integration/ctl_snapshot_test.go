//go:build integration

package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestSnapshotIsRestored restores a snapshot as described in docs/OPERATING_JOBS.md.
func TestSnapshotIsRestored(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 1})
	s := ring.Servers[0]
	for _, keyspace := range []string{"kept", "other"} {
		if err := process.Ask(s.Address, "CREATE KEYSPACE "+keyspace+" WITH replication = {'class': "+
			"'SimpleStrategy', 'replication_factor': 1}",
			"CREATE TABLE "+keyspace+".t (k int PRIMARY KEY)"); err != nil {
			t.Fatal(err)
		}
	}
	insert := func(keyspace string, from, to int) {
		var statements []string
		for k := from; k < to; k++ {
			statements = append(statements, fmt.Sprintf("INSERT INTO %s.t (k) VALUES (%d)", keyspace, k))
		}
		if err := process.Ask(s.Address, statements...); err != nil {
			t.Fatal(err)
		}
	}
	restore := func(tag string) {
		s.Stop()
		data := filepath.Join(s.Dir, "data", "data")
		if err := os.RemoveAll(data); err != nil {
			t.Fatal(err)
		}
		if err := os.CopyFS(data, os.DirFS(filepath.Join(s.Dir, "data", "snapshots", tag, "data"))); err != nil {
			t.Fatal(err)
		}
		if err := ring.Start(ringStart); err != nil {
			t.Fatal(err)
		}
	}
	insert("kept", 0, 100)
	insert("other", 0, 10)
	mustCtl(t, s, "snapshot", "-t", "all")
	mustCtl(t, s, "verifysnapshot", "-t", "all")
	insert("kept", 100, 300)
	if err := process.Ask(s.Address, "DELETE FROM kept.t WHERE k = 5"); err != nil {
		t.Fatal(err)
	}
	mustCtl(t, s, "compact")
	restore("all")
	holds(t, s, "kept.t", 100)
	holds(t, s, "other.t", 10)
	insert("kept", 100, 110) // the restored node accepts writes
	holds(t, s, "kept.t", 110)
}

// holds checks that a table has exactly the keys in [0, n).
func holds(t *testing.T, s *process.Server, table string, n int) {
	t.Helper()
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	a, err := c.Query("SELECT k FROM "+table, cqlclient.Options{PageSize: 5000})
	if err != nil || a.Err != nil {
		t.Fatal(err, a)
	}
	seen := map[uint32]bool{}
	for _, row := range a.Rows {
		seen[binary.BigEndian.Uint32(row[0])] = true
	}
	for k := range n {
		if !seen[uint32(k)] {
			t.Errorf("%s: %d is missing", table, k)
			break
		}
	}
	if len(a.Rows) != n {
		t.Errorf("%s has %d rows, want %d", table, len(a.Rows), n)
	}
}
