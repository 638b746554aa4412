package replica

import (
	"bytes"
	"fmt"
	"testing"
	"time"

	"cqld/internal/memory"
	"cqld/row"
)

// TestLongReadsTakeTurns reads while another computation has the only turn. A read of few bytes ends; one of many bytes
// waits, also if a filter omits all rows, and continues with the turn. A read has no turn when its page is passed on.
func TestLongReadsTakeTurns(t *testing.T) {
	const rows, size = 40, 8 << 10
	l, engine, table := newStored(t)
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: 64 << 20, Turns: 1}})
	l.SetMemory(pool)
	key, value := row.NewPartitionKey([]byte("k")), table.Columns()[len(table.Columns())-1]
	for i := range rows {
		m := &row.Mutation{}
		m.Reset(table.StorageID, key)
		r := row.NewRow()
		r.Clustering = fmt.Append(nil, "row", 1000+i)
		r.Liveness.Timestamp = 1
		r.Cells = append(r.Cells, row.Cell{Column: value.ID, Timestamp: 1, Value: bytes.Repeat([]byte{'x'}, size)})
		m.AddRow(r)
		if err := engine.Apply([]*row.Mutation{m}, false, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	engine.Drain()
	none := &row.Filter{PartitionKey: 1, Decisive: true}
	none.Add(row.Condition{Kind: value.Kind, Column: value.ID, Type: value.Type, Operator: row.FilterEqual,
		Values: [][]byte{{'y'}}})
	// read reads all rows, and returns a channel that is closed when the page was passed on and a turn was free then.
	read := func(limits row.Limits, filter *row.Filter) (ended chan struct{}) {
		ended = make(chan struct{})
		cmd := &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()}, Limits: limits,
			Filter: filter,
			Owner:  (*memory.Owner)(nil)}
		go l.ReadHere(5, cmd, 0, func(_ []byte, err error) {
			if err != nil {
				t.Error(err)
			}
			if limits.Rows == 0 {
				var next memory.Turn
				pool.Turn(&next, nil)
				next.Work(1 << 20) // blocks unless the read has none
				next.Rest()
			}
			close(ended)
		})
		return ended
	}
	var other memory.Turn
	pool.Turn(&other, &memory.Owner{})
	other.Work(1 << 20)
	<-read(row.Limits{Rows: 4}, nil)
	for name, filter := range map[string]*row.Filter{"all rows": nil, "no rows": none} {
		long := read(row.Limits{}, filter)
		select {
		case <-long:
			t.Errorf("a read of %s has not waited for its turn", name)
		case <-time.After(50 * time.Millisecond):
		}
		other.Rest()
		<-long
		other.Work(1)
	}
	other.Rest()
}
