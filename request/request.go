package request

import (
	"context"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/internal/memory"
	"cqld/ring"
)

// Request is one request of a client. The protocol server that received it owns it, and reuses it after the response.
// Code that may outlive the request must copy what it needs. Only the request's own goroutine uses it.
type Request struct {
	// Context ends when the client's connection is lost or the server stops.
	Context context.Context
	// Principal is the client's role.
	Principal auth.Principal
	// Client is the address of the client.
	Client netip.AddrPort
	// Deadline is the time of the monotonic clock after which the client no longer waits; zero means none.
	Deadline time.Duration
	// Consistency and SerialConsistency determine how many replicas must respond.
	Consistency, SerialConsistency ring.Consistency
	// Tracing means that the client requested a trace, and TraceID is its session once the request was executed, else
	// nil.
	Tracing bool
	TraceID *[16]byte
	// Trace receives the events of a traced request; nil means that the request is not traced.
	Trace coordinator.Trace
	// Warnings are sent to the client with the response, if its protocol supports them.
	Warnings []string
	// Memory accounts for the memory of the request. nil means no bound.
	Memory *memory.Account
	// Cost counts what was read for the request so far.
	Cost Cost

	observation *coordinator.Observation // nil unless Measure was called
}

// Grow adds n bytes to the memory of the request, and waits until there is memory.
func (r *Request) Grow(n int) error { return r.Memory.Grow(r.Context, int64(n)) }

// Warn adds a warning for the client, unless it has been added.
func (r *Request) Warn(text string) {
	if !slices.Contains(r.Warnings, text) {
		r.Warnings = append(r.Warnings, text)
	}
}

// StillRunning is the error of a server that was closed while requests were running: the number of these requests.
// Their contexts are canceled, but a function or a compilation may ignore that. Resources that they use must not be
// closed.
type StillRunning int

// Error implements error.
func (n StillRunning) Error() string {
	return fmt.Sprintf("%d requests were canceled at shutdown and have not ended", int(n))
}
