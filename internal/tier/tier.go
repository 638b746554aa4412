// Package tier separates tests that `make check` runs (go test -short) from tests that only `make test` runs.
//
// Builds with the race detector run every test: the race list of make test uses -short for fewer repetitions, and some
// schedules occur nowhere else.
package tier

import "testing"

// Long skips a test that takes many seconds of processor time, unless all tests run.
func Long(t testing.TB) {
	t.Helper()
	if short() {
		t.Skip("takes many seconds: make test runs it")
	}
}

// Draws returns how many draws of a random test to make: all, or few in the short tier.
func Draws(all, few int) int {
	if short() {
		return few
	}
	return all
}

func short() bool { return testing.Short() && !race }
