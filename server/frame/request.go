package frame

import (
	"fmt"
	"math"
	"slices"

	"cqld/internal/wire"
	"cqld/ring"
)

// Requests with a body of their own:
//
//	QUERY      long string, parameters
//	PREPARE    long string [flags, keyspace in v5]
//	EXECUTE    id [result metadata id in v5], parameters
//	BATCH      type, n, n × (kind, text or id, values), parameters without values
//
// Each has a type with Consume, which the server uses, and Append, which clients and tests use.

// Query is the body of QUERY. Reused from request to request; the byte slices in Params point into the body. It has no
// reference to the cursor after Consume except through these slices.
type Query struct {
	Query  string
	Params Params
}

// Consume decodes the body into q, reusing its slices. The error is *ProtocolError, or an error of package wire for
// malformed bytes.
func (q *Query) Consume(c *wire.Cursor, v Version) error {
	q.Query = c.LongString()
	q.Params.consume(c, v)
	return c.Err()
}

// Append appends the body. v must not be less than the version of a field that is set.
func (q *Query) Append(dst []byte, v Version) []byte {
	dst = wire.AppendLongString(dst, q.Query)
	return q.Params.append(dst, v)
}

// Prepare is the body of PREPARE. The id of the statement depends on the keyspace, too. Its strings are copies of the
// body.
type Prepare struct {
	Query    string
	Keyspace string // v5; "" means the connection's keyspace
}

const prepareFlagKeyspace = 0x01

// Consume decodes the body into p.
func (p *Prepare) Consume(c *wire.Cursor, v Version) error {
	*p = Prepare{Query: c.LongString()}
	// v3 and v4 have no flags in PREPARE.
	if v >= V5 && c.Uint32()&prepareFlagKeyspace != 0 {
		p.Keyspace = c.String()
	}
	return c.Err()
}

// Append appends the body.
func (p *Prepare) Append(dst []byte, v Version) []byte {
	dst = wire.AppendLongString(dst, p.Query)
	if v < V5 {
		return dst
	}
	// The flags are sent even if none is set.
	if p.Keyspace == "" {
		return wire.AppendUint32(dst, 0)
	}
	dst = wire.AppendUint32(dst, prepareFlagKeyspace)
	return wire.AppendString(dst, p.Keyspace)
}

// Execute is the body of EXECUTE. Its byte slices point into the input. ResultMetadataID is what the client knows;
// another one makes the server send the columns again.
type Execute struct {
	ID               []byte
	ResultMetadataID []byte // v5
	Params           Params
}

// Consume decodes the body into e, reusing its slices.
func (e *Execute) Consume(c *wire.Cursor, v Version) error {
	e.ID = c.ShortBytes()
	e.ResultMetadataID = nil
	if v >= V5 {
		e.ResultMetadataID = c.ShortBytes()
	}
	e.Params.consume(c, v)
	return c.Err()
}

// Append appends the body.
func (e *Execute) Append(dst []byte, v Version) []byte {
	dst = wire.AppendShortBytes(dst, e.ID)
	if v >= V5 {
		dst = wire.AppendShortBytes(dst, e.ResultMetadataID)
	}
	return e.Params.append(dst, v)
}

// BatchType is the type of a batch.
type BatchType uint8

// The batch types.
const (
	BatchLogged   BatchType = 0
	BatchUnlogged BatchType = 1
	BatchCounter  BatchType = 2
)

// Batch is the body of BATCH. Its byte slices point into the input. Of Params, only consistency, serial consistency,
// timestamp, keyspace and now-in-seconds are used. Consume reuses the memory of Statements and of their values. The
// order of statements has no meaning for the result: all have the timestamp of the batch unless they have their own.
type Batch struct {
	Type       BatchType
	Statements []BatchStatement
	Params     Params

	values []wire.Value // memory of Statements[i].Values
}

// BatchStatement is one statement of a batch: a text or, if ID is not nil, the id of a prepared statement. Its values
// have no names: names in BATCH are broken in the protocol (CASSANDRA-10246).
type BatchStatement struct {
	Query  string
	ID     []byte
	Values []wire.Value
}

const (
	batchKindText     = 0
	batchKindPrepared = 1
)

// batchStatementMin is the minimum size of a statement: kind, id length, number of values.
const batchStatementMin = 1 + 2 + 2

