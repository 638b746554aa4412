package coordinator

import (
	"errors"
	"fmt"

	"cqld/ring"
)

// ErrNotSent marks failures after which certainly nothing was applied or read.
var ErrNotSent = errors.New("coordinator: not sent")

// Unavailable says that too few replicas live; nothing was sent.
type Unavailable struct {
	Consistency     ring.Consistency
	Required, Alive int
}

// Error is Cassandra's text.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("Cannot achieve consistency level %s", e.Consistency)
}

// Overloaded says that a bound was hit; nothing was sent.
type Overloaded struct{ What string }

// Error names the bound.
func (e *Overloaded) Error() string { return "Too many requests in flight: " + e.What }

// WriteTimeout says that too few replicas acknowledged in time; the write may be applied anywhere.
type WriteTimeout struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Type               WriteType
}

// Error is Cassandra's text.
func (e *WriteTimeout) Error() string {
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

// ReadTimeout says that too few replicas answered in time.
type ReadTimeout struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	DataPresent        bool
}

// Error is Cassandra's text.
func (e *ReadTimeout) Error() string {
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

// FailureReason is why a replica failed (native protocol v5 §9, reasonmap).
type FailureReason uint16

// The reasons.
const (
	FailureUnknown            FailureReason = 0
	FailureTooManyTombstones  FailureReason = 1
	FailureTimeout            FailureReason = 2
	FailureIncompatibleSchema FailureReason = 3
	FailureReadSize           FailureReason = 4
	FailureNodeDown           FailureReason = 5
	FailureIndexNotAvailable  FailureReason = 6
	FailureReadTooManyIndexes FailureReason = 7
)

// NodeFailure is one replica's failure.
type NodeFailure struct {
	Node   ring.NodeID
	Reason FailureReason
}

// WriteFailure says that replicas failed, not merely stayed silent.
type WriteFailure struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Failures           []NodeFailure
	Type               WriteType
}

// Error is Cassandra's text.
func (e *WriteFailure) Error() string {
	return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, len(e.Failures))
}

// ReadFailure says that replicas failed, not merely stayed silent.
type ReadFailure struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Failures           []NodeFailure
	DataPresent        bool
}

// Error is Cassandra's text.
func (e *ReadFailure) Error() string {
	return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, len(e.Failures))
}
