package wire

import (
	"encoding/binary"
	"errors"
	"math"
	"math/bits"
	"net/netip"
)

// ErrShort is the error of a Cursor whose input ends too early.
var ErrShort = errors.New("wire: unexpected end of input")

// ErrMalformed is the error of a Cursor for bytes that encode no value.
var ErrMalformed = errors.New("wire: malformed value")

// Cursor consumes values from a byte slice. The first failure is sticky: every later call returns zero values, so a
// decoder may consume a whole message and check Err once. The returned slices point into the input.
//
// The zero Cursor is at the end of an empty input. A Cursor is not safe for concurrent use; copying one copies its
// position.
type Cursor struct {
	rest []byte
	err  error
}

// NewCursor returns a Cursor at the start of b, which it does not copy.
func NewCursor(b []byte) Cursor { return Cursor{rest: b} }

// Err returns the first failure, or nil.
func (c *Cursor) Err() error { return c.err }

// Len returns the number of bytes not yet consumed, or 0 after a failure.
func (c *Cursor) Len() int { return len(c.rest) }

// Fail sets the Cursor's failure unless it already has one. Decoders use it for values that are well formed but
// invalid.
func (c *Cursor) Fail(err error) {
	if c.err == nil {
		c.err = err
	}
	c.rest = nil
}

// Finish returns Err, or ErrMalformed if bytes are left over.
func (c *Cursor) Finish() error {
	if c.err == nil && len(c.rest) != 0 {
		c.Fail(ErrMalformed)
	}
	return c.err
}

// Rest consumes and returns the remaining bytes.
func (c *Cursor) Rest() []byte {
	b := c.rest
	c.rest = nil
	return b
}

// Take consumes the next n bytes. It fails if n is negative or beyond the end of the input.
func (c *Cursor) Take(n int) []byte {
	if uint(n) > uint(len(c.rest)) {
		c.Fail(ErrShort)
		return nil
	}
	b := c.rest[:n:n]
	c.rest = c.rest[n:]
	return b
}

// Skip consumes n bytes without returning them.
func (c *Cursor) Skip(n int) { c.Take(n) }

// Uint8 consumes one byte.
func (c *Cursor) Uint8() uint8 {
	if len(c.rest) < 1 {
		c.Fail(ErrShort)
		return 0
	}
	v := c.rest[0]
	c.rest = c.rest[1:]
	return v
}

