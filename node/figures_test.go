package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/node/control"
	"cqld/schema"
	"cqld/storage"
)

// The guarantee of the sketch: a count is never too small, too large by at most its error, and every key above the bound is
// included.
func TestTopKeysFindTheFrequent(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	var k topKeys
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
	top := k.top(10)
	if top[0].key != "hot" || top[1].key != "warm" {
		t.Errorf("found %v", top)
	}
	for _, found := range top {
		if found.count < truth[found.key] || found.count-found.error > truth[found.key] {
			t.Errorf("%s: %d ± %d, and it was %d", found.key, found.count, found.error, truth[found.key])
		}
	}
}

func TestCountingAllocatesNothing(t *testing.T) {
	m := newMeasured(&storage.Engine{}, nil)
	for id := range schema.StorageID(1000) {
		m.of(id)
	}
	if n := testing.AllocsPerRun(100, func() { m.of(999).write.Begin(8); m.of(999).read.End(time.Microsecond, time.Second) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m.forget(999)
	if len(*m.tables.Load()) != 999 {
		t.Error("a table that is gone is still counted")
	}
}

// A table that was read has a latency: with few reads, tablestats printed NaN beside a count of reads.
func TestTheFirstReadOfATableIsMeasured(t *testing.T) {
	r := openNodes(t, 68, 1, nil)
	c := r.connect(0)
	r.fill(c, "1", 1)
	r.query(c, "SELECT * FROM k.t WHERE a = 0")
	st, err := r.nodes[0].opTableStats(t.Context(), control.TablesArgs{Keyspace: "k"}, nil)
	if err != nil || len(st.Tables) != 1 || st.Tables[0].Reads != 1 || st.Tables[0].ReadLatency <= 0 {
		t.Errorf("tablestats after one read: %+v, %v", st.Tables, err)
	}
}
