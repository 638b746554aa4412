// Package invarianttest helps tests to show that a broken invariant stops the program (package invariant). A test that
// reads recovered panics itself would pass also for a nil pointer.
package invarianttest

import (
	"errors"
	"strings"
	"testing"

	"cqld/internal/invariant"
)

// Fires calls f, and fails the test unless f panics with an invariant.Violation whose message contains want. f must
// panic in the goroutine that calls Fires. It is marked as a helper, so the failure is reported at the caller.
func Fires(t testing.TB, f func(), want string) {
	t.Helper()
	defer func() {
		t.Helper()
		// A panic with another value, or a normal return of f, is no violation.
		err, _ := recover().(error)
		var broken invariant.Violation
		if !errors.As(err, &broken) || !strings.Contains(broken.Message, want) {
			t.Errorf("got %v, want a violation: %s", err, want)
		}
	}()
	f()
}
