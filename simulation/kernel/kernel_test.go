package kernel

import (
	"testing"
	"time"
)

// TestKernelDetectsEndlessEvents runs an event that schedules itself again without a pause. The clock would stand still
// forever.
func TestKernelDetectsEndlessEvents(t *testing.T) {
	k, found := New(), ""
	k.Overrun = func(label string) { found += label }
	var again func()
	again = func() { k.After(0, "again", again) }
	again()
	k.RunUntil(time.Minute, func() bool { return false })
	k.RunUntil(2*time.Minute, func() bool { return false })
	if found != "again" || k.Now() != 2*time.Minute {
		t.Errorf("overrun was called with %q, the time is %v", found, k.Now())
	}
}

// TestKernelAllowsBusySeconds runs as many events in each second as are allowed.
func TestKernelAllowsBusySeconds(t *testing.T) {
	k, n := New(), 0
	k.Overrun = func(label string) { t.Errorf("overrun at %v, after %d events", k.Now(), n) }
	var again func()
	again = func() {
		n++
		k.After(time.Second/EventsMost+1, "again", again)
	}
	again()
	k.RunUntil(3*time.Second, func() bool { return false })
	if n < 2*EventsMost {
		t.Errorf("%d events", n)
	}
}
