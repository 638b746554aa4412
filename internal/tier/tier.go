// Package tier separates tests that `make check` runs (go test -short) from tests that only `make test` runs.
//
// Builds with the race detector run every test that has several goroutines: the race list of make test uses -short for
// fewer repetitions, and some schedules occur nowhere else. Random tests draw few cases there, because the detector
// makes each take about ten times as long, and wrong answers are found by the draws without it.
package tier

import "testing"

// Long skips a test that takes many seconds of processor time, unless all tests run.
func Long(t testing.TB) {
	t.Helper()
	if short() {
		t.Skip("takes many seconds: make test runs it")
	}
}

// Draws returns how many draws of a random test to make: all, or few with -short, also under the race detector.
func Draws(all, few int) int {
	if testing.Short() {
		return few
	}
	return all
}

// OneGoroutine skips a test in builds with the race detector, which finds nothing where one goroutine does all the
// work, and makes it take many times as long. Random runs against a model are not skipped: the race list of make test
// is also what runs them with invariants, and Draws keeps them few.
func OneGoroutine(t testing.TB) {
	t.Helper()
	if race {
		t.Skip("one goroutine does all the work: builds without the race detector run it")
	}
}

// short reports whether long tests are left out.
func short() bool { return testing.Short() && !race }
