package server

import (
	"context"
	"errors"
	"maps"
	"net/netip"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/cql"
	"cqld/internal/guard"
	"cqld/internal/memory"
	"cqld/internal/wire"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/server/frame"
)

// errOverloaded refuses a request for which there is no memory or worker.
//
//nolint:staticcheck // Cassandra's words
var errOverloaded = errors.New("Too many requests in flight on this node; request discarded")

// wireError is the one place that translates errors for clients. An error that it does not know becomes a server error
// and is logged: it is a defect or an operational failure that the operator must see. It is called once for each error
// that is sent; messages for the client are Cassandra's where drivers or users know them.
func (s *Server) wireError(err error) *frame.Error {
	e := s.translate(err)
	s.errors.Lock()
	defer s.errors.Unlock()
	if s.errors.counts == nil {
		s.errors.counts = map[frame.ErrorCode]int64{}
	}
	// The code is counted before AppendError maps it to the version of the client.
	s.errors.counts[e.Code]++
	return e
}

// Errors returns the number of errors sent to clients, by code.
func (s *Server) Errors() map[frame.ErrorCode]int64 {
	s.errors.Lock()
	defer s.errors.Unlock()
	return maps.Clone(s.errors.counts)
}

// translate returns the error without counting it.
func (s *Server) translate(err error) *frame.Error {
	if e := requestError(err); e != nil {
		return e
	}
	if e := s.replicaError(err); e != nil {
		return e
	}
	if e := schemaError(err); e != nil {
		return e
	}
	var panicked *guard.PanicError // already logged
	// the client has disconnected
	if !errors.Is(err, context.Canceled) && !errors.As(err, &panicked) && s.failures.allow() {
		s.log.Error("request failed", "err", err)
	}
	return &frame.Error{Code: frame.CodeServerError, Message: err.Error()}
}

// requestError translates errors in the request itself.
func requestError(err error) *frame.Error {
	// Most errors have a code and a message only.
	coded := func(code frame.ErrorCode) *frame.Error { return &frame.Error{Code: code, Message: err.Error()} }
	var (
		protocol      *frame.ProtocolError
		badRequest    *invalid.BadRequest
		credentials   *BadCredentials
		syntax        *cql.SyntaxError
		refused       *invalid.Error
		unauthorized  *invalid.Unauthorized
		denied        *auth.Denied
		config        *invalid.Config
		alreadyExists *invalid.AlreadyExists
		unprepared    *invalid.Unprepared
		failure       *invalid.FunctionFailure
		notServing    *invalid.NotServing
		killed        *Killed
	)
	switch {
	// Errors of decoding come first, because they mean that the message itself is malformed.
	case errors.Is(err, wire.ErrShort):
		return &frame.Error{Code: frame.CodeProtocolError,
			Message: "Not enough bytes in the message body for what it declares"}
	case errors.Is(err, wire.ErrMalformed):
		return &frame.Error{Code: frame.CodeProtocolError, Message: "Malformed value in the message body"}
	case errors.Is(err, frame.ErrDecompress), errors.Is(err, frame.ErrSegmentLZ4):
		return &frame.Error{Code: frame.CodeProtocolError, Message: "Message body cannot be decompressed"}
	case errors.As(err, &protocol), errors.As(err, &badRequest):
		return coded(frame.CodeProtocolError)
	case errors.As(err, &credentials):
		return coded(frame.CodeBadCredentials)
	case errors.As(err, &syntax):
		return coded(frame.CodeSyntaxError)
	case errors.As(err, &refused), errors.As(err, &killed): // drivers do not repeat these requests
		return coded(frame.CodeInvalid)
	case errors.As(err, &notServing):
		return coded(frame.CodeBootstrapping)
	case errors.As(err, &unauthorized), errors.As(err, &denied):
		return coded(frame.CodeUnauthorized)
	case errors.As(err, &config):
		return coded(frame.CodeConfigError)
	case errors.As(err, &alreadyExists):
		e := coded(frame.CodeAlreadyExists)
		e.Keyspace, e.Name = alreadyExists.Keyspace, alreadyExists.Table
		return e
	case errors.As(err, &unprepared):
		e := coded(frame.CodeUnprepared)
		e.ID = unprepared.ID
		return e
	case errors.As(err, &failure):
		e := coded(frame.CodeFunctionFailure)
		e.Keyspace, e.Name, e.ArgTypes = failure.Keyspace, failure.Function, failure.Args
		return e
	}
	return nil
}

