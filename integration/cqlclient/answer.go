package cqlclient

import (
	"fmt"
)

// Kind is the kind of an answer. It is the kind of RESULT, or Failed for ERROR. A test compares it before anything else
// of an answer.
type Kind int

// The kinds of answers; Rows to SchemaChange have the numbers of the protocol.
const (
	// No kind of the protocol has the number 0.
	Failed Kind = 0
	// The answer to writes and to most statements about roles.
	Void Kind = 1
	// Columns, rows and perhaps a paging state.
	Rows Kind = 2
	// The answer to USE.
	SetKeyspace Kind = 3
	// The answer to PREPARE. The name Prepared is the type.
	PreparedKind Kind = 4
	// The answer to a definition; the same change is pushed as an event to other connections.
	SchemaChange Kind = 5
)

// Column is one column of a result or one bind marker. All four are empty if the answer has no metadata.
type Column struct {
	Keyspace, Table, Name string
	Type                  Type
}

// Prepared is the result of PREPARE. ID is an MD5 in Cassandra, of the keyspace and the text; a client treats it as
// opaque. ResultID (v5) identifies the result metadata: a server that finds another one at EXECUTE sends MetadataID and
// new columns.
type Prepared struct {
	// Both are [short bytes]; ResultID is nil in v4.
	ID, ResultID []byte
	// The bind markers, and the columns of the result without which SkipMeta has no names.
	Binds []Column
	// Positions in Binds of the partition key, in its order; empty if a part of it is not bound.
	KeyIndexes []int
	Result     []Column
}

// Answer is a server's complete answer to one request. Exactly one group of fields is set, by Kind. The slices belong
// to the caller: they do not point into a buffer that is reused.
type Answer struct {
	Kind Kind
	Err  *Error // for Failed
	// As the server sent them; nil if there are none.
	Warnings []string
	// 16 bytes, a time UUID, if the request had the tracing flag.
	TracingID []byte
	// The columns of Rows.
	Columns     []Column
	Rows        [][][]byte // nil cell means null
	PagingState []byte     // nil means no more pages
	MetadataID  []byte     // v5, when the result metadata changed
	Keyspace    string     // for SetKeyspace
	Change      []string   // for SchemaChange: CREATED, TABLE, ks, name, argument types…
	Prepared    *Prepared
}

// decodeAnswer decodes RESULT or ERROR with the parts that the flags announce before the body. The order of these parts
// is fixed by the specification (section 2.2 of v4, flags): tracing id, warnings, custom payload.
func decodeAnswer(f *frame) (*Answer, error) {
	r, a := f.body(), &Answer{}
	if f.flags&flagTracing != 0 {
		a.TracingID = r.take(16)
	}
	if f.flags&flagWarning != 0 {
		a.Warnings = r.strings()
	}
	if f.flags&flagPayload != 0 {
		// A custom payload is skipped: no test compares it.
		for n := r.short(); n > 0 && r.err == nil; n-- {
			r.string()
			r.bytes()
		}
	}
	// The high bit of the version marks a response.
	switch f.opcode {
	case opError:
		a.Err = decodeError(r, f.version&0x7f)
	case opResult:
		a.decodeResult(r, f.version&0x7f)
	default:
		return nil, fmt.Errorf("cqlclient: unexpected opcode %#x", f.opcode)
	}
	if r.err != nil {
		return nil, r.err
	}
	// Bytes that are left would hide an error of the server's encoding.
	if len(r.b) != 0 {
		return nil, fmt.Errorf("cqlclient: %d bytes left over after the answer", len(r.b))
	}
	return a, nil
}

// decodeResult decodes the body of RESULT by its kind. An unknown kind leaves the body unread, which decodeAnswer
// reports as bytes left over.
func (a *Answer) decodeResult(r *reader, version byte) {
	a.Kind = Kind(r.int())
	switch a.Kind {
	case Rows:
		a.decodeMetadata(r)
		n := r.int()
		for i := 0; i < n && r.err == nil; i++ {
			row := make([][]byte, len(a.Columns))
			for j := range row {
				row[j] = r.bytes()
			}
			a.Rows = append(a.Rows, row)
		}
	case SetKeyspace:
		a.Keyspace = r.string()
	case SchemaChange:
		// The kind of the change, the kind of the object, and the keyspace. [string]s, evaluated from left to right as
		// the wire has them.
		a.Change = []string{r.string(), r.string(), r.string()}
		switch a.Change[1] {
		case "TABLE", "TYPE":
			a.Change = append(a.Change, r.string())
		case "FUNCTION", "AGGREGATE":
			a.Change = append(a.Change, r.string())
			// The types of the arguments distinguish overloads.
			a.Change = append(a.Change, r.strings()...)
		}
	case PreparedKind:
		a.decodePrepared(r, version)
	}
}

// Flags of the metadata of rows, section 4.2.5.2 of the specification of v4.
const (
	// global_tables_spec: one keyspace and table for all columns
	metaGlobal = 1
	// has_more_pages: a paging state follows
	metaMore = 2
	// no_metadata: only the number of columns is sent
	metaNone = 4
	// metadata_changed, v5: the new id of the metadata follows
	metaChanged = 8
)

// decodeMetadata decodes the metadata of rows. Without columns, it keeps their number, which the rows need. The paging
// state precedes the metadata id, as in the specification:
//
//	flags │ columns │ paging state │ metadata id │ keyspace, table │ name, type │ name, type …
func (a *Answer) decodeMetadata(r *reader) {
	flags, n := r.int(), r.int()
	if flags&metaMore != 0 {
		a.PagingState = r.bytes()
	}
	if flags&metaChanged != 0 {
		a.MetadataID = r.shortBytes()
	}
	if flags&metaNone == 0 {
		a.Columns = decodeColumns(r, flags, n)
	} else {
		a.Columns = make([]Column, n)
	}
}

// decodeColumns decodes the specifications of n columns. flags are the flags of the metadata.
func decodeColumns(r *reader, flags, n int) []Column {
	var ks, table string
	// All columns are of one table, which precedes them.
	if flags&metaGlobal != 0 && n >= 0 {
		ks, table = r.string(), r.string()
	}
	// A wrong count must not allocate much.
	columns := make([]Column, 0, min(max(n, 0), 1024))
	for i := 0; i < n && r.err == nil; i++ {
		c := Column{Keyspace: ks, Table: table}
		if flags&metaGlobal == 0 {
			c.Keyspace, c.Table = r.string(), r.string()
		}
		c.Name, c.Type = r.string(), decodeType(r)
		columns = append(columns, c)
	}
	return columns
}

// decodePrepared decodes the result of PREPARE: the metadata of the bind markers and then of the rows. In v5 the id of
// the result metadata follows the id of the statement:
//
//	id │ result id │ flags, columns, key indexes, markers │ flags, columns, result
func (a *Answer) decodePrepared(r *reader, version byte) {
	p := &Prepared{ID: r.shortBytes()}
	if version >= 5 {
		p.ResultID = r.shortBytes()
	}
	flags, n := r.int(), r.int()
	// Indexes of bind markers, for clients that compute the token.
	for k := r.int(); k > 0 && r.err == nil; k-- {
		p.KeyIndexes = append(p.KeyIndexes, r.short())
	}
	// Without bind markers, Cassandra omits the table specification although it sets the flag for it.
	if n == 0 {
		flags &^= metaGlobal
	}
	p.Binds = decodeColumns(r, flags, n)
	flags, n = r.int(), r.int()
	if flags&metaNone == 0 {
		p.Result = decodeColumns(r, flags, n)
	}
	a.Prepared = p
}
