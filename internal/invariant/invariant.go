// Package invariant stops the program if an invariant is broken: to continue might lose or invent data.
//
// It is not for invalid input, failed I/O or corrupt files: those are errors.
//
// Check is always on, so its condition must be cheap. On paths that run for each row it gets a constant message:
// arguments are boxed even if the condition holds. Conditions that read data again or copy keys stand under Enabled,
// which the build tag "invariants" sets in simulations, race runs and fuzzing:
//
//	if invariant.Enabled {
//		invariant.Check(slices.IsSortedFunc(cells, compare), "row: cells are not sorted")
//	}
package invariant

import "fmt"

// Violation is the panic value of a broken invariant.
type Violation struct{ Message string }

// Error returns the message.
func (v Violation) Error() string { return "invariant violated: " + v.Message }

// Check panics with the formatted message unless ok.
func Check(ok bool, format string, args ...any) {
	if !ok {
		failf(format, args)
	}
}

// failf is separate from Check so that the compiler inlines Check: a condition that holds costs one branch.
func failf(format string, args []any) { Fail(fmt.Sprintf(format, args...)) }

// Fail panics with the message.
func Fail(message string) { panic(Violation{message}) }
