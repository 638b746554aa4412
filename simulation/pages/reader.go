// Package pages reads the tables of a simulated cluster page by page, as requests do, and compares what nodes have in
// their storage.
package pages

import (
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// Reader reads a table, or a partition, with as many commands as necessary, as requests do. It is a coordinator's
// client: the position is in the cursor, and replicas keep none. Used for one read, and not concurrently.
type Reader struct {
	Table schema.StorageID
	// Only is the partition to read; nil means the whole ring.
	Only *row.PartitionKey
	// Slice selects rows; the zero value is all rows.
	Slice    row.Slice
	Reversed bool
	// Limit is the maximum number of rows of a page; 0 means no limit.
	Limit  uint32
	Filter *row.Filter

	// cursor is the position of the next page; nil before the first command. done means that nothing is left.
	cursor *scan.Cursor
	done   bool
}

// Command returns the command for the next page. now is in seconds, and decides which cells have expired.
func (p *Reader) Command(now int64) *row.ReadCommand {
	if p.cursor == nil {
		p.cursor = &scan.Cursor{Tokens: ring.FullRange(), Command: row.ReadCommand{
			Table: p.Table, Slices: []row.Slice{p.Slice}, Reversed: p.Reversed, Limits: row.Limits{Rows: p.Limit},
			Filter: p.Filter,
		}}
		if p.Only != nil {
			p.cursor.One(*p.Only)
		}
	}
	// Each page may be read at another time, as the pages of a client are.
	p.cursor.Command.Now = now
	cmd := new(row.ReadCommand)
	p.cursor.Next(cmd)
	return cmd
}

// Took advances past a page, and calls visit with its rows; continued means that the row's partition began on an
// earlier page. A header of a partition is visited with x nil. The row x is reused, so visit must not keep it.
func (p *Reader) Took(page []byte, visit func(r *row.PageReader, x *row.Row, continued bool)) error {
	c := p.cursor
	var x row.Row
	// The cursor remembers the last row of the page, at which the next command continues.
	for c.Page(page); c.NextPartition(); {
		continued := c.At.Inside
		if !continued {
			visit(&c.Reader, nil, false)
		}
		for c.NextRow(&x) {
			visit(&c.Reader, &x, continued)
		}
	}
	err := c.EndPage()
	p.done = err == nil && !c.More()
	return err
}

// Done reports whether nothing is left to read.
func (p *Reader) Done() bool { return p.done }