// Consume decodes the body into b, reusing its slices. The error is a *ProtocolError, or one of package wire.
func (b *Batch) Consume(c *wire.Cursor, v Version) error {
	b.Statements, b.values = b.Statements[:0], b.values[:0]
	b.Type = BatchType(c.Uint8())
	// A copy of the cursor counts the values, so that their memory is allocated once.
	after := *c
	_, values := countBatch(&after)
	b.values = slices.Grow(b.values, values) // at once: statements would keep the arrays that it outgrows
	n := c.ShortCount(batchStatementMin)
	b.Statements = slices.Grow(b.Statements, n)
	for range n {
		var s BatchStatement
		switch kind := c.Uint8(); kind {
		case batchKindText:
			s.Query = c.LongString()
		case batchKindPrepared:
			s.ID = c.ShortBytes()
		default:
			c.Fail(protocolError(fmt.Sprintf("Invalid query kind in BATCH messages. Must be 0 or 1 but got %d", kind)))
		}
		start := len(b.values)
		b.values = consumeValues(c, v, b.values)
		if len(b.values) > start {
			// The capacity ends with the statement, so that an append cannot overwrite the values of the next one.
			s.Values = b.values[start:len(b.values):len(b.values)]
		}
		b.Statements = append(b.Statements, s)
	}
	b.Params.consume(c, v)
	if b.Type > BatchCounter { // as in Cassandra, after errors of the parameters
		c.Fail(protocolError(fmt.Sprintf("Invalid BATCH message type %d", b.Type)))
	}
	return c.Err()
}

// Append appends the body.
func (b *Batch) Append(dst []byte, v Version) []byte {
	dst = append(dst, byte(b.Type))
	dst = wire.AppendUint16(dst, uint16(len(b.Statements)))
	for i := range b.Statements {
		s := &b.Statements[i]
		// A statement is either prepared or a text, and the byte before it says which.
		if s.ID != nil {
			dst = append(dst, batchKindPrepared)
			dst = wire.AppendShortBytes(dst, s.ID)
		} else {
			dst = append(dst, batchKindText)
			dst = wire.AppendLongString(dst, s.Query)
		}
		dst = wire.AppendUint16(dst, uint16(len(s.Values)))
		for _, value := range s.Values {
			dst = wire.AppendValue(dst, value)
		}
	}
	return b.Params.append(dst, v)
}

// Params are the query parameters of QUERY, EXECUTE and BATCH. Its byte slices point into the input. Consume resets all
// fields, and keeps the memory of Values and Names.
//
//	consistency 2 B | flags 1 B (4 B in v5) | [values] [page size] [paging state] [serial consistency] [timestamp]
//	                                          [keyspace] [now in seconds]
type Params struct {
	// Levels of the request: for reads and writes, and for the Paxos phase of conditional statements.
	Consistency       ring.Consistency
	SerialConsistency ring.Consistency // Serial if the request sets none; any level
	// Bound values, by position or, with Names, by name.
	Values []wire.Value
	Names  []string // one for each value, or empty
	// The client has the columns of the result, so the server may leave them out.
	SkipMetadata bool
	PageSize     int32 // 0 if the request sets none; negative values disable paging
	// Opaque for this package; nil requests the first page.
	PagingState     []byte
	Timestamp       int64 // µs; valid if HasTimestamp
	HasTimestamp    bool
	NowInSeconds    int32 // valid if HasNowInSeconds; v5; the bits of an unsigned number
	HasNowInSeconds bool
	Keyspace        string // "" means the connection's keyspace; v5
}

// The flags of query parameters.
const (
	paramValues            = 0x0001
	paramSkipMetadata      = 0x0002
	paramPageSize          = 0x0004
	paramPagingState       = 0x0008
	paramSerialConsistency = 0x0010
	paramTimestamp         = 0x0020
	paramNames             = 0x0040
	paramKeyspace          = 0x0080
	paramNowInSeconds      = 0x0100
)

// consume decodes <consistency><flags> and the fields that the flags announce, in the order of the specification.
func (p *Params) consume(c *wire.Cursor, v Version) {
	*p = Params{Values: p.Values[:0], Names: p.Names[:0], SerialConsistency: ring.Serial}
	p.Consistency = consumeConsistency(c)
	// The flags take one byte in v3 and v4, and four in v5. Flags that a version does not have are zero there.
	var flags uint32
	if v >= V5 {
		flags = c.Uint32()
	} else {
		flags = uint32(c.Uint8())
	}
	if flags&paramValues != 0 {
		if flags&paramNames != 0 {
			p.consumeNamedValues(c, v)
		} else {
			p.Values = consumeValues(c, v, p.Values)
		}
	}
	p.SkipMetadata = flags&paramSkipMetadata != 0
	if flags&paramPageSize != 0 {
		p.PageSize = c.Int32()
		// Zero is refused, so that zero can mean that the request has none.
		if p.PageSize == 0 {
			c.Fail(protocolError("The page size cannot be 0"))
		}
	}
	if flags&paramPagingState != 0 {
		p.PagingState = c.Bytes()
	}
	if flags&paramSerialConsistency != 0 {
		p.SerialConsistency = consumeConsistency(c)
	}
	if flags&paramTimestamp != 0 {
		p.Timestamp, p.HasTimestamp = c.Int64(), true
		// The value means "no timestamp" in Cassandra and here (row.NoTimestamp).
		if p.Timestamp == math.MinInt64 {
			c.Fail(protocolError(fmt.Sprintf("Out of bound timestamp, must be in [%d, %d] (got %d)",
				math.MinInt64+1, math.MaxInt64, p.Timestamp)))
		}
	}
	if flags&paramKeyspace != 0 {
		p.Keyspace = c.String()
	}
	if flags&paramNowInSeconds != 0 {
		p.NowInSeconds, p.HasNowInSeconds = c.Int32(), true
	}
}

