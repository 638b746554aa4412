package merging

import (
	"bytes"
	"math/rand/v2"
	"testing"

	"cqld/row"
	"cqld/schema"
)

// operand returns a version of a row: some of four columns, values of up to a few large operands' size.
func operand(rng *rand.Rand, timestamp int64) []byte {
	r := row.NewRow()
	for column := range schema.ColumnID(4) {
		if rng.IntN(3) > 0 {
			continue
		}
		c := row.Cell{Column: column, Timestamp: timestamp, Value: bytes.Repeat([]byte{byte(timestamp)}, rng.IntN(200))}
		if rng.IntN(3) == 0 {
			c.Value = bytes.Repeat([]byte{byte(timestamp)}, rng.IntN(4*largeBytes))
		}
		r.Cells = append(r.Cells, c)
	}
	if rng.IntN(20) == 0 {
		r.Deletion = row.Deletion{Timestamp: timestamp - rng.Int64N(20), LocalTime: 1}
	}
	return row.AppendRow(nil, r)
}

// TestMergerMergesAsReconcileDoes: whatever the sizes and the order of the operands.
func TestMergerMergesAsReconcileDoes(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	merger := New(func([]byte) {}, func(_ []byte, err error) error { return err })
	var next row.Row
	for range 300 {
		n := 1 + rng.IntN(80)
		newest := rng.IntN(2) == 0
		want := row.NewRow()
		operands := make([][]byte, n)
		for i := range operands {
			operands[i] = operand(rng, int64(rng.IntN(40)))
			if newest { // as Pebble's iterators find them
				operands[i] = operand(rng, int64(n-i))
			}
			if err := row.DecodeRow(&next, operands[i]); err != nil {
				t.Fatal(err)
			}
			sum := row.NewRow()
			row.Reconcile(sum, want, &next)
			*want = sum.Clone()
		}
		m, err := merger.Merge([]byte("key"), bytes.Clone(operands[0]))
		if err != nil {
			t.Fatal(err)
		}
		for _, o := range operands[1:] {
			o = bytes.Clone(o)
			if rng.IntN(2) == 0 {
				err = m.MergeOlder(o)
			} else {
				err = m.MergeNewer(o)
			}
			if err != nil {
				t.Fatal(err)
			}
			clear(o) // it is Pebble's again
		}
		got, closer, err := m.Finish(true)
		if err != nil {
			t.Fatal(err)
		}
		if err := row.DecodeRow(&next, got); err != nil {
			t.Fatal(err)
		}
		sum := row.NewRow()
		row.Reconcile(sum, &next, row.NewRow())
		if !bytes.Equal(row.AppendRow(nil, sum), row.AppendRow(nil, want)) {
			t.Fatalf("%d operands:\n got %+v\nwant %+v", n, sum, want)
		}
		if closer != nil {
			if err := closer.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestCoveredOperandsAreNotGathered: a large row that was overwritten a thousand times takes the memory of one.
func TestCoveredOperandsAreNotGathered(t *testing.T) {
	merger := New(func([]byte) {}, func(_ []byte, err error) error { return err })
	version := func(timestamp int64) []byte {
		r := row.NewRow()
		r.Cells = []row.Cell{{Column: 1, Timestamp: timestamp, Value: bytes.Repeat([]byte{1}, 100<<10)}}
		return row.AppendRow(nil, r)
	}
	first, older := version(1_000), version(1)
	m, err := merger.Merge([]byte("key"), first)
	if err != nil {
		t.Fatal(err)
	}
	if n := testing.AllocsPerRun(1_000, func() {
		if err := m.MergeOlder(older); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("%v allocations for an operand that is covered", n)
	}
	if got := m.(*merge); len(got.arena) != len(first) {
		t.Errorf("%d bytes were gathered, of a row of %d", len(got.arena), len(first))
	}
}
