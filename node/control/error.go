package control

// Code says which kind of error an operation ended with.
type Code string

// The codes. The zero value is none of them.
const (
	Invalid     Code = "invalid"       // what was asked for makes no sense
	Unsupported Code = "not supported" // it is not supported yet
	Refused     Code = "refused"       // it makes sense, but not now
	Failed      Code = "failed"        // it was tried
	Denied      Code = "denied"        // the client lacks a permission
)

// Error is how an operation ended that did not succeed.
type Error struct {
	Code    Code   `json:"code"`
	Message string `json:"message"`
}

// Error is the message.
func (e *Error) Error() string { return e.Message }

// NotSupported is the answer of an operation that is not there yet.
func NotSupported(what string) error { return &Error{Unsupported, what + " is not supported yet"} }
