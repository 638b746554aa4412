// Package mutant switches faults of tools/mutants on in tests that require a fault to be found. Only tests import it.
package mutant

import "testing"

// Need switches the mutants with the given keys on, and all others off, until the test ends. It skips the test in a
// binary that was not compiled by tools/mutants, whose overlay replaces this file. "go test ./tools/mutants" executes
// all tests that call Need, which they must do themselves and not in a helper function.
func Need(t testing.TB, keys ...string) {
	t.Helper()
	t.Skipf("executed by go test ./tools/mutants, which compiles the mutants %v", keys)
}
