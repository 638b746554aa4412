package repair

import (
	"slices"
	"testing"
)

// TestSerialCallsOneAtATime calls do from a running function and while a drain is scheduled. A new function is called
// after the running one, in the order of the calls, and at most one drain runs.
func TestSerialCallsOneAtATime(t *testing.T) {
	var scheduled []func()
	for name, run := range map[string]func(func()){"of the caller": nil,
		"scheduled": func(f func()) { scheduled = append(scheduled, f) }} {
		t.Run(name, func(t *testing.T) {
			scheduled = nil
			s := serial{run: run}
			var called []int
			running := false
			var event func(n int) func()
			event = func(n int) func() {
				return func() {
					if running {
						t.Errorf("function %d is called while another runs", n)
					}
					running = true
					called = append(called, n)
					if n < 10 {
						s.do(event(10 * n))
						s.do(event(10*n + 1))
					}
					running = false
				}
			}
			for n := 1; n <= 3; n++ {
				s.do(event(n))
				if len(scheduled) > 1 {
					t.Errorf("%d drains are scheduled", len(scheduled))
				}
			}
			for len(scheduled) > 0 {
				f := scheduled[0]
				scheduled = scheduled[1:]
				f()
			}
			s.do(event(99)) // after a drain has ended
			for _, f := range scheduled {
				f()
			}
			want := []int{1, 10, 11, 2, 20, 21, 3, 30, 31, 99}
			if run != nil {
				want = []int{1, 2, 3, 10, 11, 20, 21, 30, 31, 99}
			}
			if !slices.Equal(called, want) {
				t.Errorf("called in the order %v, want %v", called, want)
			}
		})
	}
}
