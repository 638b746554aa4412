package frame

import (
	"net/netip"

	"cqld/internal/wire"
	"cqld/ring"
)

// The fields of ERROR after <code><message>, by code:
//
//	unavailable           consistency, required, alive
//	write timeout         consistency, received, blockfor, write type [contentions in v5, for CAS]
//	read timeout          consistency, received, blockfor, data present
//	read failure          consistency, received, blockfor, failures, data present
//	write failure         consistency, received, blockfor, failures, write type
//	function failure      keyspace, function, argument types
//	CAS write unknown     consistency, received, blockfor
//	already exists        keyspace, table
//	unprepared            id
//
// All other errors end after the message.

// ErrorCode is the code of an ERROR message. Codes from 0x1000 are errors of execution, and codes from 0x2000 errors of
// statements.
type ErrorCode int32

// The error codes. Codes of a later version are sent to older clients as the nearest code that they know; see
// AppendError.
const (
	CodeServerError     ErrorCode = 0x0000
	CodeProtocolError   ErrorCode = 0x000A
	CodeBadCredentials  ErrorCode = 0x0100
	CodeUnavailable     ErrorCode = 0x1000
	CodeOverloaded      ErrorCode = 0x1001
	CodeBootstrapping   ErrorCode = 0x1002
	CodeTruncateError   ErrorCode = 0x1003
	CodeWriteTimeout    ErrorCode = 0x1100
	CodeReadTimeout     ErrorCode = 0x1200
	CodeReadFailure     ErrorCode = 0x1300 // v4
	CodeFunctionFailure ErrorCode = 0x1400 // v4
	CodeWriteFailure    ErrorCode = 0x1500 // v4
	CodeCDCWriteFailure ErrorCode = 0x1600 // v4
	CodeCASWriteUnknown ErrorCode = 0x1700 // v5
	CodeSyntaxError     ErrorCode = 0x2000
	CodeUnauthorized    ErrorCode = 0x2100
	CodeInvalid         ErrorCode = 0x2200
	CodeConfigError     ErrorCode = 0x2300
	CodeAlreadyExists   ErrorCode = 0x2400
	CodeUnprepared      ErrorCode = 0x2500
)

// WriteTypeCAS is the write type that has a contention count in v5.
const WriteTypeCAS = "CAS"

// Failure is one replica's reason in a read or write failure. v4 sends only how many there are. Reason is one of
// Cassandra's RequestFailureReason: 0 unknown, 1 READ_TOO_MANY_TOMBSTONES, 2 TIMEOUT.
type Failure struct {
	Replica netip.Addr
	Reason  uint16 // 0 if unknown
}

// Error is an ERROR message. Code determines which fields are sent. The comments name the errors that use a field.
// Fields of other errors are ignored. It is plain data: package server makes it from typed errors, and nothing below
// does.
type Error struct {
	Code        ErrorCode
	Message     string
	Consistency ring.Consistency // unavailable, timeouts, failures, CAS unknown
	Required    int32            // unavailable; other errors call it blockfor
	Received    int32            // for unavailable: the number of live replicas
	WriteType   string           // write timeout and failure
	DataPresent bool             // read timeout and failure
	Contentions uint16           // write timeout of type CAS, v5
	Failures    []Failure        // read and write failure
	Keyspace    string           // already exists, function failure
	Name        string           // the table or function; "" for a keyspace
	ArgTypes    []string         // function failure
	ID          []byte           // unprepared
}

// ForVersion returns the code that describes e best in version v. A client that does not know a code would close the
// connection. Drivers retry timeouts by their own rules, which suit a failure too. It does not change e, which is
// counted by its own code.
func (e *Error) ForVersion(v Version) ErrorCode {
	switch e.Code {
	// Failures were added in v4. A timeout is the nearest older error with the same counts.
	case CodeReadFailure:
		if v < V4 {
			return CodeReadTimeout
		}
	case CodeWriteFailure:
		if v < V4 {
			return CodeWriteTimeout
		}
	case CodeFunctionFailure, CodeCDCWriteFailure:
		if v < V4 {
			return CodeInvalid
		}
	// Added in v5. Its outcome is as unknown as after a timeout.
	case CodeCASWriteUnknown:
		if v < V5 {
			return CodeWriteTimeout
		}
	}
	return e.Code
}

