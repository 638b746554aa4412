package repair_test

import (
	"encoding/binary"
	"fmt"
	"testing"
	"time"

	"cqld/hints"
	"cqld/internal/cputime"
	"cqld/internal/wire"
	"cqld/schema"
)

// tables adds n tables to the schema of w.
func (w *world) tables(n int) {
	for i := range n {
		c := &schema.CreateTable{Keyspace: "ks", Table: fmt.Sprintf("t%d", i),
			ID:      schema.UUID{2, byte(i >> 8), byte(i)},
			Options: schema.DefaultOptions()}
		for _, col := range w.table.Columns() {
			c.Columns = append(c.Columns, schema.ColumnSpec{Name: col.Name, Kind: col.Kind, Type: col.Type})
		}
		w.apply(c)
	}
}

func (w *world) apply(c schema.Change) {
	next, err := schema.Apply(w.schema, c)
	if err != nil {
		w.t.Fatal(err)
	}
	w.schema = next
}

// progress returns the tables with stored progress of a node's background repair, and how many were completely
// repaired.
func (w *world) progress(i int) (tables map[schema.StorageID]bool, repaired int) {
	tables = map[schema.StorageID]bool{}
	const prefix = "autorepair/"
	err := w.nodes[i].engine.ScanLocal([]byte(prefix), func(key, value []byte) error {
		tables[schema.StorageID(binary.BigEndian.Uint32(key[len(prefix):]))] = true
		if c := wire.NewCursor(value); c.Int64() != 0 {
			repaired++
		}
		return nil
	})
	if err != nil {
		w.t.Fatal(err)
	}
	return tables, repaired
}

// autoRepairs returns the processor time in which a node repairs its ranges of n tables, as often as they have ranges.
func autoRepairs(t *testing.T, n int) time.Duration {
	w := newWorld(t, 1, 1, "NONE", 0, hints.Limits{})
	w.tables(n)
	a := w.auto(0)
	defer a.Close()
	began := cputime.Process()
	a.Start()
	for range 100 {
		w.pass(time.Second)
		if _, repaired := w.progress(0); repaired == n+1 {
			return cputime.Process() - began
		}
	}
	_, repaired := w.progress(0)
	t.Fatalf("%d of %d tables were repaired", repaired, n+1)
	return 0
}

// TestAutoRepairOfManyTables repairs 8 times as many tables in less than 24 times the processor time. A search for the
// next table from the first one after each repaired range would take 64 times as much.
func TestAutoRepairOfManyTables(t *testing.T) {
	const few, growth = 400, 8
	var small, large time.Duration
	for range 3 { // other processes disturb the caches
		small, large = autoRepairs(t, few), autoRepairs(t, few*growth)
		if large < 3*growth*small {
			return
		}
	}
	t.Errorf("%d tables took %v, %d times as many %v", few, small, growth, large)
}

// TestAutoRepairForgetsDroppedTables drops tables after their repair: their progress is removed, and other tables are
// still repaired.
func TestAutoRepairForgetsDroppedTables(t *testing.T) {
	w := newWorld(t, 1, 1, "NONE", 0, hints.Limits{})
	w.tables(20)
	a := w.auto(0)
	defer a.Close()
	a.Start()
	w.pass(10 * time.Second)
	if _, repaired := w.progress(0); repaired != 21 {
		t.Fatalf("%d tables of 21 were repaired", repaired)
	}
	for i := range 10 {
		w.apply(&schema.DropTable{Keyspace: "ks", Table: fmt.Sprintf("t%d", i)})
	}
	w.tables(5)
	w.pass(10 * time.Second)
	tables, repaired := w.progress(0)
	if len(tables) != 16 || repaired != 16 {
		t.Errorf("progress of %d tables, %d of them repaired; want 16", len(tables), repaired)
	}
	for id := range tables {
		if w.schema.TableByStorage(id) == nil {
			t.Errorf("the progress of the dropped table %d is kept", id)
		}
	}
}
