// Package execution contains what the execution of a statement has, whatever the statement does: its parameters, its
// time, and the services of this node.
//
// It executes nothing: query/read reads rows with it, query/write writes them, and package query does everything else.
//
//	protocol server ─▶ Params ──▶ Moment, Timeouts ──┐
//	                                                 ├─▶ one execution: its Environment of functions, its guard, its masks
//	node ─────────────────────────▶ Services ────────┘
package execution

import (
	"fmt"

	"cqld/query/function"
)

// Unauthorized means that the user lacks a permission (protocol code 0x2100).
type Unauthorized struct{ Msg string }

// Error returns the message.
func (e *Unauthorized) Error() string { return e.Msg }

// BadRequest is the error for a request that violates the protocol (0x000A).
type BadRequest struct{ Msg string }

// Error returns the message.
func (e *BadRequest) Error() string { return e.Msg }

func invalidf(format string, args ...any) error {
	return &function.Invalid{Msg: fmt.Sprintf(format, args...)}
}
