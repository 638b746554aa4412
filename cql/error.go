package cql

// SyntaxError is a text that is not a CQL statement.
type SyntaxError struct {
	Line   int // of the text, from 1; 0 when the whole text is meant
	Column int // of the line, in characters, from 0
	Msg    string
}

// Error returns the message with its place, as Cassandra words it.
func (e *SyntaxError) Error() string { return e.Msg }
