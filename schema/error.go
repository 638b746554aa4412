package schema

import "fmt"

// Exists says that a change would make something a second time. Table is empty for a keyspace.
type Exists struct {
	Keyspace, Table string
	Type            bool // Table names a user-defined type
}

// Error is Cassandra's text.
func (e *Exists) Error() string {
	switch {
	case e.Type:
		return fmt.Sprintf("A user type with name '%s' already exists", e.Table)
	case e.Table == "":
		return fmt.Sprintf("Keyspace '%s' already exists", e.Keyspace)
	}
	return fmt.Sprintf("Table '%s.%s' already exists", e.Keyspace, e.Table)
}

// NotFound says that what a change is about is not there. Name is empty for a keyspace.
type NotFound struct {
	Keyspace, Name string
	Type           bool // Name is a user-defined type
}

// Error is Cassandra's text.
func (e *NotFound) Error() string {
	switch {
	case e.Type:
		return fmt.Sprintf("Type '%s.%s' doesn't exist", e.Keyspace, e.Name)
	case e.Name == "":
		return fmt.Sprintf("Keyspace '%s' doesn't exist", e.Keyspace)
	}
	return fmt.Sprintf("Table '%s.%s' doesn't exist", e.Keyspace, e.Name)
}

// Invalid says that a change breaks a rule. Configuration tells the rules that Cassandra answers
// with a configuration error from those it calls an invalid query.
type Invalid struct {
	Msg           string
	Configuration bool
}

// Error is the message, in Cassandra's words.
func (e *Invalid) Error() string { return e.Msg }

func invalidf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...)}
}

func misconfiguredf(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...), Configuration: true}
}

// Unavailable says that fewer voting members live than must agree on a change. The change was not proposed, and is not made.
type Unavailable struct{ Required, Alive int }

// Error states both numbers.
func (e *Unavailable) Error() string {
	return fmt.Sprintf("the metadata cannot change: %d voting members are alive, and %d must agree; nothing was changed", e.Alive, e.Required)
}