// schemaError translates the error of a schema change that the voting members did not commit. Drivers do not repeat a
// statement after WRITE_TIMEOUT, may repeat it on another node after UNAVAILABLE, and would repeat it on every node
// after a server error.
func schemaError(err error) *frame.Error {
	var unavailable *invalid.SchemaUnavailable
	var timeout *invalid.SchemaTimeout
	// Schema changes are decided by a quorum of nodes, so both messages name that level.
	switch {
	case errors.As(err, &unavailable):
		return &frame.Error{Code: frame.CodeUnavailable, Message: err.Error(), Consistency: ring.Quorum,
			Required: int32(unavailable.Required), Received: int32(unavailable.Alive)}
	case errors.As(err, &timeout):
		return &frame.Error{Code: frame.CodeWriteTimeout, Message: err.Error(), Consistency: ring.Quorum,
			Required: 1, WriteType: string(coordinator.WriteSimple)}
	}
	return nil
}

// replicaError translates errors of replicas. Drivers decide by the code whether they repeat the request, and on which
// node.
func (s *Server) replicaError(err error) *frame.Error {
	var (
		unavailable  *coordinator.Unavailable
		overloaded   *coordinator.Overloaded
		writeTimeout *coordinator.WriteTimeout
		readTimeout  *coordinator.ReadTimeout
		writeFailure *coordinator.WriteFailure
		readFailure  *coordinator.ReadFailure
		unknown      *coordinator.CASUnknown
		truncation   *coordinator.TruncateFailure
		dropped      *coordinator.UnknownTable
		over         *overRate
		logins       *AuthenticationOverloaded
		tooLarge     *memory.TooLarge
	)
	// All cases share one value, in which each sets the fields of its code.
	e := &frame.Error{Message: err.Error()}
	switch {
	// The request will never fit. OVERLOADED would make drivers retry it in vain.
	case errors.As(err, &tooLarge):
		e.Code = frame.CodeInvalid
	case errors.Is(err, errOverloaded), errors.Is(err, memory.ErrExhausted), errors.As(err, &overloaded),
		errors.As(err, &logins), errors.As(err, &over):
		e.Code = frame.CodeOverloaded
	case errors.As(err, &unavailable):
		e.Code, e.Consistency = frame.CodeUnavailable, unavailable.Consistency
		e.Required, e.Received = int32(unavailable.Required), int32(unavailable.Alive)
	case errors.As(err, &writeTimeout):
		e.Code, e.Consistency, e.WriteType = frame.CodeWriteTimeout, writeTimeout.Consistency, string(writeTimeout.Type)
		// Required is the field that the specification calls blockfor in all errors but Unavailable.
		e.Received, e.Required = int32(writeTimeout.Received), int32(writeTimeout.BlockFor)
		e.Contentions = uint16(writeTimeout.Contentions)
	case errors.As(err, &unknown):
		e.Code, e.Consistency = frame.CodeCASWriteUnknown, unknown.Consistency
		e.Received, e.Required = int32(unknown.Received), int32(unknown.BlockFor)
	case errors.As(err, &readTimeout):
		e.Code, e.Consistency, e.DataPresent = frame.CodeReadTimeout, readTimeout.Consistency, readTimeout.DataPresent
		e.Received, e.Required = int32(readTimeout.Received), int32(readTimeout.BlockFor)
	case errors.As(err, &writeFailure):
		e.Code, e.Consistency, e.WriteType = frame.CodeWriteFailure, writeFailure.Consistency, string(writeFailure.Type)
		e.Received, e.Required = int32(writeFailure.Received), int32(writeFailure.BlockFor)
		e.Failures = s.wireFailures(writeFailure.Failures)
	case errors.As(err, &readFailure):
		e.Code, e.Consistency, e.DataPresent = frame.CodeReadFailure, readFailure.Consistency, readFailure.DataPresent
		e.Received, e.Required = int32(readFailure.Received), int32(readFailure.BlockFor)
		e.Failures = s.wireFailures(readFailure.Failures)
	case errors.As(err, &truncation):
		e.Code = frame.CodeTruncateError
	case errors.As(err, &dropped): // dropped between its preparation and its execution
		e.Code = frame.CodeInvalid
	default:
		return nil
	}
	return e
}

// wireFailures returns the replicas' failure reasons with their addresses, as v5 sends them.
func (s *Server) wireFailures(list []coordinator.NodeFailure) []frame.Failure {
	out := make([]frame.Failure, len(list))
	for i, f := range list {
		out[i] = frame.Failure{Replica: s.replicaAddress(f.Node), Reason: uint16(f.Reason)}
	}
	return out
}

// replicaAddress returns the internode address of a node, or 0.0.0.0 if the node is no longer known.
func (s *Server) replicaAddress(node ring.NodeID) netip.Addr {
	if s.options.ReplicaAddress != nil {
		if a := s.options.ReplicaAddress(node); a.IsValid() {
			return a
		}
	}
	// The reason map requires an address.
	return netip.IPv4Unspecified()
}
