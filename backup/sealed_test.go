package backup

import (
	"bytes"
	"errors"
	"io"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/backup/bucket"
	"cqld/backup/bucket/buckettest"
	"cqld/backup/seal"
	"cqld/storage/encryption"
)

// Keys of the operator.
const (
	firstKey  = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	secondKey = "101112131415161718191a1b1c1d1e1f000102030405060708090a0b0c0d0e0f"
)

// withKeys returns the same store for a node with keys, or without if the text is empty.
func withKeys(t *testing.T, s *Store, text string) *Store {
	t.Helper()
	if text == "" {
		return Places{}.newStore(s.files.files, s.location)
	}
	keys, err := encryption.ParseKeys(text)
	if err != nil {
		t.Fatal(err)
	}
	return Places{Keys: keys}.newStore(s.files.files, s.location)
}

// nameOf returns the name of an object in a store.
func nameOf(t *testing.T, s *Store, o Object) string {
	t.Helper()
	name, err := s.files.objectName(t.Context(), o.SHA256)
	if err != nil {
		t.Fatal(err)
	}
	return name
}

// raw returns the bytes of a file as the store has it.
func raw(t *testing.T, s *Store, name string) []byte {
	t.Helper()
	b, err := small(t.Context(), s.files.files, name, 1<<30)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// setRaw replaces the bytes of a file.
func setRaw(t *testing.T, s *Store, name string, b []byte) {
	t.Helper()
	if err := s.files.files.write(t.Context(), name, bucket.Bytes(b)); err != nil {
		t.Fatal(err)
	}
}

// TestChangesOfEncryptedObjectsAreFound changes each byte of an object in the store, cuts and extends it, and puts
// another object in its place. Verify reports it, and no part of it is read.
func TestChangesOfEncryptedObjectsAreFound(t *testing.T) {
	s := withKeys(t, inBucket(buckettest.NewMemory()), firstKey)
	m := makeBackup(t, s, "b", "first content", "other content", strings.Repeat("long content ", 20_000))
	files := m.Shares[0].Files
	first, long := files[0].Object, files[2].Object
	damaged := func(what string, o Object, b []byte) {
		t.Helper()
		name := nameOf(t, s, o)
		whole := raw(t, s, name)
		setRaw(t, s, name, b)
		v, err := s.Verify(t.Context(), []Object{o}, unpaced)
		if err != nil || len(v.Problems) != 1 {
			t.Errorf("%s: %+v, %v", what, v, err)
		}
		if _, err := s.object(t.Context(), o); err == nil {
			t.Errorf("%s: the object was read", what)
		}
		setRaw(t, s, name, whole)
	}
	whole := raw(t, s, nameOf(t, s, first))
	for i := range whole {
		flipped := bytes.Clone(whole)
		flipped[i] ^= 1
		damaged("a changed byte", first, flipped)
		damaged("a cut file", first, whole[:i])
	}
	damaged("a longer file", first, append(bytes.Clone(whole), 0))
	damaged("another object", first, raw(t, s, nameOf(t, s, files[1].Object)))
	// Parts of the long object are read alone: 4 chunks. The last one is shorter.
	content := []byte(strings.Repeat("long content ", 20_000))
	whole = raw(t, s, nameOf(t, s, long))
	for at := int64(0); at < long.Size; at += 7_777 {
		n := min(90_000, long.Size-at)
		if b, err := s.part(t.Context(), long, at, n); err != nil || !bytes.Equal(b, content[at:at+n]) {
			t.Fatalf("%d bytes from %d: %v", n, at, err)
		}
	}
	const chunk = 64<<10 + 16
	exchanged := bytes.Clone(whole)
	copy(exchanged[40:], whole[40+chunk:40+2*chunk])
	copy(exchanged[40+chunk:], whole[40:40+chunk])
	damaged("exchanged chunks", long, exchanged)
	damaged("a cut at a chunk", long, whole[:40+3*chunk])
	damaged("a chunk that is repeated", long, append(bytes.Clone(whole[:40+3*chunk]), whole[40+2*chunk:]...))
	setRaw(t, s, nameOf(t, s, long), exchanged)
	if _, err := s.part(t.Context(), long, 10, 10); !errors.Is(err, seal.ErrDamaged) {
		t.Errorf("a part of an exchanged chunk: %v", err)
	}
	if v, err := s.Verify(t.Context(), m.Objects(), unpaced); err != nil || len(v.Problems) != 1 {
		t.Errorf("%+v, %v", v, err)
	}
}

// TestEncryptedStoresNeedTheirKey reads and writes an encrypted store without a key, with another one, and while the
// key is replaced.
func TestEncryptedStoresNeedTheirKey(t *testing.T) {
	s := withKeys(t, inBucket(buckettest.NewMemory()), firstKey)
	m := makeBackup(t, s, "b", "content", strings.Repeat("long", 40_000))
	for text, want := range map[string]string{"": "set backup_encryption_key_file",
		secondKey: "add the key to backup_encryption_key_file"} {
		other := withKeys(t, s, text)
		_, list := other.List(t.Context())
		_, manifest := other.Manifest(t.Context(), "b")
		_, verify := other.Verify(t.Context(), m.Objects(), unpaced)
		_, make := tryBackup(t.Context(), other, "c", "new")
		_, attempt := other.Attempt(t.Context(), "b")
		_, sweep := other.Sweep(t.Context(), now(), 0)
		for operation, err := range map[string]error{"list": list, "manifest": manifest, "verify": verify,
			"make": make, "attempt": attempt, "sweep": sweep, "delete": other.Delete(t.Context(), "b", now())} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s with keys %.4q: %v", operation, text, err)
			}
		}
	}
	// An older version refuses the layout.
	var unknown *UnknownFormat
	if err := decode(raw(t, s, layoutName), new(layout)); !errors.As(err, &unknown) || unknown.Format != 2 {
		t.Errorf("format %v: %v", unknown, err)
	}
	object := raw(t, s, nameOf(t, s, m.Shares[0].Files[0].Object))
	both := withKeys(t, s, secondKey+"\n"+firstKey)
	if _, err := both.List(t.Context()); err != nil {
		t.Error(err)
	}
	makeBackup(t, both, "c", "content", "more")
	newest := withKeys(t, s, secondKey)
	all, err := newest.List(t.Context())
	if err != nil || len(all) != 2 || all[0].Problem+all[1].Problem != "" {
		t.Errorf("%+v, %v", all, err)
	}
	if v, err := newest.Verify(t.Context(), m.Objects(), unpaced); err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if !bytes.Equal(object, raw(t, newest, nameOf(t, newest, m.Shares[0].Files[0].Object))) {
		t.Error("a new key has rewritten an object")
	}
	if _, err := withKeys(t, s, firstKey).List(t.Context()); err == nil {
		t.Error("the old key still opens the store")
	}
}