// Uint16 consumes a [short].
func (c *Cursor) Uint16() uint16 {
	if len(c.rest) < 2 {
		c.Fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint16(c.rest)
	c.rest = c.rest[2:]
	return v
}

// Uint32 consumes four bytes.
func (c *Cursor) Uint32() uint32 {
	if len(c.rest) < 4 {
		c.Fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint32(c.rest)
	c.rest = c.rest[4:]
	return v
}

// Uint64 consumes eight bytes.
func (c *Cursor) Uint64() uint64 {
	if len(c.rest) < 8 {
		c.Fail(ErrShort)
		return 0
	}
	v := binary.BigEndian.Uint64(c.rest)
	c.rest = c.rest[8:]
	return v
}

// Int32 consumes an [int].
func (c *Cursor) Int32() int32 { return int32(c.Uint32()) }

// Int64 consumes a [long].
func (c *Cursor) Int64() int64 { return int64(c.Uint64()) }

// Uvarint consumes a base-128 varint.
func (c *Cursor) Uvarint() uint64 {
	if len(c.rest) > 0 && c.rest[0] < 0x80 { // most have one byte
		v := uint64(c.rest[0])
		c.rest = c.rest[1:]
		return v
	}
	return c.longUvarint()
}

func (c *Cursor) longUvarint() uint64 {
	v, n := binary.Uvarint(c.rest)
	if n <= 0 {
		c.failVarint(n)
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

// Varint consumes a zig-zag base-128 varint.
func (c *Cursor) Varint() int64 {
	v, n := binary.Varint(c.rest)
	if n <= 0 {
		c.failVarint(n)
		return 0
	}
	c.rest = c.rest[n:]
	return v
}

func (c *Cursor) failVarint(n int) {
	if n == 0 {
		c.Fail(ErrShort)
		return
	}
	c.Fail(ErrMalformed) // more than 64 bits
}

// Count consumes a Uvarint, the number of elements of at least sizeMin bytes each, and fails if the input is too short
// for them. The result is therefore a safe size for an allocation.
func (c *Cursor) Count(sizeMin int) int {
	n := c.Uvarint()
	if n > uint64(len(c.rest)/max(sizeMin, 1)) {
		c.Fail(ErrShort)
		return 0
	}
	return int(n)
}

// ShortCount is like Count, for a two-byte count.
func (c *Cursor) ShortCount(sizeMin int) int {
	n := int(c.Uint16())
	if n > len(c.rest)/max(sizeMin, 1) {
		c.Fail(ErrShort)
		return 0
	}
	return n
}

// IntCount is like Count, for a four-byte signed count; a negative count fails.
func (c *Cursor) IntCount(sizeMin int) int {
	n := c.Int32()
	if n < 0 {
		c.Fail(ErrMalformed)
		return 0
	}
	if int(n) > len(c.rest)/max(sizeMin, 1) {
		c.Fail(ErrShort)
		return 0
	}
	return int(n)
}

// String consumes a [string] and copies it.
func (c *Cursor) String() string { return string(c.ShortBytes()) }

// ShortBytes consumes a [short bytes], or a [string] without copying it.
func (c *Cursor) ShortBytes() []byte { return c.Take(int(c.Uint16())) }

// LongString consumes a [long string] and copies it.
func (c *Cursor) LongString() string { return string(c.LongStringBytes()) }

// LongStringBytes consumes a [long string] without copying it.
func (c *Cursor) LongStringBytes() []byte {
	n := c.Int32()
	if n < 0 {
		c.Fail(ErrMalformed)
		return nil
	}
	return c.Take(int(n))
}

// Bytes consumes a [bytes]. Any negative length is null, returned as nil; an
// empty value is not nil.
func (c *Cursor) Bytes() []byte {
	n := c.Int32()
	if n < 0 {
		return nil
	}
	return c.Take(int(n))
}

// Value consumes a [value]. A length below -2 fails.
func (c *Cursor) Value() Value {
	n := c.Int32()
	switch {
	case n >= 0:
		b := c.Take(int(n))
		if c.err != nil {
			return Value{}
		}
		return Value{Kind: ValueSet, Bytes: b}
	case n == -1:
		return Value{}
	case n == -2:
		return Value{Kind: ValueUnset}
	default:
		c.Fail(ErrMalformed)
		return Value{}
	}
}

// StringList consumes a [string list]; an empty list is nil.
func (c *Cursor) StringList() []string {
	n := c.ShortCount(2)
	if n == 0 {
		return nil
	}
	list := make([]string, 0, n)
	for range n {
		list = append(list, c.String())
	}
	if c.err != nil {
		return nil
	}
	return list
}

// UUID consumes 16 bytes.
func (c *Cursor) UUID() (id [16]byte) {
	copy(id[:], c.Take(16))
	return id
}

// InetAddr consumes an [inetaddr].
func (c *Cursor) InetAddr() netip.Addr {
	switch n := c.Uint8(); {
	case c.err != nil:
	case n == 4:
		if b := c.Take(4); b != nil {
			return netip.AddrFrom4([4]byte(b))
		}
	case n == 16:
		if b := c.Take(16); b != nil {
			return netip.AddrFrom16([16]byte(b))
		}
	default:
		c.Fail(ErrMalformed)
	}
	return netip.Addr{}
}

// Inet consumes an [inet]. A port outside 0..65535 fails.
func (c *Cursor) Inet() netip.AddrPort {
	a := c.InetAddr()
	port := c.Int32()
	if port < 0 || port > math.MaxUint16 {
		c.Fail(ErrMalformed)
	}
	if c.err != nil {
		return netip.AddrPort{}
	}
	return netip.AddrPortFrom(a, uint16(port))
}

// UnsignedVint consumes Cassandra's [unsigned vint]. As Cassandra does, it
// accepts encodings longer than necessary.
func (c *Cursor) UnsignedVint() uint64 {
	if len(c.rest) == 0 {
		c.Fail(ErrShort)
		return 0
	}
	first := c.rest[0]
	extra := bits.LeadingZeros8(^first)
	if len(c.rest) <= extra {
		c.Fail(ErrShort)
		return 0
	}
	v := uint64(first & (0xFF >> extra))
	for _, b := range c.rest[1 : 1+extra] {
		v = v<<8 | uint64(b)
	}
	c.rest = c.rest[1+extra:]
	return v
}

// Vint consumes Cassandra's [vint].
func (c *Cursor) Vint() int64 {
	v := c.UnsignedVint()
	return int64(v>>1) ^ -int64(v&1)
}
