//go:build integration

package integration

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// corruptRows is the number of rows, of half a kilobyte each, that are written before a file is damaged.
const corruptRows = 3000

func corruptValue(k int) string { return fmt.Sprintf("%d %s", k, strings.Repeat("v", 500)) }

// TestCorruptFile changes bytes in a file of a node. The node reports the file, never serves its rows, and one command
// restores them from the other nodes.
func TestCorruptFile(t *testing.T) {
	t.Parallel()
	ring := startRing(t, process.Options{Nodes: 4})
	writeCorruptible(t, ring.Servers[0].Address)
	s := ring.Servers[1]
	mustCtl(t, s, "flush")
	mustCtl(t, s, "compact", "corrupt")
	s.Stop()
	file := damageLargest(t, filepath.Join(s.Dir, "data", "data"))
	if err := s.Start(); err != nil {
		t.Fatal(err)
	}
	if err := ring.WaitAgreed(ringStart); err != nil {
		t.Fatal(err)
	}
	// No request has read the file.
	out, err := ctl(t, s, "verify", "--throughput", "0")
	if err == nil || !strings.Contains(out, "corrupt: ") || !strings.Contains(out, filepath.Base(file)) {
		t.Errorf("verify: %v\n%s", err, out)
	}
	if out := mustCtl(t, ring.Servers[0], "verify", "corrupt"); !strings.Contains(out, ", 0 corrupt\n") {
		t.Errorf("another node:\n%s", out)
	}
	// At ONE, the node reads its own disk if possible.
	right, errs := readCorruptible(t, s.Address, one)
	t.Logf("from the node itself: %d rows right, %d errors", right, errs)
	if right+errs != corruptRows {
		t.Errorf("%d rows were neither right nor an error", corruptRows-right-errs)
	}
	if right, errs := readCorruptible(t, s.Address, quorum); errs > 0 || right != corruptRows {
		t.Errorf("at QUORUM: %d rows right, %d errors", right, errs)
	}
	if out := mustCtl(t, s, "info"); !strings.Contains(out, filepath.Base(file)) {
		t.Errorf("info does not name %s:\n%s", filepath.Base(file), out)
	}
	if log := s.Log(); !strings.Contains(log, filepath.Base(file)) {
		t.Errorf("the log does not name %s:\n%s", filepath.Base(file), log)
	}
	t.Log("scrub: ", mustCtl(t, s, "scrub"))
	if out := mustCtl(t, s, "info"); !strings.Contains(out, "Corrupt files          : none\n") {
		t.Errorf("after the scrub:\n%s", out)
	}
	if out := mustCtl(t, s, "verify"); !strings.Contains(out, ", 0 corrupt\n") {
		t.Errorf("after the scrub:\n%s", out)
	}
	for _, other := range []int{0, 2, 3} {
		ring.Servers[other].Stop()
	}
	if right, errs := readCorruptible(t, s.Address, one); right != corruptRows {
		t.Errorf("alone, after the scrub: %d rows right, %d errors", right, errs)
	}
}

func writeCorruptible(t *testing.T, address string) {
	t.Helper()
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	all := cqlclient.Options{Consistency: 5}
	for _, s := range []string{"CREATE KEYSPACE corrupt WITH replication = {'class': 'SimpleStrategy', " +
		"'replication_factor': 4}",
		"CREATE TABLE corrupt.t (k int PRIMARY KEY, v text)"} {
		if a, err := c.Query(s, cqlclient.Options{}); err != nil || a.Err != nil {
			t.Fatal(s, err, a)
		}
	}
	for k := range corruptRows {
		a, err := c.Query(fmt.Sprintf("INSERT INTO corrupt.t (k, v) VALUES (%d, '%s')", k, corruptValue(k)), all)
		if err != nil || a.Err != nil {
			t.Fatal(err, a)
		}
	}
}

// readCorruptible counts the rows with the written values, and the errors; a missing or different row is neither.
func readCorruptible(t *testing.T, address string, level uint16) (right, errs int) {
	t.Helper()
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	for k := range corruptRows {
		a, err := c.Query(fmt.Sprintf("SELECT v FROM corrupt.t WHERE k = %d", k), cqlclient.Options{Consistency: level})
		switch {
		case err != nil:
			t.Fatal(err)
		case a.Err != nil:
			if errs++; errs == 1 {
				t.Log("an error: ", a.Err)
			}
		case len(a.Rows) == 1 && string(a.Rows[0][0]) == corruptValue(k):
			right++
		default:
			t.Errorf("row %d is served as %d rows", k, len(a.Rows))
		}
	}
	return right, errs
}

// damageLargest changes bytes in the middle of the largest file of rows, and returns its path.
func damageLargest(t *testing.T, dir string) string {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(dir, "*.sst"))
	if err != nil || len(files) == 0 {
		t.Fatal("there is no file to damage", err)
	}
	largest, size := "", int64(0)
	for _, f := range files {
		if info, err := os.Stat(f); err == nil && info.Size() > size {
			largest, size = f, info.Size()
		}
	}
	b, err := os.ReadFile(largest)
	if err != nil {
		t.Fatal(err)
	}
	for i := len(b) / 3; i < len(b)/3+64; i++ {
		b[i] ^= 0x55
	}
	if err := os.WriteFile(largest, b, 0o644); err != nil {
		t.Fatal(err)
	}
	return largest
}