// flags returns the flags of the fields that are set. SERIAL is the default of the protocol, so it is not sent.
func (p *Params) flags() (flags uint32) {
	set := func(mask uint32, when bool) {
		if when {
			flags |= mask
		}
	}
	set(paramValues, len(p.Values) > 0)
	// This flag makes sense only together with paramValues.
	set(paramNames, len(p.Values) > 0 && len(p.Names) == len(p.Values))
	set(paramSkipMetadata, p.SkipMetadata)
	set(paramPageSize, p.PageSize != 0)
	set(paramPagingState, p.PagingState != nil)
	set(paramSerialConsistency, p.SerialConsistency != ring.Serial)
	set(paramTimestamp, p.HasTimestamp)
	set(paramKeyspace, p.Keyspace != "")
	set(paramNowInSeconds, p.HasNowInSeconds)
	return flags
}

// append is the inverse of consume. Now-in-seconds is left out before v5; a keyspace is not, because its flag is among
// the first eight, and Cassandra reads it in v4 as well.
func (p *Params) append(dst []byte, v Version) []byte {
	flags := p.flags()
	dst = wire.AppendUint16(dst, uint16(p.Consistency))
	if v >= V5 {
		dst = wire.AppendUint32(dst, flags)
	} else {
		// The flags after the first eight exist from v5 on; a keyspace has a bit among the first eight.
		flags &= 0xFF
		dst = append(dst, byte(flags))
	}
	if flags&paramValues != 0 {
		dst = wire.AppendUint16(dst, uint16(len(p.Values)))
		for i, value := range p.Values {
			if flags&paramNames != 0 {
				dst = wire.AppendString(dst, p.Names[i])
			}
			dst = wire.AppendValue(dst, value)
		}
	}
	if flags&paramPageSize != 0 {
		dst = wire.AppendInt32(dst, p.PageSize)
	}
	if flags&paramPagingState != 0 {
		dst = wire.AppendBytes(dst, p.PagingState)
	}
	if flags&paramSerialConsistency != 0 {
		dst = wire.AppendUint16(dst, uint16(p.SerialConsistency))
	}
	if flags&paramTimestamp != 0 {
		dst = wire.AppendInt64(dst, p.Timestamp)
	}
	if flags&paramKeyspace != 0 {
		dst = wire.AppendString(dst, p.Keyspace)
	}
	if flags&paramNowInSeconds != 0 {
		dst = wire.AppendInt32(dst, p.NowInSeconds)
	}
	return dst
}

// consumeNamedValues decodes values, each after its name. The server assigns them to markers by name.
func (p *Params) consumeNamedValues(c *wire.Cursor, v Version) {
	n := c.ShortCount(2 + 4)
	p.Names = slices.Grow(p.Names, n)
	p.Values = slices.Grow(p.Values, n)
	for range n {
		p.Names = append(p.Names, c.String())
		p.Values = append(p.Values, consumeValue(c, v))
	}
}

// consumeValues decodes the [short] n and n × [value] at c and appends them to values. The result has the memory of
// values if that suffices.
func consumeValues(c *wire.Cursor, v Version, values []wire.Value) []wire.Value {
	n := c.ShortCount(4)
	values = slices.Grow(values, n)
	for range n {
		values = append(values, consumeValue(c, v))
	}
	return values
}

// consumeValue decodes a [value]. v3 does not have the length -2, "not set", and Cassandra's message is Netty's.
func consumeValue(c *wire.Cursor, v Version) wire.Value {
	value := c.Value()
	if value.Kind == wire.ValueUnset && v < V4 {
		c.Fail(protocolError("Invalid ByteBuf length -2"))
	}
	return value
}

// consumeConsistency decodes a [consistency]. Whether the statement allows it is checked later.
func consumeConsistency(c *wire.Cursor) ring.Consistency {
	level := ring.Consistency(c.Uint16())
	if !level.Valid() {
		c.Fail(protocolError(fmt.Sprintf("Unknown code %d for a consistency level", uint16(level))))
	}
	return level
}
