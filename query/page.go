package query

import (
	"crypto/hmac"
	"crypto/sha256"

	"cqld/internal/wire"
	"cqld/query/mask"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// A paging state contains the position at which the next page begins. It is opaque to the client. Any node of the
// cluster, of this or a later version, can continue from it, and none accepts a forged one:
//
//	state := version table flags token key clustering given remaining | HMAC-SHA256, 16 bytes of it
//
// Clients could read masked key columns in it. If the table has any, the state is 2 followed by mask.Seal of the other form.
const (
	pagingVersion  = 1
	pagingSealed   = 2
	pagingMACBytes = 16

	pagingStarted = 1 << iota
	pagingDone
)

// pagingState is a decoded paging state.
type pagingState struct {
	at        scan.Position
	remaining uint32 // of LIMIT; 0 means no limit
}

func invalidPagingState() error { return &BadRequest{Msg: "Invalid value for the paging state"} }

func (p *Processor) appendPagingState(dst []byte, table *schema.Table, s *pagingState) []byte {
	start := len(dst)
	dst = append(dst, pagingVersion)
	dst = wire.AppendUvarint(dst, uint64(table.StorageID))
	var flags byte
	if s.at.Inside {
		flags |= pagingStarted
	}
	if s.at.Done {
		flags |= pagingDone
	}
	dst = append(dst, flags)
	dst = wire.AppendInt64(dst, int64(s.at.Key.Token))
	dst = append(wire.AppendUvarint(dst, uint64(len(s.at.Key.Bytes))), s.at.Key.Bytes...)
	dst = append(wire.AppendUvarint(dst, uint64(len(s.at.Clustering))), s.at.Clustering...)
	dst = wire.AppendUvarint(dst, uint64(s.at.Given))
	dst = wire.AppendUvarint(dst, uint64(s.remaining))
	dst = append(dst, p.pagingMAC(dst[start:])...)
	if mask.Keys(table) {
		return append(append(dst[:start:start], pagingSealed), mask.Seal(p.pagingKey(), dst[start:])...)
	}
	return dst
}

func (p *Processor) pagingKey() []byte {
	if p.o.PagingKey == nil {
		return nil
	}
	return p.o.PagingKey()
}

func (p *Processor) pagingMAC(b []byte) []byte {
	h := hmac.New(sha256.New, p.pagingKey())
	h.Write(b)
	return h.Sum(nil)[:pagingMACBytes]
}

func (p *Processor) decodePagingState(table *schema.Table, b []byte) (*pagingState, error) {
	if len(b) > 0 && b[0] == pagingSealed {
		opened, err := mask.Open(p.pagingKey(), b[1:])
		if err != nil {
			return nil, invalidPagingState()
		}
		b = opened
	}
	n := len(b) - pagingMACBytes
	if n < 1 || b[0] != pagingVersion || !hmac.Equal(b[n:], p.pagingMAC(b[:n])) {
		return nil, invalidPagingState()
	}
	c := wire.NewCursor(b[1:n])
	if schema.StorageID(c.Uvarint()) != table.StorageID {
		return nil, invalidPagingState()
	}
	flags := c.Uint8()
	s := &pagingState{}
	s.at.Inside, s.at.Done = flags&pagingStarted != 0, flags&pagingDone != 0
	s.at.Live = s.at.Inside
	s.at.Key = row.PartitionKey{Token: ring.Token(c.Int64()), Bytes: append([]byte{}, c.Take(c.Count(1))...)}
	s.at.Clustering = append([]byte{}, c.Take(c.Count(1))...)
	s.at.Given = uint32(c.Uvarint())
	s.remaining = uint32(c.Uvarint())
	if c.Finish() != nil {
		return nil, invalidPagingState()
	}
	return s, nil
}
