package paxos

import (
	"cqld/row"
	"cqld/schema"
)

// stateWrite holds the buffers of a change of an acceptor's row. Proposals are large, and storage copies the mutations that
// it applies; after that, the buffers are reused.
type stateWrite struct {
	row      row.Row
	mutation row.Mutation
	changes  [1]*row.Mutation
	value    []byte
}

// stateWriteKept is the size of the largest buffers that are reused: a round of conditional changes (1 MiB and the last
// change), twice, in buffers that grew by doubling.
const stateWriteKept = 2 << 20

// writing returns free buffers; wrote returns them to the pool.
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

// change returns the mutation of the partition's state with the row w.row, for storage.
func (w *stateWrite) change(table *schema.Table, key row.PartitionKey) []*row.Mutation {
	w.row.Clustering = clusteringOf(table)
	w.row.Sort()
	w.mutation.Reset(schema.PaxosTable, key)
	w.mutation.AddRow(&w.row)
	w.changes[0] = &w.mutation
	return w.changes[:]
}
