package paxos

import (
	"bytes"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/testclock"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/tableinfo"
)

// TestSharedRoundPagesMatchSequentialRounds compares, for random content, commands and changes of a partition, the
// pages that a round's members receive with the pages of storage when each change is applied before the next read.
func TestSharedRoundPagesMatchSequentialRounds(t *testing.T) {
	disjoint, skipped := 0, 0
	for seed := range uint64(400) {
		r := rand.New(rand.NewPCG(seed, 1))
		engine, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: &testclock.Clock{},
			Inline: true, Sync: storage.SyncNone})
		if err != nil {
			t.Fatal(err)
		}
		apply := func(m *row.Mutation) {
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			check(engine.Apply([]*row.Mutation{m}, false, check))
		}
		read := func(c *row.ReadCommand) []byte {
			page, err := engine.Read(nil, c)
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		few := r.IntN(2) == 0
		for range r.IntN(4) {
			apply(randomChange(r, 1+r.Int64N(50), few))
		}
		var commands []*row.ReadCommand
		for range 1 + r.IntN(6) {
			commands = append(commands, randomCommand(r))
		}
		cmd, apart := Join(commands)
		if !slices.IsSortedFunc(cmd.Slices, func(a, b row.Slice) int { return bytes.Compare(a.Start, b.Start) }) {
			t.Fatalf("seed %d: slices %v", seed, cmd.Slices)
		}
		if apart && len(commands) > 1 {
			disjoint++
		}
		j, more := NewJoined(cmd, apart, read(cmd))
		if more {
			t.Fatal("more")
		}
		for i, c := range commands {
			page, err := j.PageOf(c)
			if err != nil {
				t.Fatal(err)
			}
			if want := read(c); !bytes.Equal(page, want) {
				t.Fatalf("seed %d, member %d of %d, %v of %v:\n%s\nnot\n%s", seed, i, len(commands), c.Slices,
					cmd.Slices, shown(page), shown(want))
			}
			change := randomChange(r, 100+int64(2*i), few)
			if apart && onlyRowsOf(c, change) {
				skipped++
			}
			if err := j.Apply(c, change); err != nil {
				t.Fatal(err)
			}
			apply(change)
		}
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if disjoint < 20 || skipped < 20 {
		t.Errorf("%d rounds with disjoint reads, %d skipped changes: the optimization is not tested", disjoint, skipped)
	}
}

// TestSharedRoundKeepsTheTimesOfItsMembers compares, for commands with different times on a table whose dead data is
// purged at once, the live cells that a round's members see with the live cells of reads of their own. A client sets
// the time of a request (now_in_seconds), so that the times of two members may be a century apart.
func TestSharedRoundKeepsTheTimesOfItsMembers(t *testing.T) {
	expired := 0
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 2))
		engine, err := storage.Open(storage.Options{Dir: "data", FS: vfs.NewMem(), Clock: &testclock.Clock{},
			Inline: true, Sync: storage.SyncNone, Table: func(schema.StorageID) tableinfo.Info {
				return tableinfo.Info{Exists: true, GC: tableinfo.GCImmediate}
			}})
		if err != nil {
			t.Fatal(err)
		}
		read := func(c *row.ReadCommand) []byte {
			page, err := engine.Read(nil, c)
			if err != nil {
				t.Fatal(err)
			}
			return page
		}
		var commands []*row.ReadCommand
		for range 2 + r.IntN(3) {
			c := randomCommand(r)
			c.Now = 1_000_000 + 100*r.Int64N(3)
			commands = append(commands, c)
		}
		apply := func(m *row.Mutation) {
			check := func(err error) {
				if err != nil {
					t.Fatal(err)
				}
			}
			check(engine.Apply([]*row.Mutation{m}, false, check))
		}
		for range 4 {
			apply(expiringChange(r, 1+r.Int64N(50)))
		}
		cmd, apart := Join(commands)
		j, _ := NewJoined(cmd, apart, read(cmd))
		for i, c := range commands {
			page, err := j.PageOf(c)
			if err != nil {
				t.Fatal(err)
			}
			got, want := liveCells(page, c.Now), liveCells(read(c), c.Now)
			if got != want {
				t.Fatalf("seed %d, member %d of %d at %d, read at %d: %s\nnot %s", seed, i, len(commands), c.Now,
					cmd.Now, got, want)
			}
			if want != liveCells(read(c), 2_000_000) {
				expired++
			}
			change := expiringChange(r, 100+int64(2*i))
			if err := j.Apply(c, change); err != nil {
				t.Fatal(err)
			}
			apply(change)
		}
		if err := engine.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if expired < 20 {
		t.Errorf("%d members see cells that expire", expired)
	}
}

