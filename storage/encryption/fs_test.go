package encryption

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// testKeys returns keys that are derived from numbers.
func testKeys(tb testing.TB, numbers ...byte) *Keys {
	tb.Helper()
	var text strings.Builder
	for _, n := range numbers {
		fmt.Fprintf(&text, "%02x%s\n", n, strings.Repeat("5a", keyBytes-1))
	}
	k, err := ParseKeys(text.String())
	if err != nil {
		tb.Fatal(err)
	}
	return k
}

// random returns a stream of random bytes. Its Read never fails.
func random(seed byte) io.Reader { return rand.NewChaCha8([32]byte{seed}) }

// write writes a file and closes it.
func write(tb testing.TB, disk vfs.FS, name, content string) {
	tb.Helper()
	f, err := disk.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		tb.Fatal(err)
	}
	_, err = f.Write([]byte(content))
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		tb.Fatal(err)
	}
}

// read returns the content of a file.
func read(tb testing.TB, disk vfs.FS, name string) string {
	tb.Helper()
	f, err := disk.Open(name)
	if err != nil {
		tb.Fatal(err)
	}
	b, err := io.ReadAll(f)
	if err := errors.Join(err, f.Close()); err != nil {
		tb.Fatal(err)
	}
	return string(b)
}

// TestFilesEqualThoseOfAPlainFileSystem does random operations on an encrypted and on a plain file system, and compares
// names, sizes, contents and errors. The encrypted one is opened again with other keys between them.
func TestFilesEqualThoseOfAPlainFileSystem(t *testing.T) {
	seeds := uint64(40)
	if testing.Short() {
		seeds = 5
	}
	for seed := range seeds {
		r := rand.New(rand.NewPCG(seed, 1))
		below, plain := vfs.NewMem(), vfs.NewMem()
		m := &model{t: t, r: r, below: below, plain: plain, encrypted: New(below, testKeys(t, 1), random(byte(seed)))}
		for range 300 {
			m.step()
		}
		m.compare()
	}
}

// model compares an encrypted file system with a plain one.
type model struct {
	t            *testing.T
	r            *rand.Rand
	below, plain *vfs.MemFS
	encrypted    *FS
	keys         byte
}

// name draws one of a few names.
func (m *model) name() string { return string(rune('a' + m.r.IntN(6))) }

// step does one operation on both file systems.
func (m *model) step() {
	switch m.r.IntN(9) {
	case 0, 1:
		m.create(m.name())
	case 2:
		from, to := m.name(), m.name()
		m.same("rename", m.encrypted.Rename(from, to), m.plain.Rename(from, to))
	case 3:
		from, to := m.name(), m.name()
		m.same("link", m.encrypted.Link(from, to), m.plain.Link(from, to))
	case 4:
		name := m.name()
		m.same("remove", m.encrypted.Remove(name), m.plain.Remove(name))
	case 5:
		m.reuse(m.name(), m.name())
	case 6:
		m.readAt(m.name())
	case 7: // a node starts with a new key, and the old one to read, or writes in clear
		m.keys++
		keys := []byte{1 + m.keys%3, 1 + (m.keys+1)%3, 1 + (m.keys+2)%3}
		m.encrypted = New(m.below, testKeys(m.t, keys...), random(m.keys))
		if m.r.IntN(3) == 0 {
			m.encrypted = New(m.below, m.encrypted.keys.Decrypting(), random(m.keys))
		}
	case 8:
		stale, err := m.encrypted.Stale("")
		if err != nil {
			m.t.Fatal(err)
		}
		for _, s := range stale {
			if n, err := m.encrypted.Rewrite(m.t.Context(), s, nil); err != nil || n != len(s.Paths) {
				m.t.Fatal(n, err)
			}
		}
		if stale, err := m.encrypted.Stale(""); err != nil || len(stale) > 0 {
			m.t.Fatal(stale, err)
		}
	}
}

// same fails if only one of two errors is nil, or if only one is fs.ErrNotExist.
func (m *model) same(what string, a, b error) {
	m.t.Helper()
	if (a == nil) != (b == nil) || errors.Is(a, fs.ErrNotExist) != errors.Is(b, fs.ErrNotExist) {
		m.t.Fatalf("%s: %v with encryption, %v without", what, a, b)
	}
}

