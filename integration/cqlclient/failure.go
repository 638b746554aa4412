package cqlclient

import (
	"encoding/hex"
	"fmt"
)

// Error is an ERROR message: its code, its text and the additional fields of the code, as text. It is both: the decoded
// ERROR of an Answer, and a Go error for callers that do not expect one.
type Error struct {
	Code    int
	Message string
	// In the form "name=value", separated by spaces, in the order of the protocol.
	Fields string
}

// Error implements error. For example:
//
//	UNAVAILABLE: Cannot achieve consistency level QUORUM [consistency=4 required=2 alive=1]
func (e *Error) Error() string {
	s := fmt.Sprintf("%s: %s", codeName(e.Code), e.Message)
	if e.Fields != "" {
		s += " [" + e.Fields + "]"
	}
	return s
}

// Codes of ERROR messages that tests use.
const (
	CodeUnavailable  = 0x1000
	CodeWriteTimeout = 0x1100
	CodeReadTimeout  = 0x1200
	CodeCASUnknown   = 0x1700
	CodeInvalid      = 0x2200
)

// codeName returns the name in the specification, as transcripts show it. A code without a name is shown as a number,
// so that a new one fails a comparison with a readable text.
func codeName(code int) string {
	switch code {
	case 0x0000:
		return "SERVER_ERROR"
	case 0x000A:
		return "PROTOCOL_ERROR"
	case 0x0100:
		return "BAD_CREDENTIALS"
	case CodeUnavailable:
		return "UNAVAILABLE"
	case 0x1001:
		return "OVERLOADED"
	case 0x1002:
		return "IS_BOOTSTRAPPING"
	case 0x1003:
		return "TRUNCATE_ERROR"
	case CodeWriteTimeout:
		return "WRITE_TIMEOUT"
	case CodeReadTimeout:
		return "READ_TIMEOUT"
	case 0x1300:
		return "READ_FAILURE"
	case 0x1400:
		return "FUNCTION_FAILURE"
	case 0x1500:
		return "WRITE_FAILURE"
	case CodeCASUnknown:
		return "CAS_WRITE_UNKNOWN"
	case 0x2000:
		return "SYNTAX_ERROR"
	case 0x2100:
		return "UNAUTHORIZED"
	case CodeInvalid:
		return "INVALID"
	case 0x2300:
		return "CONFIG_ERROR"
	case 0x2400:
		return "ALREADY_EXISTS"
	case 0x2500:
		return "UNPREPARED"
	}
	return fmt.Sprintf("%#04x", code)
}

// decodeError decodes the body of ERROR. The fields of each code have a fixed form, so that transcripts can be
// compared. Arguments of one Sprintf are read from left to right, which is the order of the wire.
func decodeError(r *reader, version byte) *Error {
	e := &Error{Code: r.int(), Message: r.string()}
	switch e.Code {
	case CodeUnavailable:
		// The level, how many replicas must answer, and how many are alive.
		e.Fields = fmt.Sprintf("consistency=%d required=%d alive=%d", r.short(), r.int(), r.int())
	case CodeWriteTimeout:
		// contentions, v5: how many other proposals were met.
		e.Fields = fmt.Sprintf("consistency=%d received=%d blockfor=%d type=", r.short(), r.int(), r.int())
		kind := r.string()
		e.Fields += kind
		if kind == "CAS" && version >= 5 {
			e.Fields += fmt.Sprintf(" contentions=%d", r.short())
		}
	case CodeCASUnknown:
		e.Fields = fmt.Sprintf("consistency=%d received=%d blockfor=%d", r.short(), r.int(), r.int())
	case CodeReadTimeout:
		e.Fields = fmt.Sprintf("consistency=%d received=%d blockfor=%d data=%d", r.short(), r.int(), r.int(), r.byte())
	case 0x1300, 0x1500:
		e.Fields = fmt.Sprintf("consistency=%d received=%d blockfor=%d", r.short(), r.int(), r.int())
		n := r.int()
		// From v5 on, each failure has an address and a reason, which differ between servers and are skipped.
		for i := 0; version >= 5 && i < n && r.err == nil; i++ {
			r.take(int(r.byte()))
			r.short()
		}
		if e.Code == 0x1300 {
			// data_present: whether the replica with the data answered; it depends on chance, and is not shown.
			r.byte()
		} else {
			e.Fields += " type=" + r.string()
		}
		e.Fields += fmt.Sprintf(" failures=%d", n)
	// The function that failed, with the types of its arguments.
	case 0x1400:
		e.Fields = fmt.Sprintf("keyspace=%s function=%s arguments=%v", r.string(), r.string(), r.strings())
	case 0x2400:
		e.Fields = fmt.Sprintf("keyspace=%s table=%s", r.string(), r.string())
	case 0x2500:
		e.Fields = "id=" + hex.EncodeToString(r.shortBytes())
	}
	return e
}
