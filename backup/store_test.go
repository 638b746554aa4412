package backup

import (
	"bytes"
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
	"cqld/ring"
)

// now is the time of a test.
func now() time.Time { return time.Now().UTC() }

// stores returns a store in memory, one in a directory, and one in a bucket, and encrypted ones.
func stores(t *testing.T) map[string]*Store {
	t.Helper()
	return map[string]*Store{"memory": inMemory(t, vfs.NewMem()), "directory": open(t, vfs.Default, t.TempDir()),
		"bucket":              inBucket(buckettest.NewMemory()),
		"encrypted directory": withKeys(t, open(t, vfs.Default, t.TempDir()), firstKey),
		"encrypted bucket":    withKeys(t, inBucket(buckettest.NewMemory()), firstKey)}
}

// inBucket returns a store in a bucket.
func inBucket(b bucket.Bucket) *Store {
	return Places{}.newStore(bucketFiles{bucket.Repeat(b), "prefix/"}, "memory://bucket/prefix")
}

// inMemory returns a store in a directory of a file system in memory.
func inMemory(t *testing.T, disk vfs.FS) *Store {
	t.Helper()
	err := disk.MkdirAll("/backups", 0o700)
	if err == nil {
		err = directory{disk, "/"}.sync(".")
	}
	if err != nil {
		t.Fatal(err)
	}
	return open(t, disk, "/backups")
}

// open opens the store in a directory.
func open(t *testing.T, disk vfs.FS, dir string) *Store {
	t.Helper()
	s, err := Places{Disk: disk}.Open("file://" + dir)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// put stores a content as an object.
func put(t *testing.T, s *Store, content string) (Object, bool) {
	t.Helper()
	o, stored, err := s.Put(t.Context(), func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader(content)), nil
	}, unpaced)
	if err != nil {
		t.Fatal(err)
	}
	return o, stored
}

// makeBackup makes a backup with files of these contents.
func makeBackup(t *testing.T, s *Store, name string, contents ...string) *Manifest {
	t.Helper()
	m, err := tryBackup(t.Context(), s, name, contents...)
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// tryBackup makes an attempt of the job name to make the backup name. It returns an earlier attempt's backup.
func tryBackup(ctx context.Context, s *Store, name string, contents ...string) (*Manifest, error) {
	w := Started{Name: name, Created: now(), Job: name, Nonce: rand.Text()}
	if complete, err := s.Start(ctx, w); err != nil || complete != nil {
		return complete, err
	}
	m, err := storeFiles(ctx, s, w, contents...)
	if err != nil {
		return nil, err
	}
	return m, s.Complete(ctx, m, w.Nonce)
}

// storeFiles does everything for a backup that was started, except Complete.
func storeFiles(ctx context.Context, s *Store, w Started, contents ...string) (*Manifest, error) {
	m := &Manifest{Name: w.Name, Job: w.Job, Created: w.Created, Members: []Member{{ID: 1, Host: "h",
		Tokens: []ring.Token{1, 5}}}}
	var err error
	if m.Catalog, err = s.PutBytes(ctx, []byte("schema")); err != nil {
		return nil, err
	}
	share := Share{Node: 1, Host: "h"}
	for i, content := range contents {
		o, stored, err := s.Put(ctx, func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader(content)), nil
		}, unpaced)
		if err != nil {
			return nil, err
		}
		if stored {
			share.Stored += o.Size
		}
		share.Files = append(share.Files, File{fmt.Sprintf("%06d.sst", i), o})
	}
	if err := s.PutShare(ctx, w.Name, &share); err != nil {
		return nil, err
	}
	read, err := s.ShareOf(ctx, w.Name, "h")
	if err != nil {
		return nil, err
	}
	m.Shares = []Share{*read}
	return m, nil
}

