package query

import (
	"fmt"
	"time"

	"cqld/query/execution"
	"cqld/query/function"
)

// Invalid is the error for a well-formed statement or request that is not valid (protocol code 0x2200).
type Invalid = function.Invalid

// invalidf returns an Invalid.
func invalidf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...)}
}

// Unauthorized means that the user lacks a permission (0x2100).
type Unauthorized = execution.Unauthorized

// ConfigError is the error for a definition with an invalid configuration (0x2300).
type ConfigError struct{ Msg string }

// Error returns the message.
func (e *ConfigError) Error() string { return e.Msg }

// AlreadyExists means that a keyspace or table already exists (0x2400). Table is empty for a keyspace.
type AlreadyExists struct{ Keyspace, Table string }

// Error returns Cassandra's text.
func (e *AlreadyExists) Error() string {
	if e.Table == "" {
		return fmt.Sprintf("Cannot add existing keyspace \"%s\"", e.Keyspace)
	}
	return fmt.Sprintf("Cannot add already existing table \"%s\" to keyspace \"%s\"", e.Table, e.Keyspace)
}

// Unprepared means that an id is unknown (0x2500); the client prepares the statement again.
type Unprepared struct{ ID []byte }

// Error returns Cassandra's text.
func (e *Unprepared) Error() string {
	return fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host "+
		"(maybe the host has been restarted?) or you have prepared too many queries and it has been evicted "+
		"from the internal cache)", e.ID)
}

// FunctionFailure is the error of a function that failed on its arguments (0x1400).
type FunctionFailure = function.Failure

// BadRequest is the error for a request that violates the protocol (0x000A).
type BadRequest = execution.BadRequest

// SchemaUnavailable means that no majority of the voting members is alive (0x1000). The schema was not changed.
type SchemaUnavailable struct{ Required, Alive int }

// Error returns a message with the number of live voters.
func (e *SchemaUnavailable) Error() string {
	return fmt.Sprintf("Cannot achieve consistency level QUORUM: the schema was not changed, because %d voting "+
		"members are alive and %d must agree",
		e.Alive, e.Required)
}

// SchemaTimeout means that a schema change was proposed but not committed in time (0x1100). It may still be applied.
type SchemaTimeout struct{ After time.Duration }

// Error returns a message that says that the outcome is unknown.
func (e *SchemaTimeout) Error() string {
	return fmt.Sprintf("Operation timed out: the schema change was not agreed on by a majority of the voting "+
		"members, and applied by all live nodes, "+
		"within %v; whether it will be made is unknown: look before you repeat it", e.After)
}

// NotServing means that this node must not serve clients now (0x1002); another node may.
type NotServing struct{ Msg string }

// Error returns the message.
func (e *NotServing) Error() string { return e.Msg }
