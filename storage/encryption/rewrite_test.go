package encryption

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// TestRewriteKeepsHardLinks rewrites files that snapshots link, in clear and encrypted, on a real disk: the links stay
// links, and the file takes its space once.
func TestRewriteKeepsHardLinks(t *testing.T) {
	dir := t.TempDir()
	data, snapshot := filepath.Join(dir, "data"), filepath.Join(dir, "snapshot")
	for _, d := range []string{data, snapshot} {
		if err := os.Mkdir(d, 0o700); err != nil {
			t.Fatal(err)
		}
	}
	content := strings.Repeat("content ", 100_000)
	one := New(vfs.Default, testKeys(t, 1), random(1))
	for name, disk := range map[string]vfs.FS{"clear": vfs.Default, "one": one} {
		path := filepath.Join(data, name)
		write(t, disk, path, content)
		if err := disk.Link(path, filepath.Join(snapshot, name)); err != nil {
			t.Fatal(err)
		}
	}
	// A file that only the snapshot has.
	write(t, one, filepath.Join(snapshot, "old"), "old")
	two := New(vfs.Default, testKeys(t, 2, 1), random(2))
	reader, err := two.Open(filepath.Join(data, "one"))
	if err != nil {
		t.Fatal(err)
	}
	defer reader.Close()
	stale, err := two.Stale(data, snapshot)
	if err != nil || len(stale) != 3 {
		t.Fatalf("%d stale files, %v", len(stale), err)
	}
	var total, copied int64
	for _, s := range stale {
		total += s.Bytes
		count := func(n int) error {
			copied += int64(n)
			return nil
		}
		if n, err := two.Rewrite(t.Context(), s, count); err != nil || n != len(s.Paths) {
			t.Fatal(n, err)
		}
	}
	if want := int64(2*len(content) + len("old")); copied != want || total < want {
		t.Errorf("%d of %d bytes copied, want %d", copied, total, want)
	}
	for _, name := range []string{"clear", "one"} {
		a, aerr := os.Stat(filepath.Join(data, name))
		b, berr := os.Stat(filepath.Join(snapshot, name))
		if aerr != nil || berr != nil || !os.SameFile(a, b) || read(t, two, filepath.Join(data, name)) != content {
			t.Errorf("%s: %v %v", name, aerr, berr)
		}
	}
	b := make([]byte, 7)
	if _, err := reader.ReadAt(b, 800); err != nil || string(b) != "content" {
		t.Errorf("a reader of the old file: %q, %v", b, err)
	}
	uses, err := Uses(vfs.Default, two.Keys(), data, snapshot)
	if err != nil || len(uses) != 2 || uses[0].Files != 5 || uses[1].Files != 0 {
		t.Errorf("%+v, %v", uses, err)
	}
	// The old key is not needed.
	if err := Check(vfs.Default, testKeys(t, 2), data, snapshot); err != nil {
		t.Error(err)
	}
}

// TestRewriteLeavesOtherFiles rewrites a file that is open for writing, was removed, or was replaced meanwhile.
func TestRewriteLeavesOtherFiles(t *testing.T) {
	below := vfs.NewMem()
	write(t, below, "a", "clear")
	disk := New(below, testKeys(t, 1), random(1))
	stale, err := disk.Stale("")
	if err != nil || len(stale) != 1 {
		t.Fatal(stale, err)
	}
	for name, change := range map[string]func(){
		"removed":  func() { _ = disk.Remove("a") },
		"replaced": func() { write(t, disk, "a", "other") },
		"written":  func() { _, _ = disk.OpenReadWrite("a", vfs.WriteCategoryUnspecified) },
	} {
		write(t, below, "a", "clear")
		stale, err := disk.Stale("")
		if err != nil || len(stale) != 1 {
			t.Fatal(stale, err)
		}
		n, err := disk.Rewrite(t.Context(), stale[0], func(int) error {
			change()
			return nil
		})
		if n != 0 || err != nil {
			t.Errorf("%s: %d names, %v", name, n, err)
		}
		if names, _ := below.List(""); slices.Contains(names, disk.rewriting("a")) {
			t.Errorf("%s: %v", name, names)
		}
		if _, err := disk.Stat("a"); (err != nil) != (name == "removed") {
			t.Errorf("%s: %v", name, err)
		}
		disk = New(below, testKeys(t, 1), random(1))
	}
}

