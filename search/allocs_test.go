//go:build !race

// The race detector makes sync.Pool drop items, so that allocations cannot be counted.

package search

import (
	"encoding/binary"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage/index"
)

// TestRowsOfOneNodeAllocateTogether bounds the allocations of a coordinator for the rows of one node: they do not grow with the number
// of rows.
func TestRowsOfOneNodeAllocateTogether(t *testing.T) {
	const rows, most = 900, 80
	candidates := oneNodeCandidates(rows)
	s := &Searcher{limits: Limits{}.withDefaults()}
	found := 0
	allocs := testing.AllocsPerRun(5, func() {
		op := &searchOp{s: s, req: &Request{Order: ByToken, Now: 5}, limit: rows, watermark: position{place: beforeAll}}
		n := &node{position: position{place: afterAll}, candidates: append([]index.Candidate{}, candidates...)}
		op.nodes = []*node{n}
		op.sets = []replicaSet{{quotas: []quota{{need: 1, nodes: op.nodes}}, nodes: op.nodes}}
		op.pieces, op.window = []piece{{tokens: ring.FullRange()}}, 1
		op.out.writer = row.NewPageWriter(nil)
		op.mergeLocked()
		if full, err := op.emitLocked(); !full || err != nil {
			t.Error(full, err)
		}
		found = op.resultLocked().Rows
	})
	if found != rows || allocs > most {
		t.Errorf("a search that finds %d of %d rows allocates %.0f times, want at most %d", found, rows, allocs, most)
	}
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
		op := &searchOp{s: s, req: &Request{Order: ByToken, Now: 5}, limit: 100, watermark: position{place: beforeAll}}
		n := &node{position: position{place: afterAll}, candidates: append([]index.Candidate{}, candidates...)}
		op.nodes = []*node{n}
		op.sets = []replicaSet{{quotas: []quota{{need: 1, nodes: op.nodes}}, nodes: op.nodes}}
		op.pieces, op.window = []piece{{tokens: ring.FullRange()}}, 1
		op.out.writer = row.NewPageWriter(nil)
		op.mergeLocked()
		if _, err := op.emitLocked(); err != nil {
			b.Fatal(err)
		}
		op.resultLocked()
	}
}
