// Package selection implements the select clause: it compiles the selectors of a SELECT (columns, elements and fields,
// functions, casts, arithmetic, literals, aggregates, JSON) and evaluates them on rows.
package selection

import (
	"fmt"

	"cqld/query/function"
)

func invalidf(format string, args ...any) error {
	return &function.Invalid{Msg: fmt.Sprintf(format, args...)}
}