// TestStoresInClearStayInClear uses a store in clear with a node that has keys: it reads and deletes, and makes no
// backup. A layout that is removed or replaced does not lead to files in clear, or with two keys.
func TestStoresInClearStayInClear(t *testing.T) {
	s := inBucket(buckettest.NewMemory())
	m := makeBackup(t, s, "b", "content")
	keyed := withKeys(t, s, firstKey)
	if v, err := keyed.Verify(t.Context(), m.Objects(), unpaced); err != nil || len(v.Problems) > 0 {
		t.Errorf("%+v, %v", v, err)
	}
	if _, err := tryBackup(t.Context(), keyed, "c", "x"); !errors.Is(err, errClear) {
		t.Errorf("a backup in clear: %v", err)
	}
	// The node that leads has no keys, and another one has.
	if _, err := s.Start(t.Context(), Started{Name: "d", Created: now(), Job: "d", Nonce: "1"}); err != nil {
		t.Fatal(err)
	}
	if _, err := keyed.Attempt(t.Context(), "d"); !errors.Is(err, errClear) {
		t.Errorf("an upload in clear: %v", err)
	}
	if err := keyed.Delete(t.Context(), "b", now()); err != nil {
		t.Error(err)
	}
	if err := s.files.remove(t.Context(), layoutName); err != nil {
		t.Fatal(err)
	}
	if _, _, err := keyed.Put(t.Context(), func() (io.ReadCloser, error) {
		return io.NopCloser(strings.NewReader("secret")), nil
	}, unpaced); !errors.Is(err, ErrNoStore) {
		t.Errorf("without a layout: %v", err)
	}

	// Two nodes begin a store at the same time, and the layout of the second replaces the first.
	store := inBucket(buckettest.NewMemory())
	one, two := withKeys(t, store, firstKey), withKeys(t, store, firstKey)
	w := Started{Name: "b", Created: now(), Job: "b", Nonce: "1"}
	if _, err := one.Start(t.Context(), w); err != nil {
		t.Fatal(err)
	}
	m, err := storeFiles(t.Context(), one, w, "content")
	if err != nil {
		t.Fatal(err)
	}
	if err := two.files.begin(t.Context(), now()); err != nil {
		t.Fatal(err)
	}
	if err := one.Complete(t.Context(), m, w.Nonce); !errors.Is(err, errReplaced) {
		t.Errorf("the layout was replaced: %v", err)
	}
}

