//go:build integration

package integration

import (
	"os"
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

// TestConditionalBatchesDegradeAsWrites takes a node away from a ring that has less CPU than work, and compares
// conditional batches with plain ones. It needs the machine for itself: CQLD_CONTENTION asks for it.
func TestConditionalBatchesDegradeAsWrites(t *testing.T) {
	if os.Getenv("CQLD_CONTENTION") == "" {
		t.Skip("it keeps all processors busy for a minute: CQLD_CONTENTION=1 asks for it")
	}
	w := startContention(t, 4)
	limit := time.Duration(envNumber("CQLD_CONTENTION_TIME", 10)) * time.Second
	measure := func(what string, addresses []string) {
		for _, partitions := range []int{4, 40} {
			plain := w.run(addresses, false, envNumber("CQLD_CONTENTION_CLIENTS", contentionClients), partitions, 1<<30, limit)
			t.Logf("%s, %d partitions, plain:       %v", what, partitions, plain)
			conditional := w.run(addresses, true, envNumber("CQLD_CONTENTION_CLIENTS", contentionClients), partitions, 1<<30, limit)
			t.Logf("%s, %d partitions, conditional: %v", what, partitions, conditional)
		}
	}
	if os.Getenv("CQLD_CONTENTION_QUIET") != "" {
		measure("quiet", addressesOf(w))
	}
	stop := busyCPU(t, envNumber("CQLD_CONTENTION_BUSY", 4))
	if os.Getenv("CQLD_CONTENTION_QUIET") != "" {
		measure("busy", addressesOf(w))
	}
	victim := w.ring.Servers[envNumber("CQLD_CONTENTION_VICTIM", 4)-1]
	var others []string
	for _, a := range addressesOf(w) {
		if a != victim.Address {
			others = append(others, a)
		}
	}
	if os.Getenv("CQLD_CONTENTION_PAUSE") != "" {
		if err := victim.Pause(); err != nil {
			t.Fatal(err)
		}
		measure("busy, one node just paused", others)
		victim.Resume()
	} else {
		victim.Kill()
		measure("busy, one node just dead", others)
	}
	stop()
	time.Sleep(noticed)
	w.verify()
}

func addressesOf(w *contention) (all []string) {
	for _, s := range w.ring.Servers {
		all = append(all, s.Address)
	}
	return all
}
