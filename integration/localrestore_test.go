//go:build integration

package integration

import (
	"encoding/binary"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"cqld/integration/cqlclient"
	"cqld/integration/process"
	"cqld/internal/syncbuf"
)

// copyRing follows the recipe of docs/BACKUP.md for a laptop: one command starts a ring of one node with a copy of the
// second backup of backUpRing. Commands that fail leave no process, and nothing or a ring that the same command
// completes.
func copyRing(t *testing.T, location string) {
	w := newLocalWorld(t)
	defer w.command("local", "stop").Run()
	// The ring of the backup had four nodes, and its keyspace three replicas.
	restore := []string{"restore", "--from", location, "--local", "--nodes", "1", "--detach"}
	w.run(false, "there is no backup", append(restore, "--backup", "unknown")...)
	w.ended("a restoration of an unknown backup")
	w.run(false, "there is none", "local", "status")
	// A damaged object is found after the job has begun.
	object := largest(t, filepath.Join(strings.TrimPrefix(location, "file://"), "objects"))
	flip(t, object)
	again := w.run(false, "damaged", restore...)
	if !strings.Contains(again, "Continue with: cqld "+strings.Join(restore, " ")+"\n") {
		t.Errorf("the error does not show how to continue:\n%s", again)
	}
	w.ended("a restoration of a damaged backup")
	w.run(false, "incomplete copy of a backup", "local", "--nodes", "1", "--detach")
	w.run(false, "incomplete copy of a backup", append(restore, "--table", "shop.visits")...)
	flip(t, object)
	out := w.run(true, "Stop it with: cqld local stop\n", restore...)
	if !strings.Contains(out, "in attempt 2") {
		t.Errorf("the job was not continued:\n%s", out)
	}
	fields := strings.Fields(w.run(true, "running", "local", "status"))
	var address string
	for _, f := range fields {
		if strings.HasPrefix(f, "127.0.0.1:") {
			address = f
		}
	}
	c, err := cqlclient.Dial(address, 4)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	// At QUORUM: keyspaces have one replica now.
	for text, want := range map[string]int{"SELECT n FROM shop.visits": 100, "SELECT k FROM shop.orders": backupRows} {
		a, err := c.Query(text, cqlclient.Options{Consistency: 4, PageSize: 100000})
		if err != nil || a.Err != nil || len(a.Rows) < want {
			t.Fatalf("%s: %v, %+v", text, err, a)
		}
	}
	row := mustReadAtOne(t, c, "SELECT n FROM shop.visits WHERE k = 42")
	if len(row) != 1 || binary.BigEndian.Uint64(row[0][0]) != 42 {
		t.Errorf("the counter is %x", row)
	}
	if err := process.Ask(address, "INSERT INTO shop.orders (k, v) VALUES (-1, 'on the laptop')"); err != nil {
		t.Error(err)
	}
	w.run(false, "runs already", restore...)
	w.run(true, "1 of 1 nodes", "local", "stop")
	w.ended("local stop")
	w.run(false, "holds a ring", restore...)
	copyEncrypted(t, w)
}

// copyEncrypted backs the ring of copyRing up with encryption, and copies it to a ring with logins, in the foreground.
func copyEncrypted(t *testing.T, w *localWorld) {
	key := filepath.Join(w.dir, "key")
	if err := os.WriteFile(key, []byte(strings.Repeat("5e19", 16)+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	start := w.command("local", "--nodes", "1", "--detach")
	start.Env = append(start.Env, "CQLD_BACKUP_ENCRYPTION_KEY_FILE="+key)
	if out, err := start.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	location := "file://" + t.TempDir()
	w.run(true, "", "ctl", "backup", "create", "--to", location)
	w.run(true, "1 of 1 nodes", "local", "stop")
	w.ended("local stop")
	restore := []string{"restore", "--from", location, "--local", "--nodes", "2", "--secure", "--data-dir", "second"}
	w.run(false, "this node has no key", restore...)
	w.ended("a restoration without the key")
	cmd, out := w.command(append(restore, "--backup-encryption-key-file", "key")...), &syncbuf.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill() }()
	w.until(out, "Press Ctrl-C")
	if text := out.String(); !strings.Contains(text, "shop.orders") || !strings.Contains(text, "superuser admin") {
		t.Errorf("it prints\n%s", text)
	}
	if err := cmd.Process.Signal(syscall.SIGINT); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("after Ctrl-C: %v\n%s", err, out)
	}
	w.ended("Ctrl-C")
}

// largest returns the path of the largest file below a directory.
func largest(t *testing.T, dir string) (path string) {
	t.Helper()
	size := int64(-1)
	err := filepath.Walk(dir, func(p string, i os.FileInfo, err error) error {
		if err == nil && i.Mode().IsRegular() && i.Size() > size {
			path, size = p, i.Size()
		}
		return err
	})
	if err != nil || path == "" {
		t.Fatal("no file in ", dir, err)
	}
	return path
}

// flip changes a byte in the middle of a file; a second call restores it.
func flip(t *testing.T, path string) {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	b[len(b)/2] ^= 1
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
