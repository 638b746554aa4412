package model

import (
	"math/rand/v2"
	"slices"

	"cqld/ring"
	"cqld/row"
)

// The columns of the tables of Random, and the time, in seconds, at which their rows are live or deleted. RandomRegular
// and RandomStatic are column numbers. RandomNow is the LocalTime of every deletion, so a gc_grace that ends before or
// after it purges all of them or none.
const (
	RandomRegular = 2
	RandomStatic  = 3
	RandomNow     = 1000
)

// Random returns a table of a few partitions, and their keys: rows with one cell "a", "b" or "c", deleted rows, range
// tombstones, partition deletions and static rows. Clusterings are at most two bytes long, and may be empty.
//
// The arguments of r are the only input: the same generator state yields the same table. The keys are returned in the
// order of their creation, which is not the order of their tokens.
func Random(r *rand.Rand) (*Table, []row.PartitionKey) {
	t := &Table{}
	var keys []row.PartitionKey
	for i := range 1 + r.IntN(6) {
		// The lengths 0, 1 and 2 occur, so one key may be empty.
		key := row.NewPartitionKey([]byte{byte(i), byte(r.IntN(256))}[:min(i, 2)])
		keys = append(keys, key)
		m := new(row.Mutation)
		m.Reset(1, key)
		if r.IntN(3) == 0 {
			h := row.NewRow()
			// The deletion below may be older or newer than this timestamp.
			h.Cells = []row.Cell{{Column: RandomStatic, Timestamp: 5, Value: []byte("s")}}
			if r.IntN(3) == 0 {
				h.Deletion = row.Deletion{Timestamp: int64(2 * r.IntN(4)), LocalTime: RandomNow}
			}
			m.AddHeader(h)
		}
		for range r.IntN(12) {
			// Clusterings repeat, so a mutation may have several versions of a row.
			m.AddRow(randomRow(r))
		}
		// The start is the clustering {1}, which rows may have, so that the inclusive start and the exclusive end both
		// meet rows.
		if r.IntN(4) == 0 {
			m.AddRangeTombstone(row.RangeTombstone{Start: []byte{1}, End: []byte{byte(2 + r.IntN(3))},
				Deletion: row.Deletion{Timestamp: int64(r.IntN(8)), LocalTime: RandomNow}})
		}
		t.Apply(m)
	}
	return t, keys
}

// randomRow returns a deleted row or a row with one cell. Timestamps are below 8, so that some are equal.
func randomRow(r *rand.Rand) *row.Row {
	x := row.NewRow()
	x.Clustering = RandomClustering(r)
	if r.IntN(3) == 0 {
		x.Deletion = row.Deletion{Timestamp: int64(r.IntN(8)), LocalTime: RandomNow}
		return x
	}
	x.Cells = []row.Cell{{Column: RandomRegular, Timestamp: int64(r.IntN(8)), Value: []byte("abc")[r.IntN(3):][:1]}}
	return x
}

// RandomClustering returns the clustering of a row, which the table of Random may have.
func RandomClustering(r *rand.Rand) []byte {
	return []byte{byte(r.IntN(5)), byte(r.IntN(3))}[:min(r.IntN(9), 2)]
}

// RandomSlices returns ascending, disjoint slices of the table of Random, at least one.
func RandomSlices(r *rand.Rand) []row.Slice {
	out := []row.Slice{row.AllRows()}
	for range r.IntN(4) {
		// Only the last slice is split, which keeps the slices ascending.
		last := &out[len(out)-1]
		switch c := RandomClustering(r); {
		// Nothing is cut off.
		case !last.Contains(c):
		case r.IntN(3) == 0: // only this row, and all later ones
			*last = row.ExactRow(c)
			// The smallest clustering greater than c is c with a zero byte appended.
			out = append(out, row.Slice{Start: append(c, 0)})
		default: // a gap
			rest := row.Slice{Start: append(append([]byte{}, c...), byte(r.IntN(4)))}
			if last.End = c; last.Empty() {
				*last = rest
			} else {
				out = append(out, rest)
			}
		}
	}
	return out
}

// RandomRanges returns ranges of tokens that together are the ring, in order. Some of them end at the token of a key.
// Each range excludes its start and includes its end, as ring.Range defines it. The union is the whole ring, so reading
// all ranges must return the same rows as reading the ring at once.
func RandomRanges(r *rand.Rand, keys []row.PartitionKey) (out []ring.Range) {
	var ends []ring.Token
	for range r.IntN(4) {
		// Tokens of keys test whether a bound includes its token.
		end := ring.Token(r.Uint64())
		if r.IntN(2) == 0 {
			end = keys[r.IntN(len(keys))].Token
		}
		if end != ring.MinToken {
			ends = append(ends, end)
		}
	}
	slices.Sort(ends)
	start := ring.MinToken
	// MinToken as an end means the end of the ring, so the last range reaches it. Equal ends would make an empty range.
	for _, end := range append(slices.Compact(ends), ring.MinToken) {
		out = append(out, ring.Range{Start: start, End: end})
		start = end
	}
	return out
}
