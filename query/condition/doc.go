// Package condition implements the conditions of IF: it compiles them, and evaluates them on rows with bound values.
package condition

import (
	"fmt"

	"cqld/query/function"
)

func invalidf(format string, args ...any) error {
	return &function.Invalid{Msg: fmt.Sprintf(format, args...)}
}
