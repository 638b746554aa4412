package query

import (
	"bytes"
	"encoding/binary"
	"math"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/definition"
	"cqld/query/invalid"
	"cqld/schema"
)

// describe executes DESCRIBE with paging. Each page generates the whole description again and returns its part of the
// rows. Unqualified names refer to the keyspace of s.
func (p *Processor) describe(s *Session, stmt *cql.Describe, params *Params) (*Result, error) {
	now := p.services.View.Schema()
	from, err := describeFrom(now, params)
	if err != nil {
		return nil, err
	}
	// PageSize 0 or less means that the result is not paged.
	d := &definition.Describer{Schema: now, Topology: p.services.View.Topology(), Cluster: p.o.ClusterName,
		Keyspace: s.Keyspace, Internals: stmt.Internals, From: from, Limit: max(int(params.PageSize), 0)}
	columns, rows, more, err := d.Describe(stmt)
	if err != nil {
		return nil, definitionError(err)
	}
	metadata := new(Metadata)
	for _, c := range columns {
		// Cassandra's metadata names this table, although it does not exist.
		metadata.Columns = append(metadata.Columns, Column{Keyspace: "system", Table: "describe", Name: c.Name,
			Type: c.Type})
	}
	var out []byte
	for _, row := range rows {
		for _, value := range row {
			out = wire.AppendBytes(out, value)
		}
	}
	result := &Result{Kind: KindRows, Metadata: metadata, RowCount: int32(len(rows)), Rows: out}
	// The state is not authenticated, because it contains nothing secret and is checked against the schema.
	if more {
		version := now.Version()
		result.PagingState = append([]byte{describeStateFormat}, version[:]...)
		result.PagingState = wire.AppendUint32(result.PagingState, uint32(from+len(rows)))
	}
	return result, nil
}

// describeStateFormat marks a paging state of DESCRIBE. The state contains the schema version from which the previous
// pages were generated, and the number of rows on them.
const describeStateFormat = 0xD1

// describeFrom returns the number of rows on the previous pages. As in Cassandra, a state of another schema version
// is an error, because rows could be missing or repeated.
func describeFrom(s *schema.Schema, params *Params) (int, error) {
	state := params.PagingState
	if state == nil {
		return 0, nil
	}
	version := s.Version()
	// The state belongs to another statement, or is damaged.
	if len(state) != 1+len(version)+4 || state[0] != describeStateFormat {
		return 0, &invalid.BadRequest{Msg: "Invalid value for the paging state"}
	}
	if !bytes.Equal(state[1:1+len(version)], version[:]) {
		return 0, invalid.Errorf("The schema has changed since the previous page of the DESCRIBE statement result. " +
			"Please retry the DESCRIBE statement.")
	}
	// A position after the last row gives an empty page.
	return int(min(binary.BigEndian.Uint32(state[1+len(version):]), math.MaxInt32)), nil
}