// TestBackupsShareObjects makes two backups that have a file in common, and deletes the first.
func TestBackupsShareObjects(t *testing.T) {
	for kind, s := range stores(t) {
		first := makeBackup(t, s, "first", "one", "both")
		second := makeBackup(t, s, "second", "both", "two")
		if got := second.Shares[0].Stored; got != 3 {
			t.Errorf("%s: the second backup has stored %d bytes", kind, got)
		}
		all, err := s.List(t.Context())
		if err != nil || len(all) != 2 || !reflect.DeepEqual(all[0].Manifest.Objects(), first.Objects()) {
			t.Fatalf("%s: %+v, %v", kind, all, err)
		}
		if err := s.Delete(t.Context(), "first", now()); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Manifest(t.Context(), "first"); !errors.Is(err, ErrNoBackup) {
			t.Errorf("%s: a deleted backup: %v", kind, err)
		}
		kept, err := s.Sweep(t.Context(), now(), time.Hour)
		if err != nil || kept.Backups != nil || kept.Objects != 0 {
			t.Errorf("%s: within the grace: %+v, %v", kind, kept, err)
		}
		swept, err := s.Sweep(t.Context(), now().Add(time.Second), 0)
		if err != nil || len(swept.Backups) != 1 || swept.Objects != 1 || swept.Bytes != 3 {
			t.Errorf("%s: %+v, %v", kind, swept, err)
		}
		v, err := s.Verify(t.Context(), second.Objects(), unpaced)
		if err != nil || v.Problems != nil || v.Objects != 3 {
			t.Errorf("%s: %+v, %v", kind, v, err)
		}
		if all, err := s.List(t.Context()); err != nil || len(all) != 1 || all[0].Name != "second" {
			t.Errorf("%s: %+v, %v", kind, all, err)
		}
	}
}

// TestUnfinishedBackupsKeepObjects sweeps while a backup is being made, and begins one while a sweep runs.
func TestUnfinishedBackupsKeepObjects(t *testing.T) {
	for kind, s := range stores(t) {
		w := Started{Name: "b", Created: now(), Job: "j", Nonce: "1"}
		if _, err := s.Start(t.Context(), w); err != nil {
			t.Fatal(err)
		}
		o, _ := put(t, s, "new")
		later := now().Add(time.Second)
		if swept, err := s.Sweep(t.Context(), later, 0); err != nil || swept.Objects != 0 || swept.Kept != 1 {
			t.Errorf("%s: %+v, %v", kind, swept, err)
		}
		// The same job makes another attempt, and another one is refused.
		w.Nonce = "2"
		if complete, err := s.Start(t.Context(), w); err != nil || complete != nil {
			t.Errorf("%s: %+v, %v", kind, complete, err)
		}
		if a, err := s.Attempt(t.Context(), "b"); err != nil || a.Nonce != "2" {
			t.Errorf("%s: %+v, %v", kind, a, err)
		}
		w.Job = "other"
		if _, err := s.Start(t.Context(), w); !errors.Is(err, ErrExists) {
			t.Errorf("%s: another job: %v", kind, err)
		}
		// One that was abandoned long ago keeps nothing.
		swept, err := s.Sweep(t.Context(), later.Add(abandonedAfter), 0)
		if err != nil || swept.Objects != 1 || swept.Bytes != o.Size {
			t.Errorf("%s: %+v, %v", kind, swept, err)
		}
		if err := s.write(t.Context(), sweepingName, mark{now()}); err != nil {
			t.Fatal(err)
		}
		if _, err := s.Start(t.Context(), Started{Name: "c", Created: now(), Job: "c"}); !errors.Is(err, ErrSweeping) {
			t.Errorf("%s: during a sweep: %v", kind, err)
		}
	}
}

