package invalid

import (
	"fmt"
	"time"
)

// AlreadyExists means that a keyspace or table already exists (0x2400). Table is empty for a keyspace.
type AlreadyExists struct{ Keyspace, Table string }

// Error returns Cassandra's message.
func (e *AlreadyExists) Error() string {
	if e.Table == "" {
		return fmt.Sprintf("Cannot add existing keyspace \"%s\"", e.Keyspace)
	}
	return fmt.Sprintf("Cannot add already existing table \"%s\" to keyspace \"%s\"", e.Table, e.Keyspace)
}

// Unprepared means that an id is unknown (0x2500); clients respond by preparing the statement again.
type Unprepared struct{ ID []byte }

// Error returns Cassandra's message.
func (e *Unprepared) Error() string {
	return fmt.Sprintf("Prepared query with ID %x not found (either the query was not prepared on this host "+
		"(maybe the host has been restarted?) or you have prepared too many queries and it has been evicted "+
		"from the internal cache)", e.ID)
}

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

// NotServing means that this node does not serve clients at the moment (0x1002); the client should use another node.
type NotServing struct{ Msg string }

// Error returns the message.
func (e *NotServing) Error() string { return e.Msg }
