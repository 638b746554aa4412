package repair

import (
	"slices"
	"testing"
)

// TestShellPerformsOneAtATime delivers events while an effect is performed and while a goroutine is scheduled. The
// effects are performed one at a time in the order of the events, and at most one goroutine performs.
func TestShellPerformsOneAtATime(t *testing.T) {
	var scheduled []func()
	for name, run := range map[string]func(func()){"by the caller": nil,
		"scheduled": func(f func()) { scheduled = append(scheduled, f) }} {
		t.Run(name, func(t *testing.T) {
			scheduled = nil
			var performed []int
			busy := false
			s := shell[int, int]{run: run, step: func(ev *int, out []int) []int { return append(out, *ev) }}
			deliver := func(n int) { s.deliver(&n) }
			s.perform = func(n *int) {
				if busy {
					t.Errorf("effect %d is performed while another is", *n)
				}
				busy = true
				performed = append(performed, *n)
				if *n < 10 {
					deliver(10 * *n)
					deliver(10**n + 1)
				}
				busy = false
			}
			for n := 1; n <= 3; n++ {
				deliver(n)
				if len(scheduled) > 1 {
					t.Errorf("%d goroutines are scheduled", len(scheduled))
				}
			}
			for len(scheduled) > 0 {
				f := scheduled[0]
				scheduled = scheduled[1:]
				f()
			}
			deliver(99) // after a goroutine has ended
			for _, f := range scheduled {
				f()
			}
			want := []int{1, 10, 11, 2, 20, 21, 3, 30, 31, 99}
			if run != nil {
				want = []int{1, 2, 3, 10, 11, 20, 21, 30, 31, 99}
			}
			if !slices.Equal(performed, want) {
				t.Errorf("performed in the order %v, want %v", performed, want)
			}
		})
	}
}

// TestShellPerformsAfterPanic delivers events after an effect has panicked, as a node's guard permits. The other
// effects are performed in order, and the one that panicked is not repeated.
func TestShellPerformsAfterPanic(t *testing.T) {
	for name, run := range map[string]func(func()){"by the caller": nil, "scheduled": func(f func()) { f() }} {
		t.Run(name, func(t *testing.T) {
			var performed []int
			s := shell[int, int]{run: run, step: func(ev *int, out []int) []int { return append(out, *ev, *ev+1) }}
			s.perform = func(n *int) {
				performed = append(performed, *n)
				if *n == 10 {
					panic("an effect")
				}
			}
			deliver := func(n int) (panicked bool) {
				defer func() { panicked = recover() != nil }()
				s.deliver(&n)
				return false
			}
			for _, n := range []int{1, 10, 20, 30} {
				if panicked := deliver(n); panicked != (n == 10) {
					t.Errorf("event %d: panicked %t", n, panicked)
				}
			}
			if want := []int{1, 2, 10, 11, 20, 21, 30, 31}; !slices.Equal(performed, want) {
				t.Errorf("performed in the order %v, want %v", performed, want)
			}
		})
	}
}
