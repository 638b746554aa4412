package overlay

import (
	"errors"
	"io"
	"io/fs"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func write(t *testing.T, disk vfs.FS, name, content string) {
	t.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.Write([]byte(content)); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// read returns the content of a file, or "-" if there is none.
func read(t *testing.T, disk vfs.FS, name string) string {
	t.Helper()
	_, statErr := disk.Stat(name)
	f, err := disk.Open(name)
	if errors.Is(err, fs.ErrNotExist) && errors.Is(statErr, fs.ErrNotExist) {
		return "-"
	}
	if err != nil || statErr != nil {
		t.Fatal(err, statErr)
	}
	defer f.Close()
	b, err := io.ReadAll(f)
	if err != nil {
		t.Fatal(err)
	}
	return string(b)
}

func TestBaseStaysAsItWas(t *testing.T) {
	base, scratch := vfs.NewMem(), vfs.NewMem()
	if err := errors.Join(base.MkdirAll("base", 0o700), scratch.MkdirAll("scratch", 0o700)); err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{"a", "b", "c", "d", "1.log"} {
		write(t, base, "base/"+name, "base")
	}
	disk := New(Options{Base: base, BaseDir: "base", Scratch: scratch, ScratchDir: "scratch",
		Hide: func(name string) bool { return strings.HasSuffix(name, ".log") }})
	write(t, disk, "scratch/b", "scratch")
	write(t, disk, "scratch/e", "scratch")
	write(t, disk, "scratch/temporary", "renamed")
	if err := errors.Join(
		disk.Remove("scratch/c"), disk.Remove("scratch/e"), disk.Rename("scratch/temporary", "scratch/d"),
		disk.Link("scratch/b", "scratch/f"),
	); err != nil {
		t.Fatal(err)
	}
	want := map[string]string{"a": "base", "b": "scratch", "c": "-", "d": "renamed", "e": "-", "f": "scratch",
		"1.log": "-"}
	var names []string
	for name, content := range want {
		if got := read(t, disk, "scratch/"+name); got != content {
			t.Errorf("%s is %q, not %q", name, got, content)
		}
		if content != "-" {
			names = append(names, name)
		}
	}
	slices.Sort(names)
	list, err := disk.List("scratch")
	slices.Sort(list)
	if err != nil || !slices.Equal(list, names) {
		t.Errorf("the files are %q, %v, not %q", list, err, names)
	}
	// A file that is removed from the scratch directory does not uncover the one below.
	if err := disk.Remove("scratch/b"); err != nil || read(t, disk, "scratch/b") != "-" {
		t.Errorf("a removed file is %q, %v", read(t, disk, "scratch/b"), err)
	}
	if err := disk.Remove("scratch/b"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file is removed twice: %v", err)
	}
	if err := disk.Rename("scratch/a", "scratch/x"); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file of the base is renamed: %v", err)
	}
	if _, err := disk.OpenReadWrite("scratch/a", vfs.WriteCategoryUnspecified); !errors.Is(err, fs.ErrPermission) {
		t.Errorf("a file of the base is opened for writing: %v", err)
	}
	for _, name := range []string{"a", "b", "c", "d", "1.log"} {
		if got := read(t, base, "base/"+name); got != "base" {
			t.Errorf("%s of the base is %q", name, got)
		}
	}
}