// expiringChange is a randomChange in which some cells and markers expire around the times of the commands.
func expiringChange(r *rand.Rand, timestamp int64) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(1000, row.NewPartitionKey([]byte("k")))
	x := row.NewRow()
	x.Clustering = randomClustering(r)
	if r.IntN(3) > 0 {
		x.Liveness = row.Liveness{Timestamp: timestamp, TTL: 10, LocalTime: 1_000_000 + r.Int64N(250)}
	}
	for column := range schema.ColumnID(3) {
		c := row.Cell{Column: 2 + column, Timestamp: timestamp, Value: []byte(fmt.Sprint(column, timestamp))}
		switch r.IntN(4) {
		case 0:
			c.Tombstone, c.Value, c.LocalTime = true, nil, 999_999
		case 1:
		default:
			c.TTL, c.LocalTime = 10, 1_000_000+r.Int64N(250)
		}
		x.Cells = append(x.Cells, c)
	}
	x.Sort()
	m.AddRow(x)
	return m
}

// liveCells formats the live cells of a page at a time.
func liveCells(page []byte, now int64) string {
	var b bytes.Buffer
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		var x row.Row
		for p.NextRow(&x) {
			if !x.Live(now) {
				continue
			}
			fmt.Fprintf(&b, " %s %v", x.Clustering, x.Liveness.Live(now))
			for i := range x.Cells {
				if c := &x.Cells[i]; c.Live(now) {
					fmt.Fprintf(&b, " %d=%s", c.Column, c.Value)
				}
			}
		}
	}
	return b.String()
}

func randomClustering(r *rand.Rand) []byte { return []byte{byte('a' + r.IntN(8))} }

// randomCommand reads a few rows or intervals.
func randomCommand(r *rand.Rand) *row.ReadCommand {
	c := &row.ReadCommand{Table: 1000, Key: row.NewPartitionKey([]byte("k")), Now: 1_000_000,
		StaticCounts: r.IntN(2) == 0}
	if r.IntN(8) == 0 {
		c.Slices = []row.Slice{row.AllRows()}
		return c
	}
	next := byte('a')
	for range 1 + r.IntN(3) {
		start := next + byte(r.IntN(4))
		if r.IntN(4) == 0 {
			end := start + 1 + byte(r.IntN(3))
			c.Slices = append(c.Slices, row.Slice{Start: []byte{start}, End: []byte{end}})
			next = end
			continue
		}
		c.Slices = append(c.Slices, row.ExactRow([]byte{start}))
		next = start + 1
	}
	return c
}

// randomChange changes rows, sometimes static columns, or deletes some of them.
func randomChange(r *rand.Rand, timestamp int64, rowsOnly bool) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(1000, row.NewPartitionKey([]byte("k")))
	for range 1 + r.IntN(2) {
		x := row.NewRow()
		what := r.IntN(10)
		if rowsOnly {
			what = min(what, 6)
		}
		switch {
		case what == 9:
			start := byte('a' + r.IntN(6))
			m.AddRangeTombstone(row.RangeTombstone{Start: []byte{start}, End: []byte{start + byte(1+r.IntN(3))},
				Deletion: row.Deletion{Timestamp: timestamp, LocalTime: 999_999}})
			continue
		case what == 8:
			x.Cells = append(x.Cells, row.Cell{Column: 1, Timestamp: timestamp,
				Value: []byte(fmt.Sprint("s", timestamp))})
			m.AddHeader(x)
			continue
		case what == 7:
			x.Deletion = row.Deletion{Timestamp: timestamp, LocalTime: 999_999}
			if r.IntN(3) == 0 {
				m.AddHeader(x)
				continue
			}
		default:
			x.Liveness.Timestamp = timestamp
			for range r.IntN(3) {
				column := schema.ColumnID(2 + r.IntN(3))
				x.Cells = append(x.Cells, row.Cell{Column: column, Timestamp: timestamp,
					Value: []byte(fmt.Sprint(column, timestamp))})
			}
			x.Sort()
		}
		x.Clustering = randomClustering(r)
		m.AddRow(x)
	}
	return m
}

func shown(page []byte) string {
	var b bytes.Buffer
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		fmt.Fprintf(&b, "%+v %+v", p.Header, p.RangeTombstones)
		var x row.Row
		for p.NextRow(&x) {
			fmt.Fprintf(&b, " %s %+v;", x.Clustering, x)
		}
	}
	return b.String()
}
