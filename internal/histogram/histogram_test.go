package histogram

import (
	"testing"
	"time"
)

func TestPercentilesAreNearTheTruth(t *testing.T) {
	var h Histogram
	if h.Percentiles() != (Percentiles{}) || h.Mean() != 0 {
		t.Error("an empty histogram has percentiles")
	}
	for i := 1; i <= 10_000; i++ {
		h.Add(time.Duration(i) * time.Microsecond)
	}
	p := h.Percentiles()
	if p.Count != 10_000 {
		t.Errorf("%d counted", p.Count)
	}
	for name, c := range map[string]struct{ got, want time.Duration }{
		"50": {p.P50, 5_000 * time.Microsecond}, "75": {p.P75, 7_500 * time.Microsecond},
		"95": {p.P95, 9_500 * time.Microsecond},
		"99": {p.P99, 9_900 * time.Microsecond}, "max": {p.Max, 10_000 * time.Microsecond},
		"min":  {p.Min, time.Microsecond},
		"mean": {h.Mean(), 5_000 * time.Microsecond}} {
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
	if class(0) != class(1) || class(-5) != class(1) || class(1<<63-1) >= len(Histogram{}.classes) {
		t.Error("the ends have no class")
	}
}

func TestOctavesMatchAddedValues(t *testing.T) {
	var h Histogram
	for us := 1; us <= 100_000; us++ {
		h.Add(time.Duration(us) * time.Microsecond)
	}
	upTo, count, sum := h.Octaves(16, 34)
	if count != 100_000 || sum != 100_000*100_001/2*time.Microsecond || len(upTo) != 34-16+1 {
		t.Fatal(upTo, count, sum)
	}
	for seconds, n := range upTo {
		if want := min(uint64(seconds*1e6), 100_000); n != want {
			t.Errorf("%d took up to %v s, want %d", n, seconds, want)
		}
	}
}

func TestAddDoesNotAllocate(t *testing.T) {
	var h Histogram
	if n := testing.AllocsPerRun(100, func() { h.Add(time.Microsecond) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
