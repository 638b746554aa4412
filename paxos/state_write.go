package paxos

import (
	"cqld/row"
	"cqld/schema"
)

// stateWrite is the memory of a change of an acceptor's row. Proposals are large, and storage copies what it
// applies: when it has, the memory is free for the next.
type stateWrite struct {
	row      row.Row
	mutation row.Mutation
	changes  [1]*row.Mutation
	value    []byte
}

// stateWriteKept is the largest one that is kept: a round of conditional changes (1 MiB and the last of
// them), twice, in buffers that grew by doubling.
const stateWriteKept = 2 << 20

// writing is free memory; wrote gives it back.
func (a *Acceptor) writing() *stateWrite {
	w, ok := a.writes.Get().(*stateWrite)
	if !ok {
		w = new(stateWrite)
	}
	w.row.Reset()
	return w
}

func (a *Acceptor) wrote(w *stateWrite) {
	if w.mutation.Size() <= stateWriteKept && cap(w.value) <= stateWriteKept {
		a.writes.Put(w)
	}
}

// updateCell is updateCell in the memory of w.
func (w *stateWrite) updateCell(column schema.ColumnID, p *Proposal) row.Cell {
	w.value = append(appendUpdateHead(w.value[:0], p), p.Update...)
	return row.Cell{Column: column, Timestamp: p.Ballot.Micros, Value: w.value}
}

// change is what w.row changes of the partition's state, for storage.
func (w *stateWrite) change(table *schema.Table, key row.PartitionKey) []*row.Mutation {
	w.row.Clustering = clusteringOf(table)
	w.row.Sort()
	w.mutation.Reset(schema.PaxosTable, key)
	w.mutation.AddRow(&w.row)
	w.changes[0] = &w.mutation
	return w.changes[:]
}
