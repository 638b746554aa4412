package ring

import (
	"bufio"
	"bytes"
	"encoding/binary"
	"encoding/hex"
	"math/bits"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"

	"github.com/spaolacci/murmur3"
)

// The file was recorded from Cassandra by testdata/Record.java.
func TestTokensAreCassandras(t *testing.T) {
	f, err := os.Open("testdata/tokens.txt")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	lines, part := 0, ""
	for sc := bufio.NewScanner(f); sc.Scan(); {
		if strings.HasPrefix(sc.Text(), "#") {
			part = sc.Text()
			continue
		}
		h, want, _ := strings.Cut(sc.Text(), "\t")
		key, err := hex.DecodeString(h)
		if err != nil {
			t.Fatal(err)
		}
		lines++
		if got := Murmur3(key).String(); got != want {
			t.Errorf("%s: token of %s is %s, Cassandra's is %s", part, h, got, want)
		}
	}
	if lines < 800 {
		t.Errorf("only %d tokens were compared", lines)
	}
}

// Both implementations agree where the fast one may be used, and differ where it may not.
func TestSignedAndFastPathAgreeWithoutSigns(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	differ := 0
	for range 20_000 {
		key := make([]byte, 1+rng.IntN(70))
		for i := range key {
			key[i] = byte(rng.Uint32())
		}
		tail := key[len(key)&^15:]
		fast, _ := murmur3.Sum128(key)
		signed := murmur3Signed(key, tail)
		switch {
		case !signedTail(tail) && fast != signed:
			t.Fatalf("%x: fast %x, signed %x", key, fast, signed)
		case signedTail(tail) && fast != signed:
			differ++
		}
	}
	if differ == 0 {
		t.Error("signs made no difference: the signed path is not used")
	}
}

// No key has the minimum token: a key that hashes to it has the maximum token instead.
func TestNoKeyHasTheLeastToken(t *testing.T) {
	for i := range uint64(100) {
		key := keyThatHashesTo(1<<63, i*0x0123456789ABCDEF)
		if h := murmur3Signed(key, nil); h != 1<<63 {
			t.Fatalf("%x hashes to %x", key, h)
		}
		if tok := Murmur3(key); tok != MaxToken {
			t.Errorf("token of %x is %d", key, tok)
		}
	}
}

// keyThatHashesTo inverts murmur3. It returns one of the 16-byte keys that hash to h.
func keyThatHashesTo(h, any uint64) []byte {
	m1 := unfmix(any)
	m2 := unfmix(h - any)
	h2 := m2 - m1
	h1 := (m1 - h2) ^ 16
	h2 ^= 16
	k2 := bits.RotateLeft64((h2-0x38495ab5)*inverse(5)-h1, -31)
	k1 := bits.RotateLeft64((h1-0x52dce729)*inverse(5), -27)
	k1 = bits.RotateLeft64(k1*inverse(murmurC2), -31) * inverse(murmurC1)
	k2 = bits.RotateLeft64(k2*inverse(murmurC1), -33) * inverse(murmurC2)
	return binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, k1), k2)
}

// unfmix returns the inverse of fmix: a shift by more than half of the bits is its own inverse.
func unfmix(h uint64) uint64 {
	h = (h ^ h>>33) * inverse(0xc4ceb9fe1a85ec53)
	h = (h ^ h>>33) * inverse(0xff51afd7ed558ccd)
	return h ^ h>>33
}

// inverse returns 1/odd modulo 2^64, by Newton's method.
func inverse(odd uint64) uint64 {
	x := odd
	for range 6 {
		x *= 2 - odd*x
	}
	return x
}

func FuzzMurmur3(f *testing.F) {
	f.Add([]byte(nil))
	f.Add([]byte("theo"))
	f.Add(bytes.Repeat([]byte{0x80}, 31))
	f.Add(bytes.Repeat([]byte{0xFF}, 32))
	f.Fuzz(func(t *testing.T, key []byte) {
		tok := Murmur3(key)
		if (tok == MinToken) != (len(key) == 0) {
			t.Errorf("token of %x is %d", key, tok)
		}
		if len(key) > 0 {
			if want := Token(murmur3Signed(key, key[len(key)&^15:])); tok != want && want != MinToken {
				t.Errorf("token of %x is %d, by the signed path %d", key, tok, want)
			}
		}
	})
}

func TestMurmur3DoesNotAllocate(t *testing.T) {
	for _, key := range [][]byte{[]byte("0123456789abcdef0"), {0xFF, 1, 2}} {
		if n := testing.AllocsPerRun(100, func() { Murmur3(key) }); n != 0 {
			t.Errorf("%d bytes: %v allocations", len(key), n)
		}
	}
}

func BenchmarkMurmur3(b *testing.B) {
	for _, n := range []int{4, 16, 60} {
		for name, fill := range map[string]byte{"plain": 1, "signed": 0xFF} {
			b.Run(name+strconv.Itoa(n), func(b *testing.B) {
				key := bytes.Repeat([]byte{fill}, n)
				for b.Loop() {
					Murmur3(key)
				}
			})
		}
	}
}
