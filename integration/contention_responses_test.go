//go:build integration

package integration

import (
	"fmt"
	"regexp"
	"strconv"
	"testing"
	"time"

	"cqld/integration/process"
)

// casFailures matches a line of /metrics with a count of failed conditional changes.
var casFailures = regexp.MustCompile(`(?m)^cqld_coordinator_cas_failures_total\{cause="\w+"\} (\d+)$`)

// TestFailedChangesHaveResponses executes conditional batches through all coordinators in turn, with all nodes up and
// fewer clients than would overload them. No failure may report zero responses, and the metric counts each failure.
// CQLD_CONTENTION is the number of batches, CQLD_CONTENTION_TIME the maximum time in seconds, CQLD_CONTENTION_CLIENTS
// the number of clients, CQLD_CONTENTION_PARTITIONS the number of partitions.
func TestFailedChangesHaveResponses(t *testing.T) {
	w := startContention(t, 4)
	batches, clients := envNumber("CQLD_CONTENTION", 5_000), envNumber("CQLD_CONTENTION_CLIENTS", 64)
	partitions := envNumber("CQLD_CONTENTION_PARTITIONS", 64)
	limit := time.Duration(envNumber("CQLD_CONTENTION_TIME", 60)) * time.Second
	w.unlessStalled(w.ring.Servers, func() (failure string) {
		counted := w.failuresCounted()
		r := w.run(addressesOf(w), true, clients, partitions, batches, limit)
		counted = w.failuresCounted() - counted
		failed := r.unknown + r.expired + r.other
		t.Logf("%d clients, %d partitions: %v; %d failures are counted", clients, partitions, r, counted)
		if r.silent > 0 || counted != failed {
			failure = fmt.Sprintf("%d of %d batches failed with zero responses; of %d failures, %d are counted",
				r.silent, r.batches, failed, counted)
		}
		return failure
	})
	w.verify()
}

// failuresCounted returns the number of failed conditional changes that the nodes have counted.
func (w *contention) failuresCounted() (n int) {
	w.t.Helper()
	for _, s := range w.ring.Servers {
		n += w.failuresOf(s)
	}
	return n
}

func (w *contention) failuresOf(s *process.Server) (n int) {
	w.t.Helper()
	page, err := s.Metrics(w.t.Context())
	if err != nil {
		w.t.Fatal(err)
	}
	found := casFailures.FindAllStringSubmatch(page, -1)
	if len(found) == 0 {
		w.t.Fatal("the metrics have no count of failed conditional changes")
	}
	for _, m := range found {
		count, err := strconv.Atoi(m[1])
		if err != nil {
			w.t.Fatal(err)
		}
		n += count
	}
	return n
}
