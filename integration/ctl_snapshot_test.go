//go:build integration

package integration

import (
	"encoding/binary"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// TestSnapshotIsRestored restores a snapshot as described in docs/OPERATING_JOBS.md.
func TestSnapshotIsRestored(t *testing.T) {
	t.Parallel()
	snapshotIsRestored(t, startRing(t, process.Options{Nodes: 1}))
}

// TestEncryptedSnapshotIsRestored restores a snapshot of a node that encrypts its files, and replaces the key.
func TestEncryptedSnapshotIsRestored(t *testing.T) {
	t.Parallel()
	key := storeKeyFile(t, storeKey(1))
	ring := startRing(t, process.Options{Nodes: 1, YAML: []string{"encryption_key_file: " + key}})
	s := ring.Servers[0]
	snapshotIsRestored(t, ring)
	if text := mustCtl(t, s, "showsnapshot", "-t", "all"); !strings.Contains(text, "CREATE TABLE kept.t ") {
		t.Errorf("the manifest does not show the table:\n%s", text)
	}
	s.Stop()
	// The manifest, and everything else in the data directory.
	for _, text := range []string{"CREATE TABLE", "pebble_version"} {
		if out, err := exec.Command("grep", "-rlF", text, filepath.Join(s.Dir, "data")).Output(); err == nil {
			t.Errorf("files with %q in clear:\n%s", text, out)
		}
	}
	if err := os.WriteFile(key, []byte(storeKey(2)+"\n"+storeKey(1)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	out := mustCtl(t, s, "rotatekeys", "--throughput", "0")
	if !strings.Contains(out, "All files have the newest key") {
		t.Errorf("rotatekeys:\n%s", out)
	}
	s.Stop()
	if err := os.WriteFile(key, []byte(storeKey(2)), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	holds(t, s, "kept.t", 110)
	mustCtl(t, s, "verifysnapshot", "-t", "all")
	mustCtl(t, s, "verify", "--throughput", "0")
}

// storeKey returns a store key.
func storeKey(n byte) string { return fmt.Sprintf("%02x%s", n, strings.Repeat("5a", 31)) }

// storeKeyFile writes a file with store keys.
func storeKeyFile(t *testing.T, keys string) string {
	t.Helper()
	name := filepath.Join(t.TempDir(), "store.key")
	if err := os.WriteFile(name, []byte(keys), 0o600); err != nil {
		t.Fatal(err)
	}
	return name
}

// snapshotIsRestored restores a snapshot of a ring of one node.
func snapshotIsRestored(t *testing.T, ring *process.Ring) {
	t.Helper()
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
