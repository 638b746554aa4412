package meetings

import (
	"maps"
	"testing"
	"time"

	"cqld/simulation/kernel"
)

func never() bool { return false }

// TestOperationsMeetWhileInProgress begins operations before, during and after others.
func TestOperationsMeetWhileInProgress(t *testing.T) {
	k := kernel.New()
	m := New(k)
	end := m.Begin(Repair, time.Minute)
	m.Begin(Repair, time.Minute) // of the same kind: no pair
	m.Saw(Move, true)
	m.Saw(Move, true) // still the same one
	end()
	m.Saw(Move, false)
	m.Begin(Hints, time.Second) // meets the second repair only
	k.RunUntil(2*time.Minute, never)
	m.Begin(Join, time.Second) // all others have ended or are over
	want := map[Pair]int{{Move, Repair}: 2, {Repair, Hints}: 1}
	if !maps.Equal(m.Met(), want) {
		t.Errorf("%v have met, not %v", m.Met(), want)
	}
}

// TestPairsAreInOrder compares both orders of all pairs.
func TestPairsAreInOrder(t *testing.T) {
	for i, a := range Operations() {
		for _, b := range Operations()[i+1:] {
			if PairOf(a, b) != (Pair{a, b}) || PairOf(b, a) != (Pair{a, b}) {
				t.Errorf("the pairs of %s and %s are %v and %v", a, b, PairOf(a, b), PairOf(b, a))
			}
		}
	}
}
