package coordinator_test

import (
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/schema"
)

// aheadClock is a testclock.Clock whose wall clock is ahead of its monotonic clock by a duration that the test changes.
type aheadClock struct {
	testclock.Clock
	ahead time.Duration
}

func (k *aheadClock) Now() time.Time { return k.Clock.Now().Add(k.ahead) }

// TestWritesAfterATruncationAreNotVoid truncates a table while the wall clock is an hour ahead, and then corrects the clock. Writes
// that began before the end of the truncation are void, later ones are not, whatever the wall clock shows.
func TestWritesAfterATruncationAreNotVoid(t *testing.T) {
	const table, other = schema.StorageID(7), schema.StorageID(8)
	clock := &aheadClock{ahead: time.Hour}
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return &faultyReplica{} })
	c := coordinator.New(coordinator.Options{View: view, Replicas: view, Clock: clock})
	follow := func(phase coordinator.TruncationPhase) {
		err := error(coordinator.ErrNoReply)
		c.FollowTruncation(coordinator.Truncation{Table: table, ID: 1, Phase: phase}, func(e error) { err = e })
		if err != nil {
			t.Fatal(phase, err)
		}
	}
	clock.Advance(time.Second)
	before := clock.Monotonic()
	clock.Advance(time.Second)
	follow(coordinator.TruncationPrepare)
	clock.Advance(time.Second)
	during := clock.Monotonic()
	clock.Advance(time.Second)
	follow(coordinator.TruncationEnd)
	clock.ahead = 0
	clock.Advance(time.Second)
	after := clock.Monotonic()
	for _, w := range []struct {
		name  string
		table schema.StorageID
		began time.Duration
		void  bool
	}{
		{"before the truncation", table, before, true}, {"during the truncation", table, during, true},
		{"after the truncation", table, after, false}, {"of another table", other, before, false},
	} {
		if void := c.MadeAt(w.table, w.began) <= c.TruncatedAt(w.table); void != w.void {
			t.Errorf("a write %s is void: %v, want %v", w.name, void, w.void)
		}
	}
}
