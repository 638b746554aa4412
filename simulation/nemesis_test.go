package simulation

import (
	"maps"
	"slices"
	"testing"
)

// TestEveryFaultKindStrikes compares the kinds that seeds draw with the faults that the nemesis can cause.
func TestEveryFaultKindStrikes(t *testing.T) {
	c := &Cluster{}
	c.operator, c.verify = &operator{c: c}, &verifier{c: c}
	strikes := slices.Sorted(maps.Keys(newNemesis(c).strikes))
	if drawn := slices.Sorted(slices.Values(faultKinds())); !slices.Equal(drawn, strikes) {
		t.Errorf("seeds draw the kinds %v, but the nemesis causes %v", drawn, strikes)
	}
}
