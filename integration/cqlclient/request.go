package cqlclient

import "encoding/binary"

// Value is one bound value: Bytes when Set; otherwise null or, with Unset, "not set". The zero value is null.
type Value struct {
	Name  string // for a named bind
	Bytes []byte // nil is null
	Unset bool
}

// Options are the optional parts of a request. The zero value means ONE without paging. A field that the protocol
// version does not have must be left zero: the client sends it in any case.
type Options struct {
	Consistency uint16 // 0 means ONE
	Serial      uint16 // serial consistency, or ConsistencyAny; 0 means that it is not sent
	// Bound values: all of them have names, or none.
	Values []Value
	// In rows. 0 sends no page size: the server decides whether it sends pages.
	PageSize int
	// Of the previous page; opaque.
	PagingState []byte
	Timestamp   *int64 // default timestamp, µs
	Now         *int32 // now in seconds, v5
	Keyspace    string // keyspace of this request, v5
	// The columns of the result are known from PREPARE.
	SkipMeta bool
	Tracing  bool
}

// ConsistencyAny is the level ANY, whose number in the protocol is 0.
const ConsistencyAny = 1 << 15

// Level 1.
const consistencyOne = 1

// appendOptions appends the query parameters. The fields follow the flags in the order of the specification, not of the
// bits. The bits are: values 0x01, skip metadata 0x02, page size 0x04, paging state 0x08, serial consistency 0x10,
// timestamp 0x20, names 0x40, keyspace 0x80, now in seconds 0x100. Flag 0x100 needs the four bytes of v5.
// The layout, with two bytes of consistency, and one byte of flags or, in v5, four:
//
//	consistency │ flags │ values │ page size │ paging state │ serial │ timestamp │ keyspace │ now
func (c *Conn) appendOptions(b []byte, o *Options) []byte {
	consistency := o.Consistency
	if consistency == 0 {
		consistency = consistencyOne
	}
	b = appendConsistency(b, consistency)
	var flags int
	var rest []byte
	set := func(mask int) { flags |= mask }
	if len(o.Values) > 0 {
		set(0x01)
		rest = appendShort(rest, len(o.Values))
		// The flag "with names" holds for all values.
		if o.Values[0].Name != "" {
			set(0x40)
		}
		rest = appendValues(rest, o.Values)
	}
	if o.SkipMeta {
		set(0x02)
	}
	if o.PageSize != 0 {
		set(0x04)
		rest = appendInt(rest, o.PageSize)
	}
	if o.PagingState != nil {
		set(0x08)
		rest = append(appendInt(rest, len(o.PagingState)), o.PagingState...)
	}
	if o.Serial != 0 {
		set(0x10)
		rest = appendConsistency(rest, o.Serial)
	}
	if o.Timestamp != nil {
		set(0x20)
		rest = binary.BigEndian.AppendUint64(rest, uint64(*o.Timestamp))
	}
	if o.Keyspace != "" {
		set(0x80)
		rest = appendString(rest, o.Keyspace)
	}
	if o.Now != nil {
		set(0x100)
		rest = binary.BigEndian.AppendUint32(rest, uint32(*o.Now))
	}
	// The flags take four bytes from v5 on.
	if c.Version >= 5 {
		b = appendInt(b, flags)
	} else {
		b = append(b, byte(flags))
	}
	return append(b, rest...)
}

// appendConsistency appends a level. 0 is ANY in the protocol, and "not set" in Options.
func appendConsistency(b []byte, consistency uint16) []byte {
	if consistency == ConsistencyAny {
		consistency = 0
	}
	return appendShort(b, int(consistency))
}

// appendValues appends values: -1 is the length of null, and -2 of "not set". A name precedes its value.
func appendValues(b []byte, values []Value) []byte {
	for _, v := range values {
		if v.Name != "" {
			b = appendString(b, v.Name)
		}
		switch {
		case v.Unset:
			b = appendInt(b, -2)
		case v.Bytes == nil:
			b = appendInt(b, -1)
		default:
			b = append(appendInt(b, len(v.Bytes)), v.Bytes...)
		}
	}
	return b
}

// flags returns the flags of the envelope. They are the bits of the header, not of the query parameters.
func (o *Options) flags() byte {
	if o.Tracing {
		return flagTracing
	}
	return 0
}

// Query sends one statement as text. The statement is parsed by the server each time, and may have bound values. The
// layout is the text as [long string], and what appendOptions appends.
func (c *Conn) Query(text string, o Options) (*Answer, error) {
	return c.answer(opQuery, o.flags(), c.appendOptions(appendLongString(nil, text), &o))
}

// Prepare prepares one statement; the Answer's Prepared contains its id and metadata. Statements with other options are
// prepared with PrepareWith.
func (c *Conn) Prepare(text string) (*Answer, error) { return c.PrepareWith(text, Options{}) }

// PrepareWith is Prepare with the keyspace and the tracing flag of the options. In v4 the keyspace is the one of the
// last USE on this connection.
func (c *Conn) PrepareWith(text string, o Options) (*Answer, error) {
	body := appendLongString(nil, text)
	switch {
	case c.Version >= 5 && o.Keyspace != "":
		// Flag 1 announces the keyspace.
		body = appendString(appendInt(body, 1), o.Keyspace)
	case c.Version >= 5:
		body = appendInt(body, 0)
	}
	return c.answer(opPrepare, o.flags(), body)
}

// Execute executes a prepared statement. It must run on a server that knows p.ID; otherwise Answer.Err has the code
// UNPREPARED (0x2500).
func (c *Conn) Execute(p *Prepared, o Options) (*Answer, error) {
	body := appendString(nil, string(p.ID))
	if c.Version >= 5 {
		body = appendString(body, string(p.ResultID))
	}
	a, err := c.answer(opExecute, o.flags(), c.appendOptions(body, &o))
	// The server has left the columns out.
	if err == nil && a.Columns == nil && o.SkipMeta {
		a.Columns = p.Result
	}
	return a, err
}

// Statement is one statement of a Batch: text or prepared, with its values. ID wins if both are set.
type Statement struct {
	Text   string
	ID     []byte
	Values []Value
}

// Batch sends a protocol batch: kind 0 logged, 1 unlogged, 2 counter. Values of a batch have no names: the
// specification defines them (flag 0x40), but no server can resolve them (CASSANDRA-10246). The layout:
//
//	kind │ count │ 0, text, values │ 1, id, values │ … │ consistency │ flags │ …
func (c *Conn) Batch(kind byte, statements []Statement, o Options) (*Answer, error) {
	body := appendShort([]byte{kind}, len(statements))
	for _, s := range statements {
		// The kind of an entry: 0 is text, 1 is an id.
		if s.ID != nil {
			body = appendString(append(body, 1), string(s.ID))
		} else {
			body = appendLongString(append(body, 0), s.Text)
		}
		body = appendValues(appendShort(body, len(s.Values)), s.Values)
	}
	return c.answer(opBatch, o.flags(), c.appendOptions(body, &o))
}

// answer sends a request and decodes its answer. An error response is Answer.Err, not an error. An error is one of the
// network or of the encoding; afterwards the connection must not be used.
func (c *Conn) answer(opcode, flags byte, body []byte) (*Answer, error) {
	f, err := c.roundTrip(opcode, flags, body)
	if err != nil {
		return nil, err
	}
	return decodeAnswer(f)
}
