package backup

import (
	"errors"
	"io/fs"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
)

// smallDisk is a file system with space for some bytes only. Removed files return their bytes. A directory takes a
// byte, and names take none, so that a file of no bytes can always be created, as on many file systems.
type smallDisk struct {
	vfs.FS
	mu   sync.Mutex
	left int
}

// take takes up to n bytes, and returns how many there were.
func (d *smallDisk) take(n int) int {
	d.mu.Lock()
	defer d.mu.Unlock()
	n = min(n, d.left)
	d.left -= n
	return n
}

// full returns the error of an operation on a disk without space.
func full(operation, name string) error {
	return &fs.PathError{Op: operation, Path: name, Err: syscall.ENOSPC}
}

// MkdirAll implements vfs.FS.
func (d *smallDisk) MkdirAll(name string, mode fs.FileMode) error {
	if d.take(1) == 0 {
		return full("mkdir", name)
	}
	return d.FS.MkdirAll(name, mode)
}

// Create implements vfs.FS.
func (d *smallDisk) Create(name string, category vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := d.FS.Create(name, category)
	return &smallFile{f, d, name}, err
}

// Remove implements vfs.FS.
func (d *smallDisk) Remove(name string) error {
	info, err := d.Stat(name)
	if err == nil {
		err = d.FS.Remove(name)
	}
	if err == nil {
		d.take(-int(info.Size()))
	}
	return err
}

// smallFile is a file on such a disk. What fits is written before the error: a writer that ignores it, or takes what is
// there for the whole, is found by the comparison of hashes.
type smallFile struct {
	vfs.File
	disk *smallDisk
	name string
}

// Write implements vfs.File.
func (f *smallFile) Write(b []byte) (int, error) {
	n, err := f.File.Write(b[:f.disk.take(len(b))])
	if err == nil && n < len(b) {
		err = full("write", f.name)
	}
	return n, err
}

// mustAdvise fails unless an error names the store and says what to do.
func mustAdvise(t *testing.T, what string, err error, s *Store, want string) {
	t.Helper()
	if err == nil || !strings.Contains(err.Error(), s.location) || !strings.Contains(err.Error(), want) {
		t.Errorf("%s: %v", what, err)
	}
}

// TestFullDirectories makes backups in directories with space for a part of them. Each fails with an error that says
// what to do, leaves no file that was begun and no backup that is listed as complete, and the same job completes it
// when there is space.
func TestFullDirectories(t *testing.T) {
	contents := []string{strings.Repeat("a", 3000), strings.Repeat("b", 5000)}
	for what, encrypt := range map[string]bool{"in clear": false, "encrypted": true} {
		failed := 0
		for space := 0; ; space += 400 {
			disk := vfs.NewMem()
			inMemory(t, disk)
			limited := &smallDisk{FS: disk, left: space}
			s := open(t, limited, "/backups")
			if encrypt {
				s = withKeys(t, s, firstKey)
			}
			_, err := tryBackup(t.Context(), s, "b", contents...)
			if err == nil {
				break
			}
			failed++
			mustAdvise(t, what, err, s, "the location is full")
			if valid := mustBeWhole(t, "a full directory", space, s); len(valid) > 0 {
				t.Errorf("%s: with %d bytes, valid are %v", what, space, valid)
			}
			if names, err := disk.List("/backups/" + partialDir); err == nil && len(names) > 0 {
				t.Errorf("%s: with %d bytes, %q are left", what, space, names)
			}
			limited.take(-1 << 20)
			if _, err := tryBackup(t.Context(), s, "b", contents...); err != nil {
				t.Errorf("%s: with %d bytes, and then more: %v", what, space, err)
			}
			if !mustBeWhole(t, "space", space, s)["b"] {
				t.Errorf("%s: with %d bytes, and then more, there is no backup", what, space)
			}
		}
		if failed < 10 {
			t.Errorf("%s: %d attempts failed", what, failed)
		}
	}
}

// TestFullDirectoriesKeepTheLog archives a segment in a full directory: the archive ends where it ended before.
func TestFullDirectoriesKeepTheLog(t *testing.T) {
	disk := vfs.NewMem()
	inMemory(t, disk)
	limited := &smallDisk{FS: disk, left: 1 << 20}
	s := open(t, limited, "/backups")
	makeBackup(t, s, "b", "content")
	of := LogOwner{Cluster: "cluster", Host: "host"}
	segment := func(from, to uint64) Segment {
		return Segment{From: LogPosition{1, from, 0}, To: LogPosition{1, to, 0}, Stored: now().UnixMicro()}
	}
	if _, err := s.Logs().PutSegment(t.Context(), of, segment(1, 2), []byte("first")); err != nil {
		t.Fatal(err)
	}
	data := make([]byte, 10_000)
	copy(data, "second")
	for _, left := range []int{0, 1, 100, 300} {
		limited.left = left
		_, err := s.Logs().PutSegment(t.Context(), of, segment(2, 3), data)
		mustAdvise(t, "a segment", err, s, "the location is full")
		mustAdvise(t, "a note", s.Logs().PutEnd(t.Context(), of, LogEnd{Data: data}), s, "the location is full")
		end, err := s.Logs().End(t.Context(), of)
		if err != nil || end.Position != (LogPosition{1, 2, 0}) {
			t.Errorf("with %d bytes, the archive ends at %+v, %v", left, end, err)
		}
	}
	limited.left = 1 << 20
	if _, err := s.Logs().PutSegment(t.Context(), of, segment(2, 3), data); err != nil {
		t.Error(err)
	}
	if end, err := s.Logs().End(t.Context(), of); err != nil || end.Position != (LogPosition{1, 3, 0}) {
		t.Errorf("the archive ends at %+v, %v", end, err)
	}
}

