package coordinator_test

import (
	"errors"
	"io"
	"log/slog"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/guard"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/row"
	"cqld/simulation/scenario"
)

// panickingReplica panics when it gets a mutation.
type panickingReplica struct{ quickReplica }

func (*panickingReplica) Apply(uint64, []*row.Mutation, time.Duration, func(error)) {
	panic("injected")
}

// TestTruncationFollowsWriteThatPanicked panics in the middle of a write, by one replica of one or of four. The client
// gets the error, nothing stays counted, the write settles, and a truncation waits until the timeout of the write, when
// no request of it can have an effect, but not longer.
func TestTruncationFollowsWriteThatPanicked(t *testing.T) {
	for _, nodes := range []int{1, 4} {
		view := newFakeView(t, nodes, nodes, func(id ring.NodeID) coordinator.Replica {
			if int(id) == nodes {
				return &panickingReplica{}
			}
			return &quickReplica{}
		})
		clock := new(testclock.Clock)
		c := coordinator.New(coordinator.Options{View: view, Replicas: view, Clock: clock, LocalDatacenter: "dc1",
			Guard: guard.New(slog.New(slog.NewTextHandler(io.Discard, nil)))})
		m := new(row.Mutation)
		m.Reset(view.table.StorageID, row.NewPartitionKey([]byte("k")))
		scenario.AddRow(m, view.table, "a", "x", 7)
		var answers []error
		settled := 0
		c.Write(&coordinator.WriteRequest{
			Mutations:   []*row.Mutation{m},
			Consistency: ring.All,
			Type:        coordinator.WriteSimple,
			Timeout:     time.Second,
			Settled: func(s coordinator.Settlement) {
				if settled++; s.Majority || s.Hinted {
					t.Errorf("%d nodes: settled with %+v", nodes, s)
				}
			},
		}, func(err error) { answers = append(answers, err) })
		var panicked *guard.PanicError
		if len(answers) != 1 || !errors.As(answers[0], &panicked) {
			t.Fatalf("%d nodes: answered with %v", nodes, answers)
		}
		prepared := 0
		c.FollowTruncation(coordinator.Truncation{
			Table: view.table.StorageID,
			ID:    1,
			Phase: coordinator.TruncationPrepare,
		}, func(error) { prepared++ })
		clock.Advance(900 * time.Millisecond)
		if prepared > 0 {
			t.Errorf("%d nodes: the truncation does not wait for requests that may be under way", nodes)
		}
		clock.Advance(200 * time.Millisecond)
		if prepared != 1 || settled != 1 {
			t.Errorf("%d nodes: prepared %d times, settled %d times", nodes, prepared, settled)
		}
		if n := coordinator.InFlight(c); n != (coordinator.InFlightCounts{}) {
			t.Errorf("%d nodes: still counted: %+v", nodes, n)
		}
	}
}
