package seal

import (
	"bytes"
	"errors"
	"io"
	"math/rand/v2"
	"testing"
	"testing/iotest"
)

// key returns a key of a test.
func key(t testing.TB, first byte) *Key {
	t.Helper()
	secret := make([]byte, KeyBytes)
	secret[0] = first
	k, err := New(secret)
	if err != nil {
		t.Fatal(err)
	}
	return k
}

// sealAll returns a sealed file.
func sealAll(t testing.TB, k *Key, name string, salt Salt, content []byte) []byte {
	t.Helper()
	r, err := k.Seal(name, salt, bytes.NewReader(content), int64(len(content)))
	if err != nil {
		t.Fatal(err)
	}
	sealed, err := io.ReadAll(r)
	if err != nil {
		t.Fatal(err)
	}
	return sealed
}

// openAll returns the content of a sealed file.
func openAll(k *Key, name string, sealed []byte) ([]byte, error) {
	size, err := ContentSize(int64(len(sealed)))
	if err != nil {
		return nil, err
	}
	r, err := k.Open(name, bytes.NewReader(sealed), size)
	if err != nil {
		return nil, err
	}
	return io.ReadAll(r)
}

// sizes are sizes of contents, with those around the borders of chunks.
func sizes() []int {
	return []int{0, 1, 15, 16, 17, 1000, chunkBytes - 1, chunkBytes, chunkBytes + 1, 2*chunkBytes - 1, 2 * chunkBytes,
		3*chunkBytes + 77}
}

// random returns n bytes.
func random(seed uint64, n int) []byte {
	b := make([]byte, n)
	var s [32]byte
	s[0] = byte(seed)
	rand.NewChaCha8(s).Read(b)
	return b
}

// TestSealedFilesHaveTheirContent seals and opens contents of several sizes, as a whole, byte by byte and in parts.
func TestSealedFilesHaveTheirContent(t *testing.T) {
	k, draw := key(t, 1), rand.New(rand.NewPCG(1, 2))
	for _, n := range sizes() {
		content, salt := random(uint64(n), n), k.SaltOf("name", "hash")
		sealed := sealAll(t, k, "name", salt, content)
		if int64(len(sealed)) != Size(int64(n)) {
			t.Fatalf("%d bytes: sealed %d, want %d", n, len(sealed), Size(int64(n)))
		}
		if got, err := openAll(k, "name", sealed); err != nil || !bytes.Equal(got, content) {
			t.Fatalf("%d bytes: %v", n, err)
		}
		slow, err := k.Open("name", iotest.OneByteReader(bytes.NewReader(sealed)), int64(n))
		if err == nil {
			err = iotest.TestReader(slow, content)
		}
		if err != nil {
			t.Fatalf("%d bytes: %v", n, err)
		}
		read := func(b []byte, at int64) error {
			_, err := bytes.NewReader(sealed).ReadAt(b, at)
			return err
		}
		found, err := SaltFrom(read)
		if err != nil || found != salt {
			t.Fatalf("salt %x, %v", found, err)
		}
		for range 200 {
			at := draw.IntN(n + 1)
			b := make([]byte, draw.IntN(n+1-at))
			if err := k.ReadAt("name", salt, b, int64(at), int64(n), read); err != nil ||
				!bytes.Equal(b, content[at:at+len(b)]) {
				t.Fatalf("%d bytes of %d from %d: %v", len(b), n, at, err)
			}
		}
		if err := k.ReadAt("name", salt, make([]byte, 2), int64(n)-1, int64(n), read); err == nil {
			t.Errorf("read after the end of %d bytes", n)
		}
	}
}

