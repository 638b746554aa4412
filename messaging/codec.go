package messaging

import "cqld/internal/wire"

// An envelope is one message.
//
//	envelope := length(4) kind(1) verb(1) id(8) timeout(4) [events] payload
//
// length counts the bytes that follow it. timeout, of a request, is the number of milliseconds after which its sender
// no longer waits for the answer. kindTraced is added to the kinds of a traced request and of its answer. In such an
// answer, the events of the node that answers precede the payload (Trace). A payload that was received is valid until
// the handler of the envelope returns.
type envelope struct {
	kind    envelopeKind
	verb    Verb
	id      uint64
	timeout uint32 // ms
	traced  bool
	payload []byte
}

// envelopeKind is part of the protocol: its numbers must not change within a version.
type envelopeKind uint8

const (
	oneWay envelopeKind = iota
	request
	reply
	failure // payload is code(1) and a message
	cancel  // the sender no longer waits for the request with the id
	ping    // the receiver answers with pong
	pong
)

// kindTraced is a flag of the byte kind.
const kindTraced envelopeKind = 0x80

const envelopeHeader = 4 + 1 + 1 + 8 + 4

// appendEnvelope appends the encoding of e, and copies its payload.
func appendEnvelope(dst []byte, e *envelope) []byte {
	dst = wire.AppendUint32(dst, uint32(envelopeHeader-4+len(e.payload)))
	kind := e.kind
	if e.traced {
		kind |= kindTraced
	}
	dst = append(dst, byte(kind), byte(e.verb))
	dst = wire.AppendUint64(dst, e.id)
	dst = wire.AppendUint32(dst, e.timeout)
	return append(dst, e.payload...)
}

// consumeEnvelope decodes the next envelope, whose payload points into the bytes of c. An error is in c.
func consumeEnvelope(c *wire.Cursor) envelope {
	n := int(c.Uint32())
	// The envelope has a cursor of its own, so that a malformed one cannot read into the next.
	body := wire.NewCursor(c.Take(n))
	kind := envelopeKind(body.Uint8())
	e := envelope{kind: kind &^ kindTraced, verb: Verb(body.Uint8()), id: body.Uint64(), timeout: body.Uint32(),
		traced: kind&kindTraced != 0}
	if body.Err() != nil {
		c.Fail(body.Err())
	}
	e.payload = body.Rest()
	return e
}
