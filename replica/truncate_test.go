package replica

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/storage"
)

// truncateNow truncates a table of a replica in epoch 5.
func truncateNow(r coordinator.Replica, x coordinator.Truncation, done func(error)) {
	testcluster.Truncate(r, 5, x, done)
}

// TestLateTruncations sends a replica truncations that must not remove rows: their coordinator may have failed before
// the table was truncated again and filled.
func TestLateTruncations(t *testing.T) {
	l, engine, table := newStored(t)
	send := func(id uint64, phase coordinator.TruncationPhase, timeout time.Duration) (err error) {
		l.Truncate(5, coordinator.Truncation{Table: table.StorageID, ID: id, Phase: phase}, timeout,
			func(e error) { err = e })
		return err
	}
	const prepare, truncate = coordinator.TruncationPrepare, coordinator.TruncationApply
	for i, step := range []struct {
		id      uint64
		phase   coordinator.TruncationPhase
		timeout time.Duration
		refused bool
	}{
		{1, truncate, time.Minute, true}, // never prepared
		{1, prepare, time.Minute, false},
		{2, prepare, time.Minute, false},
		{2, truncate, time.Minute, false},
		{1, truncate, time.Minute, true}, // the second one has overtaken it
		{1, prepare, time.Minute, true},  // a delayed copy
		{1, truncate, time.Minute, true},
		{2, truncate, time.Minute, false}, // already executed: the answer was lost
		{3, prepare, -time.Second, false},
		{3, truncate, time.Minute, true}, // it has expired
		{3, prepare, time.Minute, false}, // the coordinator retries
		{3, truncate, time.Minute, false},
	} {
		key := fmt.Sprintf("row%05d", i)
		if err := engine.Apply([]*row.Mutation{mutationOf(table, key)}, true, func(error) {}); err != nil {
			t.Fatal(err)
		}
		err := send(step.id, step.phase, step.timeout)
		if void := new(coordinator.TruncationVoid); errors.As(err, &void) != step.refused || err != nil &&
			!step.refused {
			t.Fatalf("step %d: %v", i, err)
		}
		kept := slices.Contains(keysOf(t, engine, table), key)
		if removes := step.phase == truncate && !step.refused && i != 7; kept == removes {
			t.Errorf("step %d: the row is there: %v", i, kept)
		}
	}
}

// keysOf lists the partition keys of a table.
func keysOf(t *testing.T, engine *storage.Engine, table *schema.Table) (out []string) {
	t.Helper()
	page, err := engine.Read(nil, &row.ReadCommand{Table: table.StorageID,
		Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}})
	if err != nil {
		t.Fatal(err)
	}
	var p row.PageReader
	for p.Reset(page); p.NextPartition(); {
		r := row.NewRow()
		for p.NextRow(r) {
			out = append(out, string(p.Key.Bytes))
		}
	}
	return out
}
