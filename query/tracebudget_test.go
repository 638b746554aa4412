package query

import (
	"testing"

	"cqld/internal/testclock"
)

// A Budget never admits more than its remainder, whatever the measurements in between, and admits again when stored
// traces have expired.
func TestBudgetBoundsWhatIsStored(t *testing.T) {
	clock := new(testclock.Clock)
	var disk, memtable int64
	measurable := true
	b := &TraceBudget{Max: 1000, Clock: clock, Size: func() (int64, bool) { return disk, measurable }}
	admit := func(bytes int64) bool {
		ok := b.Admit(int(bytes))
		if ok {
			memtable += bytes
		}
		return ok
	}
	for range 100 {
		admit(30)
	}
	if memtable > 1000 || memtable < 970 {
		t.Fatalf("%d bytes were admitted, of 1000", memtable)
	}
	if _, refused := b.Stats(); refused != 67 {
		t.Errorf("%d traces were refused", refused)
	}
	disk, memtable = memtable, 0 // flushed
	clock.Advance(traceMeasureEvery)
	if admit(30) {
		t.Error("a trace is admitted although the disk has no room")
	}
	disk = 500 // half of the traces have expired
	if admit(30) {
		t.Error("a trace is admitted without a measurement")
	}
	clock.Advance(traceMeasureEvery)
	for range 100 {
		admit(30)
	}
	if memtable != 480 {
		t.Errorf("%d bytes were admitted, of 500", memtable)
	}
	measurable = false
	clock.Advance(traceMeasureEvery)
	if admit(30) {
		t.Error("a trace is admitted without a measurement")
	}
	if stored, _ := b.Stats(); stored != 500 {
		t.Errorf("%d bytes are shown as stored", stored)
	}
}

// A Budget of 0 stores no traces.
func TestBudgetOfNothing(t *testing.T) {
	b := &TraceBudget{Clock: new(testclock.Clock), Size: func() (int64, bool) { return 0, true }}
	if b.Admit(1) {
		t.Error("a trace is admitted")
	}
}
