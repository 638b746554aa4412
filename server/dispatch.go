package server

import (
	"cqld/internal/memory"
	"cqld/internal/wire"
	"cqld/server/frame"
)

// handle processes an envelope whose header judge has accepted. It owns body. An error ends the connection. In all
// other cases the envelope is answered, and charge is released with the reply. It runs in the reader. A statement is
// only submitted here, so the reader continues with the next envelope at once.
func (r *reader) handle(h header, body []byte, charge memory.Held) error {
	c := r.conn
	// Messages of the handshake count as requests, too.
	c.requests.Add(1)
	// v5 ignores the flag, because its segments are compressed.
	if h.Flags&frame.FlagCompressed != 0 && h.Version < frame.V5 {
		// Only this message is refused, because the next header can be found after its compressed body.
		inflated, more, err := r.decompress(body)
		if err != nil {
			c.refuse(h, err, charge)
			return nil
		}
		c.account.Release(charge) // the compressed body is not kept
		charge = more
		body = inflated
	}
	cur := wire.NewCursor(body)
	switch h.Opcode {
	// Drivers send OPTIONS as a heartbeat. The reader answers it, so that it needs no worker under load.
	case frame.OpOptions:
		c.answer(h, frame.OpSupported, charge, func(dst []byte) []byte {
			return frame.AppendSupported(dst, c.server.supported)
		})
		return nil
	case frame.OpStartup:
		return c.startup(h, frame.ConsumeStringMap(&cur), cur.Err(), charge)
	case frame.OpAuthResponse:
		return c.authenticate(h, cur.Bytes(), cur.Err(), charge)
	case frame.OpRegister:
		events := frame.ConsumeRegister(&cur)
		if err := cur.Err(); err != nil {
			c.refuse(h, err, charge)
			return nil
		}
		// REGISTER adds to the set; nothing removes from it.
		c.events.Or(uint32(events))
		c.answer(h, frame.OpReady, charge, nil)
		return nil
	}
	// Only statements count against the rate.
	if err := c.limitRate(); err != nil {
		c.refuse(h, err, charge)
		return nil
	}
	// start is called before submit, because the request may end before submit returns.
	c.start()
	if !c.server.workers.submit(job{conn: c, request: h, body: body, charge: charge}) {
		c.finish()
		c.refuse(h, errOverloaded, charge)
	}
	return nil
}

// decompress decompresses a body. It reserves memory according to the declared size before it allocates any. A declared
// size is bounded before anything is allocated, so a small body cannot expand without limit.
func (r *reader) decompress(body []byte) (inflated []byte, charge memory.Held, err error) {
	c := r.conn
	most := c.server.limits.FrameBytesMax
	if stage(c.stage.Load()) != stageReady {
		most = handshakeFrameMax // a client that is not authenticated gets no memory for what it only declares
	}
	size, err := frame.DecompressedSize(body, c.compression, most)
	if err != nil {
		return nil, charge, err
	}
	charge, ok := r.reserveRequest(requestOverhead + int64(size))
	if !ok {
		return nil, charge, errOverloaded
	}
	// The declared size was plausible, but the body does not have it.
	if inflated, err = frame.DecompressBody(body, c.compression, most); err != nil {
		c.account.Release(charge)
		return nil, charge, err
	}
	return inflated, charge, nil
}
