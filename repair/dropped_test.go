package repair_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
)

// TestRepairOfADroppedTable drops a table after every possible number of messages of its repair. The repair ends
// immediately, and reports that the table was dropped, unless it had already ended; no message contains the table's
// number.
func TestRepairOfADroppedTable(t *testing.T) {
	dropped := 0
	for n := range 60 {
		w := newWorld(t, 3, 3, "BLOCKING", 300, hints.Limits{})
		for i := range 40 {
			w.putKey(i%3, fmt.Sprint("key", i))
		}
		var err error
		ended := false
		w.nodes[0].repairer(repair.Limits{LeafBytes: 500, RetryPause: 10 * time.Millisecond}).Start(
			repair.Job{Table: w.table.StorageID, Range: ring.FullRange()}, nil,
			func(_ repair.Report, e error) { err, ended = e, true })
		w.deliver(n)
		before := ended
		now, applyErr := schema.Apply(w.schema, &schema.DropTable{Keyspace: w.table.Keyspace, Table: w.table.Name})
		if applyErr != nil {
			t.Fatal(applyErr)
		}
		w.schema = now
		for _, node := range w.nodes {
			if err := node.engine.DropTable(w.table.StorageID); err != nil {
				t.Fatal(err)
			}
		}
		w.pass(5 * time.Second)
		var unknown *coordinator.UnknownTable
		switch {
		case !ended:
			t.Errorf("after %d messages: the repair does not end", n)
		case before:
		case !errors.As(err, &unknown):
			t.Errorf("after %d messages: %v", n, err)
		case strings.Contains(err.Error(), fmt.Sprint(w.table.StorageID)):
			t.Errorf("an inner number: %v", err)
		default:
			dropped++
		}
	}
	if dropped < 20 {
		t.Errorf("only %d repairs met the drop", dropped)
	}
}
