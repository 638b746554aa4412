package row

import (
	"bytes"
	"container/heap"
	"slices"

	"cqld/internal/invariant"
)

// Partition is the part of a partition that a command requested, in memory.
type Partition struct {
	Key             PartitionKey
	Header          Row // partition deletion and static cells
	RangeTombstones []RangeTombstone
	Rows            []Row
}

// NormalizeRangeTombstones returns tombstones as disjoint intervals in order, each with the deletion that wins there.
// It omits deletions that do not supersede base, the partition's deletion, and merges adjacent intervals with equal
// deletions. It reorders the input.
//
// It sweeps over the bounds with a heap of the tombstones that have begun, with the winner on top. A tombstone that
// has ended is removed when it reaches the top.
func NormalizeRangeTombstones(tombstones []RangeTombstone, base Deletion) []RangeTombstone {
	if len(tombstones) == 0 {
		return nil
	}
	bounds := make([][]byte, 0, 2*len(tombstones))
	for i := range tombstones {
		bounds = append(bounds, tombstones[i].Start, tombstones[i].End)
	}
	// Between two adjacent bounds no tombstone begins or ends, so one deletion wins there.
	slices.SortFunc(bounds, bytes.Compare)
	bounds = slices.CompactFunc(bounds, bytes.Equal)
	slices.SortFunc(tombstones, func(a, b RangeTombstone) int { return bytes.Compare(a.Start, b.Start) })
	var out []RangeTombstone
	var begun tombstoneHeap
	for i := 0; i+1 < len(bounds); i++ {
		start, end := bounds[i], bounds[i+1]
		for len(tombstones) > 0 && bytes.Compare(tombstones[0].Start, start) <= 0 {
			heap.Push(&begun, &tombstones[0])
			tombstones = tombstones[1:]
		}
		// Remove ended tombstones only at the top, because removing others from a heap is expensive.
		for len(begun) > 0 && bytes.Compare(begun[0].End, start) <= 0 {
			heap.Pop(&begun)
		}
		// No tombstone covers the interval, or the deletion of the partition covers it anyway.
		if len(begun) == 0 || begun[0].Deletion.Timestamp <= base.Timestamp {
			continue
		}
		winner := begun[0].Deletion
		// Adjacent intervals with equal deletions are merged, so that the result does not depend on how the deletions
		// were split.
		if n := len(out); n > 0 && bytes.Equal(out[n-1].End, start) && out[n-1].Deletion == winner {
			out[n-1].End = end
			continue
		}
		out = append(out, RangeTombstone{start, end, winner})
	}
	if invariant.Enabled {
		checkNormalized(out, base)
	}
	return out
}

// checkNormalized checks that tombstones are non-empty disjoint intervals in order: DeletionAt searches them.
func checkNormalized(tombstones []RangeTombstone, base Deletion) {
	for i, t := range tombstones {
		invariant.Check(bytes.Compare(t.Start, t.End) < 0, "row: range tombstone [%x, %x) is empty", t.Start, t.End)
		invariant.Check(i == 0 || bytes.Compare(tombstones[i-1].End, t.Start) <= 0, "row: range tombstones overlap")
		invariant.Check(t.Deletion.Timestamp > base.Timestamp, "row: a range tombstone deletes nothing")
	}
}

// tombstoneHeap is a heap with the tombstone that supersedes the others on top.
type tombstoneHeap []*RangeTombstone

func (h tombstoneHeap) Len() int           { return len(h) }
func (h tombstoneHeap) Less(i, j int) bool { return h[i].Deletion.Supersedes(h[j].Deletion) }
func (h tombstoneHeap) Swap(i, j int)      { h[i], h[j] = h[j], h[i] }

// Push implements heap.Interface.
func (h *tombstoneHeap) Push(x any) { *h = append(*h, x.(*RangeTombstone)) }

