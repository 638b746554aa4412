// Package texttable defines the tables of the simulation's workloads, and writes and reads their rows. Most tables have
// three columns of text; workloads that need other columns define them with Typed. Tables of a run differ by name, and
// are made again for each run from one specification.
package texttable

import (
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// Keyspace is the keyspace of the workloads' tables.
const Keyspace = "sim"

// Typed returns the schema of a table in the keyspace of the simulation. An ID has 16 bytes: longer names must
// differ in their first 16.
func Typed(name string, columns ...schema.ColumnSpec) *schema.CreateTable {
	id := schema.UUID{}
	// The ID is derived from the name, so equal seeds give equal tables.
	copy(id[:], name)
	return &schema.CreateTable{Keyspace: Keyspace, Table: name, ID: id, Columns: columns,
		Options: schema.DefaultOptions()}
}

// New returns the schema of a table with a partition key k, a clustering column c and a column v, all text.
func New(name string) *schema.CreateTable {
	text := types.Native(types.Text)
	return Typed(name,
		schema.ColumnSpec{Name: "k", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "c", Kind: schema.Clustering, Type: text},
		schema.ColumnSpec{Name: "v", Kind: schema.Regular, Type: text})
}

// Row returns a row of a table of New. The column v is regular, and the row has a liveness marker as after INSERT.
func Row(table *schema.Table, clustering, value string, timestamp int64) *row.Row {
	r := row.NewRow()
	r.Clustering = []byte(clustering)
	r.Liveness.Timestamp = timestamp
	r.Cells = append(r.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: timestamp, Value: []byte(value)})
	return r
}

// Change returns a mutation of one row of a table of New.
func Change(table *schema.Table, key row.PartitionKey, clustering, value string, timestamp int64) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(table.StorageID, key)
	m.AddRow(Row(table, clustering, value, timestamp))
	return m
}

// Rows returns the live rows of a page of a table of New, in its order. now is in seconds; 0 counts every cell that
// was ever written with a TTL as live. Elements are clustering and value.
func Rows(page []byte, now int64) (rows [][2]string, err error) {
	var p row.PageReader
	var r row.Row
	for p.Reset(page); p.NextPartition(); {
		for p.NextRow(&r) {
			if !r.Live(now) {
				continue
			}
			value := ""
			if len(r.Cells) > 0 && r.Cells[0].Live(now) {
				value = string(r.Cells[0].Value)
			}
			rows = append(rows, [2]string{string(r.Clustering), value})
		}
	}
	return rows, p.Err()
}
