package row

import (
	"encoding/binary"
	"math"
	"math/bits"

	"cqld/internal/wire"
	"cqld/schema"
)

// The encoded row, in storage and between nodes:
//
//	row   := flags [ts [ttl expiry]] [ts deleted] [n complex…] cell*
//	cell  := flags column [ts] [deleted | ttl expiry] [path] [value]
//
// Timestamps take 8 bytes, all other numbers are varints. A cell without its own timestamp has the timestamp of the
// previous cell, and the first cell has the timestamp of the liveness; the same applies to ttl and expiry. The encoding
// of a canonical Row (Reconcile, Sort) is deterministic: equal rows have equal bytes, and digests rely on that. A
// change requires a new format.Version of storage and messaging.ProtocolVersion.
const (
	flagLiveness = 1 << iota
	flagLivenessTTL
	flagDeletion
	flagComplex
	flagRangeTombstones
	flagMortal // a cell is a tombstone or expires
	// Decoders reject other flags, whose meaning they do not know.
	flagsKnown = 1<<iota - 1
)

const (
	cellTombstone = 1 << iota
	cellExpiring
	cellPath
	cellTimestamp
	cellExpiry     // has its own ttl and expiry
	cellEmpty      // no value
	cellFlagsKnown = 1<<iota - 1
)

// cellState contains the values that a cell may omit because they equal the values of the previous cell.
type cellState struct {
	timestamp int64
	ttl       int32
	localTime int64
}

// AppendRow appends the encoding of r, without the clustering. The cells must be sorted (Row.Sort), otherwise the
// encoding is not canonical and other nodes reject it.
func AppendRow(dst []byte, r *Row) []byte {
	at := len(dst)
	state := cellState{timestamp: NoTimestamp}
	// One flag depends on the cells, so set the byte at the end.
	dst, flags := appendHead(dst, r, &state)
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Tombstone || c.TTL > 0 {
			flags |= flagMortal
		}
		dst = appendCell(dst, &r.Cells[i], &state)
	}
	dst[at] = flags
	return dst
}

// appendHead appends everything but the cells of r, and returns the flags that replace the first byte when these are
// known.
func appendHead(dst []byte, r *Row, state *cellState) (out []byte, flags byte) {
	// Room for the flags.
	dst = append(dst, 0)
	if r.HasRangeTombstones {
		flags |= flagRangeTombstones
	}
	if r.Liveness.Present() {
		flags |= flagLiveness
		dst = wire.AppendInt64(dst, r.Liveness.Timestamp)
		state.timestamp = r.Liveness.Timestamp
		if r.Liveness.TTL > 0 {
			flags |= flagLivenessTTL
			dst = wire.AppendUvarint(dst, uint64(r.Liveness.TTL))
			dst = wire.AppendVarint(dst, r.Liveness.LocalTime)
			// Cells of an INSERT USING TTL share the expiry of the marker and omit it.
			state.ttl, state.localTime = r.Liveness.TTL, r.Liveness.LocalTime
		}
	}
	if r.Deletion.Present() {
		flags |= flagDeletion
		dst = appendDeletion(dst, r.Deletion)
	}
	if len(r.Complex) > 0 {
		flags |= flagComplex
		dst = wire.AppendUvarint(dst, uint64(len(r.Complex)))
		for _, c := range r.Complex {
			dst = wire.AppendUvarint(dst, uint64(c.Column))
			dst = appendDeletion(dst, c.Deletion)
		}
	}
	return dst, flags
}

// appendSizedRow appends the size of r's encoding, as a uvarint, and the encoding.
func appendSizedRow(dst []byte, r *Row) []byte {
	// The size is not known yet, so reserve as many bytes as it will probably need. A wrong guess only costs a move
	// of the row.
	guess := 8
	for i := range r.Cells {
		guess += len(r.Cells[i].Value) + len(r.Cells[i].Path) + 4
	}
	at := len(dst)
	dst, left := appendRoom(dst, guess)
	return finishSized(AppendRow(dst, r), at, left)
}

// appendRoom appends room for the uvarint of a size that is probably guess, and returns its length.
func appendRoom(dst []byte, guess int) (out []byte, left int) {
	var room [binary.MaxVarintLen64]byte
	left = uvarintLen(guess)
	return append(dst, room[:left]...), left
}

