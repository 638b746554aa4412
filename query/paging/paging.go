// Package paging encodes and decodes paging states, from which a client continues a query whose result has several pages.
//
// It does not read pages: query/read does, with the scan.Cursor of the State's position.
package paging

import (
	"crypto/hmac"
	"crypto/sha256"
	"errors"

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
	version  = 1
	sealed   = 2
	macBytes = 16

	started = 1 << iota
	done
)

// State is a decoded paging state.
type State struct {
	At        scan.Position
	Remaining uint32 // of LIMIT; 0 means no limit
}

// ErrInvalid is the error of a state that was not made with the same key for the same table.
var ErrInvalid = errors.New("paging: invalid state")

// Append appends the encoding of a state of a table. key authenticates it, and encrypts it if key columns are masked.
func Append(dst, key []byte, table *schema.Table, s *State) []byte {
	start := len(dst)
	dst = append(dst, version)
	dst = wire.AppendUvarint(dst, uint64(table.StorageID))
	var flags byte
	if s.At.Inside {
		flags |= started
	}
	if s.At.Done {
		flags |= done
	}
	dst = append(dst, flags)
	dst = wire.AppendInt64(dst, int64(s.At.Key.Token))
	dst = append(wire.AppendUvarint(dst, uint64(len(s.At.Key.Bytes))), s.At.Key.Bytes...)
	dst = append(wire.AppendUvarint(dst, uint64(len(s.At.Clustering))), s.At.Clustering...)
	dst = wire.AppendUvarint(dst, uint64(s.At.Given))
	dst = wire.AppendUvarint(dst, uint64(s.Remaining))
	dst = append(dst, mac(key, dst[start:])...)
	if mask.Keys(table) {
		return append(append(dst[:start:start], sealed), mask.Seal(key, dst[start:])...)
	}
	return dst
}

func mac(key, b []byte) []byte {
	h := hmac.New(sha256.New, key)
	h.Write(b)
	return h.Sum(nil)[:macBytes]
}

// Decode returns the state that b encodes, or ErrInvalid. The state shares no memory with b.
func Decode(b, key []byte, table *schema.Table) (*State, error) {
	if len(b) > 0 && b[0] == sealed {
		opened, err := mask.Open(key, b[1:])
		if err != nil {
			return nil, ErrInvalid
		}
		b = opened
	}
	n := len(b) - macBytes
	if n < 1 || b[0] != version || !hmac.Equal(b[n:], mac(key, b[:n])) {
		return nil, ErrInvalid
	}
	c := wire.NewCursor(b[1:n])
	if schema.StorageID(c.Uvarint()) != table.StorageID {
		return nil, ErrInvalid
	}
	flags := c.Uint8()
	s := &State{}
	s.At.Inside, s.At.Done = flags&started != 0, flags&done != 0
	s.At.Live = s.At.Inside
	s.At.Key = row.PartitionKey{Token: ring.Token(c.Int64()), Bytes: append([]byte{}, c.Take(c.Count(1))...)}
	s.At.Clustering = append([]byte{}, c.Take(c.Count(1))...)
	s.At.Given = uint32(c.Uvarint())
	s.Remaining = uint32(c.Uvarint())
	if c.Finish() != nil {
		return nil, ErrInvalid
	}
	return s, nil
}
