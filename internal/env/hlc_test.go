package env

import (
	"errors"
	"sync"
	"testing"
	"time"
)

// fixedClock stands still until a test moves it.
type fixedClock struct{ now time.Time }

func (c *fixedClock) Now() time.Time                    { return c.now }
func (c *fixedClock) Monotonic() time.Duration          { return 0 }
func (c *fixedClock) After(time.Duration, func()) Timer { return nil }

func TestTimestampsIncreaseDespiteClock(t *testing.T) {
	c := &fixedClock{time.UnixMicro(1_000_000)}
	h := NewHLC(c, time.Second)
	last := int64(0)
	for i, step := range []time.Duration{0, 0, time.Millisecond, -time.Hour, 0, 2 * time.Hour} {
		c.now = c.now.Add(step)
		if s := h.Next(); s <= last {
			t.Errorf("step %d: stamp %d is not after %d", i, s, last)
		} else {
			last = s
		}
	}
}

func TestStampsAreGivenOnce(t *testing.T) {
	h := NewHLC(&fixedClock{time.UnixMicro(1)}, time.Second)
	var mu sync.Mutex
	seen := map[int64]bool{}
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for range 1000 {
				s := h.Next()
				mu.Lock()
				if seen[s] {
					t.Errorf("%d was given twice", s)
				}
				seen[s] = true
				mu.Unlock()
			}
		})
	}
	wg.Wait()
}

func TestOtherClocksAreFollowedUpToABound(t *testing.T) {
	c := &fixedClock{time.UnixMicro(1_000_000)}
	h := NewHLC(c, time.Second)
	if err := h.Observe(1_500_000); err != nil {
		t.Fatal(err)
	}
	if s := h.Next(); s != 1_500_001 {
		t.Errorf("got %d", s)
	}
	if err := h.Observe(2_000_001); !errors.Is(err, ErrClockAhead) {
		t.Errorf("got %v", err)
	}
	if s := h.Next(); s != 1_500_002 {
		t.Errorf("a refused stamp was followed: %d", s)
	}
	if err := h.Observe(3); err != nil || h.Last() != 1_500_002 {
		t.Errorf("an old stamp changed the clock: %v, %d", err, h.Last())
	}
}
