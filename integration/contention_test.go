//go:build integration

package integration

import (
	"fmt"
	"testing"
	"time"

	"cqld/integration/process"
)

// contentionClients is the number of clients of the loads.
const contentionClients = 16

// TestConditionalBatchesHaveKnownOutcomes executes conditional batches through all coordinators in turn, on 4 and on 40
// partitions, with all nodes up: none may end with an unknown outcome. CQLD_CONTENTION is the number of batches of each
// kind, CQLD_CONTENTION_TIME the maximum time in seconds.
func TestConditionalBatchesHaveKnownOutcomes(t *testing.T) {
	w := startContention(t, 4)
	batches, limit := envNumber("CQLD_CONTENTION", 2_000),
		time.Duration(envNumber("CQLD_CONTENTION_TIME", 30))*time.Second
	load := func(state string, servers []*process.Server) {
		for _, partitions := range []int{4, 40} {
			w.unlessStalled(servers, func() (failure string) {
				r := w.run(addressesOf(w)[:len(servers)], true, contentionClients, partitions, batches, limit)
				t.Logf("%d partitions, %s: %v", partitions, state, r)
				if r.unknown > 0 || r.other > 0 {
					failure = fmt.Sprintf("%d partitions, %s: %d of %d batches ended with an unknown outcome, %d "+
						"with other errors",
						partitions, state, r.unknown, r.batches, r.other)
				}
				return failure
			})
		}
	}
	load("all nodes up", w.ring.Servers)
	w.ring.Servers[3].Kill()
	time.Sleep(noticed)
	load("one node dead", w.ring.Servers[:3])
	w.verify()
}

// noticed is the time after which the other nodes have detected a node's death.
const noticed = 3 * time.Second

func addressesOf(w *contention) (all []string) {
	for _, s := range w.ring.Servers {
		all = append(all, s.Address)
	}
	return all
}
