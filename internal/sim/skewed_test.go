package sim

import (
	"strings"
	"testing"
)

// TestOrderedWritesWhileTheRingChanges runs registers with clocks apart while nodes come and go, at one and at
// three replicas: the newest timestamp must be asked of both sides.
func TestOrderedWritesWhileTheRingChanges(t *testing.T) {
	n := uint64(20)
	if testing.Short() {
		n = 4
	}
	for seed := uint64(30); seed < 30+n; seed++ {
		o := DefaultOptions(seed)
		o.Workloads, o.FaultKinds = []string{"skewed"}, strings.Fields("join leave isolate bad-links")
		o.Nodes, o.Factor = 4, 1+2*int(seed%2)
		report(t, o, run(t, o))
	}
}

// TestOrderedWritesRepeat shows that the asking is in the history of a seed as all else is.
func TestOrderedWritesRepeat(t *testing.T) {
	for seed := range uint64(3) {
		o := DefaultOptions(seed)
		o.Workloads = []string{"skewed"}
		a, b := run(t, o), run(t, o)
		if a.Trace != b.Trace || a.Events != b.Events {
			t.Errorf("seed %d: %d events with trace %x, then %d with %x", seed, a.Events, a.Trace, b.Events, b.Trace)
		}
	}
}
