package row

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"cqld/schema"
)

// randomRow draws from few columns, timestamps and values, so that ties are frequent.
func randomRow(rng *rand.Rand) *Row {
	r := NewRow()
	if rng.IntN(3) == 0 {
		r.Liveness = Liveness{Timestamp: rng.Int64N(6)}
		if rng.IntN(2) == 0 {
			r.Liveness.TTL, r.Liveness.LocalTime = 1+rng.Int32N(2), 100+rng.Int64N(2)
		}
	}
	if rng.IntN(4) == 0 {
		r.Deletion = randomDeletion(rng)
	}
	for column := range schema.ColumnID(3) {
		if rng.IntN(4) == 0 {
			r.Complex = append(r.Complex, ComplexDeletion{column, randomDeletion(rng)})
		}
	}
	for range rng.IntN(6) {
		r.Cells = append(r.Cells, randomCell(rng))
	}
	r.HasRangeTombstones = rng.IntN(8) == 0
	r.Sort()
	return r
}

func randomDeletion(rng *rand.Rand) Deletion {
	return Deletion{Timestamp: rng.Int64N(6), LocalTime: 100 + rng.Int64N(2)}
}

func randomCell(rng *rand.Rand) Cell {
	c := Cell{Column: schema.ColumnID(rng.IntN(5)), Timestamp: rng.Int64N(6), Value: []byte{}}
	if c.Column < 3 {
		c.Path = bytes.Repeat([]byte{'p'}, 1+rng.IntN(2))
	}
	switch rng.IntN(4) {
	case 0:
		c.Tombstone, c.LocalTime, c.Value = true, 100+rng.Int64N(2), nil
		return c
	case 1:
		c.TTL, c.LocalTime = 1+rng.Int32N(2), 100+rng.Int64N(2)
	}
	c.Value = bytes.Repeat([]byte{'v'}, rng.IntN(3))
	return c
}

// canonical returns r as Reconcile returns it.
func canonical(r *Row) *Row {
	out := NewRow()
	Reconcile(out, r, NewRow())
	return out
}

func reconciled(a, b *Row) *Row {
	out := NewRow()
	Reconcile(out, a, b)
	return out
}

func encoded(r *Row) []byte { return AppendRow(nil, r) }

func sameRow(t *testing.T, law string, got, want *Row) {
	t.Helper()
	if !bytes.Equal(encoded(got), encoded(want)) {
		t.Fatalf("%s:\n got %+v\nwant %+v", law, got, want)
	}
}
