package simulation

import (
	"flag"
	"os"
	"testing"
	"testing/cryptotest"
	"time"
)

var weeksFor = flag.Duration("weeks", 0, "how long (real time) TestSimSoak runs a cluster")

// TestSimSoak runs one cluster for weeks of simulated time: there may be no violation, and the amount of data at the
// end of a day, when the cluster is idle, must not grow from day to day.
func TestSimSoak(t *testing.T) {
	if *weeksFor == 0 {
		t.Skip("no -weeks")
	}
	cryptotest.SetGlobalRandom(t, *firstSeed)
	began := time.Now()
	var first Day
	days := 0
	o := SoakOptions(*firstSeed)
	if *traceFile != "" {
		f, err := os.Create(*traceFile)
		if err != nil {
			t.Fatal(err)
		}
		defer f.Close()
		o.Trace = f
	}
	RunSoak(o, func(n int, w Day) bool {
		days = n
		t.Logf("day %d, after %v: %v; %+v\n%v", n, time.Since(began).Round(time.Second), w, w.Stats, w.Counted)
		if n <= 7 { // after that, all amounts have reached their maximum
			first = w
		} else {
			perNode := func(v uint64, w Day) uint64 { return v / uint64(w.Nodes) }
			for what, grown := range map[string]bool{
				"goroutines": perNode(uint64(w.Goroutines), w) > perNode(uint64(first.Goroutines), first)+10,
				"heap":       perNode(w.HeapBytes, w) > 2*perNode(first.HeapBytes, first)+4<<20,
				"disk":       perNode(w.DiskBytes, w) > 2*perNode(first.DiskBytes, first)+8<<20,
				"files":      perNode(uint64(w.Files), w) > 2*perNode(uint64(first.Files), first)+20,
				"queue":      perNode(uint64(w.Queued), w) > 2*perNode(uint64(first.Queued), first)+100,
			} {
				if grown {
					t.Errorf("day %d: %s grew: %v; at first: %v", n, what, w, first)
				}
			}
		}
		if w.Hints > 0 || w.Reading > 0 {
			t.Errorf("day %d: %d hints and %d requests are left over", n, w.Hints, w.Reading)
		}
		for i, f := range w.Failures {
			if i < failuresShown {
				t.Errorf("day %d: %s", n, f)
			}
		}
		return time.Since(began) < *weeksFor
	})
	t.Logf("seed %d: %d days in %v", *firstSeed, days, time.Since(began).Round(time.Second))
}
