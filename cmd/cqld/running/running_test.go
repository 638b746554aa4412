package running

import (
	"os"
	"path/filepath"
	"slices"
	"testing"
)

func TestRingsAreRemembered(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	all := func(string) bool { return true }
	if got := Rings(all); len(got) != 0 {
		t.Errorf("at first: %q", got)
	}
	a, b := t.TempDir(), filepath.Join(t.TempDir(), "b")
	if err := os.Mkdir(b, 0o700); err != nil {
		t.Fatal(err)
	}
	forget := Add(a)
	Add(b)
	want := []string{a, b}
	slices.Sort(want)
	if got := Rings(all); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := Rings(func(ring string) bool { return ring == b }); !slices.Equal(got, []string{b}) {
		t.Errorf("%q run, want %q", got, b)
	}
	forget()
	if err := os.Remove(b); err != nil {
		t.Fatal(err)
	}
	if got := Rings(all); len(got) != 0 {
		t.Errorf("in the end: %q", got)
	}
}

// Without a home directory, nothing is remembered, and nothing fails.
func TestRingsWithoutHome(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", "")
	t.Setenv("HOME", "")
	Add(t.TempDir())()
	if got := Rings(func(string) bool { return true }); got != nil {
		t.Errorf("%q", got)
	}
}
