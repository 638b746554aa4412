package backup

import (
	"errors"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cqld/internal/tier"
)

// interrupted is a file system that calls a function before the operation with a number, and fails the operation with
// the function's result.
type interrupted struct {
	*errorfs.FS
	count, at int
	call      func() error
}

// interrupt returns disk with a function before an operation. The function must not use the returned file system.
func interrupt(disk vfs.FS, at int, call func() error) *interrupted {
	i := &interrupted{at: at, call: call}
	i.FS = errorfs.Wrap(disk, errorfs.InjectorFunc(func(errorfs.Op) error {
		i.count++
		if i.count == i.at {
			return i.call()
		}
		return nil
	}))
	return i
}

// over reports whether the operation was not reached.
func (i *interrupted) over() bool { return i.count < i.at }

// stride is the distance of the operations that a test interrupts, every one in the long tier.
func stride() int { return 6 / tier.Draws(6, 1) }

// mustBeWhole fails if a backup that is listed as valid lacks a part, and returns the names of the valid ones.
func mustBeWhole(t *testing.T, what string, at int, s *Store) map[string]bool {
	t.Helper()
	all, err := s.List(t.Context())
	if errors.Is(err, ErrNoStore) {
		return nil
	}
	if err != nil {
		t.Fatalf("%s at operation %d: %v", what, at, err)
	}
	valid := map[string]bool{}
	for _, l := range all {
		if l.Manifest == nil || !l.Deleted.IsZero() {
			continue
		}
		valid[l.Name] = true
		v, err := s.Verify(t.Context(), l.Manifest.Objects(), noPace)
		if err != nil || len(v.Problems) > 0 {
			t.Fatalf("%s at operation %d: backup %s is listed, but %q, %v", what, at, l.Name, v.Problems, err)
		}
	}
	return valid
}

// TestFailedOperationsLeaveNoPartialBackup fails each operation on the disk while a backup is made. The backup is not
// valid if its making has failed, unless it is whole, and the same job completes it.
func TestFailedOperationsLeaveNoPartialBackup(t *testing.T) {
	for at := 1; ; at += stride() {
		disk := vfs.NewMem()
		s := inMemory(t, disk)
		makeBackup(t, s, "old", "both", "one")
		i := interrupt(disk, at, func() error { return errorfs.ErrInjected })
		broken, failed := Open(i, "file:///backups")
		if failed == nil {
			_, failed = tryBackup(t.Context(), broken, "new", "both", "two")
		}
		if valid := mustBeWhole(t, "a failure", at, s); failed == nil && !valid["new"] || !valid["old"] {
			t.Fatalf("a failure at operation %d: %v, valid are %v", at, failed, valid)
		}
		if _, err := tryBackup(t.Context(), s, "new", "both", "two"); err != nil {
			t.Fatalf("a failure at operation %d: the next attempt: %v", at, err)
		}
		if valid := mustBeWhole(t, "after a failure", at, s); !valid["new"] {
			t.Fatalf("a failure at operation %d: the next attempt is not valid", at)
		}
		sweep(t, s)
		if left := contentsOf(t, s); len(left) != 4 {
			t.Fatalf("a failure at operation %d: the store has %q", at, left)
		}
		if i.over() {
			return
		}
	}
}

// sweep removes everything that no backup needs.
func sweep(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Sweep(t.Context(), now().Add(time.Second), 0); err != nil {
		t.Fatal(err)
	}
}

