// Package await lets tests wait for conditions instead of sleeping for a time that is long enough on an idle machine.
package await

import (
	"testing"
	"time"
)

// every is the time between two evaluations of a condition.
const every = time.Millisecond

// limit is how long Until waits. It is long, because it only matters to tests that fail: a machine that is busy with
// other work must not cause a failure.
const limit = time.Minute

// Until waits until holds reports true, and fails the test if it has not done so after a minute. what names the
// condition in the message of the failure. Until must be called in the goroutine of the test.
func Until(t testing.TB, what string, holds func() bool) {
	t.Helper()
	if !Reached(limit, holds) {
		t.Fatalf("not reached in %v: %s", limit, what)
	}
}

// Reached waits until holds reports true, and returns whether it did so within d. It evaluates holds at least once, and
// a last time after d.
func Reached(d time.Duration, holds func() bool) bool {
	for end := time.Now().Add(d); ; time.Sleep(every) {
		late := time.Now().After(end)
		if holds() {
			return true
		}
		if late {
			return false
		}
	}
}
