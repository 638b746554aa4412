package scan

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"cqld/internal/model"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// randomCursor returns a cursor with random keys or tokens, slices, direction and filter.
func randomCursor(r *rand.Rand, keys []row.PartitionKey) *Cursor {
	c := &Cursor{Command: row.ReadCommand{Table: 1, Slices: model.RandomSlices(r), Reversed: r.IntN(2) == 0,
		Now: model.RandomNow}}
	ranges := model.RandomRanges(r, keys)
	c.Tokens = ranges[r.IntN(len(ranges))]
	if r.IntN(2) == 0 {
		c.Keys = append(slices.Clone(keys), row.NewPartitionKey([]byte("none")))
		r.Shuffle(len(c.Keys), func(i, j int) { c.Keys[i], c.Keys[j] = c.Keys[j], c.Keys[i] })
		c.Keys = c.Keys[:1+r.IntN(len(c.Keys))]
	}
	if r.IntN(3) == 0 {
		c.Command.Filter = &row.Filter{PartitionKey: 1}
		c.Command.Filter.Add(row.Condition{Kind: schema.Regular, Column: model.RandomRegular, Operator: row.FilterEqual,
			Type: types.Native(types.Blob), Values: [][]byte{[]byte("a")}})
		if r.IntN(3) == 0 {
			c.Command.Filter.Conditions[0].Kind, c.Command.Filter.Conditions[0].Column = schema.Static,
				model.RandomStatic
			c.Command.Filter.Conditions[0].Values[0] = []byte("s")
		}
	}
	return c
}

// answer returns the rows of all partitions of a cursor, read without limits.
func answer(t *model.Table, c *Cursor) (rows []string) {
	cmd := c.Command
	cmd.Range.Tokens = c.Tokens
	if c.Keys == nil {
		return rowsOf(t.Read(&cmd))
	}
	for _, cmd.Key = range c.Keys {
		rows = append(rows, rowsOf(t.Read(&cmd))...)
	}
	return rows
}

func rowsOf(page []byte) (rows []string) {
	var p row.PageReader
	var x row.Row
	for p.Reset(page); p.NextPartition(); {
		for p.NextRow(&x) {
			rows = append(rows, text(p.Key, &x))
		}
	}
	return rows
}

func text(key row.PartitionKey, x *row.Row) string {
	return fmt.Sprintf("%x/%x %x", key.Bytes, x.Clustering, row.AppendRow(nil, x))
}

// TestPagesConcatenateToTheAnswer checks that the rows of all pages, deleted ones included, are those of reads without
// limits, and each exactly once: for keys and ranges, slices, both directions, filters, any size of the pages, and
// scans that end after a row and continue from its position.
func TestPagesConcatenateToTheAnswer(t *testing.T) {
	pages, filtered := 0, 0
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 1))
		table, keys := model.Random(r)
		c := randomCursor(r, keys)
		table.PageRows, table.FilterRows = 0, 0
		want := answer(table, c)
		var got []string
		var again row.ReadCommand
		var commands []row.ReadCommand
		var encoded [][]byte
		for {
			var cmd row.ReadCommand
			if !c.Next(&cmd) {
				break
			}
			if end := c.Reader.End(); end != nil && end.Whole && cmd.SinglePartition() &&
				bytes.Equal(cmd.Key.Bytes, end.Key.Bytes) {
				t.Fatalf("seed %d reads a partition again after whose end a page had ended", seed)
			}
			commands, encoded = append(commands, cmd), append(encoded, row.AppendReadCommand(nil, &cmd))
			if c.Next(&again); !bytes.Equal(row.AppendReadCommand(nil, &cmd), row.AppendReadCommand(nil, &again)) {
				t.Fatalf("seed %d: %+v, and then %+v", seed, cmd, again)
			}
			table.PageRows, table.FilterRows = r.IntN(5), r.IntN(3)
			cmd.Limits.Rows = uint32(r.IntN(4))
			page := table.Read(&cmd)
			if pages++; pages > 1_000_000 {
				t.Fatalf("seed %d does not end", seed)
			}
			stop := r.IntN(20)
			next := 0
			var x row.Row
			for c.Page(page); c.NextPartition(); {
				for c.NextRow(&x) && next <= stop {
					got = append(got, text(c.Reader.Key, &x))
					if next++; next > stop {
						c.Consumed()
					}
				}
				if next > stop {
					break
				}
			}
			if next > stop {
				continued := &Cursor{Command: c.Command, Keys: c.Keys, Tokens: c.Tokens}
				if !continued.Seek(clone(c.At)) {
					t.Fatalf("seed %d: cannot continue at %+v", seed, c.At)
				}
				c = continued
				continue
			}
			if err := c.EndPage(); err != nil {
				t.Fatalf("seed %d: %v", seed, err)
			}
			if c.Reader.End() != nil {
				filtered++
			}
			if c.Reader.End() == nil {
				clear(page) // the cursor does not refer to it any more
			}
		}
		for i := range commands {
			if !bytes.Equal(row.AppendReadCommand(nil, &commands[i]), encoded[i]) {
				t.Fatalf("seed %d: a command has changed after it was sent: %+v", seed, commands[i])
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: %+v of %v in %v\n got %q\nwant %q", seed, c.Command, c.Keys, c.Tokens, got, want)
		}
	}
	if pages < 10_000 || filtered < 500 {
		t.Errorf("only %d pages, %d ended at a position", pages, filtered)
	}
}

