package env

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// movedClock is a clock that tests set.
type movedClock struct {
	Clock
	now time.Duration
}

func (c *movedClock) Monotonic() time.Duration { return c.now }

func TestCancelReasons(t *testing.T) {
	var none *Cancel
	if none.Cancel(); none.Err() != nil {
		t.Error("no Cancel has ended")
	}
	ctx, end := context.WithCancel(context.Background())
	parent := NewCancel(ctx)
	clock := &movedClock{}
	child := parent.Child(clock, time.Second)
	if parent.Err() != nil || child.Err() != nil {
		t.Error("they ended before any event")
	}
	clock.now = time.Second
	if err := child.Err(); !errors.Is(err, context.DeadlineExceeded) || parent.Err() != nil {
		t.Errorf("after the child's deadline: %v, %v", err, parent.Err())
	}
	clock.now = 0
	if end(); !errors.Is(child.Err(), ErrCanceled) {
		t.Errorf("after the context: %v", child.Err())
	}
	parent = NewCancel(context.Background())
	child = parent.Child(clock, 0)
	if child.Cancel(); !errors.Is(child.Err(), ErrCanceled) || parent.Err() != nil {
		t.Errorf("canceled child: %v, its parent %v", child.Err(), parent.Err())
	}
}

func TestHooksAreCalledOnceOrRemoved(t *testing.T) {
	c := NewCancel(context.Background())
	called := 0
	kept, gone := c.OnCancel(func() { called++ }), c.OnCancel(func() { t.Error("a removed hook was called") })
	if !gone() || gone() {
		t.Error("a hook is removed once")
	}
	c.Cancel()
	c.Cancel()
	if called != 1 || kept() {
		t.Errorf("called %d times, and can be removed afterwards", called)
	}
	if late := c.OnCancel(func() { called++ }); called != 2 || late() {
		t.Error("a late hook was not called immediately")
	}
}

// TestEachHookIsCalledOrRemoved registers and removes random hooks, many times each, while another goroutine cancels:
// each registration ends with exactly one call or one removal.
func TestEachHookIsCalledOrRemoved(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 0))
		c := NewCancel(context.Background())
		type operation struct {
			hook                     Hook
			watched, called, removed int
		}
		all := make([]operation, 1+r.IntN(8))
		var mu sync.Mutex // guards called
		for i := range all {
			x := &all[i]
			x.hook.F = func() {
				mu.Lock()
				defer mu.Unlock()
				x.called++
			}
		}
		var canceled sync.WaitGroup
		at := r.IntN(60)
		for step := range 60 {
			if step == at {
				canceled.Go(c.Cancel)
			}
			x := &all[r.IntN(len(all))]
			if x.watched > 0 && c.Remove(&x.hook) {
				x.removed++
			}
			mu.Lock()
			pending := x.watched - x.called - x.removed // the call may be in progress: the memory is not reused then
			mu.Unlock()
			if pending == 0 {
				c.Watch(&x.hook)
				x.watched++
			}
		}
		canceled.Wait()
		for i := range all {
			if x := &all[i]; x.watched != x.called+x.removed || c.Remove(&x.hook) {
				t.Fatalf("seed %d: hook %d was registered %d times, called %d and removed %d times", seed, i,
					x.watched, x.called, x.removed)
			}
		}
	}
}

// TestHooksOfOperationsAllocateNothing registers the hook of an operation that is reused.
func TestHooksOfOperationsAllocateNothing(t *testing.T) {
	c := NewCancel(context.Background())
	h := &Hook{F: func() {}}
	if n := testing.AllocsPerRun(100, func() {
		c.Watch(h)
		c.Remove(h)
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

func TestWaitEndsWithContext(t *testing.T) {
	ctx, end := context.WithCancel(context.Background())
	w, c := NewChannelWaiter(), NewCancel(ctx)
	c.OnCancel(w.Signal)
	time.AfterFunc(time.Millisecond, end)
	WaitOrCancel(ctx, w, c) // the hook signals
	w.Signal()
	WaitOrCancel(context.Background(), w, c)
}
