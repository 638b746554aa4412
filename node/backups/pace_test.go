package backups

import "testing"

// TestBackupsYieldToClients checks how many bytes a second a node reads while its processors are in use.
func TestBackupsYieldToClients(t *testing.T) {
	n := &Node{o: Options{Rate: 1000}}
	if got := n.yielding(); got != 1000 {
		t.Errorf("without a measure: %d bytes a second", got)
	}
	for busy, want := range map[float64]int64{0: 1000, 0.5: 1000, 0.75: 500, 0.875: 250, 0.95: 250, 1: 250} {
		n.o.Busy = func() float64 { return busy }
		if got := n.yielding(); got != want {
			t.Errorf("with %v of the processors in use: %d bytes a second, want %d", busy, got, want)
		}
		if got := n.steady(); got != 1000 {
			t.Errorf("a restoration reads %d bytes a second", got)
		}
	}
	// An operator may choose any rate, and the pace is a divisor.
	n.o.Rate = 1
	if got := n.yielding(); got != 1 {
		t.Errorf("%d bytes a second, want 1", got)
	}
}