// fill writes the same random parts to both files, and closes them.
func (m *model) fill(a, b vfs.File) {
	end := int64(0)
	for range m.r.IntN(6) {
		part := make([]byte, m.r.IntN(5000))
		if m.r.IntN(10) == 0 {
			part = make([]byte, scratchMax+m.r.IntN(scratchMax))
		}
		random(byte(m.r.Uint32())).Read(part)
		kept := bytes.Clone(part)
		if n, err := a.Write(part); n != len(part) || err != nil {
			m.t.Fatal(n, err)
		}
		// A file in clear is one of MemFS, which changes the argument in builds with invariants.
		if _, encrypts := a.(*file); encrypts && !bytes.Equal(part, kept) {
			m.t.Fatal("Write changed its argument")
		}
		if _, err := b.Write(bytes.Clone(kept)); err != nil {
			m.t.Fatal(err)
		}
		end += int64(len(kept))
		if m.r.IntN(4) == 0 { // as zeros ahead of a log
			// Without a gap, which would read as zeros on the plain file system only.
			ahead := make([]byte, m.r.IntN(100))
			_, aerr := a.WriteAt(ahead, end)
			_, berr := b.WriteAt(ahead, end)
			m.same("write at", aerr, berr)
		}
	}
	x, xerr := a.Stat()
	y, yerr := b.Stat()
	if xerr != nil || yerr != nil {
		m.t.Fatal(xerr, yerr)
	}
	if x.Size() != y.Size() {
		m.t.Fatalf("%d bytes, want %d", x.Size(), y.Size())
	}
	m.same("sync and close", errors.Join(a.Sync(), a.Close()), errors.Join(b.Sync(), b.Close()))
}

// create writes a new file.
func (m *model) create(name string) {
	a, aerr := m.encrypted.Create(name, vfs.WriteCategoryUnspecified)
	b, berr := m.plain.Create(name, vfs.WriteCategoryUnspecified)
	if aerr != nil || berr != nil {
		m.t.Fatal(aerr, berr)
	}
	m.fill(a, b)
}

// reuse writes a file that replaces another one. The plain file system keeps the rest of the old content, which the
// encrypted one must not have.
func (m *model) reuse(from, to string) {
	if _, err := m.plain.Stat(from); err != nil {
		return
	}
	a, err := m.encrypted.ReuseForWrite(from, to, vfs.WriteCategoryUnspecified)
	if err != nil {
		m.t.Fatal(err)
	}
	if err := m.plain.Remove(from); err != nil {
		m.t.Fatal(err)
	}
	b, err := m.plain.Create(to, vfs.WriteCategoryUnspecified)
	if err != nil {
		m.t.Fatal(err)
	}
	m.fill(a, b)
}

// readAt compares parts of a file.
func (m *model) readAt(name string) {
	a, aerr := m.encrypted.Open(name)
	b, berr := m.plain.Open(name)
	m.same("open", aerr, berr)
	if aerr != nil {
		return
	}
	defer a.Close()
	defer b.Close()
	info, err := b.Stat()
	if err != nil {
		m.t.Fatal(err)
	}
	for range 10 {
		x, y := make([]byte, m.r.IntN(3000)), make([]byte, 3000)
		y = y[:len(x)]
		at := m.r.Int64N(info.Size() + 100)
		n, aerr := a.ReadAt(x, at)
		k, berr := b.ReadAt(y, at)
		if n != k || errors.Is(aerr, io.EOF) != errors.Is(berr, io.EOF) || !bytes.Equal(x[:n], y[:k]) {
			m.t.Fatalf("%d bytes at %d of %s: %d, %v; want %d, %v", len(x), at, name, n, aerr, k, berr)
		}
	}
}

// compare compares all files.
func (m *model) compare() {
	a, aerr := m.encrypted.List("")
	b, berr := m.plain.List("")
	slices.Sort(a)
	slices.Sort(b)
	if aerr != nil || berr != nil || !slices.Equal(a, b) {
		m.t.Fatal(a, b, aerr, berr)
	}
	for _, name := range a {
		x, xerr := m.encrypted.Stat(name)
		y, yerr := m.plain.Stat(name)
		if xerr != nil || yerr != nil || x.Size() != y.Size() || read(m.t, m.encrypted, name) !=
			read(m.t, m.plain, name) {
			m.t.Fatalf("%s differs: %v %v", name, xerr, yerr)
		}
	}
}

// TestNothingIsInClear writes a text in parts and at offsets, and searches the disk for it. Equal files must differ.
func TestNothingIsInClear(t *testing.T) {
	below := vfs.NewMem()
	disk := New(below, testKeys(t, 1), random(1))
	secret := strings.Repeat("SECRET0123456789", 1000)
	for _, name := range []string{"a", "b"} {
		write(t, disk, name, secret)
	}
	f, err := disk.ReuseForWrite("b", "c", vfs.WriteCategoryUnspecified)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.Write([]byte(secret))
	if err := errors.Join(err, f.Close()); err != nil {
		t.Fatal(err)
	}
	a, c := read(t, below, "a"), read(t, below, "c")
	if strings.Contains(a+c, "SECRET") || strings.Contains(a+c, "0123") {
		t.Error("the text is on the disk")
	}
	if a[headerBytes:] == c[headerBytes:] {
		t.Error("a reused file has the key stream of the old one")
	}
	// The two contents of one name must not show their difference either.
	if len(a) != headerBytes+len(secret) {
		t.Errorf("%d bytes on disk", len(a))
	}
}