// AppendError appends the body of ERROR in version v.
func AppendError(dst []byte, v Version, e *Error) []byte {
	code := e.ForVersion(v)
	dst = wire.AppendInt32(dst, int32(code))
	dst = wire.AppendString(dst, e.Message)
	switch code {
	case CodeUnavailable:
		dst = wire.AppendUint16(dst, uint16(e.Consistency))
		dst = wire.AppendInt32(dst, e.Required)
		dst = wire.AppendInt32(dst, e.Received)
	case CodeWriteTimeout:
		dst = e.appendCounts(dst)
		writeType := e.WriteType
		// It has the counts of a write timeout, and only the type must say CAS.
		if e.Code == CodeCASWriteUnknown {
			writeType = WriteTypeCAS
		}
		dst = wire.AppendString(dst, writeType)
		if v >= V5 && writeType == WriteTypeCAS {
			dst = wire.AppendUint16(dst, e.Contentions)
		}
	case CodeReadTimeout:
		dst = e.appendCounts(dst)
		dst = appendBool(dst, e.DataPresent)
	// In a read failure, the byte for the data follows the failures; in a timeout it follows the counts.
	case CodeReadFailure:
		dst = e.appendCounts(dst)
		dst = e.appendFailures(dst, v)
		dst = appendBool(dst, e.DataPresent)
	case CodeWriteFailure:
		dst = e.appendCounts(dst)
		dst = e.appendFailures(dst, v)
		dst = wire.AppendString(dst, e.WriteType)
	case CodeFunctionFailure:
		dst = wire.AppendString(dst, e.Keyspace)
		dst = wire.AppendString(dst, e.Name)
		dst = wire.AppendStringList(dst, e.ArgTypes)
	case CodeCASWriteUnknown:
		dst = e.appendCounts(dst)
	case CodeAlreadyExists:
		dst = wire.AppendString(dst, e.Keyspace)
		dst = wire.AppendString(dst, e.Name)
	case CodeUnprepared:
		dst = wire.AppendShortBytes(dst, e.ID)
	}
	return dst
}

// appendCounts appends the consistency, and how many replicas answered and were needed.
func (e *Error) appendCounts(dst []byte) []byte {
	dst = wire.AppendUint16(dst, uint16(e.Consistency))
	dst = wire.AppendInt32(dst, e.Received)
	return wire.AppendInt32(dst, e.Required)
}

// appendFailures appends the failures: <numfailures> in v4, <reasonmap> in v5.
func (e *Error) appendFailures(dst []byte, v Version) []byte {
	dst = wire.AppendInt32(dst, int32(len(e.Failures)))
	if v < V5 {
		return dst // v4 sends only the number of failures
	}
	for _, f := range e.Failures {
		dst = wire.AppendInetAddr(dst, f.Replica)
		dst = wire.AppendUint16(dst, f.Reason)
	}
	return dst
}

// ConsumeError consumes the body of ERROR. Clients use it, and tests. Byte slices point into the body. A code that is
// not known is returned with its message only.
func ConsumeError(c *wire.Cursor, v Version) *Error {
	// Code and message are followed by fields that depend on the code only; other codes have none.
	e := &Error{Code: ErrorCode(c.Int32()), Message: c.String()}
	switch e.Code {
	case CodeUnavailable:
		e.Consistency = ring.Consistency(c.Uint16())
		e.Required = c.Int32()
		e.Received = c.Int32()
	case CodeWriteTimeout:
		e.consumeCounts(c)
		e.WriteType = c.String()
		if v >= V5 && e.WriteType == WriteTypeCAS {
			e.Contentions = c.Uint16()
		}
	case CodeReadTimeout:
		e.consumeCounts(c)
		e.DataPresent = c.Uint8() != 0
	case CodeReadFailure:
		e.consumeCounts(c)
		e.consumeFailures(c, v)
		e.DataPresent = c.Uint8() != 0
	case CodeWriteFailure:
		e.consumeCounts(c)
		e.consumeFailures(c, v)
		e.WriteType = c.String()
	case CodeFunctionFailure:
		e.Keyspace, e.Name, e.ArgTypes = c.String(), c.String(), c.StringList()
	case CodeCASWriteUnknown:
		e.consumeCounts(c)
	case CodeAlreadyExists:
		e.Keyspace, e.Name = c.String(), c.String()
	case CodeUnprepared:
		e.ID = c.ShortBytes()
	}
	return e
}

// consumeCounts is the inverse of appendCounts.
func (e *Error) consumeCounts(c *wire.Cursor) {
	e.Consistency = ring.Consistency(c.Uint16())
	e.Received = c.Int32()
	e.Required = c.Int32()
}

// consumeFailures is the inverse of appendFailures. In v4 the failures have no contents.
func (e *Error) consumeFailures(c *wire.Cursor, v Version) {
	if v < V5 {
		// v4 sends only the number of failures. A number greater than any cluster's number of replicas is malformed.
		n := c.Int32()
		if n < 0 || n > failuresMax {
			c.Fail(wire.ErrMalformed)
			return
		}
		e.Failures = make([]Failure, n)
		return
	}
	n := c.IntCount(1 + 4 + 2)
	for range n {
		e.Failures = append(e.Failures, Failure{Replica: c.InetAddr(), Reason: c.Uint16()})
	}
}

// failuresMax bounds the allocation for a v4 failure count.
const failuresMax = 1 << 16

func appendBool(dst []byte, b bool) []byte {
	if b {
		return append(dst, 1)
	}
	return append(dst, 0)
}