// finishSized sets the size of what follows appendRoom, which was called at at.
func finishSized(dst []byte, at, left int) []byte {
	var room [binary.MaxVarintLen64]byte
	size := len(dst) - at - left
	// The guess was wrong, so move the row to its place after a size of the right length.
	if n := uvarintLen(size); n != left {
		if n > left {
			// Only lengthens the slice; the copy below moves the row.
			dst = append(dst, room[:n-left]...)
		}
		copy(dst[at+n:], dst[at+left:at+left+size])
		dst = dst[:at+n+size]
	}
	binary.PutUvarint(dst[at:], uint64(size))
	return dst
}

// uvarintLen returns the number of bytes of n as a uvarint. Seven bits fit into each byte. The bit that is or'ed makes
// zero take one byte.
func uvarintLen(n int) int { return (bits.Len64(uint64(n)|1) + 6) / 7 }

// appendDeletion appends a timestamp and a local time.
func appendDeletion(dst []byte, d Deletion) []byte {
	return wire.AppendVarint(wire.AppendInt64(dst, d.Timestamp), d.LocalTime)
}

// appendCell appends one cell. It omits what state, the previous parts, already has, and updates state.
func appendCell(dst []byte, c *Cell, state *cellState) []byte {
	at := len(dst)
	// Room for the flags, which are set at the end.
	dst = append(dst, 0)
	dst = wire.AppendUvarint(dst, uint64(c.Column))
	var flags byte
	if c.Timestamp != state.timestamp {
		flags |= cellTimestamp
		dst = wire.AppendInt64(dst, c.Timestamp)
		state.timestamp = c.Timestamp
	}
	switch {
	case c.Tombstone:
		flags |= cellTombstone
		// A tombstone has its own time and does not change the shared expiry.
		dst = wire.AppendVarint(dst, c.LocalTime)
	case c.TTL > 0:
		flags |= cellExpiring
		if c.TTL != state.ttl || c.LocalTime != state.localTime {
			flags |= cellExpiry
			dst = wire.AppendUvarint(dst, uint64(c.TTL))
			dst = wire.AppendVarint(dst, c.LocalTime)
			state.ttl, state.localTime = c.TTL, c.LocalTime
		}
	}
	// An empty path is valid: the element of a set may be the empty value.
	if c.Path != nil {
		flags |= cellPath
		dst = append(wire.AppendUvarint(dst, uint64(len(c.Path))), c.Path...)
	}
	// Omit the value of a tombstone, even if it is set.
	if len(c.Value) == 0 || c.Tombstone {
		flags |= cellEmpty
	} else {
		dst = append(wire.AppendUvarint(dst, uint64(len(c.Value))), c.Value...)
	}
	dst[at] = flags
	return dst
}

// badFlags reports whether flags are invalid for a row.
func badFlags(flags byte) bool {
	// An expiry needs a marker.
	return flags&^flagsKnown != 0 || flags&(flagLiveness|flagLivenessTTL) == flagLivenessTTL
}

// badCellFlags reports whether flags are invalid for a cell.
func badCellFlags(flags byte) bool {
	// A tombstone neither expires nor has a value; an expiry belongs to an expiring cell. Other combinations have two
	// encodings, or none.
	return flags&^cellFlagsKnown != 0 || flags&(cellExpiring|cellExpiry) == cellExpiry ||
		flags&cellTombstone != 0 && flags&(cellExpiring|cellEmpty) != cellEmpty
}

// badTTL reports whether ttl is out of range. Zero means that nothing expires, and is encoded by a flag.
func badTTL(ttl uint64) bool { return ttl == 0 || ttl > math.MaxInt32 }

// DecodeRow decodes b into r, whose cells then point into b. It does not change r.Clustering. It does not check the
// order of cells; validate does, for rows from other nodes.
func DecodeRow(r *Row, b []byte) error {
	// The clustering is part of the key and not of the value.
	clustering := r.Clustering
	r.Reset()
	r.Clustering = clustering
	c := wire.NewCursor(b)
	state := cellState{timestamp: NoTimestamp}
	flags := consumeHead(&c, r, &state)
	mortal := false
	for c.Len() > 0 {
		r.Cells = append(r.Cells, Cell{})
		cell := &r.Cells[len(r.Cells)-1]
		// After an error the cursor has no bytes left, so the loop ends.
		consumeCell(&c, cell, &state)
		mortal = mortal || cell.Tombstone || cell.TTL > 0
	}
	// Check the flag, because Immortal relies on it: a row without the flag would never expire.
	if mortal != (flags&flagMortal != 0) {
		c.Fail(wire.ErrMalformed)
	}
	return c.Err()
}

