package frame

import "fmt"

import "strconv"

// Opcode identifies the type of message in an envelope. Whether a message is a request follows from the direction bit
// of the header, too. Values are the specification's (section 2.4 of v4).
type Opcode uint8

// The opcodes of v3, v4 and v5. (4 was CREDENTIALS of v1.)
const (
	OpError         Opcode = 0x00
	OpStartup       Opcode = 0x01
	OpReady         Opcode = 0x02
	OpAuthenticate  Opcode = 0x03
	OpOptions       Opcode = 0x05
	OpSupported     Opcode = 0x06
	OpQuery         Opcode = 0x07
	OpResult        Opcode = 0x08
	OpPrepare       Opcode = 0x09
	OpExecute       Opcode = 0x0A
	OpRegister      Opcode = 0x0B
	OpEvent         Opcode = 0x0C
	OpBatch         Opcode = 0x0D
	OpAuthChallenge Opcode = 0x0E
	OpAuthResponse  Opcode = 0x0F
	OpAuthSuccess   Opcode = 0x10
)

// String returns the opcode's name in the specification.
func (o Opcode) String() string {
	switch o {
	case OpError:
		return "ERROR"
	case OpStartup:
		return "STARTUP"
	case OpReady:
		return "READY"
	case OpAuthenticate:
		return "AUTHENTICATE"
	case OpOptions:
		return "OPTIONS"
	case OpSupported:
		return "SUPPORTED"
	case OpQuery:
		return "QUERY"
	case OpResult:
		return "RESULT"
	case OpPrepare:
		return "PREPARE"
	case OpExecute:
		return "EXECUTE"
	case OpRegister:
		return "REGISTER"
	case OpEvent:
		return "EVENT"
	case OpBatch:
		return "BATCH"
	case OpAuthChallenge:
		return "AUTH_CHALLENGE"
	case OpAuthResponse:
		return "AUTH_RESPONSE"
	case OpAuthSuccess:
		return "AUTH_SUCCESS"
	default:
		return "0x" + strconv.FormatUint(uint64(o), 16)
	}
}

// Request reports whether clients send o. It is false for unknown opcodes, and so is Response.
func (o Opcode) Request() bool {
	switch o {
	case OpStartup, OpOptions, OpQuery, OpPrepare, OpExecute, OpRegister, OpBatch, OpAuthResponse:
		return true
	default:
		return false
	}
}

// Response reports whether servers send o. Requests and responses have no opcode in common.
func (o Opcode) Response() bool {
	return o == OpError || o <= OpAuthSuccess && o != 0x04 && !o.Request()
}

// Version is a protocol version without the direction bit. Versions are ordered: a comparison shows whether a field
// exists. Field comments such as "v4" mean that version and all later ones.
type Version uint8

// The versions that this package encodes and decodes completely.
const (
	V3 Version = 3
	V4 Version = 4
	V5 Version = 5
	// V6 is V5 with FlagBeta in each header, as in Cassandra 5, which calls it v6-beta.
	V6 Version = 6
)

// String returns the version as SUPPORTED and messages of errors have it.
func (v Version) String() string {
	if v == V6 {
		return "6/v6-beta"
	}
	return fmt.Sprintf("%d/v%[1]d", uint8(v))
}

// Flags are the flags of an envelope header. Bits of the second byte of a header. A flag in a request asks for
// something, in a response it says what the body begins with.
type Flags uint8

// The flags. Unknown ones are ignored.
const (
	FlagCompressed    Flags = 0x01 // v3 and v4 only; v5 ignores it
	FlagTracing       Flags = 0x02
	FlagCustomPayload Flags = 0x04 // v4 and later
	FlagWarnings      Flags = 0x08 // v4 and later, responses
	FlagBeta          Flags = 0x10 // requests of V6 and all responses to them
)

// ProtocolError is the error for input that the protocol does not allow. Its text is intended for the client. The
// client gets it with CodeProtocolError. Whether the connection ends is the server's decision, not this package's.
type ProtocolError struct{ Message string }

func (e *ProtocolError) Error() string { return e.Message }

// protocolError returns an error, whose message should be Cassandra's where it has one.
func protocolError(message string) *ProtocolError { return &ProtocolError{Message: message} }
