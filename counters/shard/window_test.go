package shard

import (
	"errors"
	"math/rand/v2"
	"testing"
)

var errForgotten = errors.New("forgotten")

// TestDuplicateNamesCountOnce enters updates repeatedly and in any order: each is entered once, and none that has left
// the window is entered again.
func TestDuplicateNamesCountOnce(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, limit := range []int{1, 8, 1000} {
		w := NewWindows(limit, errForgotten)
		type name struct {
			Process
			sequence uint64
		}
		entered := map[name]int{}
		answers := 0
		asked := 5000
		for i := range asked {
			id := name{Process{1, uint64(rng.IntN(2))}, uint64(1 + max(0, i/3-rng.IntN(20)))}
			if done := w.Enter(id.Process, id.sequence, func(error) { answers++ }); done != nil {
				entered[id]++
				done(nil)
			}
		}
		for id, n := range entered {
			if n != 1 {
				t.Errorf("limit %d: %+v was entered %d times", limit, id, n)
			}
		}
		if answers != asked || len(entered) < 100 {
			t.Errorf("limit %d: %d answers to %d, %d entered", limit, answers, asked, len(entered))
		}
		for _, x := range w.windows {
			if len(x.seen) > limit {
				t.Errorf("limit %d: %d names are kept", limit, len(x.seen))
			}
		}
	}
}

// TestDuplicateMessageWaitsForFirst shows that a duplicate receives the answer of the first message when it is known.
func TestDuplicateMessageWaitsForFirst(t *testing.T) {
	w := NewWindows(10, errForgotten)
	process := Process{Node: 1, Incarnation: 1}
	var got []error
	note := func(err error) { got = append(got, err) }
	done := w.Enter(process, 1, note)
	if w.Enter(process, 1, note) != nil || len(got) != 0 {
		t.Fatal("the second request did not wait")
	}
	failure := errors.New("too few replicas")
	done(failure)
	if w.Enter(process, 1, note) != nil || len(got) != 3 || !errors.Is(got[1], failure) || !errors.Is(got[2], failure) {
		t.Errorf("answers %v", got)
	}
	if w.Enter(Process{}, 0, note) == nil {
		t.Error("an update without an ID was entered")
	}
}
