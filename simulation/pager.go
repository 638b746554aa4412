package simulation

import (
	"bytes"
	"errors"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// pager reads a table, or a partition, with as many commands as necessary. A page may end anywhere: the next command continues
// after its last row.
type pager struct {
	table    schema.StorageID
	only     *row.PartitionKey // nil means the ring
	slice    row.Slice
	reversed bool
	limit    uint32 // rows of a page; 0 means no limit
	filter   *row.Filter

	inside *row.PartitionKey // the page ended within this partition
	last   []byte            // after this row of it, if inside
	after  *row.PartitionKey
	done   bool
}

// command returns the command for the next page.
func (p *pager) command(now int64) *row.ReadCommand {
	cmd := &row.ReadCommand{Table: p.table, Now: now, Slices: []row.Slice{p.slice}, Reversed: p.reversed}
	cmd.Limits.Rows, cmd.Filter = p.limit, p.filter
	switch {
	case p.inside != nil:
		cmd.Key = *p.inside
		if p.reversed {
			cmd.Slices[0].End = p.last
		} else {
			cmd.Slices[0].Start = append(bytes.Clone(p.last), 0)
		}
	case p.only != nil:
		cmd.Key = *p.only
	default:
		cmd.Range = row.KeyRange{Tokens: ring.FullRange(), After: p.after}
	}
	return cmd
}

// took advances past a page, and calls visit with its rows; continued means that the row's partition began on an earlier page.
func (p *pager) took(page []byte, visit func(r *row.PageReader, x *row.Row, continued bool)) error {
	var reader row.PageReader
	var x row.Row
	var key *row.PartitionKey
	var last []byte
	for reader.Reset(page); reader.NextPartition(); {
		key, last = &row.PartitionKey{Token: reader.Key.Token, Bytes: bytes.Clone(reader.Key.Bytes)}, nil
		continued := p.inside != nil
		if !continued {
			visit(&reader, nil, false)
		}
		for reader.NextRow(&x) {
			visit(&reader, &x, continued)
			last = bytes.Clone(x.Clustering)
		}
	}
	if err := reader.Err(); err != nil {
		return err
	}
	if end := reader.End(); end != nil {
		key, last = &row.PartitionKey{Token: end.Key.Token, Bytes: bytes.Clone(end.Key.Bytes)}, bytes.Clone(end.Clustering)
		if end.Whole {
			last = nil
		}
	}
	switch {
	case reader.More() && last != nil:
		p.inside, p.last = key, last
	case reader.More() && key != nil && p.only == nil:
		p.inside, p.after = nil, key // its header and no rows
	case reader.More() && key != nil:
		return errors.New("a page of a partition reports more rows, but no last row")
	case p.inside != nil && p.only == nil && !reader.More():
		p.inside, p.after = nil, p.inside
	case !reader.More():
		p.done = true
	}
	return nil
}
