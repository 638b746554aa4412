package ring

import (
	"encoding/binary"
	"math"
	"math/bits"

	"github.com/spaolacci/murmur3"
)

// Murmur3 returns the token of a partition key as org.apache.cassandra.dht.Murmur3Partitioner does: the first half of
// murmur3 x64-128, with the tail bytes sign-extended like Java's bytes, and with the least long mapped to the
// greatest. The empty key, which no row can have, precedes all others.
func Murmur3(key []byte) Token {
	if len(key) == 0 {
		return MinToken
	}
	tail := key[len(key)&^15:]
	var h uint64
	// Without a byte of 0x80 or more in the tail, the library computes the same hash.
	if signedTail(tail) {
		h = murmur3Signed(key, tail)
	} else {
		h, _ = murmur3.Sum128(key)
	}
	if t := Token(h); t != math.MinInt64 {
		return t
	}
	return MaxToken
}

// signedTail reports whether the sign extension of the tail changes the hash.
func signedTail(tail []byte) bool {
	for _, b := range tail {
		if b >= 0x80 {
			return true
		}
	}
	return false
}

const (
	murmurC1 = 0x87c37b91114253d5
	murmurC2 = 0x4cf5ad432745937f
)

// murmur3Signed is the first half of murmur3 x64-128 with seed 0, where bytes of the tail are sign-extended. The body
// is read as 64-bit words, so the sign of its bytes does not matter.
func murmur3Signed(key, tail []byte) uint64 {
	var h1, h2 uint64
	for body := key[:len(key)-len(tail)]; len(body) > 0; body = body[16:] {
		k1, k2 := binary.LittleEndian.Uint64(body), binary.LittleEndian.Uint64(body[8:])
		h1 = (bits.RotateLeft64(h1^mixK1(k1), 27)+h2)*5 + 0x52dce729
		h2 = (bits.RotateLeft64(h2^mixK2(k2), 31)+h1)*5 + 0x38495ab5
	}
	var k1, k2 uint64
	for i := len(tail) - 1; i >= 0; i-- {
		b := uint64(int64(int8(tail[i]))) // the sign extends to all higher bytes
		if i >= 8 {
			k2 ^= b << (8 * (i - 8))
		} else {
			k1 ^= b << (8 * i)
		}
	}
	// A tail of at most 8 bytes leaves k2 zero, whose mix is zero.
	h1 ^= mixK1(k1)
	h2 ^= mixK2(k2)
	n := uint64(len(key))
	h1 ^= n
	h2 ^= n
	h1 += h2
	h2 += h1
	h1, h2 = fmix(h1), fmix(h2)
	return h1 + h2
}

func mixK1(k uint64) uint64 { return bits.RotateLeft64(k*murmurC1, 31) * murmurC2 }
func mixK2(k uint64) uint64 { return bits.RotateLeft64(k*murmurC2, 33) * murmurC1 }

// fmix is the finalizer of murmur3.
func fmix(h uint64) uint64 {
	h ^= h >> 33
	h *= 0xff51afd7ed558ccd
	h ^= h >> 33
	h *= 0xc4ceb9fe1a85ec53
	return h ^ h>>33
}
