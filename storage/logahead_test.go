package storage

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/await"
	"cqld/internal/tier"
	"cqld/storage/logguard"
)

// crashed returns a copy of the engine's files as the process would leave them that is killed when nothing happens in
// the background.
func crashed(t *testing.T, e *Engine) (copied, lastLog string) {
	t.Helper()
	quiet := 0
	await.Until(t, "nothing happens in the background", func() bool {
		quiet++
		if m := e.db.Metrics(); m.MemTable.Count > 1 || m.Flush.NumInProgress+m.Compact.NumInProgress > 0 {
			quiet = 0
		}
		return quiet == 5
	})
	copied = t.TempDir()
	files, err := os.ReadDir(e.opts.Dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range files {
		b, err := os.ReadFile(filepath.Join(e.opts.Dir, f.Name()))
		if errors.Is(err, os.ErrNotExist) {
			continue // it was of no use any more
		}
		if err == nil {
			err = os.WriteFile(filepath.Join(copied, f.Name()), b, 0o644)
		}
		if err != nil {
			t.Fatal(err)
		}
		if strings.HasSuffix(f.Name(), ".log") {
			lastLog = filepath.Join(copied, f.Name())
		}
	}
	return copied, lastLog
}

// Whatever follows the synced part (zeros, half a record, or the rest of an older log), everything acknowledged is
// recovered.
func TestPreallocatedLogIsReadToItsEnd(t *testing.T) {
	tier.Long(t)
	for name, disk := range map[string]vfs.FS{"clear": vfs.Default, "encrypted": encrypted(t, vfs.Default)} {
		t.Run(name, func(t *testing.T) { preallocatedLogIsReadToItsEnd(t, disk) })
	}
}

// preallocatedLogIsReadToItsEnd tears logs on a file system of the machine. The zeros ahead of an encrypted log decrypt
// to random bytes.
func preallocatedLogIsReadToItsEnd(t *testing.T, disk vfs.FS) {
	o := Options{FS: disk, Dir: t.TempDir(), BallastBytes: -1, MemTableBytes: 256 << 10}
	e := openTest(t, o)
	defer e.Close()
	value := strings.Repeat("v", 700)
	const rounds, each = 8, 150 // several logs: later ones take the place of older ones
	for round := range rounds {
		for i := range each {
			mustApply(t, e, putRow(fmt.Sprint("k", round), i, 1, value))
		}
		dir, log := crashed(t, e)
		for _, torn := range []int{0, 1, 300, 40_000} {
			if torn > 0 {
				tear(t, log, torn)
			}
			after := openTest(t, Options{FS: disk, Dir: dir, BallastBytes: -1})
			for r := range round + 1 {
				if n := len(rows(t, mustRead(t, after, readKey(fmt.Sprint("k", r))))); n < each && torn == 0 {
					t.Fatalf("round %d: %d of %d rows of round %d", round, n, each, r)
				}
			}
			if err := after.Close(); err != nil {
				t.Fatal(err)
			}
			dir, log = crashed(t, e)
		}
	}
}

// tear makes zeros of the last bytes of a log that are none, as when they did not reach the disk.
func tear(t *testing.T, log string, n int) {
	t.Helper()
	b, err := os.ReadFile(log)
	if err != nil {
		t.Fatal(err)
	}
	end := len(bytes.TrimRight(b, "\x00"))
	clear(b[max(end-n, 0):end])
	if err := os.WriteFile(log, b, 0o644); err != nil {
		t.Fatal(err)
	}
}

// The length of a log's file changes seldom.
func TestLogIsPreallocated(t *testing.T) {
	fs := logguard.Ahead(vfs.Default)
	name := filepath.Join(t.TempDir(), "1.log")
	f, err := fs.Create(name, logguard.Category)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var want []byte
	sizes := map[int64]bool{}
	for i := range 2000 {
		p := bytes.Repeat([]byte{byte(i%255) + 1}, 1+i%1500)
		want = append(want, p...)
		if n, err := f.Write(p); err != nil || n != len(p) {
			t.Fatal(n, err)
		}
		info, err := f.Stat()
		if err != nil {
			t.Fatal(err)
		}
		sizes[info.Size()] = true
	}
	got, err := os.ReadFile(name)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.HasPrefix(got, want) || len(bytes.TrimRight(got[len(want):], "\x00")) > 0 {
		t.Fatal("the file differs from the written bytes followed by zeros")
	}
	if most := len(want)/logguard.AheadBytes + 2; len(sizes) > most {
		t.Fatalf("%d lengths, %d would do", len(sizes), most)
	}
	other, err := fs.Create(filepath.Join(filepath.Dir(name), "2.sst"), "pebble-memtable-flush")
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if strings.Contains(fmt.Sprintf("%T", other), "ahead") {
		t.Fatal("a table is not a log")
	}
}
