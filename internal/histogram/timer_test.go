package histogram

import (
	"math"
	"testing"
	"time"
)

func TestTimerMeasuresTheFirstOfEachGroup(t *testing.T) {
	var m Timer
	measured := 0
	for range 17 {
		if m.Begin(8) {
			measured++
			m.End(time.Millisecond, time.Second)
		}
	}
	s := m.Summary(time.Second)
	if measured != 3 || s.Count != 17 || m.Count() != 17 || s.Latency.Count != 3 ||
		m.Latency().Percentiles() != s.Latency {
		t.Errorf("%d measured, %+v", measured, s)
	}
}

// The rate follows a constant load after the first tick, and falls to 1/e within its window when the load ends.
func TestRatesFollowTheLoad(t *testing.T) {
	var r rate
	count, now := int64(0), time.Duration(0)
	for ; now < 2*time.Minute; now += 100 * time.Millisecond {
		got := r.observe(count, now)
		if now < rateTick && got != 0 || now >= rateTick && math.Abs(got-200) > 5 {
			t.Fatalf("at %v the rate is %v", now, got)
		}
		count += 20
	}
	if got, want := r.observe(count, now+rateWindow), 200/math.E; math.Abs(got-want) > 5 {
		t.Errorf("after %v without load the rate is %v, not %v", rateWindow, got, want)
	}
	for range 100 {
		now += rateWindow
		r.observe(count, now+rateWindow)
	}
	if got := r.observe(count, now+rateWindow); got > 1e-9 {
		t.Errorf("the rate stays at %v", got)
	}
}

func TestCountsHaveExactZeros(t *testing.T) {
	var c Counts
	if c.Percentiles() != (CountPercentiles{}) {
		t.Error("empty counts have percentiles")
	}
	for i := range int64(1000) {
		c.Add(max(i-900, 0)) // 901 zeros, and 1 to 99
	}
	c.Add(-5)
	p := c.Percentiles()
	if p.Count != 1001 || p.P50 != 0 || math.Abs(float64(p.P99-90)) > 12 || math.Abs(float64(p.P999-99)) > 12 ||
		math.Abs(float64(p.Most-99)) > 12 {
		t.Errorf("%+v", p)
	}
	if n := testing.AllocsPerRun(100, func() { c.Add(7) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
