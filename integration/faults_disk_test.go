//go:build integration && linux

package integration

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
)

// smallDisk mounts a separate disk for the data of a server that does not run yet.
func smallDisk(t *testing.T, s *process.Server, megabytes int) (data string) {
	t.Helper()
	data = filepath.Join(s.Dir, "data")
	if err := os.MkdirAll(data, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := syscall.Mount("tmpfs", data, "tmpfs", 0, fmt.Sprintf("size=%dm", megabytes)); err != nil {
		missing(t, "mount", fmt.Sprintf("a small disk needs the right to mount one: %v", err))
	}
	t.Cleanup(func() {
		s.Kill()
		if err := syscall.Unmount(data, syscall.MNT_DETACH); err != nil {
			t.Error(err)
		}
	})
	return data
}

// fillDisk writes a file until the disk is full, and returns its path.
func fillDisk(t *testing.T, data string) string {
	t.Helper()
	path := filepath.Join(data, "filler")
	f, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	for size := 1 << 20; size >= 1; size /= 4 {
		for b := make([]byte, size); err == nil; {
			_, err = f.Write(b)
		}
		if !errors.Is(err, syscall.ENOSPC) {
			t.Fatal(err)
		}
		err = nil
	}
	return path
}

// oneRow inserts a row of 1 KiB.
func oneRow(c *cqlclient.Conn, k int) error {
	a, err := c.Query(fmt.Sprintf("INSERT INTO disk.t (k, v) VALUES (%d, '%s')", k, strings.Repeat("v", 1000)),
		cqlclient.Options{Consistency: quorum})
	if err == nil && a.Err != nil {
		err = a.Err
	}
	return err
}

func readRows(t *testing.T, c *cqlclient.Conn, acked []int) {
	t.Helper()
	for _, k := range acked {
		a, err := c.Query(fmt.Sprintf("SELECT v FROM disk.t WHERE k = %d", k), cqlclient.Options{Consistency: quorum})
		if err != nil || a.Err != nil || len(a.Rows) != 1 {
			t.Fatalf("row %d: %v %+v", k, err, a)
		}
	}
}

// TestFullDisk fills the disk of a single node: writes are refused, reads succeed, and writes succeed again when there
// is space.
func TestFullDisk(t *testing.T) {
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 1})
	if err != nil {
		t.Fatal(err)
	}
	s := ring.Servers[0]
	data := smallDisk(t, s, 400)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	if err := process.Ask(s.Address, "CREATE KEYSPACE disk WITH replication = {'class': 'SimpleStrategy', "+
		"'replication_factor': 1}",
		"CREATE TABLE disk.t (k int PRIMARY KEY, v text)"); err != nil {
		t.Fatal(err)
	}
	c, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var acked []int
	for k := range 500 {
		if err := oneRow(c, k); err != nil {
			t.Fatal(err)
		}
		acked = append(acked, k)
	}
	filler := fillDisk(t, data)
	filled := time.Now()
	next := len(acked)
	for ; ; next++ {
		began := time.Now()
		err := oneRow(c, next)
		if took := time.Since(began); took > time.Second {
			t.Errorf("a write took %v on a full disk: %v", took, err)
		}
		if err == nil {
			acked = append(acked, next)
		} else if strings.Contains(err.Error(), "the disk is nearly full") {
			break
		} else {
			t.Errorf("on a full disk a write fails with %v", err)
		}
		if time.Since(filled) > 3*time.Second {
			t.Fatal("writes are not refused")
		}
	}
	t.Logf("writes are refused %v after the disk was full, %d more were acknowledged", time.Since(filled), next-500)
	if took := time.Since(filled); took > 1500*time.Millisecond {
		t.Errorf("it took %v until writes were refused", took)
	}
	readRows(t, c, acked)
	if out := mustCtl(t, s, "info"); !strings.Contains(out, "WRITES REFUSED") {
		t.Errorf("info does not report that writes are refused:\n%s", out)
	}
	freed := time.Now()
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	for err := errors.New("not tried"); err != nil; time.Sleep(20 * time.Millisecond) {
		next++
		if err = oneRow(c, next); err == nil {
			acked = append(acked, next)
		} else if time.Since(freed) > 10*time.Second {
			t.Fatalf("there is space again, and a write fails with %v", err)
		}
	}
	t.Logf("writes are taken %v after there was space again", time.Since(freed))
	mustCtl(t, s, "flush") // delayed flushes run again
	readRows(t, c, acked)
	s.Kill()
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	again, err := cqlclient.Dial(s.Address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer again.Close()
	readRows(t, again, acked)
}

// TestFullDiskOfOne fills the disk of one node of four under load: no request fails.
func TestFullDiskOfOne(t *testing.T) {
	binary, dir := cqld(t)
	ring, err := process.NewRing(binary, filepath.Join(dir, t.Name()), process.Options{Nodes: 4})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(ring.Stop)
	data := smallDisk(t, ring.Servers[3], 400)
	if err := ring.Start(ringStart); err != nil {
		t.Fatal(err)
	}
	f := loadOn(t, ring, "fullone")
	filler := fillDisk(t, data)
	filled := time.Now()
	time.Sleep(3 * time.Second)
	f.gapWithin(filled, time.Now(), killGap)
	if err := os.Remove(filler); err != nil {
		t.Fatal(err)
	}
	time.Sleep(2 * time.Second)
	f.end()
	// Hints deliver the writes that it refused, so it has all rows.
	for end := time.Now().Add(60 * time.Second); ; time.Sleep(100 * time.Millisecond) {
		waiting := 0
		for _, s := range ring.Servers[:3] {
			if !strings.Contains(mustCtl(t, s, "listpendinghints"), "does not have hints") {
				waiting++
			}
		}
		if waiting == 0 {
			break
		}
		if time.Now().After(end) {
			t.Fatal("hints are not handed over:\n", mustCtl(t, ring.Servers[0], "netstats"))
		}
	}
	ring.Servers[0].Kill()
	time.Sleep(2 * time.Second)
	f.w.readBack(t, ring.Servers[3].Address)
}