// consumeHead decodes everything but the cells into r, which is empty.
func consumeHead(c *wire.Cursor, r *Row, state *cellState) (flags byte) {
	flags = c.Uint8()
	if badFlags(flags) {
		c.Fail(wire.ErrMalformed)
	}
	r.HasRangeTombstones = flags&flagRangeTombstones != 0
	if flags&flagLiveness != 0 {
		r.Liveness.Timestamp = c.Int64()
		// The first cell shares it, as in appendHead.
		state.timestamp = r.Liveness.Timestamp
	}
	if flags&flagLivenessTTL != 0 {
		consumeExpiry(c, state)
		r.Liveness.TTL, r.Liveness.LocalTime = state.ttl, state.localTime
	}
	if flags&flagDeletion != 0 {
		r.Deletion = consumeDeletion(c)
	}
	if flags&flagComplex != 0 {
		// 10 bytes are the least size of a deletion of a column.
		for n := c.Count(10); n > 0; n-- {
			column := consumeColumn(c)
			r.Complex = append(r.Complex, ComplexDeletion{column, consumeDeletion(c)})
		}
	}
	return flags
}

// consumeDeletion decodes what appendDeletion appends.
func consumeDeletion(c *wire.Cursor) Deletion {
	return Deletion{Timestamp: c.Int64(), LocalTime: c.Varint()}
}

// consumeColumn decodes the identifier of a column, which has 16 bits.
func consumeColumn(c *wire.Cursor) schema.ColumnID {
	id := c.Uvarint()
	if id > math.MaxUint16 {
		c.Fail(wire.ErrMalformed)
	}
	return schema.ColumnID(id)
}

// consumeExpiry decodes a ttl and an expiry into state, which later cells share.
func consumeExpiry(c *wire.Cursor, state *cellState) {
	ttl := c.Uvarint()
	if badTTL(ttl) {
		c.Fail(wire.ErrMalformed)
	}
	state.ttl, state.localTime = int32(ttl), c.Varint()
}

// consumeCell decodes a cell into an empty one. Its path and value point into the bytes of c.
func consumeCell(c *wire.Cursor, cell *Cell, state *cellState) {
	flags := c.Uint8()
	if badCellFlags(flags) {
		c.Fail(wire.ErrMalformed)
	}
	cell.Column = consumeColumn(c)
	if flags&cellTimestamp != 0 {
		state.timestamp = c.Int64()
	}
	cell.Timestamp = state.timestamp
	switch {
	case flags&cellTombstone != 0:
		cell.Tombstone = true
		cell.LocalTime = c.Varint()
	case flags&cellExpiring != 0:
		if flags&cellExpiry != 0 {
			consumeExpiry(c, state)
		}
		// No earlier part has an expiry to share.
		if state.ttl == 0 {
			c.Fail(wire.ErrMalformed)
		}
		cell.TTL, cell.LocalTime = state.ttl, state.localTime
	}
	if flags&cellPath != 0 {
		// The path is empty but not nil, which would mean that the cell has no path.
		if cell.Path = consumeShort(c); cell.Path == nil {
			cell.Path = []byte{}
		}
	}
	if flags&cellEmpty == 0 {
		cell.Value = consumeShort(c)
		// A live cell without bytes is an empty value; nil is the value of a tombstone.
	} else if !cell.Tombstone {
		cell.Value = emptyValue
	}
}

// emptyValue is a non-nil value of length zero. It is never modified, because it has no bytes.
var emptyValue = []byte{}

// consumeShort decodes a uvarint length and that many bytes. The bytes belong to c. It returns nil with an error.
func consumeShort(c *wire.Cursor) []byte {
	n := c.Uvarint()
	if n > uint64(c.Len()) {
		c.Fail(wire.ErrShort)
		return nil
	}
	return c.Take(int(n))
}
