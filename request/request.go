package request

import (
	"context"
	"net/netip"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/ring"
)

// Request is one request of a client. The protocol server that received it owns it, and reuses it after the answer; whatever
// may run longer than the request copies what it needs. Only the request's own goroutine uses it.
type Request struct {
	// Context ends when the client's connection is lost or the server stops.
	Context context.Context
	// Principal is the client's role.
	Principal auth.Principal
	// Client is the address that the request came from.
	Client netip.AddrPort
	// Deadline is the time of the monotonic clock after which the client doesn't wait any more; zero means none.
	Deadline time.Duration
	// Consistency and SerialConsistency say how many replicas must answer.
	Consistency, SerialConsistency ring.Consistency
	// Trace receives the events of a traced request; nil means that the request is not traced.
	Trace coordinator.Trace
	// Warnings are sent to the client with the answer, where its protocol has a place for them.
	Warnings []string
	// Cost counts what was read for the request until now.
	Cost Cost

	observation *coordinator.Observation // nil unless Measure was called
}

// Warn adds a warning for the client.
func (r *Request) Warn(text string) { r.Warnings = append(r.Warnings, text) }
