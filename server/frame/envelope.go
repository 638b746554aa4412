package frame

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"strings"

	"cqld/internal/wire"
)

// HeaderSize is the size of an envelope header in v3 to v6. Versions 3 to 6 differ in what is inside the body, not in
// the header.
const HeaderSize = 9

// LegacyHeaderSize is the size of the header in v1 and v2, whose stream ids have one byte. These versions are refused
// with an envelope of that form.
const LegacyHeaderSize = 8

const (
	directionBit = 0x80
	lengthOffset = 5
)

// Header is an envelope header. It is the same in all versions that this package decodes.
type Header struct {
	Version  Version
	Response bool
	Flags    Flags
	// Chosen by the client and repeated by the response. Negative in events, which answer no request.
	Stream int16
	Opcode Opcode
	// Up to 2 GiB: the caller bounds it before it allocates.
	Length int // of the body, in bytes
}

// UnsupportedVersion is the error for a header whose version is not supported. The bytes after the version cannot be
// interpreted. The answer to it names the newest version, which drivers use to negotiate downwards.
type UnsupportedVersion struct {
	Version uint8   // without the direction bit
	Newest  Version // the newest version that the server supports; 0 means V6
}

// Error has Cassandra's text, which drivers search for "unsupported protocol version" to try a lower version.
func (e *UnsupportedVersion) Error() string {
	var supported []string
	for v := V3; v <= cmp.Or(e.Newest, V6); v++ {
		supported = append(supported, v.String())
	}
	return fmt.Sprintf("Invalid or unsupported protocol version (%d); supported versions are (%s)", e.Version,
		strings.Join(supported, ", "))
}

// CheckBeta refuses requests of V6 without FlagBeta, with the text of Cassandra. V6 is the beta version of this server
// as of Cassandra 5.
func (h *Header) CheckBeta() error {
	if h.Version == V6 && h.Flags&FlagBeta == 0 {
		return protocolError("Beta version of the protocol used (6/v6-beta), but USE_BETA flag is unset")
	}
	return nil
}

// VersionOf checks the first byte of a header. The error is *UnsupportedVersion.
func VersionOf(first byte) (Version, error) {
	v := Version(first &^ directionBit)
	if v < V3 || v > V6 {
		return v, &UnsupportedVersion{Version: uint8(v)}
	}
	return v, nil
}

// DecodeHeader decodes the first HeaderSize bytes of b. It fails with *UnsupportedVersion, wire.ErrShort, or
// *ProtocolError for a negative length. The caller must check the opcode and the direction. It does not check that the
// flags are known: unknown flags are ignored, as in Cassandra.
func DecodeHeader(b []byte) (Header, error) {
	// The version is checked before the length: v1 and v2 have shorter headers.
	if len(b) == 0 {
		return Header{}, wire.ErrShort
	}
	v, err := VersionOf(b[0])
	if err != nil {
		return Header{Version: v}, err
	}
	if len(b) < HeaderSize {
		return Header{Version: v}, wire.ErrShort
	}
	h := Header{
		Version:  v,
		Response: b[0]&directionBit != 0,
		Flags:    Flags(b[1]),
		Stream:   int16(binary.BigEndian.Uint16(b[2:])),
		Opcode:   Opcode(b[4]),
	}
	// The length is signed in the protocol.
	length := int32(binary.BigEndian.Uint32(b[lengthOffset:]))
	if length < 0 {
		return h, protocolError(fmt.Sprintf("Invalid value for envelope header body length field: %d", length))
	}
	h.Length = int(length)
	return h, nil
}

// AppendHeader appends h, with FlagBeta if its version is V6. FinishEnvelope may set the length later.
func AppendHeader(dst []byte, h Header) []byte {
	first := byte(h.Version)
	if h.Response {
		first |= directionBit
	}
	// V6 is a draft, which both sides must announce.
	if h.Version == V6 {
		h.Flags |= FlagBeta
	}
	// §2 of the specification: version, flags, stream, opcode and length, nine bytes in all.
	dst = append(dst, first, byte(h.Flags))
	dst = wire.AppendUint16(dst, uint16(h.Stream))
	dst = append(dst, byte(h.Opcode))
	return wire.AppendUint32(dst, uint32(h.Length))
}

// FinishEnvelope sets the length of the envelope that begins at offset start of dst and ends at the end of dst. The
// length is not known when the header is appended. dst must contain a header at start.
func FinishEnvelope(dst []byte, start int) {
	binary.BigEndian.PutUint32(dst[start+lengthOffset:], uint32(len(dst)-start-HeaderSize))
}

// AddFlags sets flags in the header that begins at offset start of dst.
func AddFlags(dst []byte, start int, flags Flags) { dst[start+1] |= byte(flags) }

