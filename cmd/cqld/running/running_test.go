package running

import (
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"cqld/internal/tier"
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

// TestRingsAreRememberedWhileTheyStartAgain restarts a ring repeatedly while another process looks for rings. It always
// finds the ring, because the ring's file is never incomplete.
func TestRingsAreRememberedWhileTheyStartAgain(t *testing.T) {
	t.Setenv("XDG_CACHE_HOME", t.TempDir())
	t.Setenv("HOME", t.TempDir())
	ring := t.TempDir()
	Add(ring)
	stop := make(chan struct{})
	var starting sync.WaitGroup
	starting.Go(func() {
		for {
			select {
			case <-stop:
				return
			default:
				Add(ring)
			}
		}
	})
	for i := range tier.Draws(2000, 500) {
		if got := Rings(func(string) bool { return true }); !slices.Equal(got, []string{ring}) {
			t.Errorf("attempt %d: %q", i, got)
			break
		}
	}
	close(stop)
	starting.Wait()
	if left, err := filepath.Glob(filepath.Join(filepath.Dir(directory()), "ring-*")); err != nil || len(left) > 0 {
		t.Errorf("%q are left, %v", left, err)
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
