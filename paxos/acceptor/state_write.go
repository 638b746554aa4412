package acceptor

import (
	"cqld/paxos/ballot"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// stateWrite holds the buffers of a change of an acceptor's row, and of the update that is applied with it. Proposals
// are large, and storage copies the mutations that it applies; after that, the buffers are reused.
type stateWrite struct {
	row              row.Row
	mutation, update row.Mutation // update points into the proposal
	changes          [2]*row.Mutation
	// clustering, ballots and value contain the clustering of the row and the values of its cells.
	clustering, ballots, value []byte
}

// stateWriteKept is the size of the largest buffers that are reused: a round of conditional changes (1 MiB and the last
// change), twice, in buffers that grew by doubling.
const stateWriteKept = 2 << 20

// borrowWrite returns free buffers, which returnWrite returns to the pool.
func (a *Acceptor) borrowWrite() *stateWrite {
	w, ok := a.writes.Get().(*stateWrite)
	if !ok {
		// Two ballots are the most that one change of a state writes.
		w = &stateWrite{clustering: make([]byte, 0, clusteringBytes), ballots: make([]byte, 0, 2*uuidBytes)}
	}
	w.row.Reset()
	w.ballots = w.ballots[:0]
	return w
}

// returnWrite returns buffers to the pool. Storage has copied the mutations.
func (a *Acceptor) returnWrite(w *stateWrite) {
	// update points into the proposal, which belongs to the request, so the pool must not keep it.
	w.update = row.Mutation{}
	w.changes = [2]*row.Mutation{}
	if w.mutation.Size() <= stateWriteKept && cap(w.value) <= stateWriteKept {
		a.writes.Put(w)
	}
}

const (
	uuidBytes = 16
	// clusteringBytes is the size of the clustering of a state row: a tag and a UUID.
	clusteringBytes = 1 + uuidBytes
)

// addBallot adds the cell of a ballot to w.row.
func (w *stateWrite) addBallot(column schema.ColumnID, b ballot.Ballot) {
	from := len(w.ballots)
	w.ballots = appendBallotValue(w.ballots, b)
	// The capacity ends with the value, so that a later append cannot overwrite the next ballot.
	value := w.ballots[from:len(w.ballots):len(w.ballots)]
	w.row.Cells = append(w.row.Cells, row.Cell{Column: column, Timestamp: b.Micros, Value: value})
}

// addUpdate adds the cell of a proposal's update to w.row, which contains no other.
func (w *stateWrite) addUpdate(column schema.ColumnID, p *ballot.Proposal) {
	// The update is copied once, into a buffer that later proposals reuse.
	w.value = append(appendUpdateHead(w.value[:0], p), p.Update...)
	w.row.Cells = append(w.row.Cells, row.Cell{Column: column, Timestamp: p.Ballot.Micros, Value: w.value})
}

// change returns the mutation of the partition's state with the row w.row, for storage.
func (w *stateWrite) change(table *schema.Table, key row.PartitionKey) []*row.Mutation {
	w.changes[0] = w.stateMutation(table, key)
	return w.changes[:1]
}

// changeBoth returns m and the mutation of the partition's state, for storage.
func (w *stateWrite) changeBoth(m *row.Mutation, table *schema.Table, key row.PartitionKey) []*row.Mutation {
	// The array is part of w, so that the slice needs no memory of its own.
	w.changes[0], w.changes[1] = m, w.stateMutation(table, key)
	return w.changes[:2]
}

// stateMutation returns the mutation of the partition's state with the row w.row, in the memory of w.
func (w *stateWrite) stateMutation(table *schema.Table, key row.PartitionKey) *row.Mutation {
	w.clustering = appendClustering(w.clustering[:0], table)
	w.row.Clustering = w.clustering
	// The callers add cells in the order of the protocol, not of the columns.
	w.row.Sort()
	w.mutation.Reset(schema.PaxosTable, key)
	w.mutation.AddRow(&w.row)
	return &w.mutation
}

// appendClustering appends the clustering of the state rows of a table's partitions.
func appendClustering(dst []byte, t *schema.Table) []byte {
	return types.Native(types.UUID).AppendOrdered(dst, t.ID[:], false)
}

// clusteringOf is appendClustering in new memory.
func clusteringOf(t *schema.Table) []byte {
	return appendClustering(make([]byte, 0, clusteringBytes), t)
}
