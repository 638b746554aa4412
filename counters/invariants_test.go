package counters

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
	"cqld/row"
)

// TestInvariantsFire breaks the invariants of updates and of their leaders, each as a bug in the caller would.
func TestInvariantsFire(t *testing.T) {
	update := func(key string, level ring.Consistency) *ledUpdate {
		m := &row.Mutation{}
		m.Reset(1, row.NewPartitionKey([]byte(key)))
		return &ledUpdate{Update: Update{Mutation: m, Consistency: level}}
	}
	idle := func() *queue { return &queue{stripe: &stripe{busy: map[key]*queue{}}} }
	busy := func() *queue {
		q := idle()
		q.stripe.busy[q.key] = q
		return q
	}
	led := func(updates ...*ledUpdate) *group {
		return &group{l: &leader{c: &Counters{}}, queue: busy(), updates: updates}
	}
	planned := func() *updateOp {
		return &updateOp{c: &Counters{}, done: func(error) {}, tried: []ring.NodeID{1}, update: Update{Epoch: 7}}
	}
	for name, breaks := range map[string]func(){
		"two queues":              func() { idle().take(1) },
		"group of nothing":        func() { busy().take(1) },
		"group ends twice":        func() { idle().ended() },
		"two partitions":          func() { led(update("a", ring.One), update("b", ring.One)).begin() },
		"two levels":              func() { led(update("a", ring.One), update("a", ring.All)).begin() },
		"sent before it is here":  func() { led(update("a", ring.One)).replicate() },
		"answered twice":          func() { update("a", ring.One).answer(nil, nil) },
		"more answers than parts": func() { (&joint{}).count(nil) },
		"node asked twice":        func() { planned().request(1, 8) },
		"plan of an earlier ring": func() { planned().request(2, 6) },
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}
