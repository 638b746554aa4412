package datadir

import (
	"errors"
	"log/slog"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestTheDataDirectoryIsPrivate removes the access of other users from a directory.
func TestTheDataDirectoryIsPrivate(t *testing.T) {
	for _, before := range []os.FileMode{0, 0o755, 0o700} {
		dir := filepath.Join(t.TempDir(), "data")
		if before != 0 {
			if err := os.Mkdir(dir, before); err != nil {
				t.Fatal(err)
			}
		}
		if err := MakePrivate(dir, slog.New(slog.DiscardHandler)); err != nil {
			t.Fatal(err)
		}
		info, err := os.Stat(dir)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o700 {
			t.Errorf("mode %o before, %o after", before, info.Mode().Perm())
		}
	}
}

// TestDirectoriesSurviveAPowerFailure creates directories whose ancestors exist or do not exist, and drops everything
// that was not synced.
func TestDirectoriesSurviveAPowerFailure(t *testing.T) {
	for _, dir := range []string{"data", "a/data", "a/b/c/data", "/data", "/a/b/data"} {
		disk := vfs.NewCrashableMem()
		for range 2 { // the second time, the directory exists
			if err := MakeDurable(disk, dir); err != nil {
				t.Fatal(err)
			}
		}
		f, err := disk.Create(disk.PathJoin(dir, "file"), vfs.WriteCategoryUnspecified)
		if err == nil {
			err = errors.Join(f.Sync(), f.Close(), syncDir(disk, dir))
		}
		if err != nil {
			t.Fatal(err)
		}
		if _, err := disk.CrashClone(vfs.CrashCloneCfg{}).Stat(disk.PathJoin(dir, "file")); err != nil {
			t.Errorf("a synced file in %s is lost: %v", dir, err)
		}
	}
}