// TestRewriteOfReplacedName rewrites a file with two names after the first one has become the name of another file: the
// second name keeps the content of the old file.
func TestRewriteOfReplacedName(t *testing.T) {
	below := vfs.NewMem()
	write(t, below, "a", "content")
	if err := below.Link("a", "b"); err != nil {
		t.Fatal(err)
	}
	disk := New(below, testKeys(t, 1), random(1))
	stale, err := disk.Stale("")
	if err != nil {
		t.Fatal(err)
	}
	if err := disk.Remove("a"); err != nil {
		t.Fatal(err)
	}
	write(t, disk, "a", "another")
	// A file system with inodes would list both names in one entry.
	s := stale[0]
	s.Paths = []string{"a", "b"}
	if n, err := disk.Rewrite(t.Context(), s, nil); n != 1 || err != nil {
		t.Errorf("%d names, %v", n, err)
	}
	if a, b := read(t, disk, "a"), read(t, disk, "b"); a != "another" || b != "content" {
		t.Errorf("%q and %q", a, b)
	}
	if err := Check(below, testKeys(t, 1), ""); err != nil {
		t.Error(err)
	}
}

// TestConcurrentRewrites rewrites the same files by several goroutines, as two jobs do.
func TestConcurrentRewrites(t *testing.T) {
	below := vfs.NewMem()
	content := strings.Repeat("content ", 100_000)
	for _, name := range []string{"a", "b", "c"} {
		write(t, below, name, content+name)
	}
	disk := New(below, testKeys(t, 1), random(1))
	stale, err := disk.Stale("")
	if err != nil || len(stale) != 3 {
		t.Fatal(stale, err)
	}
	var wait sync.WaitGroup
	var names atomic.Int64
	for range 4 {
		wait.Go(func() {
			for _, s := range stale {
				n, err := disk.Rewrite(t.Context(), s, nil)
				if err != nil {
					t.Error(err)
				}
				names.Add(int64(n))
			}
		})
	}
	wait.Wait()
	if n := names.Load(); n != 3 {
		t.Errorf("%d names were rewritten, want 3", n)
	}
	list, err := below.List("")
	if err != nil || len(list) != 3 {
		t.Error(list, err)
	}
	for _, name := range []string{"a", "b", "c"} {
		if read(t, disk, name) != content+name {
			t.Errorf("%s has another content", name)
		}
	}
}

// TestRewriteIsInterrupted cancels a rewrite, and cuts the power at any point of it: the file has its content, and the
// next start removes the rest.
func TestRewriteIsInterrupted(t *testing.T) {
	below := vfs.NewCrashableMem()
	content := strings.Repeat("content ", 100_000)
	write(t, New(below, testKeys(t, 1), random(1)), "a", content)
	dir, err := below.OpenDir("")
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(dir.Sync(), dir.Close()); err != nil {
		t.Fatal(err)
	}
	keys := testKeys(t, 2, 1)
	disk := New(below, keys, random(2))
	stale, err := disk.Stale("")
	if err != nil {
		t.Fatal(err)
	}
	check := func(crashed *vfs.MemFS) {
		t.Helper()
		after := New(crashed, keys, random(3))
		if err := after.RemoveInterrupted(""); err != nil {
			t.Fatal(err)
		}
		names, err := after.List("")
		if err != nil || !slices.Equal(names, []string{"a"}) || read(t, after, "a") != content {
			t.Fatal(names, err)
		}
	}
	ctx, cancel := context.WithCancel(t.Context())
	n, err := disk.Rewrite(ctx, stale[0], func(int) error {
		cancel()
		check(below.CrashClone(vfs.CrashCloneCfg{}))
		return nil
	})
	if n != 0 || !errors.Is(err, context.Canceled) {
		t.Fatal(n, err)
	}
	check(below)
	if n, err := disk.Rewrite(t.Context(), stale[0], nil); n != 1 || err != nil {
		t.Fatal(n, err)
	}
	after := below.CrashClone(vfs.CrashCloneCfg{})
	check(after)
	if err := Check(after, testKeys(t, 2), ""); err != nil {
		t.Errorf("a power failure after the rewrite: %v", err)
	}
}
