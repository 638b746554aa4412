//go:build integration && linux

package integration

import (
	"crypto/rand"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"cqld/integration/process"
)

// TestBackupInAFullFileSystem makes a backup in a file system of 2 MiB, which is too small for it. The job fails with
// what to do, and completes the backup when the file system was enlarged.
func TestBackupInAFullFileSystem(t *testing.T) {
	dir := t.TempDir()
	if err := syscall.Mount("tmpfs", dir, "tmpfs", 0, "size=2m"); err != nil {
		missing(t, "mount", fmt.Sprintf("a small file system needs the right to mount one: %v", err))
	}
	// Detached even if the node has open files.
	t.Cleanup(func() { _ = syscall.Unmount(dir, syscall.MNT_DETACH) })
	location := "file://" + dir
	ring := startRing(t, process.Options{Nodes: 1})
	s := ring.Servers[0]
	statements := []string{"CREATE KEYSPACE f WITH replication = {'class': 'SimpleStrategy', 'replication_factor': 1}",
		"CREATE TABLE f.t (k uuid PRIMARY KEY, v blob)"}
	// Values that compression does not make small.
	random := make([]byte, 20_000)
	for range 150 {
		_, _ = rand.Read(random) // it never fails
		statements = append(statements, fmt.Sprintf("INSERT INTO f.t (k, v) VALUES (uuid(), 0x%x)", random))
	}
	if err := process.Ask(s.Address, statements...); err != nil {
		t.Fatal(err)
	}
	out, err := ctl(t, s, "backup", "create", "--to", location, "--name", "b")
	if err == nil || !strings.Contains(out, "the location is full") || !strings.Contains(out, location) {
		t.Fatalf("%v: %s", err, out)
	}
	if names, err := os.ReadDir(filepath.Join(dir, "partial")); err != nil || len(names) > 0 {
		t.Errorf("%v are left, %v", names, err)
	}
	if out := mustCtl(t, s, "backup", "list", "--at", location); !strings.Contains(out, "it is not complete") {
		t.Errorf("the list is\n%s", out)
	}
	if err := syscall.Mount("tmpfs", dir, "tmpfs", syscall.MS_REMOUNT, "size=64m"); err != nil {
		t.Fatal(err)
	}
	mustCtl(t, s, "jobs", "resume", "1")
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		if _, err := ctl(t, s, "backup", "verify", "--at", location, "b"); err == nil {
			break
		}
		if time.Now().After(end) {
			t.Fatalf("the backup is not complete\n%s\n%s", mustCtl(t, s, "jobs"), s.Log())
		}
	}
}
