package row

import (
	"math/rand/v2"
	"runtime"
	"testing"

	"cqld/schema"
	"cqld/types"
)

// TestFilterOfEncodedRows compares the evaluation of filters on encoded rows with that on decoded ones.
func TestFilterOfEncodedRows(t *testing.T) {
	rng := rand.New(rand.NewPCG(23, 2))
	var s Streamer
	var m FilterMatcher
	matched, evaluated, matchedStatics, statics := 0, 0, 0, 0
	for range 20 * draws {
		f := randomFilter(rng)
		for i := range f.Conditions {
			f.Conditions[i].Column = schema.ColumnID(rng.IntN(5)) // of randomRow
		}
		r := canonical(randomRow(rng))
		m.Reset(f, 99+rng.Int64N(4))
		got, err := m.Encoded(&s, encoded(r))
		if want := m.Row(r); err != nil || got != want {
			t.Fatalf("%+v of %+v: %v, %v, want %v", f, r, got, err, want)
		}
		key := NewPartitionKey([]byte{0, 0, 0, byte(rng.IntN(3))})
		partition, err := m.EncodedPartition(&s, key, encoded(r))
		if want := m.Partition(key, r); err != nil || partition != want {
			t.Fatalf("partition: %+v of %+v: %v, %v, want %v", f, r, partition, err, want)
		}
		if len(m.static) > 0 && m.key(key) {
			statics++
			if partition {
				matchedStatics++
			}
		}
		if m.onRow {
			evaluated++
			if got {
				matched++
			}
		}
	}
	if matched == 0 || matched == evaluated {
		t.Errorf("%d rows match of %d", matched, evaluated)
	}
	if matchedStatics == 0 || matchedStatics == statics {
		t.Errorf("%d static rows match of %d", matchedStatics, statics)
	}
}

// A filter on a large collection takes memory that does not depend on its size.
func TestMemoryOfFilters(t *testing.T) {
	large := encoded(largeCollection(100_000))
	list := types.NewList(types.Native(types.Int), false)
	f := &Filter{Conditions: []Condition{{Kind: schema.Regular, Column: 1, Operator: FilterContains, Type: list,
		Values: [][]byte{{9, 9, 9, 9}}}}}
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	var s Streamer
	var m FilterMatcher
	m.Reset(f, 1)
	if got, err := m.Encoded(&s, large); got || err != nil {
		t.Fatal(got, err)
	}
	runtime.ReadMemStats(&after)
	if n := after.TotalAlloc - before.TotalAlloc; n > 64<<10 {
		t.Errorf("a filter on %d bytes has allocated %d", len(large), n)
	}
}
