package control

// Code is the kind of error with which an operation ended. Clients may decide by it; messages are for people.
type Code string

// The codes. The zero value is invalid.
const (
	Invalid     Code = "invalid"       // the arguments are invalid
	Unsupported Code = "not supported" // the operation is not supported yet
	Refused     Code = "refused"       // the operation is valid, but not possible now
	Failed      Code = "failed"        // the operation was tried and failed
	Denied      Code = "denied"        // the client lacks a permission
)

// Error is the error of an operation that failed. It is the form in which errors cross the connection. Any other error
// of an operation becomes one with the code Failed.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error returns the message.
func (e *Error) Error() string { return e.Message }

// NotSupported returns the error of an operation that is not implemented yet.
func NotSupported(what string) error { return &Error{Unsupported, what + " is not supported yet"} }
