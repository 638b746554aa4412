package admin

import (
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/node/snapshot"
)

// sealed makes a snapshot without rows.
func sealed(t *testing.T, v *Snapshots, m *snapshot.Manifest) {
	t.Helper()
	if err := v.disk.MkdirAll(v.disk.PathJoin(v.path(m.Name), snapshot.DataDir), 0o700); err != nil {
		t.Fatal(err)
	}
	if err := snapshot.Seal(t.Context(), v.disk, v.path(m.Name), m, false); err != nil {
		t.Fatal(err)
	}
}

// TestExpiredSnapshotsAreRemoved removes snapshots that have expired. Snapshots that an operator has made stay,
// whatever their names, and so do snapshots with unreadable manifests. On a full disk, all automatic snapshots are
// removed.
func TestExpiredSnapshotsAreRemoved(t *testing.T) {
	v := &Snapshots{dir: "data", disk: vfs.NewMem(), log: slog.New(slog.DiscardHandler)}
	now := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	at := func(d time.Duration) *time.Time { end := now.Add(d); return &end }
	for _, m := range []*snapshot.Manifest{
		{Name: "truncated-1-t", Reason: snapshot.Truncated, Expires: at(-time.Second)},
		{Name: "truncated-2-t", Reason: snapshot.Truncated, Expires: at(0)},
		{Name: "truncated-3-t", Reason: snapshot.Truncated, Expires: at(time.Second)},
		{Name: "dropped-4-t", Reason: snapshot.Dropped, Expires: at(-time.Hour)},
		{Name: "dropped-5-t", Reason: snapshot.Dropped},
		{Name: "dropped-by-me", Reason: snapshot.Manual},
		{Name: "taken", Reason: snapshot.Manual},
	} {
		sealed(t, v, m)
	}
	if err := v.disk.MkdirAll(v.path("truncated-6-t"), 0o700); err != nil {
		t.Fatal(err)
	}
	remain := func(want ...string) {
		t.Helper()
		if got, err := v.tags(); err != nil || !slices.Equal(got, want) {
			t.Errorf("snapshots %q, %v, want %q", got, err, want)
		}
	}
	// The manifests must be read again when the next one expires.
	if next, err := v.removeExpired(now, false); err != nil || !next.Equal(now.Add(time.Second)) {
		t.Fatal(next, err)
	}
	remain("dropped-5-t", "dropped-by-me", "taken", "truncated-3-t", "truncated-6-t")
	// An import of this one is not complete.
	v.retain("truncated-3-t")
	later := now.Add(time.Minute)
	if next, err := v.removeExpired(later, true); err != nil || !next.Equal(later.Add(snapshotsLook)) {
		t.Fatal(next, err)
	}
	remain("dropped-by-me", "taken", "truncated-3-t", "truncated-6-t")
	v.unretain("truncated-3-t")
	if _, err := v.removeExpired(later, false); err != nil {
		t.Fatal(err)
	}
	remain("dropped-by-me", "taken", "truncated-6-t")
}

// slowDisk is a file system on which the removal of directories waits.
type slowDisk struct {
	vfs.FS
	once              sync.Once
	removing, proceed chan struct{}
}

// RemoveAll implements vfs.FS.
func (d *slowDisk) RemoveAll(name string) error {
	d.once.Do(func() { close(d.removing) })
	<-d.proceed
	return d.FS.RemoveAll(name)
}

// TestRemovalsOfSnapshotsDelayNothing reserves the name of a snapshot, and reads the virtual table of snapshots, while
// the disk is removing files. TRUNCATE does the first.
func TestRemovalsOfSnapshotsDelayNothing(t *testing.T) {
	disk := &slowDisk{FS: vfs.NewMem(), removing: make(chan struct{}), proceed: make(chan struct{})}
	v := &Snapshots{dir: "data", disk: disk, log: slog.New(slog.DiscardHandler)}
	expired := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	sealed(t, v, &snapshot.Manifest{Name: "truncated-1-t", Reason: snapshot.Truncated, Expires: &expired})
	removed := make(chan error, 1)
	go func() {
		_, err := v.removeExpired(expired, false)
		removed <- err
	}()
	<-disk.removing
	reserved := make(chan bool, 1)
	go func() {
		v.Shown()
		reserved <- v.reserve("truncated-2-t")
	}()
	select {
	case ok := <-reserved:
		if !ok {
			t.Error("the name is not free")
		}
	case <-time.After(20 * time.Second):
		t.Error("the reservation waits for the removal")
	}
	close(disk.proceed)
	if err := <-removed; err != nil {
		t.Error(err)
	}
	if tags, err := v.tags(); err != nil || len(tags) > 0 {
		t.Errorf("snapshots %q, %v", tags, err)
	}
}

// TestAutomaticSnapshotsAreBounded makes more automatic snapshots than a node keeps, in an order that differs from the
// order of their names. The oldest are removed, and snapshots that an operator has made do not count.
func TestAutomaticSnapshotsAreBounded(t *testing.T) {
	v := &Snapshots{dir: "data", disk: vfs.NewMem(), log: slog.New(slog.DiscardHandler)}
	now := time.Date(2026, 11, 30, 1, 0, 0, 0, time.UTC)
	expires := now.Add(time.Hour)
	var want []string
	for i := range automaticMax + 3 {
		m := &snapshot.Manifest{Name: fmt.Sprintf("truncated-%d-t", 1000-i), Reason: snapshot.Truncated,
			Created: now.Add(time.Duration(i) * time.Second), Expires: &expires}
		if i%2 == 0 {
			m.Name, m.Reason, m.Expires = fmt.Sprintf("dropped-%d-t", i), snapshot.Dropped, nil
		}
		sealed(t, v, m)
		if i >= 3 {
			want = append(want, m.Name)
		}
	}
	sealed(t, v, &snapshot.Manifest{Name: "taken", Reason: snapshot.Manual, Created: now.Add(-time.Hour)})
	want = append(want, "taken")
	slices.Sort(want)
	if _, err := v.removeExpired(now, false); err != nil {
		t.Fatal(err)
	}
	if got, err := v.tags(); err != nil || !slices.Equal(got, want) {
		t.Errorf("%d snapshots %q, %v, want %d", len(got), got, err, len(want))
	}
}

// TestAutomaticNamesAreUnique names the snapshots of two tables with one name that are removed in one millisecond.
func TestAutomaticNamesAreUnique(t *testing.T) {
	v := &Snapshots{dir: "data", disk: vfs.NewMem(), log: slog.New(slog.DiscardHandler)}
	created := time.UnixMilli(1764464400000)
	var names []string
	for range 2 {
		m := &snapshot.Manifest{Reason: snapshot.Dropped, Created: created}
		v.reserveAutomatic(m, "t")
		if err := validTag(m.Name); err != nil {
			t.Error(err)
		}
		names = append(names, m.Name)
	}
	if want := []string{"dropped-1764464400000-t", "dropped-1764464400001-t"}; !slices.Equal(names, want) {
		t.Errorf("names %q, want %q", names, want)
	}
}