// TestEncryptedStoresRevealNothing looks for contents, names of files and hashes in all bytes of a store.
func TestEncryptedStoresRevealNothing(t *testing.T) {
	disk := vfs.NewMem()
	s := withKeys(t, inMemory(t, disk), firstKey)
	m := makeBackup(t, s, "b", "a secret content", strings.Repeat("a secret content ", 10_000))
	clear := withKeys(t, inMemory(t, vfs.NewMem()), "")
	makeBackup(t, clear, "b", "a secret content")
	for _, o := range m.Objects() {
		if name := nameOf(t, s, o); strings.Contains(name, o.SHA256) {
			t.Errorf("the name of an object is its hash: %s", name)
		}
	}
	words := []string{"secret content", "000000.sst", "catalog", m.Shares[0].Files[0].SHA256}
	for store, secret := range map[*Store]bool{s: true, clear: false} {
		found := map[string]bool{}
		everyFile(t, store, ".", func(name string, b []byte) {
			for _, word := range words {
				found[word] = found[word] || strings.Contains(name, word) || bytes.Contains(b, []byte(word))
			}
		})
		for _, word := range words {
			if found[word] == secret {
				t.Errorf("%q in an encrypted store (%v): %v", word, secret, found[word])
			}
		}
	}
}

// everyFile calls f with the names and bytes of all files in a directory of a store.
func everyFile(t *testing.T, s *Store, dir string, f func(name string, b []byte)) {
	t.Helper()
	names, err := s.files.list(t.Context(), dir)
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range names {
		name = strings.TrimPrefix(dir+"/"+name, "./")
		if b, err := small(t.Context(), s.files.files, name, 1<<30); err == nil {
			f(name, b)
		} else {
			everyFile(t, s, name, f)
		}
	}
}

// FuzzLayout decodes and unwraps layouts.
func FuzzLayout(f *testing.F) {
	keys, err := encryption.ParseKeys(firstKey)
	if err != nil {
		f.Fatal(err)
	}
	l, err := wrap(now(), keys, make([]byte, seal.KeyBytes))
	if err != nil {
		f.Fatal(err)
	}
	for format, l := range map[int]*layout{Format: {Created: now()}, encryptedFormat: l} {
		b, err := encodeFormat(l, format)
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		l, err := decodeLayout(b)
		if err != nil {
			return
		}
		if key, err := l.unwrap(keys); err == nil && (key == nil) != (l.Encryption == nil) {
			t.Errorf("%+v has key %v", l, key)
		}
	})
}
