package backup

import (
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
	"cqld/internal/tier"
	"cqld/storage/encryption"
)

// steps counts the operations on a store, and calls a function before the operation with a number.
type steps struct {
	mu        sync.Mutex
	count, at int
	call      func()
}

// next is called before each operation. It reports whether the operation is the one with the number.
func (s *steps) next() bool {
	// Some operations are concurrent.
	s.mu.Lock()
	defer s.mu.Unlock()
	s.count++
	if s.count == s.at {
		s.call()
	}
	return s.count == s.at
}

// over reports whether the operation was not reached.
func (s *steps) over() bool { return s.count < s.at }

// kind is a kind of stores.
type kind struct {
	// store is used without interruptions.
	store func(t *testing.T) *Store
	// watched returns the same store with steps. fails means that the operation with the number fails.
	watched func(s *steps, fails bool) (*Store, error)
	// crashed returns what may be left if all processes end now, and, for a directory, the power.
	crashed func(t *testing.T, at int) []*Store
}

// kinds returns new stores of each kind, which are empty.
func kinds() map[string]func() kind {
	return map[string]func() kind{"directory": directories, "bucket": buckets,
		"bucket whose answers are lost":           bucketsLosing,
		"encrypted bucket whose answers are lost": func() kind { return sealed(bucketsLosing()) }}
}

// sealed returns an encrypted store of a kind.
func sealed(k kind) kind {
	return kind{func(t *testing.T) *Store { return withKeys(t, k.store(t), firstKey) },
		func(s *steps, fails bool) (*Store, error) {
			store, err := k.watched(s, fails)
			if err != nil {
				return nil, err
			}
			keys, err := encryption.ParseKeys(firstKey)
			return Places{Keys: keys}.newStore(store.files.files, store.location), err
		}, func(t *testing.T, at int) (after []*Store) {
			for _, s := range k.crashed(t, at) {
				after = append(after, withKeys(t, s, firstKey))
			}
			return after
		}}
}

// directories returns a store in a directory.
func directories() kind {
	disk := vfs.NewCrashableMem()
	return kind{func(t *testing.T) *Store { return inMemory(t, disk) }, func(s *steps, fails bool) (*Store, error) {
		return Places{Disk: errorfs.Wrap(disk, errorfs.InjectorFunc(func(errorfs.Op) error {
			if s.next() && fails {
				return errorfs.ErrInjected
			}
			return nil
		}))}.Open("file:///backups")
	}, func(t *testing.T, at int) (after []*Store) {
		// Files that were not synced are lost, or kept at random.
		for _, percent := range []int{0, 50} {
			after = append(after, open(t, disk.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent,
				RNG: rand.New(rand.NewPCG(uint64(at), 1))}), "/backups"))
		}
		return after
	}}
}

// buckets returns a store in a bucket, whose requests are not executed if they fail.
func buckets() kind { return bucketsOf(false) }

// bucketsLosing returns a store in a bucket, whose requests are executed if they fail.
func bucketsLosing() kind { return bucketsOf(true) }

// bucketsOf returns a store in a bucket. Its errors are permanent, as if all repetitions had failed.
func bucketsOf(executed bool) kind {
	m := buckettest.NewMemory()
	return kind{func(*testing.T) *Store { return inBucket(m) }, func(s *steps, fails bool) (*Store, error) {
		return inBucket(m.View(func(string, string) buckettest.Fault {
			if s.next() && fails {
				return buckettest.Fault{Err: &bucket.Refusal{Status: 403}, Executed: executed}
			}
			return buckettest.Fault{}
		})), nil
	}, func(*testing.T, int) []*Store { return []*Store{inBucket(m.Clone())} }}
}

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
		v, err := s.Verify(t.Context(), l.Manifest.Objects(), unpaced)
		if err != nil || len(v.Problems) > 0 {
			t.Fatalf("%s at operation %d: backup %s is listed, but %q, %v", what, at, l.Name, v.Problems, err)
		}
	}
	return valid
}

// TestFailedOperationsLeaveNoPartialBackup fails each operation on the store while a backup is made. The backup is not
// valid if its making has failed, unless it is whole, and the same job completes it.
func TestFailedOperationsLeaveNoPartialBackup(t *testing.T) {
	for what, kind := range kinds() {
		t.Run(what, func(t *testing.T) {
			for at := 1; failOperation(t, kind(), at); at += stride() {
			}
		})
	}
}

// failOperation fails an operation on a store, unless there are fewer.
func failOperation(t *testing.T, k kind, at int) bool {
	s := k.store(t)
	makeBackup(t, s, "old", "both", "one")
	i := &steps{at: at, call: func() {}}
	broken, failed := k.watched(i, true)
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
	return !i.over()
}

// sweep removes everything that no backup needs.
func sweep(t *testing.T, s *Store) {
	t.Helper()
	if _, err := s.Sweep(t.Context(), now().Add(time.Second), 0); err != nil {
		t.Fatal(err)
	}
}

// TestPowerFailuresLeaveNoPartialBackup ends the processes, and the power of a directory, before each operation of a
// backup and of a sweep that removes the previous one.
func TestPowerFailuresLeaveNoPartialBackup(t *testing.T) {
	for what, kind := range kinds() {
		t.Run(what, func(t *testing.T) {
			for at := 1; crash(t, kind(), at); at += stride() {
			}
		})
	}
}

// crash ends the processes before an operation on a store, unless there are fewer.
func crash(t *testing.T, k kind, at int) bool {
	s := k.store(t)
	makeBackup(t, s, "old", "both", "one")
	var after []*Store
	i := &steps{at: at, call: func() { after = k.crashed(t, at) }}
	watched, err := k.watched(i, false)
	if err != nil {
		t.Fatal(err)
	}
	makeBackup(t, watched, "new", "both", "two")
	made := i.over()
	if err := watched.Delete(t.Context(), "old", now()); err != nil {
		t.Fatal(err)
	}
	sweep(t, watched)
	for _, s := range after {
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
	return !i.over()
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
		for name, kind := range kinds() {
			for at := 1; ; at += stride() {
				k := kind()
				s := k.store(t)
				makeBackup(t, s, "old", "both", "one")
				if err := s.Delete(t.Context(), "old", now()); err != nil {
					t.Fatal(err)
				}
				if err := meet.before(s); err != nil {
					t.Fatal(err)
				}
				var inner error
				i := &steps{at: at, call: func() { inner = meet.inner(s) }}
				watched, err := k.watched(i, false)
				if err != nil {
					t.Fatal(err)
				}
				outer := meet.outer(watched)
				valid := mustBeWhole(t, what+" in a "+name, at, s)
				if i.over() {
					break
				}
				if outer == nil && inner == nil && !valid["new"] && !meet.deleted {
					t.Fatalf("%s in a %s at operation %d: the backup is missing", what, name, at)
				}
			}
		}
	}
}
