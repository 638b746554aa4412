package account

import (
	"runtime"
	"testing"
	"time"
)

func TestBudget(t *testing.T) {
	b := NewBudget(1000)
	if !b.reserve(1000) || b.reserve(1) || b.used.Load() != 1000 {
		t.Error("the bound does not hold")
	}
	b.charge(500) // replies exist whether there is room or not
	woken := make(chan struct{})
	go func() {
		b.wait(func() bool { return false })
		close(woken)
	}()
	for b.waiters.Load() != 1 {
		runtime.Gosched()
	}
	b.release(700)
	select {
	case <-woken:
		t.Error("a reader continues at 80 %")
	case <-time.After(10 * time.Millisecond):
	}
	b.release(1)
	<-woken
	b.release(799)
	if b.used.Load() != 0 {
		t.Errorf("%d in use", b.used.Load())
	}
}

// With many waiters and concurrent releases, every waiter must return.
func TestBudgetLosesNoWakeUp(t *testing.T) {
	b := NewBudget(100)
	const n = 8
	done := make(chan struct{})
	for range n {
		go func() {
			for range 2000 {
				b.wait(func() bool { return false })
				b.charge(60)
				b.release(60)
			}
			done <- struct{}{}
		}()
	}
	for range n {
		select {
		case <-done:
		case <-time.After(time.Minute):
			t.Fatal("a waiter was never woken")
		}
	}
}
