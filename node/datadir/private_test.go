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

// TestDurableFilesAreReplaced replaces a file, beside a temporary file that a crash left readable for others. A failure
// leaves no temporary file.
func TestDurableFilesAreReplaced(t *testing.T) {
	name := filepath.Join(t.TempDir(), "file")
	for _, content := range []string{"first", "second"} {
		if err := os.WriteFile(name+".tmp", []byte("left by a crash"), 0o644); err != nil {
			t.Fatal(err)
		}
		if err := WriteDurable(name, []byte(content)); err != nil {
			t.Fatal(err)
		}
		got, err := os.ReadFile(name)
		if err != nil || string(got) != content {
			t.Errorf("%q, %v", got, err)
		}
		info, err := os.Stat(name)
		if err != nil {
			t.Fatal(err)
		}
		if info.Mode().Perm() != 0o600 {
			t.Errorf("mode %v", info.Mode())
		}
	}
	dir := filepath.Join(filepath.Dir(name), "dir")
	if err := os.MkdirAll(filepath.Join(dir, "kept"), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := WriteDurable(dir, []byte("secret")); err == nil {
		t.Error("a directory was replaced")
	}
	if _, err := os.Stat(dir + ".tmp"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the temporary file remains: %v", err)
	}
}
