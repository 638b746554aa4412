package server

import (
	"errors"
	"fmt"
	"log/slog"
	"net/netip"
	"reflect"
	"testing"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/cql"
	"cqld/query/invalid"
	"cqld/ring"
	"cqld/server/frame"
)

func TestErrorTable(t *testing.T) {
	const node = ring.NodeID(1)
	address := netip.MustParseAddr("127.0.0.3")
	s := New(Options{
		Logger: slog.New(slog.DiscardHandler),
		ReplicaAddress: func(id ring.NodeID) netip.Addr {
			if id == node {
				return address
			}
			return netip.Addr{}
		},
	})
	failures := []coordinator.NodeFailure{{Node: node, Reason: coordinator.FailureTimeout}, {Node: 2}}
	wireFailures := []frame.Failure{{Replica: address, Reason: 2}, {Replica: netip.IPv4Unspecified()}}
	for _, c := range []struct {
		err  error
		want frame.Error
	}{
		{errors.New("injected disk error"), frame.Error{Code: frame.CodeServerError}},
		{&frame.ProtocolError{Message: "p"}, frame.Error{Code: frame.CodeProtocolError}},
		{&invalid.BadRequest{Msg: "p"}, frame.Error{Code: frame.CodeProtocolError}},
		{&BadCredentials{Message: "c"}, frame.Error{Code: frame.CodeBadCredentials}},
		{&cql.SyntaxError{}, frame.Error{Code: frame.CodeSyntaxError}},
		{&coordinator.TruncateFailure{Cause: coordinator.ErrNoReply}, frame.Error{Code: frame.CodeTruncateError}},
		{&coordinator.UnknownTable{Table: 1046}, frame.Error{Code: frame.CodeInvalid}},
		{&invalid.Error{Msg: "i"}, frame.Error{Code: frame.CodeInvalid}},
		{&invalid.Unauthorized{Msg: "u"}, frame.Error{Code: frame.CodeUnauthorized}},
		{&auth.Denied{Requirement: auth.Requirement{Permission: auth.Select, Resource: auth.Table("k", "t")}},
			frame.Error{Code: frame.CodeUnauthorized}},
		{&invalid.Config{Msg: "c"}, frame.Error{Code: frame.CodeConfigError}},
		{&invalid.AlreadyExists{Keyspace: "k", Table: "t"},
			frame.Error{Code: frame.CodeAlreadyExists, Keyspace: "k", Name: "t"}},
		{&invalid.Unprepared{ID: []byte{1}}, frame.Error{Code: frame.CodeUnprepared, ID: []byte{1}}},
		{&invalid.SchemaUnavailable{Required: 2, Alive: 1},
			frame.Error{Code: frame.CodeUnavailable, Consistency: ring.Quorum, Required: 2, Received: 1}},
		{&invalid.SchemaTimeout{After: time.Second}, frame.Error{Code: frame.CodeWriteTimeout, Consistency: ring.Quorum,
			Required: 1, WriteType: "SIMPLE"}},
		{errOverloaded, frame.Error{Code: frame.CodeOverloaded}},
		{&coordinator.Overloaded{What: "hints"}, frame.Error{Code: frame.CodeOverloaded}},
		{
			&coordinator.Unavailable{Consistency: ring.Quorum, Required: 3, Alive: 2},
			frame.Error{Code: frame.CodeUnavailable, Consistency: ring.Quorum, Required: 3, Received: 2},
		},
		{
			&coordinator.WriteTimeout{Consistency: ring.All, Received: 1, BlockFor: 4, Type: coordinator.WriteBatch},
			frame.Error{Code: frame.CodeWriteTimeout, Consistency: ring.All, Required: 4, Received: 1,
				WriteType: "BATCH"},
		},
		{
			&coordinator.ReadTimeout{Consistency: ring.One, BlockFor: 1, DataPresent: true},
			frame.Error{Code: frame.CodeReadTimeout, Consistency: ring.One, Required: 1, DataPresent: true},
		},
		{
			&coordinator.WriteFailure{Consistency: ring.Two, BlockFor: 2, Failures: failures,
				Type: coordinator.WriteSimple},
			frame.Error{Code: frame.CodeWriteFailure, Consistency: ring.Two, Required: 2, Failures: wireFailures,
				WriteType: "SIMPLE"},
		},
		{
			&coordinator.ReadFailure{Consistency: ring.Two, BlockFor: 2, Failures: failures},
			frame.Error{Code: frame.CodeReadFailure, Consistency: ring.Two, Required: 2, Failures: wireFailures},
		},
	} {
		for _, err := range []error{c.err, fmt.Errorf("query: execute: %w", c.err)} {
			c.want.Message = err.Error()
			if got := s.wireError(err); !reflect.DeepEqual(*got, c.want) {
				t.Errorf("%v:\n got %+v\nwant %+v", err, *got, c.want)
			}
		}
	}
}
