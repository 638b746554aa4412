package env

import (
	"context"
	"errors"
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
		t.Error("a late hook was not called at once")
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
