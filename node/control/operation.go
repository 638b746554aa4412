package control

import (
	"context"
	"encoding/json"
	"time"
)

// Operation is an operation of a node, with arguments of type A and a result of type R. A value is shared by the client
// and the server, so both use the same types. Name is a path element of the URL and the name of an MBean for
// permissions, so it must not change. A and R must have JSON forms; a new field must be optional on both sides.
type Operation[A, R any] struct {
	Name    string
	Changes bool // something: clients need EXECUTE instead of SELECT, and the log shows it
}

// None is the type of the arguments or the result of operations that have none.
type None struct{}

// Progress is the progress of a long operation. Its fields describe the whole operation or, for an operation with a
// job, the job.
type Progress struct {
	What  string `json:"what"`            // the current part
	Done  int64  `json:"done"`            // of Total
	Total int64  `json:"total"`           // 0: unknown
	Bytes bool   `json:"bytes,omitempty"` // Done and Total are bytes
	Unit  string `json:"unit,omitempty"`  // what Done and Total count; may be empty
	// Job is the id of the job that performs the operation; empty means none.
	Job string `json:"job,omitempty"`
	// Left is the node's estimate of the remaining time; 0 means that it has none.
	Left time.Duration `json:"left_ns,omitempty"`
	// Committed means that the operation has succeeded, even if the process ends before it answers.
	Committed bool `json:"committed,omitempty"`
}

// Report sends progress to the client. It may be called often: most reports are dropped, but never one that is
// Committed.
type Report func(Progress)

// operation is the untyped handler of an Operation.
type operation func(ctx context.Context, args json.RawMessage, report Report) (any, error)

// Handle registers do as the handler of an operation. It is called before Serve. ctx ends when the client disconnects
// or the server closes. Absent arguments are the zero value of A. Unknown fields are ignored. do may return an *Error
// to choose the code. It is called in the goroutine of the connection, and reports after its return are dropped.
func Handle[A, R any](s *Server, op Operation[A, R], do func(ctx context.Context, args A, report Report) (R, error)) {
	s.changing[op.Name] = op.Changes
	// The closure keeps the types, so that the server's table needs none.
	s.operations[op.Name] = func(ctx context.Context, raw json.RawMessage, report Report) (any, error) {
		var args A
		if len(raw) > 0 {
			if err := json.Unmarshal(raw, &args); err != nil {
				return nil, &Error{Invalid, "bad arguments: " + err.Error()}
			}
		}
		return do(ctx, args, report)
	}
}

// HandleLocal is Handle for an operation that only the socket of the data directory accepts: it is for an operator on
// the machine of the node, who could change the node's files as well.
func HandleLocal[A, R any](s *Server, op Operation[A, R],
	do func(ctx context.Context, args A, report Report) (R, error)) {
	s.local[op.Name] = true
	Handle(s, op, do)
}

// Call executes an operation on a node and waits for its result. progress, which may be nil, receives progress reports.
// An error of the operation is an *Error. If the node ends first, the error wraps ErrStopped. progress is called in the
// calling goroutine.
func Call[A, R any](ctx context.Context, c *Client, op Operation[A, R], args A, progress Report) (result R, err error) {
	raw, err := c.call(ctx, op.Name, args, progress)
	if err == nil {
		err = json.Unmarshal(raw, &result)
	}
	return result, err
}

// line is one line of an answer. Exactly one field is set.
type line struct {
	Progress *Progress       `json:"progress,omitempty"`
	Result   json.RawMessage `json:"result,omitempty"`
	Error    *Error          `json:"error,omitempty"`
}
