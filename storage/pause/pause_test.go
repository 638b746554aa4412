package pause

import (
	"maps"
	"math/rand/v2"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2"
)

const ms = time.Millisecond

func TestPausesAreCountedByTheirLargestPart(t *testing.T) {
	var c Counts
	c.Note(99*ms, 99*ms, pebble.BatchCommitStats{})
	if c.Count() != 0 || c.Longest() != 0 {
		t.Fatal("a short commit is a pause")
	}
	c.Note(300*ms, 160*ms, pebble.BatchCommitStats{WALRotationDuration: 140 * ms})
	c.Note(200*ms, 10*ms, pebble.BatchCommitStats{WALRotationDuration: 150 * ms})
	c.Note(110*ms, 0, pebble.BatchCommitStats{WALRotationDuration: 100 * ms})
	c.Note(150*ms, 0, pebble.BatchCommitStats{MemTableWriteStallDuration: 50 * ms,
		L0ReadAmpWriteStallDuration: 60 * ms})
	c.Note(100*ms, 1*ms, pebble.BatchCommitStats{CommitWaitDuration: 90 * ms})
	want := map[string]int64{"latch": 1, "log": 2, "stall": 1, "other": 1}
	if got := c.ByCause(); !maps.Equal(got, want) || c.Count() != 5 || c.Longest() != 300*ms {
		t.Fatalf("counted %v, %d, longest %v; want %v", got, c.Count(), c.Longest(), want)
	}
}

// No other cause has a larger part, whatever the parts are.
func TestCauseIsTheLargestPart(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for range 10_000 {
		part := func() time.Duration { return time.Duration(r.IntN(4)) * 50 * ms }
		parts := [causes]time.Duration{part(), part(), part(), part()}
		took := parts[Latch] + parts[Stall] + parts[Log] + parts[Other]
		s := pebble.BatchCommitStats{WALRotationDuration: parts[Log]}
		switch half := parts[Stall] / 2; r.IntN(3) {
		case 0:
			s.MemTableWriteStallDuration = parts[Stall]
		case 1:
			s.L0ReadAmpWriteStallDuration, s.SemaphoreWaitDuration = half, half
		case 2:
			s.WALQueueWaitDuration = parts[Stall]
		}
		cause := CauseOf(took, parts[Latch], s)
		for other, d := range parts {
			if d > parts[cause] {
				t.Fatalf("%v is the cause of %v, %v has more", cause, parts, Cause(other))
			}
		}
	}
}
