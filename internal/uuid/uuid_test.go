package uuid

import (
	"bytes"
	"encoding/hex"
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestOfNode compares UUIDs with RFC 9562's layout (time_low, time_mid, version and time_high, variant and sequence,
// node), computed by hand.
func TestOfNode(t *testing.T) {
	for _, c := range []struct {
		timestamp int64
		node      uint64
		want      string
	}{
		{0, 1, "13814000" + "1dd2" + "11b2" + "8000" + "010000000001"}, // 1970: 0x01b21dd213814000 ticks since 1582
		{1, 1, "1381400a" + "1dd2" + "11b2" + "8000" + "010000000001"},
		{0, 0x123456789abc, "13814000" + "1dd2" + "11b2" + "8000" + "253456789abc"}, // 0x12<<1 | multicast
		{0, math.MaxUint64, "13814000" + "1dd2" + "11b2" + "8000" + "ffffffffffff"},
	} {
		if id := OfNode(c.timestamp, c.node); hex.EncodeToString(id[:]) != c.want {
			t.Errorf("OfNode(%d, %#x) = %x, want %s", c.timestamp, c.node, id, c.want)
		}
	}
}

// TestVersions checks version, variant and multicast bit of generated UUIDs, and that no two are equal although the
// clock stands still.
func TestVersions(t *testing.T) {
	source := New(rand.NewPCG(1, 2))
	seen := map[[16]byte]bool{}
	for range 1000 {
		random, timed := source.RandomUUID(), source.TimeUUID(1)
		for version, id := range map[byte][16]byte{4: random, 1: timed} {
			if id[6]>>4 != version || id[8]>>6 != 2 {
				t.Fatalf("%x has version %d and variant bits %b, want %d and 10", id, id[6]>>4, id[8]>>6, version)
			}
			if seen[id] {
				t.Fatalf("%x was returned twice", id)
			}
			seen[id] = true
		}
		if timed[10]&1 == 0 {
			t.Fatalf("%x has the node part of a network card", timed)
		}
	}
}

// stamps are timestamps that ascend by one.
type stamps int64

func (s *stamps) Next() int64 { *s++; return int64(*s) }

// TestPositions checks that elements that one write appends are in the order of their paths, elements that it prepends
// are in the reverse order, and that both surround the elements of earlier writes.
func TestPositions(t *testing.T) {
	source := New(rand.NewPCG(1, 2))
	now := stamps(1_700_000_000_000_000)
	var list [][]byte
	for range 3 {
		p := source.From(&now)
		for range 5 {
			list = append(list, p.Append())
			list = slices.Insert(list, 0, p.Prepend())
		}
	}
	if !slices.IsSortedFunc(list, bytes.Compare) {
		t.Errorf("the paths are not sorted: %x", list)
	}
	at := int64(now)
	plain, ballot := source.At(at), source.Ballot(at)
	if a, b := plain.Append(), ballot.Append(); bytes.Equal(a, b) {
		t.Errorf("a conditional change and another one have the same path %x", a)
	}
}
