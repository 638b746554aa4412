package coordinator

import (
	"errors"
	"fmt"

	"cqld/coordinator/resolve"
	"cqld/ring"
	"cqld/schema"
)

// ErrNotSent marks failures after which certainly nothing was applied or read.
var ErrNotSent = errors.New("coordinator: not sent")

// ErrNoReply is the error of a replica that did not answer: it may have executed the request.
var ErrNoReply = errors.New("coordinator: no reply from replica")

// NotReplica is a replica's refusal: at its own epoch it does not own the token. Nothing was done.
type NotReplica struct{ Epoch uint64 }

// Error names the epoch.
func (e *NotReplica) Error() string {
	return fmt.Sprintf("not a replica of this token at epoch %d", e.Epoch)
}

// Is makes it an ErrNotSent.
func (e *NotReplica) Is(target error) bool { return target == ErrNotSent }

// TruncationVoid is a replica's refusal of a truncation that was not prepared there, has expired, or was overtaken by
// another truncation of the table: its coordinator may be dead, and the rows may have been written after it. Nothing
// was dropped.
type TruncationVoid struct{}

// Error describes the refusal.
func (*TruncationVoid) Error() string {
	return "the truncation is not prepared, its time is over, or another one has overtaken it"
}

// Is makes it an ErrNotSent.
func (*TruncationVoid) Is(target error) bool { return target == ErrNotSent }

// ReplicaFailure is the error of a replica that failed to execute a request, for a reason that clients receive.
type ReplicaFailure struct {
	Reason  FailureReason
	Message string
}

// Error returns the replica's message.
func (e *ReplicaFailure) Error() string { return e.Message }

// NeedsMemory is the error of a read whose replicas' answers differ, and take more than ReadRequest.Memory to merge.
// The caller may repeat it with more.
type NeedsMemory = resolve.NeedsMemory

// UnknownTable means that the coordinator's schema does not contain the table; nothing was sent.
type UnknownTable struct{ Table schema.StorageID }

// Error does not name the table: only its number is known.
func (e *UnknownTable) Error() string { return "the table was dropped" }

// Is makes it an ErrNotSent.
func (e *UnknownTable) Is(target error) bool { return target == ErrNotSent }

// TruncateFailure means that a node did not truncate; the table may be empty on other nodes.
type TruncateFailure struct {
	Node  ring.NodeID
	Cause error
}

// Error returns Cassandra's text.
func (e *TruncateFailure) Error() string { return "Error during truncate: " + e.Cause.Error() }

// Unwrap returns the cause.
func (e *TruncateFailure) Unwrap() error { return e.Cause }

// Unavailable means that too few replicas are alive; nothing was sent.
type Unavailable struct {
	Consistency     ring.Consistency
	Required, Alive int
}

// Error returns Cassandra's text.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("Cannot achieve consistency level %s", e.Consistency)
}

// Is makes it an ErrNotSent.
func (e *Unavailable) Is(target error) bool { return target == ErrNotSent }

// Overloaded means that a bound was exceeded; nothing was applied.
type Overloaded struct{ What string }

// Error names the bound.
func (e *Overloaded) Error() string { return "Request refused: " + e.What }

// Is makes it an ErrNotSent.
func (e *Overloaded) Is(target error) bool { return target == ErrNotSent }

// WriteTimeout means that too few replicas acknowledged in time; any replica may have applied the write.
type WriteTimeout struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Type               WriteType
	Contentions        int // for WriteCAS: attempts that lost to another proposer
}

// Error returns Cassandra's text.
func (e *WriteTimeout) Error() string {
	if e.Type == WriteCAS {
		return fmt.Sprintf("CAS operation timed out: received %d of %d required responses after %d contention retries",
			e.Received, e.BlockFor, e.Contentions)
	}
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

// ReadTimeout means that too few replicas answered in time.
type ReadTimeout struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	DataPresent        bool
}

// Error returns Cassandra's text.
func (e *ReadTimeout) Error() string {
	return fmt.Sprintf("Operation timed out - received only %d responses.", e.Received)
}

// CASUnknown means that a conditional change was accepted by fewer than BlockFor replicas (Accepted), and that no
// majority answered in time whether it was decided. Received counts the replicas that answered the proposal,
// including refusals, and is less than BlockFor. Package paxos returns it.
type CASUnknown struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Accepted           int
}

// Error returns Cassandra's text.
func (e *CASUnknown) Error() string {
	return fmt.Sprintf("CAS operation result is unknown - proposal accepted by %d but not a quorum.", e.Accepted)
}

// FailureReason is the reason of a replica's failure (native protocol v5 §9, reasonmap).
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

// WriteFailure means that replicas answered with errors.
type WriteFailure struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Failures           []NodeFailure
	Type               WriteType
}

// Error returns Cassandra's text.
func (e *WriteFailure) Error() string {
	return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, len(e.Failures))
}

// ReadFailure means that replicas answered with errors.
type ReadFailure struct {
	Consistency        ring.Consistency
	Received, BlockFor int
	Failures           []NodeFailure
	DataPresent        bool
}

// Error returns Cassandra's text.
func (e *ReadFailure) Error() string {
	return fmt.Sprintf("Operation failed - received %d responses and %d failures", e.Received, len(e.Failures))
}
