package coordinator_test

import (
	"fmt"
	"sync/atomic"
	"testing"
	"time"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/hints"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

// TestReplayWaitsForConfirmedMetadata stores a hint and logged batches, one of them for a table that is created later.
// None is sent, or becomes void, before the metadata are confirmed and the table is known.
func TestReplayWaitsForConfirmedMetadata(t *testing.T) {
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return &quickReplica{page: emptyPage()} })
	view.replicas[2] = &quickReplica{page: emptyPage()} // the target of the hints
	store := &memoryStore{keys: map[string][]byte{}}
	now := time.Now()
	mutation := func(table schema.StorageID) *row.Mutation {
		m := &row.Mutation{}
		m.Reset(table, row.NewPartitionKey([]byte("k")))
		return m
	}
	batch := func(table schema.StorageID) []byte {
		return row.AppendMutation(wire.AppendInt64(wire.AppendInt64(nil, now.UnixNano()), 0), mutation(table))
	}
	hint := row.AppendMutation(wire.AppendInt64(wire.AppendInt64(nil, now.Add(time.Hour).Unix()), now.UnixNano()),
		mutation(view.table.StorageID))
	if err := store.SetLocal(wire.AppendUint64(wire.AppendUint64([]byte("hint/"), 2), 1), hint, true); err != nil {
		t.Fatal(err)
	}
	var confirmed atomic.Bool
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{now}, LocalDatacenter: "dc1",
		Confirmed: confirmed.Load}, Store: store,
		Hints:   hints.Options{Limits: hints.Limits{Retry: time.Millisecond}},
		Batches: batchlog.Options{Limits: batchlog.Limits{Retry: time.Millisecond}}})
	defer c.Close()
	for i, table := range []schema.StorageID{view.table.StorageID, view.table.StorageID + 100} {
		c.Batches.Keep(coordinator.RequestID{Node: 1, Sequence: uint64(i)}, batch(table), func(err error) {
			if err != nil {
				t.Error(err)
			}
		})
	}
	left := func() string { return fmt.Sprintf("%d hints, %d batches", c.Hints.Pending(2), c.Batches.Held()) }
	c.Hints.NodeUp(2)
	time.Sleep(50 * time.Millisecond)
	if got := left(); got != "1 hints, 2 batches" {
		t.Errorf("before the confirmation there are %s", got)
	}
	confirmed.Store(true)
	for end := time.Now().Add(time.Minute); left() != "0 hints, 1 batches" && time.Now().Before(end); {
		time.Sleep(time.Millisecond)
	}
	time.Sleep(50 * time.Millisecond)
	if got := left(); got != "0 hints, 1 batches" {
		t.Errorf("after the confirmation there are %s, want the batch for the table that is not known yet", got)
	}
}