// envelopeSize returns the size of the envelope at the start of b, which contains at least a header. It is for
// envelopes that this process has made, so the length is trusted.
func envelopeSize(b []byte) int {
	return HeaderSize + int(binary.BigEndian.Uint32(b[lengthOffset:]))
}

// AppendUnsupportedVersion appends the reply to a request of an unsupported version: an ERROR in the form that the
// client reads (v1 and v2 have their own header), whose version is the one that the client should try next.
func AppendUnsupportedVersion(dst []byte, e *UnsupportedVersion, stream int16) []byte {
	message := e.Error()
	// Such a client reads a header of 8 bytes with a stream of one byte, and would wait forever for other bytes.
	if e.Version == 1 || e.Version == 2 {
		dst = append(dst, e.Version|directionBit, 0, byte(stream), byte(OpError))
		dst = wire.AppendUint32(dst, uint32(4+2+len(message)))
	} else {
		dst = AppendHeader(dst, Header{Version: min(V5, cmp.Or(e.Newest, V5)), Response: true, Stream: stream,
			Opcode: OpError, Length: 4 + 2 + len(message)})
	}
	dst = wire.AppendInt32(dst, int32(CodeProtocolError))
	return wire.AppendString(dst, message)
}

// AppendTLSRequired appends the reply to a request that was not encrypted and arrived at a port that requires TLS.
// header is the beginning of the request. ok is false if it does not look like a request.
func AppendTLSRequired(dst []byte, header [5]byte) (reply []byte, ok bool) {
	version, err := VersionOf(header[0])
	// Random bytes, or the hello of TLS, get no reply.
	if err != nil || header[0]&directionBit != 0 {
		return dst, false
	}
	const message = "This port requires TLS: connect with encryption (client_encryption_options of the node)"
	dst = AppendHeader(dst, Header{Version: version, Response: true, Stream: int16(binary.BigEndian.Uint16(header[2:])),
		Opcode: OpError, Length: 4 + 2 + len(message)})
	dst = wire.AppendInt32(dst, int32(CodeProtocolError))
	return wire.AppendString(dst, message), true
}

// Prefix contains the parts of an envelope before its message, according to its flags. Only the fields whose flag is
// set are sent or valid.
type Prefix struct {
	TracingID     [16]byte          // with FlagTracing, in responses
	Warnings      []string          // with FlagWarnings
	CustomPayload map[string][]byte // with FlagCustomPayload
}

// AppendPrefix appends the parts of p that the flags name.
func AppendPrefix(dst []byte, flags Flags, p Prefix) []byte {
	// The order is the one of the specification: the tracing id, the warnings, the custom payload.
	if flags&FlagTracing != 0 {
		dst = wire.AppendUUID(dst, p.TracingID)
	}
	if flags&FlagWarnings != 0 {
		dst = wire.AppendStringList(dst, p.Warnings)
	}
	if flags&FlagCustomPayload != 0 {
		dst = appendBytesMap(dst, p.CustomPayload)
	}
	return dst
}

// ConsumeResponsePrefix decodes the parts that the flags of a response announce.
func ConsumeResponsePrefix(c *wire.Cursor, flags Flags) (p Prefix) {
	if flags&FlagTracing != 0 {
		p.TracingID = c.UUID()
	}
	if flags&FlagWarnings != 0 {
		p.Warnings = c.StringList()
	}
	if flags&FlagCustomPayload != 0 {
		p.CustomPayload = consumeBytesMap(c)
	}
	return p
}

// ConsumeRequestPrefix decodes the custom payload at the beginning of a request. It returns nil without the flag. An
// empty payload is a map without entries.
func ConsumeRequestPrefix(c *wire.Cursor, v Version, flags Flags) map[string][]byte {
	if flags&FlagCustomPayload == 0 {
		return nil
	}
	// Refused rather than ignored: the payload would be read as the beginning of the body.
	if v < V4 {
		c.Fail(protocolError("Received frame with CUSTOM_PAYLOAD flag for native protocol version < 4"))
		return nil
	}
	return consumeBytesMap(c)
}

// Keys are sorted, so that equal maps have equal bytes.
func appendBytesMap(dst []byte, m map[string][]byte) []byte {
	dst = wire.AppendUint16(dst, uint16(len(m)))
	for _, k := range sortedKeys(m) {
		dst = wire.AppendString(dst, k)
		dst = wire.AppendBytes(dst, m[k])
	}
	return dst
}

// The values point into the body. Of a key that was sent twice, the last value counts.
func consumeBytesMap(c *wire.Cursor) map[string][]byte {
	n := c.ShortCount(2 + 4)
	m := make(map[string][]byte, n)
	for range n {
		k := c.String()
		m[k] = c.Bytes()
	}
	return m
}
