package coordinator_test

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"cqld/coordinator/turn"
	"cqld/ring"
)

// TestTurns shows that a home lets one go at a time, in the order in which they asked, and waits for nobody
// for ever.
func TestTurns(t *testing.T) {
	c := newCluster(t, clusterOptions{datacenters: []string{"dc1"}, replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	home := c.node(1).coord
	var went []string
	tickets := map[string]uint64{}
	ask := func(line string, from ring.NodeID, timeout time.Duration) {
		home.Turn(line, from, timeout, func(got turn.Turn) {
			name := fmt.Sprint(line, from)
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
	home.Pass("a", tickets["b2"])
	expect("another partition's ticket passes nothing")
	c.clock.tick(20 * time.Millisecond)
	home.Pass("a", tickets["a1"])
	expect("then the second", "a2")
	home.Pass("a", tickets["a2"])
	expect("who has gone on without is told so", "a3 unordered")
	ask("a", 2, time.Second)
	expect("nobody came between", "a2 alone")
	ask("a", 1, time.Second)
	c.clock.tick(240 * time.Millisecond)
	expect("a turn is kept")
	c.clock.tick(20 * time.Millisecond)
	expect("but not for ever", "a1")
	home.Pass("a", tickets["a2"])
	ask("a", 2, time.Second)
	expect("what ended by itself is not passed again")
	home.Pass("a", tickets["a1"])
	expect("the next", "a2")
}
