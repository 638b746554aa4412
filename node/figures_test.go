package node

import (
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/schema"
	"cqld/storage"
)

func TestPercentilesAreNearTheTruth(t *testing.T) {
	var h histogram
	for i := 1; i <= 10_000; i++ {
		h.add(time.Duration(i) * time.Microsecond)
	}
	p := h.percentiles()
	if p.Count != 10_000 {
		t.Errorf("%d counted", p.Count)
	}
	for name, c := range map[string]struct{ got, want time.Duration }{
		"50": {p.P50, 5_000 * time.Microsecond}, "75": {p.P75, 7_500 * time.Microsecond}, "95": {p.P95, 9_500 * time.Microsecond},
		"99": {p.P99, 9_900 * time.Microsecond}, "max": {p.Max, 10_000 * time.Microsecond}, "min": {p.Min, time.Microsecond},
		"mean": {h.mean(), 5_000 * time.Microsecond}} {
		if off := float64(c.got-c.want) / float64(c.want); off < -0.13 || off > 0.13 {
			t.Errorf("%s: %v is %.0f %% off %v", name, c.got, 100*off, c.want)
		}
	}
}

func TestEveryDurationHasAClassNearIt(t *testing.T) {
	for d := time.Duration(1); d > 0 && d < 1<<62; d += d/8 + 1 {
		m := middle(class(d))
		if off := float64(m-d) / float64(d); off < -0.34 || off > 0.34 || d > 8 && (off < -0.13 || off > 0.13) {
			t.Fatalf("%d ns is counted as %d ns", d, m)
		}
	}
	if class(0) != class(1) || class(-5) != class(1) || class(1<<63-1) >= len(histogram{}.classes) {
		t.Error("the ends have no class")
	}
}

// The sketch's law: a count is never too small, too large by at most its error, and every key above
// the bound is there.
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
	m := newMeasured(&storage.Engine{})
	for id := range schema.StorageID(1000) {
		m.of(id)
	}
	if n := testing.AllocsPerRun(100, func() { m.of(999).writes.Add(1); m.of(999).latency.add(time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
	m.forget(999)
	if len(*m.tables.Load()) != 999 {
		t.Error("a table that is gone is still counted")
	}
}
