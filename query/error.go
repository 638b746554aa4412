package query

import (
	"fmt"
	"time"

	"cqld/query/function"
)

// Invalid is a statement or request that is well formed and means nothing (protocol code 0x2200).
type Invalid = function.Invalid

// invalidf makes an Invalid.
func invalidf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...)}
}

// NotSupported is the error for what parses but is not executed yet.
func NotSupported(what string) error {
	return &Invalid{Msg: what + " is not supported yet"}
}

// Unauthorized says that the user may not do this (0x2100).
type Unauthorized struct{ Msg string }

// Error is the message.
func (e *Unauthorized) Error() string { return e.Msg }

// ConfigError is a definition whose configuration is not possible (0x2300).
type ConfigError struct{ Msg string }

// Error is the message.
func (e *ConfigError) Error() string { return e.Msg }

// AlreadyExists says that a keyspace or table exists already (0x2400). Table is empty for a
// keyspace.
type AlreadyExists struct{ Keyspace, Table string }

// Error is Cassandra's text.
func (e *AlreadyExists) Error() string {
	if e.Table == "" {
		return fmt.Sprintf("Cannot add existing keyspace \"%s\"", e.Keyspace)
	}
	return fmt.Sprintf("Cannot add already existing table \"%s\" to keyspace \"%s\"", e.Table, e.Keyspace)
}

// Unprepared says that no plan is known for an id (0x2500); the client prepares again.
type Unprepared struct{ ID []byte }

// Error is Cassandra's text.
func (e *Unprepared) Error() string {
	return fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host "+
		"(maybe the host has been restarted?) or you have prepared too many queries and it has been evicted "+
		"from the internal cache)", e.ID)
}

// FunctionFailure is a function that failed on its arguments (0x1400).
type FunctionFailure = function.Failure

// BadRequest is a request that contradicts the protocol (0x000A).
type BadRequest struct{ Msg string }

// Error is the message.
func (e *BadRequest) Error() string { return e.Msg }

// SchemaUnavailable says that a majority of the voting members does not live (0x1000). The schema was not changed.
type SchemaUnavailable struct{ Required, Alive int }

// Error says what was not done, and why.
func (e *SchemaUnavailable) Error() string {
	return fmt.Sprintf("Cannot achieve consistency level QUORUM: the schema was not changed, because %d voting members are alive and %d must agree",
		e.Alive, e.Required)
}

// SchemaTimeout says that a change of the schema was proposed and not decided in time (0x1100). It may still be made.
type SchemaTimeout struct{ After time.Duration }

// Error says what is unknown.
func (e *SchemaTimeout) Error() string {
	return fmt.Sprintf("Operation timed out: the schema change was not agreed on by a majority of the voting members, and applied by all live nodes, "+
		"within %v; whether it will be made is unknown: look before you repeat it", e.After)
}

// NotServing says that this node must not serve now (0x1002); another one may.
type NotServing struct{ Msg string }

// Error is the message.
func (e *NotServing) Error() string { return e.Msg }