// TestDamageIsFound changes, shortens and removes objects and manifests.
func TestDamageIsFound(t *testing.T) {
	for kind, s := range stores(t) {
		m := makeBackup(t, s, "b", "content", "another", "third")
		files := m.Shares[0].Files
		change := func(name string, b []byte) {
			if err := s.files.write(t.Context(), name, bucket.Bytes(b)); err != nil {
				t.Fatal(err)
			}
		}
		change(nameOf(t, s, files[0].Object), []byte("cOntent"))
		change(nameOf(t, s, files[1].Object), []byte("anothe"))
		if err := s.files.remove(t.Context(), nameOf(t, s, files[2].Object)); err != nil {
			t.Fatal(err)
		}
		v, err := s.Verify(t.Context(), m.Objects(), unpaced)
		if err != nil || len(v.Problems) != 3 {
			t.Errorf("%s: %+v, %v", kind, v, err)
		}
		name := backupsPrefix + "b" + manifestSuffix
		whole, err := small(t.Context(), s.files, name, manifestBytesMax)
		if err != nil {
			t.Fatal(err)
		}
		for i := range whole[:len(whole)-1] { // without the end of the line
			flipped := bytes.Clone(whole)
			flipped[i] ^= 1
			for _, damaged := range [][]byte{whole[:i], flipped} {
				if _, err := DecodeManifest(damaged); err == nil {
					t.Fatalf("%s: a damaged manifest was accepted: %q", kind, damaged)
				}
			}
		}
		change(name, whole[:len(whole)/2])
		all, err := s.List(t.Context())
		if err != nil || len(all) != 1 || all[0].Problem == "" {
			t.Errorf("%s: %+v, %v", kind, all, err)
		}
		// What cannot be read may need any object.
		if swept, err := s.Sweep(t.Context(), now().Add(time.Second), 0); err != nil || swept.Objects != 0 {
			t.Errorf("%s: %+v, %v", kind, swept, err)
		}
	}
}

