package counters

import (
	"testing"

	"cqld/ring"
	"cqld/row"
)

// TestPartitionsAreBusyWhileUpdatesWait adds updates while a group of their partition is led. The partition stays busy
// until none waits: a second group at the same time would read the sum that the first one changes.
func TestPartitionsAreBusyWhileUpdatesWait(t *testing.T) {
	s := &stripe{busy: map[key]*queue{}}
	k := key{1, "a"}
	update := func(level ring.Consistency) *ledUpdate {
		m := &row.Mutation{}
		m.Reset(1, row.NewPartitionKey([]byte(k.key)))
		return &ledUpdate{Update: Update{Mutation: m, Consistency: level}}
	}
	q, idle := s.add(k, update(ring.One))
	if !idle {
		t.Fatal("a partition without updates is busy")
	}
	for _, level := range []ring.Consistency{ring.One, ring.One, ring.Quorum, ring.One} {
		if _, idle := s.add(k, update(level)); idle {
			t.Fatal("the partition of a queue is idle")
		}
	}
	for i, want := range []int{2, 1, 1, 1} { // the limit, the end of a level, a level of its own, the rest
		if got := q.take(2); len(got) != want {
			t.Errorf("group %d has %d updates, want %d", i, len(got), want)
		}
		if more := q.ended(); more != (i < 3) {
			t.Errorf("after group %d, more updates wait: %v", i, more)
		}
		if i < 3 && s.busy[k] != q {
			t.Fatalf("after group %d, the partition is idle", i)
		}
	}
	if _, idle := s.add(k, update(ring.One)); !idle {
		t.Error("the partition is busy after its last update")
	}
}
