package query

import (
	"bytes"
	"encoding/binary"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/definition"
	"cqld/schema"
)

// describe executes DESCRIBE with paging.
func (p *Processor) describe(s *Session, stmt *cql.Describe, params *Params) (*Result, error) {
	now := p.services.View.Schema()
	d := &definition.Describer{Schema: now, Topology: p.services.View.Topology(), Cluster: p.o.ClusterName,
		Keyspace: s.Keyspace, Internals: stmt.Internals}
	columns, rows, err := d.Describe(stmt)
	if err != nil {
		return nil, definitionError(err)
	}
	from, until, next, err := describePage(now, len(rows), params)
	if err != nil {
		return nil, err
	}
	metadata := new(Metadata)
	for _, c := range columns {
		// Cassandra reports this table, which does not exist.
		metadata.Columns = append(metadata.Columns, Column{Keyspace: "system", Table: "describe", Name: c.Name, Type: c.Type})
	}
	var out []byte
	for _, row := range rows[from:until] {
		for _, value := range row {
			out = wire.AppendBytes(out, value)
		}
	}
	return &Result{Kind: KindRows, Metadata: metadata, RowCount: int32(until - from), Rows: out, PagingState: next}, nil
}

// describeStateFormat marks a paging state of DESCRIBE. It contains the version of the schema from which the previous
// pages were made, and the number of their rows.
const describeStateFormat = 0xD1

// describePage returns the rows, of n, on the page that params requests, and the paging state of the next page.
func describePage(s *schema.Schema, n int, params *Params) (from, until int, next []byte, err error) {
	version := s.Version()
	if state := params.PagingState; state != nil {
		if len(state) != 1+len(version)+4 || state[0] != describeStateFormat {
			return 0, 0, nil, &BadRequest{Msg: "Invalid value for the paging state"}
		}
		if !bytes.Equal(state[1:1+len(version)], version[:]) {
			return 0, 0, nil, invalidf("The schema has changed since the previous page of the DESCRIBE statement result. " +
				"Please retry the DESCRIBE statement.")
		}
		from = min(int(binary.BigEndian.Uint32(state[1+len(version):])), n)
	}
	until = n
	if size := int(params.PageSize); size > 0 && size < n-from {
		until = from + size
		next = append([]byte{describeStateFormat}, version[:]...)
		next = wire.AppendUint32(next, uint32(until))
	}
	return from, until, next, nil
}