// TestOtherDirectoriesAreRefused begins backups in places that are none.
func TestOtherDirectoriesAreRefused(t *testing.T) {
	dir := t.TempDir()
	s := open(t, vfs.Default, dir)
	if _, err := s.List(t.Context()); !errors.Is(err, ErrNoStore) {
		t.Errorf("an empty directory: %v", err)
	}
	if err := os.WriteFile(filepath.Join(dir, "letter.txt"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := s.Start(t.Context(), Started{Name: "b", Created: now()}); err == nil ||
		!strings.Contains(err.Error(), "letter.txt") {
		t.Errorf("a directory with other files: %v", err)
	}
	for _, location := range []string{"file://" + filepath.Join(dir, "none"),
		"file://" + filepath.Join(dir, "letter.txt"),
		"relative", "file://host/dir", "ftp://host/x", "file:///", "file:///x?secret=s3cret", "s3://me:s3cret@bucket",
		"s3://bucket/p?secret_access_key=s3cret", "s3://bucket?endpoint=https://me:s3cret@host",
		"s3://bucket?endpoint=https://host/%3Fkey=s3cret", "s3://bucket?s3cret", "s3://bucket?region=a&region=s3cret",
		"s3://bucket?endpoint=ftp://host/s3cret", "s3://bucket?%zz=s3cret", "s3://", "s3://bucket/a/../b",
		"s3://bucket/a//b", "s3://bucket:9000/a", "s3://bucket/a#s3cret",
		"azblob://container/p?account=a&sig=s3cret", "azblob://container?account=a&endpoint=http://host/s3cret",
		"gs://bucket/p?endpoint=http://s3cret", "gs://me:s3cret@bucket", "gs://", "gs://bucket/../b",
		"azblob://s3cret@container?account=a", "azblob://container", "azblob:///p?account=a",
		"file://me:s3cret@host/%zz"} {
		_, err := Places{Disk: vfs.Default}.Open(location)
		if err == nil || strings.Contains(err.Error(), "s3cret") {
			t.Errorf("%s: %v", location, err)
		}
	}
}

// TestLocationsOfBuckets opens buckets, which sends no request.
func TestLocationsOfBuckets(t *testing.T) {
	for location, prefix := range map[string]string{"s3://bucket": "", "s3://bucket/": "", "s3://bucket/a/b/": "a/b/",
		"s3://bucket/a?region=eu-central-1&profile=backups":                          "a/",
		"s3://my.bucket-1/a%20b?endpoint=http://127.0.0.1:9000":                      "a b/",
		"gs://my_bucket.example.com/a":                                               "a/",
		"azblob://container/a/b?account=ours":                                        "a/b/",
		"azblob://c1?account=ours&endpoint=https://ours.blob.core.usgovcloudapi.net": ""} {
		s, err := Places{Disk: vfs.NewMem()}.Open(location)
		if err != nil {
			t.Errorf("%s: %v", location, err)
			continue
		}
		// Messages have the location as the operator has written it.
		if files, ok := s.files.files.(bucketFiles); !ok || files.prefix != prefix || s.location != location {
			t.Errorf("%s: %+v", location, s)
		}
	}
}

// TestHostileNamesAreRefused decodes manifests whose names lead elsewhere.
func TestHostileNamesAreRefused(t *testing.T) {
	valid := func() *Manifest {
		o := Object{strings.Repeat("0a", 32), 1}
		return &Manifest{Name: "b", Catalog: o, Members: []Member{{ID: 1}, {ID: 2}},
			Shares: []Share{{Node: 1, Host: "h", Files: []File{{"a", o}, {"b", o}}}, {Node: 2, Host: "i"}}}
	}
	for what, change := range map[string]func(*Manifest){
		"":                   func(*Manifest) {},
		"name of a backup":   func(m *Manifest) { m.Name = "../b" },
		"long name":          func(m *Manifest) { m.Name = strings.Repeat("b", 101) },
		"file above":         func(m *Manifest) { m.Shares[0].Files[0].Name = ".." },
		"file elsewhere":     func(m *Manifest) { m.Shares[0].Files[0].Name = "/etc/passwd" },
		"long file":          func(m *Manifest) { m.Shares[0].Files[0].Name = strings.Repeat("f", 201) },
		"file twice":         func(m *Manifest) { m.Shares[0].Files[0].Name = "b" },
		"hash elsewhere":     func(m *Manifest) { m.Shares[0].Files[0].SHA256 = "../../../../etc/passwd" },
		"hash of the schema": func(m *Manifest) { m.Catalog.SHA256 = "" },
		"upper case":         func(m *Manifest) { m.Catalog.SHA256 = strings.Repeat("0A", 32) },
		"negative size":      func(m *Manifest) { m.Catalog.Size = -1 },
		"no member":          func(m *Manifest) { m.Shares[0].Node = 3 },
		"member twice":       func(m *Manifest) { m.Members[1].ID = 1 },
		"no share":           func(m *Manifest) { m.Shares = m.Shares[:1] },
		"share twice":        func(m *Manifest) { m.Shares = append(m.Shares, m.Shares[0]) },
	} {
		m := valid()
		change(m)
		b, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := DecodeManifest(b); (err == nil) != (what == "") {
			t.Errorf("%s: %v", what, err)
		}
	}
	// Two nodes with one token would break an invariant of rings.
	m := valid()
	m.Members[0].Tokens, m.Members[1].Tokens = []ring.Token{7}, []ring.Token{7}
	if _, err := TopologyOf(m.Members); err == nil {
		t.Error("a ring with a token twice was accepted")
	}
	b, err := encode(Manifest{})
	if err != nil {
		t.Fatal(err)
	}
	var unknown *UnknownFormat
	if _, err := DecodeManifest(bytes.Replace(b, []byte(`"format":1`), []byte(`"format":9`), 1)); !errors.As(err,
		&unknown) || unknown.Format != 9 {
		t.Errorf("another version: %v", err)
	}
}

// TestFilesAreReadInParts compares reads of files with their contents.
func TestFilesAreReadInParts(t *testing.T) {
	for kind, s := range stores(t) {
		content := strings.Repeat("0123456789abcdef", (2*chunkBytes+5000)/16)
		m := makeBackup(t, s, "b", content, "")
		var paced int
		f := NewFiles(t.Context(), s, &m.Shares[0], func(n int) error { paced += n; return nil })
		file, err := f.Open(FilesDir + "/000000.sst")
		if err != nil {
			t.Fatal(err)
		}
		whole, err := io.ReadAll(file)
		if err != nil || string(whole) != content || paced != len(content) {
			t.Errorf("%s: %d bytes, %d were read, %v", kind, len(whole), paced, err)
		}
		for _, at := range []int64{0, chunkBytes - 3, 2*chunkBytes - 1, int64(len(content)) - 4} {
			b := make([]byte, 8)
			n, err := file.ReadAt(b, at)
			want := content[at:min(at+8, int64(len(content)))]
			if string(b[:n]) != want || (err != nil) != (len(want) < 8) {
				t.Errorf("%s: %q at %d, want %q, %v", kind, b[:n], at, want, err)
			}
		}
		if names, err := f.List(FilesDir); err != nil || len(names) != 2 {
			t.Errorf("%s: %q, %v", kind, names, err)
		}
		empty, err := f.Open(FilesDir + "/000001.sst")
		if err != nil {
			t.Fatal(err)
		}
		if n, err := empty.Read(make([]byte, 4)); n != 0 || !errors.Is(err, io.EOF) {
			t.Errorf("%s: an empty file: %d, %v", kind, n, err)
		}
		for _, name := range []string{"000000.sst", "data/none", "data/../000000.sst", "other/000000.sst"} {
			if _, err := f.Open(name); !errors.Is(err, os.ErrNotExist) {
				t.Errorf("%s: %s: %v", kind, name, err)
			}
		}
		if err := f.Remove(FilesDir + "/000000.sst"); !errors.Is(err, errReadOnly) {
			t.Errorf("%s: remove: %v", kind, err)
		}
	}
}

// TestChangedFilesAreNotStored stores a file whose content changes between the two reads of it.
func TestChangedFilesAreNotStored(t *testing.T) {
	for kind, s := range stores(t) {
		if err := s.Initialize(t.Context(), now()); err != nil {
			t.Fatal(err)
		}
		n := 0
		_, _, err := s.Put(t.Context(), func() (io.ReadCloser, error) {
			n++
			return io.NopCloser(strings.NewReader(fmt.Sprint("read ", n))), nil
		}, unpaced)
		if err == nil {
			t.Errorf("%s: a changed file was stored", kind)
		}
		if left := contentsOf(t, s); len(left) > 0 {
			t.Errorf("%s: %q is there", kind, left)
		}
		// A cancelled upload leaves nothing either.
		ctx, cancel := context.WithCancel(t.Context())
		reads := 0
		_, _, err = s.Put(ctx, func() (io.ReadCloser, error) {
			return io.NopCloser(strings.NewReader("content")), nil
		}, func(int) error {
			if reads++; reads == 3 {
				cancel()
			}
			return ctx.Err()
		})
		cancel()
		if left := contentsOf(t, s); !errors.Is(err, context.Canceled) || len(left) > 0 {
			t.Errorf("%s: %v, %q is there", kind, err, left)
		}
	}
}

// contentsOf returns the names of the objects and of the interrupted files of a store.
func contentsOf(t *testing.T, s *Store) (out []string) {
	t.Helper()
	dirs, err := s.files.list(t.Context(), objectsDir)
	if err != nil {
		t.Fatal(err)
	}
	for i := range dirs {
		dirs[i] = objectsDir + "/" + dirs[i]
	}
	for _, dir := range append(dirs, partialDir) {
		names, err := s.files.list(t.Context(), dir)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, names...)
	}
	return out
}

// FuzzDecodeManifest decodes any bytes. What is accepted is encoded and decoded to the same.
func FuzzDecodeManifest(f *testing.F) {
	b, err := encode(&Manifest{Name: "b", Catalog: Object{strings.Repeat("0a", 32), 1},
		Members: []Member{{ID: 1, Tokens: []ring.Token{-4, 9}}}, Shares: []Share{{Node: 1}}})
	if err != nil {
		f.Fatal(err)
	}
	f.Add(b)
	f.Add([]byte(`{"format":1,"sha256":"","content":null}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := DecodeManifest(b)
		if err != nil {
			return
		}
		_, _ = TopologyOf(m.Members) // an error, and no panic
		again, err := encode(m)
		if err != nil {
			t.Fatal(err)
		}
		other, err := DecodeManifest(again)
		if err != nil || !reflect.DeepEqual(m, other) {
			t.Errorf("%+v, %+v, %v", m, other, err)
		}
	})
}
