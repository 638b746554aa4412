package messaging

import (
	"fmt"
	"sync"

	"google.golang.org/grpc/mem"

	"cqld/internal/wire"
)

// A frame is the content of one gRPC message: every envelope that was ready when it was written.
//
//	frame    := stamp(8) envelope*
//	envelope := length(4, of the rest) kind(1) verb(1) id(8) timeout(4) [events] payload
//
// stamp is the sender's hybrid logical clock. timeout, of a request, is the time in milliseconds after which its
// sender no longer waits for the reply. kindTraced is added to the kind of a traced request and to that of its reply,
// whose payload follows the events of the replying node (Trace).
type frame struct{ b []byte }

type envelopeKind uint8

const (
	oneWay envelopeKind = iota
	request
	reply
	failure // payload is code(1) and a message
	cancel  // the sender no longer waits for the request with the id
)

// kindTraced is a bit of the byte kind.
const kindTraced envelopeKind = 0x80

const envelopeHeader = 4 + 1 + 1 + 8 + 4

type envelope struct {
	kind    envelopeKind
	verb    Verb
	id      uint64
	timeout uint32 // ms
	traced  bool
	payload []byte
}

func appendEnvelope(dst []byte, e envelope) []byte {
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

func consumeEnvelope(c *wire.Cursor) envelope {
	n := int(c.Uint32())
	body := wire.NewCursor(c.Take(n))
	kind := envelopeKind(body.Uint8())
	e := envelope{kind: kind &^ kindTraced, verb: Verb(body.Uint8()), id: body.Uint64(), timeout: body.Uint32(), traced: kind&kindTraced != 0}
	if body.Err() != nil {
		c.Fail(body.Err())
	}
	e.payload = body.Rest()
	return e
}

// frameCodec passes frames to gRPC without a copy. Buffers return to the pool when gRPC has written them.
type frameCodec struct{ pool *bufferPool }

// Name returns the content subtype both ends agree on.
func (frameCodec) Name() string { return "cqld" }

// Marshal returns the frame's bytes without a copy.
func (c frameCodec) Marshal(v any) (mem.BufferSlice, error) {
	f, ok := v.(*frame)
	if !ok {
		return nil, fmt.Errorf("messaging: cannot send a %T", v)
	}
	b := f.b
	return mem.BufferSlice{mem.NewBuffer(&b, c.pool)}, nil
}

// Unmarshal copies the received bytes into the frame's buffer, which the next frame reuses.
func (c frameCodec) Unmarshal(data mem.BufferSlice, v any) error {
	f, ok := v.(*frame)
	if !ok {
		return fmt.Errorf("messaging: cannot receive a %T", v)
	}
	n := data.Len()
	if cap(f.b) < n || cap(f.b) > pooledMax {
		f.b = make([]byte, max(n+n/4, receivedMin))
	}
	f.b = f.b[:n]
	data.CopyTo(f.b)
	return nil
}

// bufferPool recycles the buffers of frames that have been written.
type bufferPool struct{ p sync.Pool }

// receivedMin is the minimum size of a receive buffer.
const receivedMin = 4 << 10

// pooledMax is the size above which a buffer is not recycled, so that one giant frame does not occupy memory forever.
const pooledMax = 1 << 20

// Get returns an empty buffer with a capacity of at least length; the codec appends to it.
func (p *bufferPool) Get(length int) *[]byte {
	if b, ok := p.p.Get().(*[]byte); ok && cap(*b) >= length {
		*b = (*b)[:length]
		return b
	}
	b := make([]byte, length, max(length, 4096))
	return &b
}

// Put returns a buffer to the pool.
func (p *bufferPool) Put(b *[]byte) {
	if cap(*b) <= pooledMax {
		p.p.Put(b)
	}
}