func clone(p Position) Position {
	p.Key.Bytes, p.Clustering = bytes.Clone(p.Key.Bytes), bytes.Clone(p.Clustering)
	return p
}

// TestEndedPartitionsAreNotReadOn checks that EndPartition omits the rest of a partition, but not the other partitions.
func TestEndedPartitionsAreNotReadOn(t *testing.T) {
	for seed := range uint64(500) {
		r := rand.New(rand.NewPCG(seed, 2))
		table, keys := model.Random(r)
		c := randomCursor(r, keys)
		c.Command.Limits.PerPartition = 1
		var want, got []string
		for _, x := range answer(table, c) {
			if key, _, _ := strings.Cut(x, "/"); !slices.Contains(want, key) {
				want = append(want, key)
			}
		}
		table.PageRows, table.FilterRows = 1+r.IntN(3), r.IntN(3)
		var cmd row.ReadCommand
		var x row.Row
		for c.Next(&cmd) {
			for c.Page(table.Read(&cmd)); c.NextPartition(); {
				if c.NextRow(&x) {
					key, _, _ := strings.Cut(text(c.Reader.Key, &x), "/")
					got = append(got, key)
					c.EndPartition()
				}
			}
			if err := c.EndPage(); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(got, want) {
			t.Fatalf("seed %d: partitions %q, want %q", seed, got, want)
		}
	}
}

// TestBadPagesAreErrors checks that a page without progress ends a scan with an error instead of repeating it, and that
// a malformed page can be requested again.
func TestBadPagesAreErrors(t *testing.T) {
	table, keys := model.Random(rand.New(rand.NewPCG(3, 3)))
	for _, c := range []*Cursor{{Tokens: ring.FullRange()}, {Keys: keys}} {
		c.Command = row.ReadCommand{Slices: []row.Slice{row.AllRows()}, Now: model.RandomNow}
		var first, again row.ReadCommand
		c.Next(&first)
		w := row.NewPageWriter(nil)
		if err := c.Skip(w.Finish(true)); !errors.Is(err, errPage) {
			t.Error(err)
		}
		page := table.Read(&first)
		if err := c.Skip(page[:len(page)-1]); !errors.Is(err, wire.ErrShort) {
			t.Error(err)
		}
		if !c.Next(&again) || !bytes.Equal(row.AppendReadCommand(nil, &first), row.AppendReadCommand(nil, &again)) {
			t.Errorf("%+v after %+v", again, first)
		}
	}
}

// TestAPositionOutsideTheKeysIsRefused checks Seek.
func TestAPositionOutsideTheKeysIsRefused(t *testing.T) {
	a, b := row.NewPartitionKey([]byte("a")), row.NewPartitionKey([]byte("b"))
	c := &Cursor{Keys: []row.PartitionKey{a}}
	if c.Seek(Position{Key: b}) || !c.Seek(Position{Key: a, Done: true}) || c.More() {
		t.Error("Seek accepts a key that is not read, or repeats one")
	}
}

// TestAResetCursorIsNew checks that a Cursor reads after Reset as a new one does.
func TestAResetCursorIsNew(t *testing.T) {
	used := &Cursor{}
	for seed := range uint64(300) {
		r := rand.New(rand.NewPCG(seed, 4))
		table, keys := model.Random(r)
		fresh := randomCursor(r, keys)
		used.Reset()
		used.Command, used.Keys, used.Tokens = fresh.Command, fresh.Keys, fresh.Tokens
		table.PageRows = 1 + r.IntN(3)
		for range 1 + r.IntN(5) {
			var a, b row.ReadCommand
			more := fresh.Next(&a)
			if used.Next(&b) != more || !bytes.Equal(row.AppendReadCommand(nil, &a), row.AppendReadCommand(nil, &b)) {
				t.Fatalf("seed %d: %+v after Reset, want %+v", seed, b, a)
			}
			if !more {
				break
			}
			page := table.Read(&a)
			if err := errors.Join(fresh.Skip(page), used.Skip(page)); err != nil {
				t.Fatal(err)
			}
		}
	}
}
