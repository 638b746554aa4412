package tablestats

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/internal/testclock"
	"cqld/internal/tier"
	"cqld/request"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// The guarantee of the sketch: a count is never too small, too large by at most its error, and every key above the
// bound is included.
func TestTopKeysFindTheFrequent(t *testing.T) {
	tier.Long(t)
	r := rand.New(rand.NewPCG(1, 2))
	var k TopKeys
	truth := map[string]int64{}
	const total = 200_000
	for range total {
		key := fmt.Sprint("rare", r.IntN(1_000_000))
		switch n := r.IntN(100); {
		case n < 20:
			key = "hot"
		case n < 30:
			key = "warm"
		}
		truth[key]++
		k.add([]byte(key))
	}
	if len(k.keys) > topKeysKept {
		t.Errorf("%d keys are kept", len(k.keys))
	}
	top := k.Top(10)
	if top[0].Key != "hot" || top[1].Key != "warm" {
		t.Errorf("found %v", top)
	}
	for _, found := range top {
		if found.Count < truth[found.Key] || found.Count-found.Error > truth[found.Key] {
			t.Errorf("%s: %d ± %d, and it was %d", found.Key, found.Count, found.Error, truth[found.Key])
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := NewEngine(&storage.Engine{}, nil)
	for id := range schema.StorageID(1000) {
		m.Of(id)
	}
	if n := testing.AllocsPerRun(100, func() {
		m.Of(999).Write.Begin(8)
		m.Of(999).Read.End(time.Microsecond,
			time.Second)
	}); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m.ForgetTable(999)
	if len(*m.tables.Load()) != 999 {
		t.Error("a dropped table is still counted")
	}
}

// TestWritesOfSeveralTablesAreMeasured writes calls of several mutations, as batches and views make them. The latencies
// of each table are measured for one in SampledReads of its mutations, whatever other tables the calls have.
func TestWritesOfSeveralTablesAreMeasured(t *testing.T) {
	for _, tables := range [][]schema.StorageID{{1}, {1, 2}, {2, 1, 3}, {1, 1}, {1, 2, 1, 2, 3, 1}} {
		const calls = 5*request.SampledReads + 1
		clock := &testclock.Clock{}
		m := NewEngine(&storage.Engine{}, clock)
		var mutations []*row.Mutation
		times := map[schema.StorageID]int64{}
		for _, id := range tables {
			mutations = append(mutations, &row.Mutation{Table: id})
			times[id] += calls
		}
		acknowledged := 0
		for range calls {
			done := m.countWrites(mutations, func(error) { acknowledged++ })
			clock.Advance(time.Millisecond)
			done(nil)
		}
		if acknowledged != calls {
			t.Errorf("tables %v: %d of %d calls are acknowledged", tables, acknowledged, calls)
		}
		for id, count := range times {
			w := &m.Of(id).Write
			_, measured, sum := w.Latency().Octaves(16, 34)
			want := uint64((count + request.SampledReads - 1) / request.SampledReads)
			if w.Count() != count || measured != want || sum < time.Duration(want)*time.Millisecond*9/10 {
				t.Errorf("tables %v: table %d has %d writes, %d of them measured, %v in total; want %d and %d", tables,
					id, w.Count(), measured, sum, count, want)
			}
		}
	}
}
