// Package refused contains the errors for refused schema changes. Their messages are Cassandra's.
//
// It does not decide which changes are refused; package schema does. Package query maps each error to its protocol
// code.
package refused

import "fmt"

// Exists means that a change would create an element that already exists. Table is empty for a keyspace. Clients
// receive the protocol code ALREADY_EXISTS with both names.
type Exists struct {
	Keyspace, Table string
	Type            bool // Table names a user-defined type
}

// Error returns Cassandra's message.
func (e *Exists) Error() string {
	switch {
	case e.Type:
		return fmt.Sprintf("A user type with name '%s' already exists", e.Table)
	case e.Table == "":
		return fmt.Sprintf("Keyspace '%s' already exists", e.Keyspace)
	}
	return fmt.Sprintf("Table '%s.%s' already exists", e.Keyspace, e.Table)
}

// NotFound means that the element of a change does not exist. Name is empty for a keyspace. At most one of Type, View
// and Index is set; if none is, Name is a table.
type NotFound struct {
	Keyspace, Name string
	Type           bool // Name is a user-defined type
	View           bool // Name is a materialized view
	Index          bool // Name is an index
}

// Error returns Cassandra's message.
func (e *NotFound) Error() string {
	switch {
	case e.Type:
		return fmt.Sprintf("Type '%s.%s' doesn't exist", e.Keyspace, e.Name)
	case e.View:
		return fmt.Sprintf("Materialized view '%s.%s' doesn't exist", e.Keyspace, e.Name)
	case e.Index:
		return fmt.Sprintf("Index '%s.%s' doesn't exist'", e.Keyspace, e.Name) // Cassandra's spelling
	case e.Name == "":
		return fmt.Sprintf("Keyspace '%s' doesn't exist", e.Keyspace)
	}
	return fmt.Sprintf("Table '%s.%s' doesn't exist", e.Keyspace, e.Name)
}

// Invalid means that a change violates a rule. Configuration distinguishes Cassandra's configuration errors from
// invalid queries. The message is for the client.
type Invalid struct {
	// Msg is the whole message.
	Msg           string
	Configuration bool
}

// Error returns the message, in Cassandra's words.
func (e *Invalid) Error() string { return e.Msg }

// Invalidf returns an *Invalid for an invalid query.
func Invalidf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...)}
}

// Misconfiguredf returns an *Invalid for a configuration error.
func Misconfiguredf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...), Configuration: true}
}

// Unavailable means that too few voting members are alive to agree on a change. The change was not proposed and has no
// effect. schema.Apply never returns it.
type Unavailable struct{ Required, Alive int }

// Error states both numbers.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("the metadata cannot change: %d voting members are alive, and %d must agree; nothing was "+
		"changed", e.Alive, e.Required)
}