// TestSpaceIsFreedInFullDirectories deletes the old backup and the failed one after an attempt: what it has begun to
// write was removed, so that there is space for their marks.
func TestSpaceIsFreedInFullDirectories(t *testing.T) {
	disk := vfs.NewMem()
	inMemory(t, disk)
	limited := &smallDisk{FS: disk, left: 1 << 20}
	s := open(t, limited, "/backups")
	makeBackup(t, s, "old", strings.Repeat("a", 20_000))
	limited.left = 10_000
	_, err := tryBackup(t.Context(), s, "new", "stored", strings.Repeat("b", 20_000))
	mustAdvise(t, "a backup", err, s, "the location is full")
	for _, name := range []string{"old", "new"} {
		if err := s.Delete(t.Context(), name, now()); err != nil {
			t.Fatal(err)
		}
	}
	sweep(t, s)
	makeBackup(t, s, "new", "stored", strings.Repeat("b", 20_000))
	if valid := mustBeWhole(t, "a sweep", 0, s); !valid["new"] || valid["old"] {
		t.Errorf("valid are %v", valid)
	}
}

// TestErrorsSayWhatToDo refuses requests and operations for lack of space or permissions.
func TestErrorsSayWhatToDo(t *testing.T) {
	for what, c := range map[string]struct {
		err  error
		want string
	}{
		"quota of a user":    {syscall.EDQUOT, "the location is full"},
		"a read-only mount":  {syscall.EROFS, "allow the user"},
		"a foreign file":     {&fs.PathError{Op: "open", Err: syscall.EACCES}, "allow the user"},
		"a full service":     {&bucket.Refusal{Status: 507, Code: "XMinioStorageFull"}, "the location is full"},
		"a quota of Ceph":    {&bucket.Refusal{Status: 403, Code: "QuotaExceeded"}, "the location is full"},
		"a quota of MinIO":   {&bucket.Refusal{Status: 400, Code: "XMinioAdminBucketQuotaExceeded"}, "full"},
		"a missing right":    {&bucket.Refusal{Status: 403, Code: "AccessDenied"}, "403 AccessDenied"},
		"too many requests":  {&bucket.Refusal{Status: 403, Code: "rateLimitExceeded"}, "403 rateLimitExceeded"},
		"an injected error":  {errors.New("input/output error"), "input/output error"},
		"a quota of Google":  {&bucket.Refusal{Status: 403, Code: "quotaExceeded"}, "the location is full"},
		"a failure of Azure": {&bucket.Refusal{Status: 500, Code: "InternalError"}, "500 InternalError"},
	} {
		text := advice(c.err)
		if whole := c.err.Error() + text; !strings.Contains(whole, c.want) ||
			text != "" && strings.Contains(c.err.Error(), c.want) {
			t.Errorf("%s: %s", what, whole)
		}
	}
	// A request that is refused for lack of space is not repeated: it is final until somebody frees some.
	requests := 0
	m := buckettest.NewMemory()
	m.Fault = func(operation, _ string) buckettest.Fault {
		if operation != "write" {
			return buckettest.Fault{}
		}
		requests++
		return buckettest.Fault{Err: &bucket.Refusal{Status: 507}}
	}
	s := inBucket(m)
	mustAdvise(t, "a full bucket", s.Initialize(t.Context(), now()), s, "the location is full")
	if requests != 1 {
		t.Errorf("%d requests were sent", requests)
	}
	// A note of a restoration is not needed for it, but a store is.
	if err := s.Hold(t.Context(), "b", "id", now()); !errors.Is(err, ErrNoStore) || errors.Is(err, ErrNotHeld) {
		t.Errorf("%v", err)
	}
	m.Fault = nil
	makeBackup(t, s, "b", "content")
	m.Fault = func(operation, _ string) buckettest.Fault {
		if operation == "write" {
			return buckettest.Fault{Err: &bucket.Refusal{Status: 403, Code: "AccessDenied"}}
		}
		return buckettest.Fault{}
	}
	if err := s.Hold(t.Context(), "b", "id", now()); !errors.Is(err, ErrNotHeld) || errors.Is(err, ErrNoStore) {
		t.Errorf("%v", err)
	}
}
