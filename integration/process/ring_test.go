package process

import (
	"slices"
	"testing"
)

// TestRingsHaveDifferentAddresses prepares a ring while no server of another one runs.
func TestRingsHaveDifferentAddresses(t *testing.T) {
	prepare := func() (*Ring, string) {
		r, err := NewRing("cqld", t.TempDir(), Options{Nodes: 2, Spare: 1})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(r.Stop)
		return r, r.Addresses()
	}
	var seen []string
	for range 3 {
		_, addresses := prepare()
		if slices.Contains(seen, addresses) {
			t.Fatalf("two rings have the addresses %s", addresses)
		}
		seen = append(seen, addresses)
	}
	first, addresses := prepare()
	first.Stop()
	if _, again := prepare(); again != addresses {
		t.Errorf("a ring has the addresses %s, although %s are free again", again, addresses)
	}
}
