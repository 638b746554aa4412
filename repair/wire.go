package repair

import (
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
)

// Messages between nodes. Numbers without a size are uvarints.
//
//	VerbMerkle     session 8, epoch, since, table, start 8, end 8, leaves, now 8, after
//	      reply:   scanned, size, last 1, next uvarint length, bytes, (leaf, rows, sum 16)*
//	VerbRepaired   session 8, table, start 8, end 8, until 8                            reply: empty

// appendHashRequest ends with After, which has no length: it is the rest of the message.
func appendHashRequest(dst []byte, r *HashRequest) []byte {
	dst = wire.AppendUvarint(wire.AppendUint64(dst, r.Session), r.Epoch)
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, r.Since), uint64(r.Table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(r.Tokens.Start)), int64(r.Tokens.End))
	dst = wire.AppendInt64(wire.AppendUvarint(dst, uint64(r.Leaves)), r.Now)
	return append(dst, r.After...)
}

// decodeHashRequest is the inverse of appendHashRequest. The request shares no memory with payload.
func decodeHashRequest(payload []byte) (*HashRequest, error) {
	c := wire.NewCursor(payload)
	r := &HashRequest{Session: c.Uint64(), Epoch: c.Uvarint(), Since: c.Uvarint(), Table: schema.StorageID(c.Uvarint())}
	r.Tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	leaves := c.Uvarint()
	r.Now = c.Int64()
	// Trees have at most Limits.LeavesMax leaves. The bound only keeps the conversion to int safe.
	if leaves > 1<<20 {
		c.Fail(wire.ErrMalformed)
	}
	r.Leaves = int(leaves)
	// The key is copied, because the payload belongs to the transport. nil means the first step.
	if after := c.Rest(); len(after) > 0 {
		r.After = append([]byte(nil), after...)
	}
	return r, c.Finish()
}

// appendHashStep encodes the reply of VerbMerkle.
func appendHashStep(dst []byte, s *HashStep) []byte {
	dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(s.Scanned)), uint64(s.Size))
	// Next may be empty and not nil, so the end has a flag of its own.
	var last byte
	if s.Next == nil {
		last = 1
	}
	dst = append(wire.AppendUvarint(append(dst, last), uint64(len(s.Next))), s.Next...)
	// Only leaves with rows are sent; a sparse step is small.
	for i, h := range s.Hashes {
		dst = wire.AppendUvarint(wire.AppendUvarint(dst, uint64(s.Leaves[i])), h.Rows)
		dst = wire.AppendUint64(wire.AppendUint64(dst, h.Sum[0]), h.Sum[1])
	}
	return dst
}

// decodeHashStep is the inverse of appendHashStep. The receiver checks that the leaves were requested.
func decodeHashStep(payload []byte) (s HashStep, err error) {
	c := wire.NewCursor(payload)
	s.Scanned, s.Size = int64(c.Uvarint()), int64(c.Uvarint())
	last := c.Uint8() == 1
	n := c.Uvarint()
	// The number is checked before the conversion to int, which could overflow.
	if n > uint64(c.Len()) {
		return s, wire.ErrMalformed
	}
	if next := c.Take(int(n)); !last {
		s.Next = append([]byte{}, next...)
	}
	for c.Len() > 0 && c.Err() == nil {
		leaf := c.Uvarint()
		h := LeafHash{Rows: c.Uvarint(), Sum: [2]uint64{c.Uint64(), c.Uint64()}}
		s.Leaves, s.Hashes = append(s.Leaves, int(min(leaf, 1<<30))), append(s.Hashes, h)
	}
	return s, c.Finish()
}

// appendNotice encodes the request of VerbRepaired.
func appendNotice(dst []byte, n *Notice) []byte {
	dst = wire.AppendUvarint(wire.AppendUint64(dst, n.Session), uint64(n.Table))
	dst = wire.AppendInt64(wire.AppendInt64(dst, int64(n.Tokens.Start)), int64(n.Tokens.End))
	return wire.AppendInt64(dst, n.Until)
}

// decodeNotice is the inverse of appendNotice.
func decodeNotice(payload []byte) (n Notice, err error) {
	c := wire.NewCursor(payload)
	n.Session, n.Table = c.Uint64(), schema.StorageID(c.Uvarint())
	n.Tokens = ring.Range{Start: ring.Token(c.Int64()), End: ring.Token(c.Int64())}
	n.Until = c.Int64()
	return n, c.Finish()
}
