// Package invariant stops the program when something that cannot be has happened: a state in which
// going on might lose or invent data.
//
// It is not for bad input, failed I/O or corrupt files: those are errors.
package invariant

import "fmt"

// Violation is what a broken invariant panics with.
type Violation struct{ Message string }

// Error is the message.
func (v Violation) Error() string { return "invariant violated: " + v.Message }

// Check stops the program with the formatted message unless ok.
func Check(ok bool, format string, args ...any) {
	if !ok {
		Fail(fmt.Sprintf(format, args...))
	}
}

// Fail stops the program.
func Fail(message string) { panic(Violation{message}) }
