package replica

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/memory"
	"cqld/row"
)

// TestPagesShareMemory reads a large partition many times concurrently: all pages together stay within their bound, and
// a reader that continues after short pages gets every row.
func TestPagesShareMemory(t *testing.T) {
	const rows, size, readers, total = 400, 10 << 10, 60, 8 << 20
	l, engine, table := newStored(t)
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: total, Reserve: total}})
	l.SetMemory(pool)
	key := row.NewPartitionKey([]byte("huge"))
	for i := range rows {
		m := &row.Mutation{}
		m.Reset(table.StorageID, key)
		r := row.NewRow()
		r.Clustering = fmt.Append(nil, "row", 1000+i)
		r.Liveness.Timestamp = 1
		r.Cells = append(r.Cells, row.Cell{Column: table.Columns()[len(table.Columns())-1].ID, Timestamp: 1,
			Value: bytes.Repeat([]byte{'x'}, size)})
		m.AddRow(r)
		if err := engine.Apply([]*row.Mutation{m}, false, func(error) {}); err != nil {
			t.Fatal(err)
		}
	}
	engine.Drain()
	var most, ended int64
	held := 0
	var read func(depth int, after []byte) // each page is still in use while the next one is read
	read = func(depth int, after []byte) {
		if depth == 0 {
			return
		}
		cmd := &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{row.AllRows()}}
		l.ReadHere(5, cmd, 0, func(page []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			held += cap(page)
			most, ended = max(most, pool.Used()), l.EndedPages()
			read(depth-1, nil)
		})
	}
	read(readers, nil)
	if bound := total + readers*(pageMemoryFree+4*size); held > bound {
		t.Errorf("%d readers hold pages of %d bytes, more than %d", readers, held, bound)
	}
	if most > total || ended == 0 {
		t.Errorf("pages have taken %d of %d bytes, and %d have ended early", most, total, ended)
	}
	if used := pool.Used(); used != 0 {
		t.Errorf("%d bytes are taken when all reads have ended", used)
	}
	// Short pages only: a reader continues, and gets every row.
	l.SetMemory(memory.New(memory.Options{Limits: memory.Limits{Bytes: 1}}))
	seen := 0
	for start, more := []byte(nil), true; more; {
		slice := row.AllRows()
		if start != nil {
			slice.Start = start
		}
		cmd := &row.ReadCommand{Table: table.StorageID, Key: key, Slices: []row.Slice{slice}}
		l.ReadHere(5, cmd, 0, func(page []byte, err error) {
			if err != nil {
				t.Fatal(err)
			}
			var p row.PageReader
			n := 0
			for p.Reset(page); p.NextPartition(); {
				for r := row.NewRow(); p.NextRow(r); n++ {
					start = append(bytes.Clone(row.ExactRow(r.Clustering).Start), 0)
				}
			}
			if more = p.More(); n == 0 && more || n > 10 {
				t.Fatalf("a page of %d rows", n)
			}
			seen += n
		})
	}
	if seen != rows {
		t.Errorf("%d of %d rows were read", seen, rows)
	}
}

// A page for another node waits for memory before it is read, and is refused if there is none in time. A page for a
// request of this node is reserved.
func TestPagesOfOtherNodesWait(t *testing.T) {
	l, _, table := newStored(t)
	pool := memory.New(memory.Options{Limits: memory.Limits{Bytes: 1 << 20, WaitMax: time.Nanosecond}})
	l.SetMemory(pool)
	var busy memory.Account
	pool.Open(&busy, memory.Origin{}, nil)
	if !busy.TryGrow(1 << 19) {
		t.Fatal("no memory")
	}
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k")),
		Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Bytes: 1 << 19}}
	for _, own := range []bool{true, false} {
		var overloaded *coordinator.Overloaded
		var privileged memory.Account
		pool.Open(&privileged, memory.Origin{}, nil) // another read has the reserve
		if err := privileged.Grow(context.Background(), 1<<19); err != nil {
			t.Fatal(err)
		}
		l.readPage(5, cmd, own, func(_ []byte, err error) {
			if errors.As(err, &overloaded) == own {
				t.Errorf("own %v: %v", own, err)
			}
		})
		privileged.Close()
	}
	busy.Close()
	l.readPage(5, cmd, false, func(_ []byte, err error) {
		if err != nil || pool.Used() != 1<<19 {
			t.Errorf("%v, %d bytes are reserved", err, pool.Used())
		}
	})
	if pool.Used() != 0 {
		t.Errorf("%d bytes are reserved", pool.Used())
	}
}
