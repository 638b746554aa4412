package node

import (
	"errors"
	"testing"
	"time"

	"cqld/azuretables"
	"cqld/azuretables/odata"
)

func TestOctavesAreWhatWasAdded(t *testing.T) {
	var h histogram
	for us := 1; us <= 100_000; us++ {
		h.add(time.Duration(us) * time.Microsecond)
	}
	upTo, count, sum := h.octaves(16, 34)
	if count != 100_000 || sum != 100_000*100_001/2*time.Microsecond || len(upTo) != 34-16+1 {
		t.Fatal(upTo, count, sum)
	}
	for seconds, n := range upTo {
		if want := min(uint64(seconds*1e6), 100_000); n != want {
			t.Errorf("%d took up to %v s, want %d", n, seconds, want)
		}
	}
}

func TestRequestsAreCountedAndSomeMeasured(t *testing.T) {
	var f requestFigures
	ended := 0
	for range 10 * readsMeasured {
		f.measure(writing, func(error) { ended++ })(nil)
		f.measure(batching, func(error) { ended++ })(nil)
		f.measureRead(func([]byte, error) { ended++ })(nil, nil)
	}
	for _, c := range []struct {
		applied bool
		err     error
	}{{true, nil}, {true, nil}, {false, nil}, {false, errors.New("nobody answers")}} {
		f.measureCAS(func(bool, []byte, error) { ended++ })(c.applied, nil, c.err)
	}
	if ended != 30*readsMeasured+4 {
		t.Errorf("%d were told the end", ended)
	}
	for k, want := range map[requestKind][2]int64{writing: {10 * readsMeasured, 10}, reading: {10 * readsMeasured, 10},
		batching: {10 * readsMeasured, 10 * readsMeasured}, deciding: {4, 4}, counting: {0, 0}} {
		_, measured, _ := f.kinds[k].latency.octaves(0, 60)
		if got := [2]int64{f.kinds[k].count.Load(), int64(measured)}; got != want {
			t.Errorf("%s: %d counted and measured, want %d", k, got, want)
		}
	}
	if a, n, e := f.applied.Load(), f.notApplied.Load(), f.failed.Load(); a != 2 || n != 1 || e != 1 {
		t.Errorf("%d applied, %d not, %d failed", a, n, e)
	}
	done := func(error) {}
	if n := testing.AllocsPerRun(1000, func() { f.measure(writing, done)(nil) }); n > 0 { // rounded down: one in eight
		t.Errorf("%v allocations", n)
	}
}

// Whatever a client sends, there are as many operations as there are names.
func TestTablesOperations(t *testing.T) {
	got := map[tablesOperation]bool{}
	for r := range odata.Resource(12) {
		for _, method := range []string{"GET", "POST", "PUT", "PATCH", "MERGE", "DELETE", "OPTIONS", "anything", ""} {
			for _, comp := range []string{"", "acl", "anything"} {
				o := operationOf(azuretables.Answer{Resource: r, Method: method, Comp: comp})
				if o.String() == "" {
					t.Errorf("operation %d has no name", o)
				}
				got[o] = true
			}
		}
	}
	if len(got) != int(tablesOperations) {
		t.Errorf("%d operations of %d are met", len(got), tablesOperations)
	}
	var f tablesFigures
	for _, status := range []int{0, 204, 404, 503, 999} {
		f.answered(azuretables.Answer{Resource: odata.OneEntity, Method: "GET", Status: status, Took: time.Millisecond})
	}
	o := &f.operations[getEntity]
	if o.statuses[2].Load() != 1 || o.statuses[4].Load() != 1 || o.statuses[5].Load() != 2 {
		t.Error("answers are counted elsewhere")
	}
}