// TestOtherFilesAreDamaged opens files with another key, name or salt, with changed bits, and cut or extended ones.
func TestOtherFilesAreDamaged(t *testing.T) {
	k := key(t, 1)
	for _, n := range sizes() {
		content := random(3, n)
		sealed := sealAll(t, k, "name", k.SaltOf("name", "hash"), content)
		damaged := map[string][]byte{"longer": append(bytes.Clone(sealed), 0),
			"with another salt": append(bytes.Clone(sealAll(t, k, "name", Salt{}, content)[:headerBytes]),
				sealed[headerBytes:]...)}
		for _, bit := range []int{0, 8 * len(magic), 8 * headerBytes, 8*len(sealed) - 1} {
			flipped := bytes.Clone(sealed)
			flipped[bit/8] ^= 1 << (bit % 8)
			damaged["with a changed bit "+string(rune('a'+bit%26))] = flipped
		}
		for _, cut := range []int{1, tagBytes, sealedBytes, sealedBytes + 1, len(sealed) - headerBytes, len(sealed)} {
			if cut <= len(sealed) {
				damaged["cut "+string(rune('a'+cut%26))] = sealed[:len(sealed)-cut]
			}
		}
		for what, b := range damaged {
			if _, err := openAll(k, "name", b); !errors.Is(err, ErrDamaged) {
				t.Errorf("%d bytes, %s: %v", n, what, err)
			}
		}
		if _, err := openAll(k, "other", sealed); !errors.Is(err, ErrDamaged) {
			t.Errorf("another name: %v", err)
		}
		if _, err := openAll(key(t, 2), "name", sealed); !errors.Is(err, ErrDamaged) {
			t.Errorf("another key: %v", err)
		}
	}
	if key(t, 1).Name("h") != k.Name("h") || k.Name("h") == k.Name("g") || key(t, 2).Name("h") == k.Name("h") ||
		!k.Same(key(t, 1)) || k.Same(key(t, 2)) || k.Same(nil) {
		t.Error("names of objects do not follow from key and content")
	}
}

// FuzzOpen opens files and parts of them. Only what Seal returns is accepted.
func FuzzOpen(f *testing.F) {
	k := key(f, 1)
	for _, n := range []int{0, 5, 100} {
		f.Add(sealAll(f, k, "name", k.SaltOf("name", "hash"), random(1, n)), uint32(0), uint32(n))
	}
	f.Add([]byte(magic), uint32(1), uint32(1))
	f.Fuzz(func(t *testing.T, b []byte, at, n uint32) {
		content, err := openAll(k, "name", b)
		if err == nil {
			salt, err := saltIn(b)
			if err != nil || !bytes.Equal(sealAll(t, k, "name", salt, content), b) {
				t.Fatalf("%x was accepted", b)
			}
		}
		part := make([]byte, n%(1<<20))
		size, sizeErr := ContentSize(int64(len(b)))
		read := func(p []byte, at int64) error {
			_, err := bytes.NewReader(b).ReadAt(p, at)
			return err
		}
		salt, saltErr := SaltFrom(read)
		if sizeErr != nil || saltErr != nil {
			return
		}
		failed := k.ReadAt("name", salt, part, int64(at), size, read)
		if err == nil && failed == nil && !bytes.Equal(part, content[at:int64(at)+int64(len(part))]) {
			t.Fatalf("part %x of %x", part, content)
		}
	})
}

// BenchmarkSeal measures how fast one core seals and opens contents of 64 MiB.
func BenchmarkSeal(b *testing.B) {
	k, content := key(b, 1), random(1, 64<<20)
	sealed := sealAll(b, k, "name", Salt{}, content)
	for what, run := range map[string]func() (io.Reader, error){
		"seal": func() (io.Reader, error) {
			return k.Seal("name", Salt{}, bytes.NewReader(content), int64(len(content)))
		},
		"open": func() (io.Reader, error) { return k.Open("name", bytes.NewReader(sealed), int64(len(content))) },
	} {
		b.Run(what, func(b *testing.B) {
			b.SetBytes(int64(len(content)))
			buffer := make([]byte, 256<<10)
			for b.Loop() {
				r, err := run()
				if err == nil {
					_, err = io.CopyBuffer(struct{ io.Writer }{io.Discard}, struct{ io.Reader }{r}, buffer)
				}
				if err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}
