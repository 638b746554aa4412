package damage

import (
	"bytes"
	"math/rand/v2"
	"testing"
)

// TestTornSectors tears files: each sector is the old or the new one, synced data have the same length, and none, a
// prefix and any subset of the sectors are drawn.
func TestTornSectors(t *testing.T) {
	before := bytes.Repeat([]byte{1}, 700)
	after := append(bytes.Clone(before), bytes.Repeat([]byte{2}, 4*sectorBytes)...)
	var none, all, holes int
	r := chances{rand.New(rand.NewPCG(1, 2))}
	for range 2000 {
		torn := tornSectors(before, after, r)
		if !bytes.HasPrefix(torn, before) || len(torn) > len(after) {
			t.Fatalf("%d bytes of %d are left, or what was synced is not: %v", len(torn), len(after),
				torn[:len(before)])
		}
		gap, gapped := false, false
		for i := len(before); i < len(torn); i++ {
			switch {
			case torn[i] == 0:
				gap = true
			case torn[i] != 2:
				t.Fatalf("byte %d is %d, which was never written", i, torn[i])
			default:
				gapped = gapped || gap
			}
			if i%sectorBytes != 0 && i > len(before) && torn[i] != torn[i-1] {
				t.Fatalf("the sector of byte %d is torn", i)
			}
		}
		switch {
		case len(torn) == len(before):
			none++
		case bytes.Equal(torn, after):
			all++
		case gapped:
			holes++
		}
	}
	if none == 0 || all == 0 || holes == 0 {
		t.Errorf("of 2000 disks %d lost everything, %d nothing, %d a part", none, all, holes)
	}
}

// chances implements Rand.
type chances struct{ *rand.Rand }

func (c chances) Intn(n int) int    { return c.IntN(n) }
func (c chances) Chance(p int) bool { return c.IntN(1000) < p }
