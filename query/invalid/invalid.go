package invalid

import "fmt"

// Error is the error for a well-formed statement or request that is not valid (protocol code 0x2200). Msg equals
// Cassandra's message where Cassandra has the same rule.
type Error struct{ Msg string }

// Error returns the message.
func (e *Error) Error() string { return e.Msg }

// Errorf returns an Error.
func Errorf(format string, args ...any) error {
	return &Error{Msg: fmt.Sprintf(format, args...)}
}

// NotSupported returns the error for a statement, or a part of one, that can be parsed but not executed.
func NotSupported(what string) error { return Errorf("%s is not supported yet", what) }

// Config is the error for a definition with an invalid configuration (0x2300).
type Config struct{ Msg string }

// Error returns the message.
func (e *Config) Error() string { return e.Msg }

// Configf returns a Config.
func Configf(format string, args ...any) error {
	return &Config{Msg: fmt.Sprintf(format, args...)}
}

// Unauthorized means that the user lacks a permission, or that no user may execute the statement (0x2100).
type Unauthorized struct{ Msg string }

// Error returns the message.
func (e *Unauthorized) Error() string { return e.Msg }

// Unauthorizedf returns an Unauthorized.
func Unauthorizedf(format string, args ...any) error {
	return &Unauthorized{Msg: fmt.Sprintf(format, args...)}
}

// BadRequest is the error for a request that violates the protocol (0x000A).
type BadRequest struct{ Msg string }

// Error returns the message.
func (e *BadRequest) Error() string { return e.Msg }

// FunctionFailure is the error of a call that failed during its execution (0x1400).
type FunctionFailure struct {
	Keyspace, Function string
	Args               []string // CQL types of the arguments
	Msg                string
}

// Error returns the message.
func (e *FunctionFailure) Error() string { return e.Msg }
