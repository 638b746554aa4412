package coordinator

import (
	"errors"
	"fmt"

	"cqld/ring"
	"cqld/schema"
)

// ErrNotSent marks failures after which certainly nothing was applied or read.
var ErrNotSent = errors.New("coordinator: not sent")

// ErrNoReply is a replica's error when its answer did not come: it may have done what was asked.
var ErrNoReply = errors.New("coordinator: no reply from replica")

// NotReplica is a replica's refusal: at its own epoch it does not hold the token. Nothing was done.
type NotReplica struct{ Epoch uint64 }

// Error names the epoch.
func (e *NotReplica) Error() string {
	return fmt.Sprintf("not a replica of this token at epoch %d", e.Epoch)
}

// Is makes it an ErrNotSent.
func (e *NotReplica) Is(target error) bool { return target == ErrNotSent }

// TruncationVoid is a replica's refusal of a truncation that it has not been asked to prepare, whose time is over, or that
// another truncation of the table has overtaken: its coordinator may be dead, and what it removes may be new. Nothing was done.
type TruncationVoid struct{}

// Error says so.
func (*TruncationVoid) Error() string {
	return "the truncation is not prepared, its time is over, or another one has overtaken it"
}

// Is makes it an ErrNotSent.
func (*TruncationVoid) Is(target error) bool { return target == ErrNotSent }

// ReplicaFailure is a replica's error when it failed at what was asked, for a reason that clients
// are told.
type ReplicaFailure struct {
	Reason  FailureReason
	Message string
}

// Error is the replica's message.
func (e *ReplicaFailure) Error() string { return e.Message }

// UnknownTable says that the coordinator's schema has no such table (any more); nothing was sent.
type UnknownTable struct{ Table schema.StorageID }

// Error does not name the table: nothing but its number is left of it.
func (e *UnknownTable) Error() string { return "the table was dropped" }

// Is makes it an ErrNotSent.
func (e *UnknownTable) Is(target error) bool { return target == ErrNotSent }

// TruncateFailure says that a node did not truncate; the table may be empty on others.
type TruncateFailure struct {
	Node  ring.NodeID
	Cause error
}

// Error is Cassandra's text.
func (e *TruncateFailure) Error() string { return "Error during truncate: " + e.Cause.Error() }

// Unwrap is why.
func (e *TruncateFailure) Unwrap() error { return e.Cause }

// Unavailable says that too few replicas live; nothing was sent.
type Unavailable struct {
	Consistency     ring.Consistency
	Required, Alive int
}

// Error is Cassandra's text.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("Cannot achieve consistency level %s", e.Consistency)
}

// Is makes it an ErrNotSent.
func (e *Unavailable) Is(target error) bool { return target == ErrNotSent }

// Overloaded says that a bound was hit; nothing was applied.
type Overloaded struct{ What string }

// Error names the bound.
func (e *Overloaded) Error() string { return "Request refused: " + e.What }

// Is makes it an ErrNotSent.
func (e *Overloaded) Is(target error) bool { return target == ErrNotSent }

// WriteTimeout says that too few replicas acknowledged in time; the write may be applied anywhere.
type WriteTimeout struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Type               WriteType
	Contentions        int // of WriteCAS: how often others were ahead
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

// CASUnknown says that a conditional change was accepted by Received replicas, fewer than BlockFor, and that no majority
// could be asked in time whether it was decided. Package paxos returns it.
type CASUnknown struct {
	Consistency        ring.Consistency
	Received, BlockFor int
}

// Error is Cassandra's text.
func (e *CASUnknown) Error() string {
	return fmt.Sprintf("CAS operation result is unknown - proposal accepted by %d but not a quorum.", e.Received)
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
