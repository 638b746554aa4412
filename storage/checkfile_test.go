package storage

import (
	"context"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestDamagedFilesOfCheckpointsAreFound flips a byte of a file of a checkpoint.
func TestDamagedFilesOfCheckpointsAreFound(t *testing.T) {
	mem := vfs.NewMem()
	e := openTest(t, Options{FS: mem})
	defer e.Close()
	mustApply(t, e, putRow("key", 1, 1, "value"))
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	if err := e.Checkpoint("checkpoint"); err != nil {
		t.Fatal(err)
	}
	names, err := mem.List("checkpoint")
	if err != nil {
		t.Fatal(err)
	}
	names = slices.DeleteFunc(names, func(name string) bool { return !strings.HasSuffix(name, ".sst") })
	if len(names) == 0 {
		t.Fatal("the checkpoint has no sstable")
	}
	check := func(path string) (read int, err error) {
		err = e.CheckFile(t.Context(), path, func(_ context.Context, n int) error {
			read += n
			return nil
		})
		return read, err
	}
	for _, name := range names {
		path := mem.PathJoin("checkpoint", name)
		if read, err := check(path); err != nil || read == 0 {
			t.Errorf("%s: %d bytes were read: %v", name, read, err)
		}
		flipBitAt(t, mem, path, 10, 3)
		if _, err := check(path); err == nil || !strings.Contains(err.Error(), "checksum") {
			t.Errorf("%s with a flipped bit: %v", name, err)
		}
	}
}
