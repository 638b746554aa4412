package backup

import (
	"testing"
	"time"
)

// TestBackupsThatAreRestoredAreKept deletes a backup with a restoration before each operation of the deletion. Either
// the restoration reads the backup, and it stays, or it does not find the backup.
func TestBackupsThatAreRestoredAreKept(t *testing.T) {
	for what, kind := range kinds() {
		for at := 1; ; at++ {
			k := kind()
			s := k.store(t)
			makeBackup(t, s, "b", "content")
			var read, held error
			i := &steps{at: at, call: func() {
				if held = s.Hold(t.Context(), "b", "R", now()); held == nil {
					_, read = s.Manifest(t.Context(), "b")
				}
			}}
			watched, err := k.watched(i, false)
			if err != nil {
				t.Fatal(err)
			}
			deleted, err := watched.DeleteUnheld(t.Context(), "b", now())
			if err != nil || held != nil {
				t.Fatalf("%s, operation %d: %v, %v", what, at, err, held)
			}
			if i.over() {
				if !deleted {
					t.Fatalf("%s: the backup was not deleted", what)
				}
				break
			}
			if deleted && read == nil {
				t.Fatalf("%s, operation %d: the backup was deleted after a restoration had read it", what, at)
			}
			if _, err := s.Manifest(t.Context(), "b"); deleted != (err != nil) {
				t.Fatalf("%s, operation %d: deleted %v, %v", what, at, deleted, err)
			}
			if err := s.Release(t.Context(), "b", "R"); err != nil {
				t.Fatal(err)
			}
			if !deleted {
				if deleted, err = s.DeleteUnheld(t.Context(), "b", now()); err != nil || !deleted {
					t.Fatalf("%s, operation %d: after the restoration: %v, %v", what, at, deleted, err)
				}
			}
		}
	}
	s := stores(t)["memory"]
	makeBackup(t, s, "b", "content")
	if err := s.Hold(t.Context(), "b", "R", now()); err != nil {
		t.Fatal(err)
	}
	if deleted, err := s.DeleteUnheld(t.Context(), "b", now().Add(abandonedAfter+time.Second)); err != nil || !deleted {
		t.Errorf("after an abandoned restoration: %v, %v", deleted, err)
	}
	if _, err := s.Sweep(t.Context(), now().Add(abandonedAfter+2*time.Second), 0); err != nil {
		t.Fatal(err)
	}
	if names, err := s.files.list(t.Context(), holdsDir+"/b"); err != nil || len(names) > 0 {
		t.Errorf("%q is left, %v", names, err)
	}
}
