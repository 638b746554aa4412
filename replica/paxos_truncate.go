package replica

import (
	"bytes"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// forgetPaxos removes from the acceptors' state what a table's partitions were to become: else a change
// decided before a truncation would be brought to a replica after it. The ballots stay. It calls done
// when that is on disk.
func (l *Local) forgetPaxos(id schema.StorageID, done func(error)) {
	table := l.view.Schema().TableByStorage(id)
	if table == nil {
		done(nil)
		return
	}
	l.forgetPaxosAfter(table, nil, done)
}

func (l *Local) forgetPaxosAfter(table *schema.Table, after *row.PartitionKey, done func(error)) {
	cmd := row.ReadCommand{
		Table: paxosTable, Range: row.KeyRange{Tokens: ring.FullRange(), After: after}, Slices: []row.Slice{row.ExactRow(clusteringOf(table))},
	}
	page, err := l.readStates(&cmd)
	if err != nil {
		done(FromStorage(err))
		return
	}
	var p row.PageReader
	var r row.Row
	var changes []*row.Mutation
	p.Reset(page)
	for p.NextPartition() {
		after = &row.PartitionKey{Token: p.Key.Token, Bytes: bytes.Clone(p.Key.Bytes)}
		for p.NextRow(&r) {
			if m := l.paxos.forgetting(table, *after, &r); m != nil {
				changes = append(changes, m)
			}
		}
	}
	more := p.More()
	if err := p.Err(); err != nil || len(changes) == 0 && !more {
		done(err)
		return
	}
	apply := l.engine.Apply
	if f, ok := l.engine.(forgetter); ok {
		apply = f.Forget
	}
	err = apply(changes, true, func(err error) {
		switch {
		case err != nil:
			done(FromStorage(err))
		case more:
			l.block(0, func() { l.forgetPaxosAfter(table, after, done) }, done)
		default:
			done(nil)
		}
	})
	if err != nil {
		done(FromStorage(err))
	}
}

// forgetting deletes the updates of a state; nil when it has none.
func (a *acceptors) forgetting(table *schema.Table, key row.PartitionKey, state *row.Row) *row.Mutation {
	r := row.NewRow()
	for i := range state.Cells {
		c := &state.Cells[i]
		if !c.Tombstone && (c.Column == a.decision || c.Column == a.proposal || c.Column == a.accepted) {
			r.Cells = append(r.Cells, row.Cell{Column: c.Column, Timestamp: c.Timestamp, Tombstone: true, LocalTime: c.Timestamp / 1e6})
		}
	}
	if len(r.Cells) == 0 {
		return nil
	}
	return a.mutation(table, key, r)
}