// TestKeysThatAreMissing opens files with other keys, with none, and with a damaged header.
func TestKeysThatAreMissing(t *testing.T) {
	below := vfs.NewMem()
	one := testKeys(t, 1)
	write(t, New(below, one, random(1)), "a", "content")
	write(t, below, "clear", "content")
	if err := Check(below, one, ""); err != nil {
		t.Error(err)
	}
	for name, keys := range map[string]*Keys{"another key": testKeys(t, 2, 3), "no key": nil} {
		var unknown *UnknownKey
		if err := Check(below, keys, ""); !errors.As(err, &unknown) || unknown.Path != "a" ||
			unknown.Key != one.Newest() || !strings.Contains(err.Error(), one.Newest().String()) {
			t.Errorf("%s: %v", name, err)
		}
	}
	disk := New(below, testKeys(t, 2), random(2))
	if _, err := disk.Open("a"); !errors.As(err, new(*UnknownKey)) || pebble.IsCorruptionError(err) {
		t.Error(err)
	}
	if got := read(t, disk, "clear"); got != "content" {
		t.Error(got)
	}
	// A damaged header counts as corruption, even if its key appears to be another one.
	whole := read(t, below, "a")
	for at := range fieldsBytes {
		b := []byte(whole)
		b[at] ^= 4
		write(t, below, "a", string(b))
		disk := New(below, one, random(1))
		if info, err := disk.Stat("a"); err != nil || info.Size() != int64(len("content")) {
			t.Fatalf("byte %d: %v, %v", at, info, err)
		}
		_, err := disk.Open("a")
		if !pebble.IsCorruptionError(err) {
			t.Fatalf("byte %d: %v", at, err)
		}
		if err := Check(below, one, ""); err != nil {
			t.Fatalf("byte %d stops the start: %v", at, err)
		}
	}
}

// TestTornHeader cuts a file within its header and before it, as a power failure does before the first sync.
func TestTornHeader(t *testing.T) {
	below := vfs.NewMem()
	disk := New(below, testKeys(t, 1), random(1))
	write(t, disk, "a", "content")
	whole := read(t, below, "a")
	for size, want := range map[int]int64{0: 0, 512: 0, 4095: 0, 4096: 0, 4097: 1} {
		write(t, below, "a", whole[:size])
		info, err := disk.Stat("a")
		if err != nil || info.Size() != want || read(t, disk, "a") != "content"[:want] {
			t.Errorf("%d bytes on disk: %v, %v", size, info, err)
		}
	}
	// The first sector was not written: the file begins with zeros, which are no header.
	write(t, below, "a", strings.Repeat("\x00", 512)+whole[512:])
	if got := read(t, disk, "a"); len(got) != len(whole) || got[:512] != strings.Repeat("\x00", 512) {
		t.Error("zeros are not read as zeros")
	}
}

// TestParseKeys reads key files.
func TestParseKeys(t *testing.T) {
	const hexKey = "000102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	const base64Key = "AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8="
	const other = "100102030405060708090a0b0c0d0e0f101112131415161718191a1b1c1d1e1f"
	for text, want := range map[string]string{
		hexKey + "\n": "",
		base64Key:     "",
		"# the new key\n" + other + "\n\n" + hexKey: "",
		other + "," + hexKey + " # old":             "",
		"":                                          "no key",
		"# nothing":                                 "no key",
		hexKey + "\n" + base64Key:                   "line 2: key",
		hexKey[:62]:                                 "is not 32 bytes",
		"x" + hexKey[1:]:                            "is not 32 bytes",
		strings.Repeat("0", 64):                     "all bytes",
	} {
		k, err := ParseKeys(text)
		if want == "" != (err == nil) || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", text, err)
		}
		if err != nil && len(text) > 8 && strings.Contains(err.Error(), text[:8]) {
			t.Errorf("the error contains the key: %v", err)
		}
		if err == nil && strings.Contains(text, other) && k.Newest() == k.IDs()[1] {
			t.Error("the first key is not the newest")
		}
	}
	a, err := ParseKeys(hexKey)
	if err != nil {
		t.Fatal(err)
	}
	b, err := ParseKeys(base64Key)
	if err != nil || a.Newest() != b.Newest() {
		t.Errorf("one key has the ids %s and %s", a.Newest(), b.Newest())
	}
}

// FuzzHeader opens files with any beginning: no input panics, and only a header with the right key decrypts.
func FuzzHeader(f *testing.F) {
	below := vfs.NewMem()
	keys := testKeys(f, 1)
	write(f, New(below, keys, random(1)), "a", "content")
	f.Add([]byte(read(f, below, "a")))
	f.Add([]byte(magic))
	f.Add([]byte{})
	f.Fuzz(func(t *testing.T, b []byte) {
		below := vfs.NewMem()
		write(t, below, "a", string(b))
		disk := New(below, keys, random(2))
		file, err := disk.Open("a")
		if err != nil {
			var h header
			copy(h[:], b)
			if !h.encrypted() {
				t.Fatalf("a file in clear is refused: %v", err)
			}
			return
		}
		content, err := io.ReadAll(file)
		if err := errors.Join(err, file.Close()); err != nil {
			t.Fatal(err)
		}
		info, err := disk.Stat("a")
		if err != nil || info.Size() != int64(len(content)) {
			t.Fatalf("%d bytes read, size %v, %v", len(content), info, err)
		}
	})
}
