package cputime

import (
	"testing"
	"time"
)

func TestGaugeTakesTheLargerShare(t *testing.T) {
	start := time.Unix(1_700_000_000, 0)
	first := reading{at: start, process: time.Second, busy: 10 * time.Second, all: 100 * time.Second, machine: true,
		valid: true}
	for name, test := range map[string]struct {
		last, next reading
		want       float64
	}{
		"the first reading": {reading{}, first, 0},
		"other processes": {first, reading{at: start.Add(time.Second), process: time.Second, busy: 13 * time.Second,
			all: 104 * time.Second, machine: true, valid: true}, 0.75},
		"a container with two of four processors": {first, reading{at: start.Add(time.Second),
			process: 3 * time.Second, busy: 12 * time.Second, all: 104 * time.Second, machine: true, valid: true}, 1},
		"without times of the machine": {first, reading{at: start.Add(time.Second), process: 2 * time.Second,
			valid: true}, 0.5},
		"a clock that stands still": {first, reading{at: start, process: 2 * time.Second, valid: true}, 1},
	} {
		if got := test.next.since(&test.last, 2); got != test.want {
			t.Errorf("%s: %v, want %v", name, got, test.want)
		}
	}
}

// TestGaugeSeesABusyProcessor keeps one processor busy for as long as the shortest measurement, at least.
func TestGaugeSeesABusyProcessor(t *testing.T) {
	var g Gauge
	if g.Busy() != 0 {
		t.Error("the first measurement has no period")
	}
	for end := time.Now().Add(gaugeEvery + 100*time.Millisecond); time.Now().Before(end); {
	}
	if busy := g.Busy(); busy <= 0 || busy > 1 {
		t.Errorf("%v of the processors were in use", busy)
	}
}
