package acceptor

import (
	"bytes"

	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// states is a scan of this replica's Paxos states, which are rows of schema.PaxosTable: a partition has the state of
// one partition key in every table that has the key.
type states struct {
	scan.Cursor
	bytes int64 // of the pages read
}

// stateScan returns the scan of the states with a token in tokens and a key after the given one, nil meaning all keys.
// rows limits the states of a page; zero means that only the size of a page is limited.
func stateScan(tokens ring.Range, after *row.PartitionKey, tables row.Slice, rows uint32) states {
	s := states{Cursor: scan.Cursor{
		Command: row.ReadCommand{Table: schema.PaxosTable, Slices: []row.Slice{tables}, Limits: row.Limits{Rows: rows}},
		Tokens:  tokens,
	}}
	if after != nil {
		// Done skips the key: the states of all tables for that key were returned.
		s.At = scan.Position{Key: *after, Done: true}
	}
	return s
}

// statePage reads the next page of a scan that has More, however many tombstones it has, and calls f for each state. f
// may retain key, but not x.
func (a *Acceptor) statePage(s *states, f func(key row.PartitionKey, x *row.Row) error) error {
	var cmd row.ReadCommand
	s.Next(&cmd)
	// Purged states are tombstones, many in a row after a repair. The limit that protects clients from them would stop
	// the scan forever.
	page, err := a.replica.ReadPageWhole(&cmd)
	if err != nil {
		return err
	}
	s.bytes += int64(len(page))
	var x row.Row
	for s.Page(page); s.NextPartition(); {
		// The reader's key is in the page and changes with each partition.
		key := row.PartitionKey{Token: s.Reader.Key.Token, Bytes: bytes.Clone(s.Reader.Key.Bytes)}
		for s.NextRow(&x) {
			if err := f(key, &x); err != nil {
				return err
			}
		}
	}
	return s.EndPage()
}
