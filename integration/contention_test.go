//go:build integration

package integration

import (
	"testing"
	"time"
)

// contentionClients is how many clients the loads have.
const contentionClients = 16

// TestConditionalBatchesHaveKnownOutcomes makes conditional batches through all coordinators by turns, on 4 and on 40
// partitions, with all nodes up: none may end with an unknown outcome. CQLD_CONTENTION is how many batches it makes of
// each kind, CQLD_CONTENTION_TIME how many seconds that may take.
func TestConditionalBatchesHaveKnownOutcomes(t *testing.T) {
	w := startContention(t, 4)
	batches, limit := envNumber("CQLD_CONTENTION", 2_000), time.Duration(envNumber("CQLD_CONTENTION_TIME", 30))*time.Second
	for _, partitions := range []int{4, 40} {
		r := w.run(addressesOf(w), true, contentionClients, partitions, batches, limit)
		t.Logf("%d partitions, all nodes up: %v", partitions, r)
		if r.unknown > 0 || r.other > 0 {
			t.Errorf("%d partitions: %d of %d batches ended with an unknown outcome, %d with other errors", partitions, r.unknown, r.batches, r.other)
		}
	}
	w.ring.Servers[3].Kill()
	time.Sleep(noticed)
	for _, partitions := range []int{4, 40} {
		r := w.run(addressesOf(w)[:3], true, contentionClients, partitions, batches, limit)
		t.Logf("%d partitions, one node dead: %v", partitions, r)
		if r.unknown > 0 || r.other > 0 {
			t.Errorf("%d partitions, one node dead: %d of %d batches ended with an unknown outcome, %d with other errors", partitions, r.unknown, r.batches, r.other)
		}
	}
	w.verify()
}

// noticed is when the other nodes have seen that a node died.
const noticed = 3 * time.Second

func addressesOf(w *contention) (all []string) {
	for _, s := range w.ring.Servers {
		all = append(all, s.Address)
	}
	return all
}
