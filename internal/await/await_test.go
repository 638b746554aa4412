package await

import (
	"testing"
	"testing/synctest"
	"time"
)

func TestReached(t *testing.T) {
	synctest.Test(t, func(t *testing.T) { // time passes only while all goroutines wait
		begin, calls := time.Now(), 0
		if !Reached(time.Second, func() bool { calls++; return time.Since(begin) >= time.Second }) {
			t.Error("a condition that holds after the limit is evaluated too early")
		}
		if took := time.Since(begin); took != time.Second || calls != int(time.Second/every)+1 {
			t.Errorf("%d calls in %v", calls, took)
		}
		if begin = time.Now(); Reached(time.Second, func() bool { return false }) {
			t.Error("a condition that never holds was reached")
		}
		if took := time.Since(begin); took < time.Second || took > time.Second+every {
			t.Errorf("gave up after %v", took)
		}
		if !Reached(0, func() bool { return true }) {
			t.Error("the condition is not evaluated without a limit")
		}
	})
}
