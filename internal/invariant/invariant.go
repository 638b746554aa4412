// Package invariant stops the program if an invariant is broken: to continue might lose or invent data.
//
// It is not for invalid input, failed I/O or corrupt files: those are errors.
package invariant

import "fmt"

// Violation is the panic value of a broken invariant.
type Violation struct{ Message string }

// Error returns the message.
func (v Violation) Error() string { return "invariant violated: " + v.Message }

// Check panics with the formatted message unless ok.
func Check(ok bool, format string, args ...any) {
	if !ok {
		Fail(fmt.Sprintf(format, args...))
	}
}

// Fail panics with the message.
func Fail(message string) { panic(Violation{message}) }
