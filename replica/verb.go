package replica

import (
	"errors"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/row"
	"cqld/schema"
)

// Requests between nodes; epoch is the epoch of the topology with which the sender planned.
//
//	VerbMutation, VerbReadRepair, VerbHint   epoch, n, n × row.AppendMutation   reply: empty
//	VerbRead                                 epoch, row.AppendReadCommand       reply: page
//	VerbDigest                               the same                           reply: 16 bytes
//	VerbTruncate                             epoch, table, id (8), phase 1, time (µs)        reply: empty

// appendMutations encodes the request of the three verbs of mutations.
func appendMutations(dst []byte, epoch uint64, mutations []*row.Mutation) []byte {
	dst = wire.AppendUvarint(dst, epoch)
	dst = wire.AppendUvarint(dst, uint64(len(mutations)))
	for _, m := range mutations {
		dst = row.AppendMutation(dst, m)
	}
	return dst
}

// decodeMutations is the inverse of appendMutations; the mutations point into payload.
func decodeMutations(payload []byte, into []*row.Mutation) (epoch uint64, ms []*row.Mutation, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	// The minimum mutation: table, token, an empty key, no entries.
	// Count compares the number with the remaining bytes, so a false number allocates nothing.
	const sizeMin = 1 + 8 + 1 + 1
	n := c.Count(sizeMin)
	for i := 0; i < n && c.Err() == nil; i++ {
		// The mutations of earlier requests are reused.
		if i == len(into) {
			into = append(into, new(row.Mutation))
		}
		row.ConsumeMutation(&c, into[i])
	}
	// After an error, into may be shorter than n.
	return epoch, into[:min(n, len(into))], c.Finish()
}

func appendRead(dst []byte, epoch uint64, cmd *row.ReadCommand) []byte {
	return row.AppendReadCommand(wire.AppendUvarint(dst, epoch), cmd)
}

// decodeRead is the inverse of appendRead; the command points into payload.
func decodeRead(payload []byte, cmd *row.ReadCommand) (epoch uint64, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	row.ConsumeReadCommand(&c, cmd)
	return epoch, c.Finish()
}

// appendTruncate includes the timeout of the request: a prepared truncation may be applied until it has passed.
func appendTruncate(dst []byte, epoch uint64, t coordinator.Truncation, timeout time.Duration) []byte {
	dst = append(wire.AppendUint64(wire.AppendUvarint(wire.AppendUvarint(dst, epoch), uint64(t.Table)), t.ID),
		byte(t.Phase))
	return wire.AppendUvarint(dst, uint64(max(0, timeout).Microseconds()))
}

// decodeTruncate is the inverse of appendTruncate. The timeout is bounded.
func decodeTruncate(payload []byte) (epoch uint64, t coordinator.Truncation, timeout time.Duration, err error) {
	c := wire.NewCursor(payload)
	epoch = c.Uvarint()
	t.Table, t.ID = schema.StorageID(c.Uvarint()), c.Uint64()
	if t.Phase = coordinator.TruncationPhase(c.Uint8()); t.Phase > coordinator.TruncationEnd {
		return epoch, t, 0, wire.ErrMalformed
	}
	timeout = time.Duration(min(c.Uvarint(), uint64(truncateTimeMax.Microseconds()))) * time.Microsecond
	return epoch, t, timeout, c.Finish()
}

// The codes of a messaging.RemoteError: the kind of the failure.
const (
	codeFailure    = 0 // plus the coordinator.FailureReason, up to codeNotReplica
	codeNotReplica = 200
	codeNotApplied = 201
	codeVoid       = 202 // a coordinator.TruncationVoid
	codePageSmall  = 203 // a row.PageTooSmall
	codeOverloaded = messaging.CodeOverloaded
)

// ToRemote converts err to an error for a reply.
func ToRemote(err error) error {
	if err == nil {
		return nil
	}
	var refusal *coordinator.NotReplica
	var overloaded *coordinator.Overloaded
	var failure *coordinator.ReplicaFailure
	var void *coordinator.TruncationVoid
	var tooSmall *row.PageTooSmall
	switch {
	// The kinds that coordinators treat specially come first. Their numbers are sent as decimal text.
	case errors.As(err, &tooSmall):
		return &messaging.RemoteError{Code: codePageSmall, Message: strconv.Itoa(tooSmall.Bytes)}
	case errors.As(err, &void):
		return &messaging.RemoteError{Code: codeVoid, Message: err.Error()}
	case errors.As(err, &refusal):
		return &messaging.RemoteError{Code: codeNotReplica, Message: strconv.FormatUint(refusal.Epoch, 10)}
	case errors.As(err, &overloaded):
		return &messaging.RemoteError{Code: codeOverloaded, Message: overloaded.What}
	// This node has certainly applied nothing.
	case errors.Is(err, coordinator.ErrNotSent):
		return &messaging.RemoteError{Code: codeNotApplied, Message: err.Error()}
	case errors.As(err, &failure) && failure.Reason < codeNotReplica:
		return &messaging.RemoteError{Code: codeFailure + uint8(failure.Reason), Message: failure.Message}
	}
	return &messaging.RemoteError{Code: codeFailure, Message: err.Error()}
}

// FromRemote converts the error of a remote request to the coordinator's error.
func FromRemote(err error) error {
	if err == nil {
		return nil // before the variable, which is on the heap
	}
	var remote *messaging.RemoteError
	switch {
	case errors.As(err, &remote):
		switch remote.Code {
		case codeNotReplica:
			epoch, _ := strconv.ParseUint(remote.Message, 10, 64)
			return &coordinator.NotReplica{Epoch: epoch}
		case codeOverloaded:
			return &coordinator.Overloaded{What: remote.Message}
		case codeNotApplied:
			return &notApplied{errors.New(remote.Message)}
		case codePageSmall:
			bytes, _ := strconv.Atoi(remote.Message)
			return &row.PageTooSmall{Bytes: bytes}
		case codeVoid:
			return &coordinator.TruncationVoid{}
		}
		return &coordinator.ReplicaFailure{Reason: coordinator.FailureReason(remote.Code), Message: remote.Message}
	// The request has not left this node.
	case errors.Is(err, messaging.ErrUnreachable), errors.Is(err, messaging.ErrOverloaded):
		return &notApplied{err}
	case errors.Is(err, messaging.ErrTimeout):
		return coordinator.ErrNoReply
	case errors.Is(err, messaging.ErrCanceled):
		return env.ErrCanceled
	}
	return err
}

// notApplied wraps a failure after which certainly nothing was applied.
type notApplied struct{ error }

// Is makes it a coordinator.ErrNotSent.
func (e *notApplied) Is(target error) bool { return target == coordinator.ErrNotSent }

// Unwrap returns the cause.
func (e *notApplied) Unwrap() error { return e.error }
