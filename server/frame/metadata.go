package frame

import (
	"cqld/internal/wire"
	"cqld/types"
)

// Column is a column of a result, or a bind marker. Type is never nil.
type Column struct {
	Keyspace, Table, Name string
	Type                  *types.Type
}

// RowsMetadata is the metadata of a Rows result. Columns is used for the number of columns even if they are not sent. A
// prepared statement of version 5 names its metadata by an id, so that the columns need not be sent with each result.
type RowsMetadata struct {
	Columns       []Column
	PagingState   []byte // nil on the last page
	NewMetadataID []byte // v5, if the client's id is outdated; NoMetadata is then ignored
	NoMetadata    bool   // the client requested no column metadata
}

// The flags of metadata.
const (
	// Section 4.2.5.2 of the specification: Global_tables_spec, Has_more_pages, No_metadata and Metadata_changed.
	metadataGlobalTable  = 0x0001
	metadataHasMorePages = 0x0002
	metadataNone         = 0x0004
	metadataChanged      = 0x0008
)

// AppendRowsMetadata appends m. The paging state precedes the new id. The number of columns is sent in any case:
// clients need it to read the rows.
func AppendRowsMetadata(dst []byte, v Version, m *RowsMetadata) []byte {
	var flags uint32
	if m.PagingState != nil {
		flags |= metadataHasMorePages
	}
	// A new id comes with its columns, because the client has the old ones only.
	changed := v >= V5 && m.NewMetadataID != nil
	skip := m.NoMetadata && !changed
	global := !skip && sameTable(m.Columns)
	switch {
	case skip:
		flags |= metadataNone
	case global:
		flags |= metadataGlobalTable
	}
	if changed {
		flags |= metadataChanged
	}
	// The order of the specification: flags, number of columns, paging state, new id, columns.
	dst = wire.AppendUint32(dst, flags)
	dst = wire.AppendInt32(dst, int32(len(m.Columns)))
	if m.PagingState != nil {
		dst = wire.AppendBytes(dst, m.PagingState)
	}
	if changed {
		dst = wire.AppendShortBytes(dst, m.NewMetadataID)
	}
	if skip {
		return dst
	}
	return appendColumns(dst, v, m.Columns, global)
}

// ConsumeRowsMetadata decodes metadata. Without columns on the wire, it returns as many zero Columns as the count says,
// or nil if the count is too large. Clients use it, and tests.
func ConsumeRowsMetadata(c *wire.Cursor) (m RowsMetadata, columns int) {
	flags := c.Uint32()
	columns = int(c.Int32())
	if flags&metadataHasMorePages != 0 {
		m.PagingState = c.Bytes()
	}
	if flags&metadataChanged != 0 {
		m.NewMetadataID = c.ShortBytes()
	}
	// The client knows the columns from PREPARE. Their number is sent all the same.
	if flags&metadataNone != 0 {
		m.NoMetadata = true
		return m, columns
	}
	m.Columns = consumeColumns(c, columns, flags&metadataGlobalTable != 0)
	return m, columns
}

// Prepared is the body of a Prepared result. Byte slices point into the body after ConsumePrepared. A client sends ID
// in EXECUTE, and computes the routing key from the values at PartitionKey.
type Prepared struct {
	ID               []byte
	ResultMetadataID []byte   // v5
	Binds            []Column // the bind markers
	// PartitionKey contains the index of the bind marker of each partition key column. It is empty unless every one
	// has a marker.
	PartitionKey []uint16
	Result       []Column // nil if the statement returns no rows
}

// AppendPrepared appends the body of a Prepared result, without its kind. The metadata of the markers precede the
// metadata of the result.
func AppendPrepared(dst []byte, v Version, p *Prepared) []byte {
	dst = wire.AppendShortBytes(dst, p.ID)
	if v >= V5 {
		dst = wire.AppendShortBytes(dst, p.ResultMetadataID)
	}
	// False without markers, for which there is no table to send.
	global := sameTable(p.Binds)
	var flags uint32
	if global {
		flags = metadataGlobalTable
	}
	dst = wire.AppendUint32(dst, flags)
	dst = wire.AppendInt32(dst, int32(len(p.Binds)))
	if v >= V4 {
		dst = wire.AppendInt32(dst, int32(len(p.PartitionKey)))
		for _, i := range p.PartitionKey {
			dst = wire.AppendUint16(dst, i)
		}
	}
	dst = appendColumns(dst, v, p.Binds, global)
	// A statement without rows has no metadata, which the flag says.
	return AppendRowsMetadata(dst, v, &RowsMetadata{Columns: p.Result, NoMetadata: len(p.Result) == 0})
}

// ConsumePrepared decodes the body of a Prepared result after its kind. Clients use it, and tests.
func ConsumePrepared(c *wire.Cursor, v Version) (p Prepared) {
	p.ID = c.ShortBytes()
	if v >= V5 {
		p.ResultMetadataID = c.ShortBytes()
	}
	// Unlike the metadata of rows, this one has the indexes of the partition key between the count and the columns,
	// from v4 on.
	flags := c.Uint32()
	columns := int(c.Int32())
	if v >= V4 {
		for range c.IntCount(2) {
			p.PartitionKey = append(p.PartitionKey, c.Uint16())
		}
	}
	p.Binds = consumeColumns(c, columns, flags&metadataGlobalTable != 0)
	result, _ := ConsumeRowsMetadata(c)
	p.Result = result.Columns
	return p
}

// sameTable reports whether all columns are of one table, which is then sent once. It is false for no columns.
func sameTable(columns []Column) bool {
	for i := range columns {
		if columns[i].Table != columns[0].Table || columns[i].Keyspace != columns[0].Keyspace {
			return false
		}
	}
	return len(columns) > 0
}

// appendColumns appends the columns, each with its table unless that is global.
func appendColumns(dst []byte, v Version, columns []Column, global bool) []byte {
	if global {
		dst = wire.AppendString(dst, columns[0].Keyspace)
		dst = wire.AppendString(dst, columns[0].Table)
	}
	for i := range columns {
		col := &columns[i]
		if !global {
			dst = wire.AppendString(dst, col.Keyspace)
			dst = wire.AppendString(dst, col.Table)
		}
		dst = wire.AppendString(dst, col.Name)
		dst = AppendType(dst, v, col.Type)
	}
	return dst
}

// consumeColumns is the inverse of appendColumns. It fails for a number of columns that the bytes cannot hold.
func consumeColumns(c *wire.Cursor, n int, global bool) []Column {
	const columnMin = 2 + 2 // name and type id
	// Checked before the allocation, because another node or a client may send any number.
	if n < 0 || n > c.Len()/columnMin {
		c.Fail(wire.ErrShort)
		return nil
	}
	if n == 0 {
		return nil
	}
	var keyspace, table string
	if global {
		keyspace, table = c.String(), c.String()
	}
	columns := make([]Column, n)
	for i := range columns {
		col := &columns[i]
		col.Keyspace, col.Table = keyspace, table
		if !global {
			col.Keyspace, col.Table = c.String(), c.String()
		}
		col.Name = c.String()
		col.Type = ConsumeType(c)
	}
	return columns
}