// TestPowerFailuresLeaveNoPartialBackup ends the power of the store before each operation of a backup and of a sweep
// that removes the previous one. Unsynced files are lost, or kept at random.
func TestPowerFailuresLeaveNoPartialBackup(t *testing.T) {
	for at := 1; ; at += stride() {
		disk := vfs.NewCrashableMem()
		s := inMemory(t, disk)
		makeBackup(t, s, "old", "both", "one")
		var after []*vfs.MemFS
		i := interrupt(disk, at, func() error {
			for _, percent := range []int{0, 50} {
				after = append(after, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
					RNG: rand.New(rand.NewPCG(uint64(at), 1))}))
			}
			return nil
		})
		watched, err := Open(i, "file:///backups")
		if err != nil {
			t.Fatal(err)
		}
		makeBackup(t, watched, "new", "both", "two")
		made := i.over()
		if err := watched.Delete(t.Context(), "old", now()); err != nil {
			t.Fatal(err)
		}
		sweep(t, watched)
		if i.over() {
			return
		}
		for _, disk := range after {
			s := open(t, disk, "/backups")
			if valid := mustBeWhole(t, "a power failure", at, s); made && !valid["new"] {
				t.Fatalf("after a power failure at operation %d, a backup that was complete is missing", at)
			}
			// The mark of a sweep that did not end delays the next attempt.
			later := now().Add(3 * sweepMax)
			if _, err := s.Sweep(t.Context(), later, 0); err != nil {
				t.Fatal(err)
			}
			if _, err := tryBackup(t.Context(), s, "new", "both", "two"); err != nil {
				t.Fatalf("after a power failure at operation %d: %v", at, err)
			}
			if valid := mustBeWhole(t, "after a power failure", at, s); !valid["new"] {
				t.Fatalf("after a power failure at operation %d, the next attempt is not valid", at)
			}
		}
	}
}

// TestSweepsAndBackupsMeet sweeps before each operation of a backup, deletes the backup before a sweep, and makes a
// backup before each operation of a sweep. A backup fails, or is whole.
func TestSweepsAndBackupsMeet(t *testing.T) {
	makes := func(s *Store) error { _, err := tryBackup(t.Context(), s, "new", "both", "two"); return err }
	sweeps := func(s *Store) error {
		_, err := s.Sweep(t.Context(), now().Add(time.Second), 0)
		return err
	}
	deletes := func(s *Store) error {
		if err := s.Delete(t.Context(), "new", now()); err != nil && !errors.Is(err, ErrNoBackup) {
			return err
		}
		return sweeps(s)
	}
	w := Started{Name: "new", Created: now(), Job: "new", Nonce: "1"}
	var m *Manifest
	stores := func(s *Store) (err error) {
		if _, err = s.Start(t.Context(), w); err == nil {
			m, err = storeFiles(t.Context(), s, w, "both", "two")
		}
		return err
	}
	completes := func(s *Store) error { return s.Complete(t.Context(), m, w.Nonce) }
	nothing := func(*Store) error { return nil }
	for what, meet := range map[string]struct {
		before, outer, inner func(*Store) error
		deleted              bool // the deletion may be later than the backup
	}{
		"a sweep while a backup is made":    {nothing, makes, sweeps, false},
		"a deletion while a backup is made": {nothing, makes, deletes, true},
		"a backup while a sweep runs":       {nothing, sweeps, makes, false},
		"a backup while it is deleted":      {nothing, deletes, makes, true},
		"the end of a backup in a sweep":    {stores, sweeps, completes, false},
		"the end of a backup in a deletion": {stores, deletes, completes, true},
	} {
		for at := 1; ; at += stride() {
			disk := vfs.NewMem()
			s := inMemory(t, disk)
			makeBackup(t, s, "old", "both", "one")
			if err := s.Delete(t.Context(), "old", now()); err != nil {
				t.Fatal(err)
			}
			if err := meet.before(s); err != nil {
				t.Fatal(err)
			}
			var inner error
			i := interrupt(disk, at, func() error { inner = meet.inner(s); return nil })
			watched, err := Open(i, "file:///backups")
			if err != nil {
				t.Fatal(err)
			}
			outer := meet.outer(watched)
			valid := mustBeWhole(t, what, at, s)
			if i.over() {
				break
			}
			if outer == nil && inner == nil && !valid["new"] && !meet.deleted {
				t.Fatalf("%s at operation %d: the backup is missing", what, at)
			}
		}
	}
}