// Pop implements heap.Interface.
func (h *tombstoneHeap) Pop() any {
	last := (*h)[len(*h)-1]
	*h = (*h)[:len(*h)-1]
	return last
}

// CutRangeTombstones returns the parts of normalized tombstones that lie in the slices, which are ascending and
// disjoint.
func CutRangeTombstones(tombstones []RangeTombstone, in []Slice) []RangeTombstone {
	var out []RangeTombstone
	for _, t := range tombstones {
		// Tombstones ascend, so a slice that ends before this one overlaps none of the later ones.
		for len(in) > 0 && in[0].End != nil && bytes.Compare(in[0].End, t.Start) <= 0 {
			in = in[1:]
		}
		for _, s := range in {
			// This slice and all later ones begin after the tombstone.
			if bytes.Compare(s.Start, t.End) >= 0 {
				break
			}
			cut := t
			if bytes.Compare(cut.Start, s.Start) < 0 {
				cut.Start = s.Start
			}
			if s.End != nil && bytes.Compare(cut.End, s.End) > 0 {
				cut.End = s.End
			}
			if bytes.Compare(cut.Start, cut.End) < 0 {
				out = append(out, cut)
			}
		}
	}
	return out
}

// DeletionAt returns the deletion of normalized tombstones at the clustering c. It is a binary search: reads call it
// for each row.
func DeletionAt(tombstones []RangeTombstone, c []byte) Deletion {
	i, _ := slices.BinarySearchFunc(tombstones, c, func(t RangeTombstone, c []byte) int {
		// The first tombstone that ends after c is the only one that can contain it.
		if bytes.Compare(t.End, c) <= 0 {
			return -1
		}
		return 1
	})
	if i < len(tombstones) && bytes.Compare(tombstones[i].Start, c) <= 0 {
		return tombstones[i].Deletion
	}
	return NoDeletion()
}

// MergePartitions merges versions of one partition. The rows of each are in ascending order, or in descending order
// if reversed. The result shares memory with the inputs.
func MergePartitions(versions []*Partition, reversed bool) *Partition {
	out := &Partition{Key: versions[0].Key, Header: *NewRow()}
	var tombstones []RangeTombstone
	for _, v := range versions {
		// Reconcile needs a separate destination, because it reads its operands while it writes.
		merged := NewRow()
		Reconcile(merged, &out.Header, &v.Header)
		out.Header = *merged
		tombstones = append(tombstones, v.RangeTombstones...)
	}
	out.RangeTombstones = NormalizeRangeTombstones(tombstones, out.Header.Deletion)
	at := make([]int, len(versions))
	for {
		// Find the version with the next row. There are only as many versions as replicas, so a linear scan suffices.
		next := -1
		for i, v := range versions {
			if at[i] < len(v.Rows) && (next < 0 || before(v.Rows[at[i]].Clustering,
				versions[next].Rows[at[next]].Clustering, reversed)) {
				next = i
			}
		}
		if next < 0 {
			return out
		}
		clustering := versions[next].Rows[at[next]].Clustering
		// All versions of the row are merged, one after the other; their order does not matter.
		merged := NewRow()
		for i, v := range versions {
			if at[i] < len(v.Rows) && bytes.Equal(v.Rows[at[i]].Clustering, clustering) {
				sum := NewRow()
				Reconcile(sum, merged, &v.Rows[at[i]])
				merged = sum
				at[i]++
			}
		}
		merged.Clustering = clustering
		// A replica may have sent a row that only another replica knows as deleted.
		merged.Shadow(out.Header.Deletion.Max(DeletionAt(out.RangeTombstones, clustering)))
		if !merged.Empty() {
			out.Rows = append(out.Rows, *merged)
		}
	}
}

// before reports whether clustering a comes before b in reading order.
func before(a, b []byte, reversed bool) bool {
	c := bytes.Compare(a, b)
	return c < 0 && !reversed || c > 0 && reversed
}
