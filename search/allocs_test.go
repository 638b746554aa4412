//go:build !race

// The race detector makes sync.Pool drop items, so that allocations cannot be counted.

package search

import (
	"encoding/binary"
	"slices"
	"testing"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"
	"cqld/watermark"
)

// TestRowsOfOneNodeAllocateTogether bounds the allocations of a coordinator for the rows of one node: they do not grow
// with the number of rows.
func TestRowsOfOneNodeAllocateTogether(t *testing.T) {
	const rows, most = 900, 80
	candidates := oneNodeCandidates(rows)
	s := &Searcher{limits: Limits{}.withDefaults()}
	found := 0
	allocs := testing.AllocsPerRun(5, func() {
		op := ofOneNode(s, candidates, rows)
		op.out.writer = row.NewPageWriter(nil)
		op.merge()
		if full, err := op.emit(); !full || err != nil {
			t.Error(full, err)
		}
		found = op.makeResult().Rows
	})
	if found != rows || allocs > most {
		t.Errorf("a search that finds %d of %d rows allocates %.0f times, want at most %d", found, rows, allocs, most)
	}
}

// onlyNode is the view of a ring of one node.
type onlyNode struct{ coordinator.View }

func (onlyNode) Self() ring.NodeID      { return 1 }
func (onlyNode) Alive(ring.NodeID) bool { return true }

// ofOneNode returns the state of a search that has the answer of the only node.
func ofOneNode(s *Searcher, candidates []index.Candidate, limit int) *rowSequence {
	op := &rowSequence{
		m:      new(watermark.Machine[entry, work]),
		limits: &s.limits,
		req:    &Request{Order: ByToken, Now: 5},
		limit:  limit,
	}
	table := &schema.Table{Replication: ring.Replication{Class: ring.Local}}
	op.m.Plan.Reset(watermark.Options{View: onlyNode{}, Table: table, Consistency: ring.One},
		watermark.Position{Place: watermark.BeforeAll})
	members := op.m.Plan.Add(ring.ReplicaSet{Natural: []ring.NodeID{1}})
	op.m.Plan.Take(members.Nodes[0], op.m.Plan.Mark(),
		&watermark.Page[index.Candidate]{Entries: slices.Clone(candidates)}, nil)
	op.sets = []replicaSet{{nodes: members.Nodes}}
	op.pieces, op.window = []piece{{tokens: ring.FullRange()}}, 1
	return op
}

// oneNodeCandidates returns rows in partitions of their own, as a replica returns them.
func oneNodeCandidates(n int) []index.Candidate {
	out := make([]index.Candidate, n)
	for i := range out {
		key := row.PartitionKey{Token: ring.Token(i), Bytes: binary.BigEndian.AppendUint32(nil, uint32(i))}
		r := row.NewRow()
		r.Clustering = []byte{0x80}
		r.Liveness.Timestamp = 1
		r.Cells = append(r.Cells, row.Cell{Column: schema.ColumnID(3), Timestamp: 1, Value: []byte("value")})
		w := row.NewPageWriter(nil)
		w.Partition(key, row.NewRow(), nil)
		w.Row(r)
		w.EndPartition()
		out[i] = index.Candidate{At: index.AppendPlace(nil, key, row.KindRow, r.Clustering), Page: w.Finish(false)}
	}
	return out
}

// BenchmarkRowsOfOneNode is the work of a coordinator for 100 rows of one node.
func BenchmarkRowsOfOneNode(b *testing.B) {
	candidates := oneNodeCandidates(100)
	s := &Searcher{limits: Limits{}.withDefaults()}
	b.ReportAllocs()
	for range b.N {
		op := ofOneNode(s, candidates, 100)
		op.out.writer = row.NewPageWriter(nil)
		op.merge()
		if _, err := op.emit(); err != nil {
			b.Fatal(err)
		}
		op.makeResult()
	}
}
