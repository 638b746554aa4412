package contention

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// TestTurns checks that an arbiter grants one turn at a time, in the order of the requests, and does not wait for nodes
// forever.
func TestTurns(t *testing.T) {
	clock := &testclock.Clock{}
	arbiter := NewArbiter(clock, func(ring.NodeID) bool { return true })
	var went []string
	tickets := map[string]uint64{}
	ask := func(partition string, from ring.NodeID, timeout time.Duration) {
		arbiter.Ask(partition, from, timeout, func(got Turn) {
			name := fmt.Sprint(partition, from)
			tickets[name] = got.Ticket
			switch {
			case got.Ticket == 0:
				name += " unordered"
			case got.Alone:
				name += " alone"
			}
			went = append(went, name)
		})
	}
	expect := func(what string, want ...string) {
		t.Helper()
		if !slices.Equal(went, want) {
			t.Fatalf("%s: %q, not %q", what, went, want)
		}
		went = nil
	}
	ask("a", 1, time.Second)
	ask("a", 2, time.Second)
	ask("a", 3, 10*time.Millisecond)
	ask("b", 2, time.Second)
	expect("the first of each partition goes", "a1", "b2")
	arbiter.Pass("a", tickets["b2"])
	expect("a ticket of another partition has no effect")
	clock.Advance(20 * time.Millisecond)
	arbiter.Pass("a", tickets["a1"])
	expect("the second request follows", "a2")
	arbiter.Pass("a", tickets["a2"])
	expect("a request that timed out proceeds without a turn", "a3 unordered")
	ask("a", 2, time.Second)
	expect("no other request in between", "a2 alone")
	ask("a", 1, time.Second)
	clock.Advance(130 * time.Millisecond) // eight times the average duration of turns, 17.5 ms, is 140 ms
	expect("a turn is held")
	clock.Advance(20 * time.Millisecond)
	expect("a silent holder loses its turn", "a1")
	arbiter.Pass("a", tickets["a2"])
	ask("a", 2, time.Second)
	expect("an expired turn is not passed again")
	arbiter.Pass("a", tickets["a1"])
	expect("the next", "a2")
}

// TestContestedPartitionsAreForgotten after a while, each individually.
func TestContestedPartitionsAreForgotten(t *testing.T) {
	var k Contested
	a, b := Partition(1, row.NewPartitionKey([]byte("k"))), Partition(2, row.NewPartitionKey([]byte("k")))
	k.Note(a, time.Minute)
	for _, x := range []struct {
		partition string
		at        time.Duration
		want      bool
	}{
		{a, time.Minute, true}, {b, time.Minute, false}, {a, time.Minute + contestedFor - 1, true},
		{a, time.Minute + contestedFor, false},
	} {
		if got := k.Has(x.partition, x.at); got != x.want {
			t.Errorf("%q at %v: contested %v", x.partition, x.at, got)
		}
	}
}

// TestPartitionKeysAreUnique shows that Partition distinguishes tables and keys.
func TestPartitionKeysAreUnique(t *testing.T) {
	seen := map[string]bool{}
	for _, table := range []uint32{1, 256, 1 << 24} {
		for _, key := range []string{"", "\x00", "k", string(make([]byte, 100))} {
			partition := Partition(schema.StorageID(table), row.NewPartitionKey([]byte(key)))
			if seen[partition] {
				t.Errorf("table %d, key %q: the partition of another", table, key)
			}
			seen[partition] = true
		}
	}
}
