package acceptor

import (
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// ForgetTable implements replica.PaxosState. It removes the updates from the states of a table's partitions: otherwise
// a change that was decided before a truncation could be sent to a replica after it. The ballots remain. It calls done
// when the removal is on disk.
func (a *Acceptor) ForgetTable(id schema.StorageID, done func(error)) {
	table := a.view.Schema().TableByStorage(id)
	if table == nil {
		// The table was dropped. Purge removes its states.
		done(nil)
		return
	}
	states := stateScan(ring.FullRange(), nil, row.ExactRow(clusteringOf(table)), 0)
	a.forgetTablePage(table, &states, done)
}

// forgetTablePage is ForgetTable for the rest of a scan.
func (a *Acceptor) forgetTablePage(table *schema.Table, states *states, done func(error)) {
	var changes []*row.Mutation
	err := a.statePage(states, func(key row.PartitionKey, x *row.Row) error {
		if m := a.updatesDeletion(table, key, x); m != nil {
			changes = append(changes, m)
		}
		return nil
	})
	more := states.More()
	if err != nil || len(changes) == 0 && !more {
		done(err)
		return
	}
	// Remove also works with a full disk: a truncation must be able to free space.
	err = a.replica.Remove(changes, func(err error) {
		switch {
		case err != nil:
			done(err)
		case more:
			// The callback runs in storage's committer, which must not read the next page.
			a.replica.Block(0, func() { a.forgetTablePage(table, states, done) }, done)
		default:
			done(nil)
		}
	})
	// After an error, Remove has not queued the changes and never calls the callback, so done is called here.
	if err != nil {
		done(err)
	}
}

// updatesDeletion returns the deletion of a state's updates; nil means that it has none.
func (a *Acceptor) updatesDeletion(table *schema.Table, key row.PartitionKey, state *row.Row) *row.Mutation {
	r := row.NewRow()
	for i := range state.Cells {
		c := &state.Cells[i]
		k := &a.columns
		// The promise and the ballot of the decision stay: forgetting them would let an earlier proposal be accepted.
		// The deletion has the timestamp of the cell, so it deletes this content and nothing later.
		if !c.Tombstone && (c.Column == k.decision || c.Column == k.proposal || c.Column == k.accepted) {
			r.Cells = append(r.Cells, row.Cell{Column: c.Column, Timestamp: c.Timestamp, Tombstone: true,
				LocalTime: c.Timestamp / 1e6})
		}
	}
	if len(r.Cells) == 0 {
		return nil
	}
	return stateMutation(table, key, r)
}
