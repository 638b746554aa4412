package storage

import (
	"fmt"
	"slices"

	"cqld/row"
	"cqld/scan"
	"cqld/schema"
	"cqld/types"
)

// filter draws a filter for the tables of the metamorphic test, or nil: a partition key of one blob, three clustering
// columns of type tinyint, static columns 7 to 9 and regular columns 1 to 3. The columns 1 and 7 are maps.
func (m *meta) filter() *row.Filter {
	if m.rng.IntN(3) > 0 {
		return nil
	}
	blob, tiny := types.Native(types.Blob), types.Native(types.Tinyint)
	f := &row.Filter{PartitionKey: 1, Decisive: m.rng.IntN(2) == 0}
	for range 3 {
		f.Clustering = append(f.Clustering, row.ClusteringColumn{Type: tiny})
	}
	for range 1 + m.rng.IntN(2) {
		c := row.Condition{Kind: schema.ColumnKind(1 + m.rng.IntN(4)), Type: blob, Values: [][]byte{m.filterValue()}}
		c.Operator = row.FilterEqual + row.FilterOperator(m.rng.IntN(5))
		switch c.Kind {
		case schema.PartitionKey:
			c.Values[0] = m.key().Bytes
		case schema.Clustering:
			c.Position, c.Type, c.Values[0] = m.rng.IntN(3), tiny, []byte{byte(m.rng.IntN(4))}
		case schema.Static:
			c.Column = schema.ColumnID(8 + m.rng.IntN(2))
		default:
			c.Column = schema.ColumnID(2 + m.rng.IntN(2))
			if m.rng.IntN(3) == 0 {
				c.Column, c.Type, c.Operator = 1, types.NewMap(blob, blob, false), row.FilterContains
			}
		}
		if c.Operator != row.FilterContains && m.rng.IntN(4) == 0 {
			c.Operator, c.Values = row.FilterIn, append(c.Values, []byte{1})
		}
		f.Add(c)
	}
	return f
}

func (m *meta) filterValue() []byte { return []byte("aabbcc")[:1+m.rng.IntN(3)] }

// readFiltered compares all pages of a filtered read, which end after few rows, with the page of the model.
func (m *meta) readFiltered(cmd *row.ReadCommand) {
	cmd.Slices, cmd.Reversed, cmd.Limits = []row.Slice{row.AllRows()}, false, row.Limits{}
	m.logf("read filtered %+v %+v", *cmd, *cmd.Filter)
	want := rowsOf(m.model.Read(cmd))
	var got []string
	c := scan.Cursor{Command: *cmd, Tokens: cmd.Range.Tokens, At: scan.Position{Done: true}}
	if cmd.Range.After != nil {
		c.At.Key = *cmd.Range.After
	}
	if cmd.SinglePartition() {
		c.Keys = []row.PartitionKey{cmd.Key}
	}
	var next row.ReadCommand
	for pages := 0; c.Next(&next); pages++ {
		page, err := m.engine.Read(nil, &next)
		if err != nil || pages > 10_000 {
			m.t.Errorf("page %d of %+v: %v", pages, *cmd, err)
			return
		}
		got = append(got, rowsOf(page)...)
		if err := c.Skip(page); err != nil {
			m.t.Error(err)
			return
		}
	}
	if !slices.Equal(got, want) {
		m.t.Errorf("read %+v with %+v\n got %q\nwant %q", *cmd, *cmd.Filter, got, want)
	}
}

// rowsOf returns the rows of a page.
func rowsOf(page []byte) (rows []string) {
	var r row.PageReader
	var x row.Row
	for r.Reset(page); r.NextPartition(); {
		for r.NextRow(&x) {
			rows = append(rows, fmt.Sprintf("%q %q %q", r.Key.Bytes, x.Clustering, row.AppendRow(nil, &x)))
		}
	}
	return rows
}
