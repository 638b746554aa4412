package fragments

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// newShape returns the shape of a table (p int, value int, d int DESC, s int STATIC, v int, e set<int>).
func newShape(t *testing.T) *Shape {
	t.Helper()
	integer := types.Native(types.Int)
	s := schema.Empty()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "p", Kind: schema.PartitionKey, Type: integer},
				{Name: "value", Kind: schema.Clustering, Type: integer},
				{Name: "d", Kind: schema.Clustering, Type: integer, Desc: true},
				{Name: "s", Kind: schema.Static, Type: integer},
				{Name: "v", Kind: schema.Regular, Type: integer},
			}},
	} {
		next, err := schema.Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return NewShape(s.Table("k", "t"))
}

func wireInt(n int) []byte { return []byte{0, 0, 0, byte(n)} }

// stored is the partition of the tests: a deletion, a static cell, a range tombstone for value = 2, and six rows.
func stored(s *Shape) *row.Partition {
	ordered := func(n int, desc bool) []byte { return types.Native(types.Int).AppendOrdered(nil, wireInt(n), desc) }
	x := &row.Partition{Key: row.NewPartitionKey(wireInt(7)), Header: *row.NewRow()}
	x.Header.Deletion = row.Deletion{Timestamp: 1, LocalTime: 60}
	x.Header.Cells = []row.Cell{{Column: s.Base.Column("s").ID, Timestamp: 5, Value: wireInt(9)}}
	two := row.SliceOf(ordered(2, false))
	x.RangeTombstones = []row.RangeTombstone{{Start: two.Start, End: two.End,
		Deletion: row.Deletion{Timestamp: 2, LocalTime: 60}}}
	for value := 1; value <= 3; value++ {
		for _, d := range []int{2, 1} {
			r := row.NewRow()
			r.Clustering = append(ordered(value, false), ordered(d, true)...)
			r.Liveness = row.Liveness{Timestamp: 6}
			r.Cells = []row.Cell{{Column: s.Base.Column("v").ID, Timestamp: 6, TTL: 30, LocalTime: 90,
				Value: wireInt(value * 10)}}
			x.Rows = append(x.Rows, *r)
		}
	}
	return x
}

// reader returns a Read of x, which counts the rows that it returned.
func reader(x *row.Partition, rows *int) Read {
	return func(cmd *row.ReadCommand) ([]byte, error) {
		w := row.NewPageWriter(nil)
		w.Partition(x.Key, &x.Header, x.RangeTombstones)
		for i := range x.Rows {
			if slices.ContainsFunc(cmd.Slices, func(s row.Slice) bool { return s.Contains(x.Rows[i].Clustering) }) {
				*rows++
				w.Row(&x.Rows[i])
			}
		}
		w.EndPartition()
		return w.Finish(false), nil
	}
}

// shown are the fragments of a page: the clustering and the text of each.
type shown struct {
	clustering []byte
	text       string
}

func read(t *testing.T, s *Shape, cmd *row.ReadCommand, from Read) (all []shown) {
	t.Helper()
	page, err := s.Page(cmd, from)
	if err != nil {
		t.Fatal(err)
	}
	var r row.PageReader
	r.Reset(page)
	for r.NextPartition() {
		var x row.Row
		for r.NextRow(&x) {
			text := ""
			for _, c := range x.Cells {
				text += fmt.Sprintf("%s=%s ", s.Table.ColumnByID(c.Column).Name, c.Value)
			}
			all = append(all, shown{bytes.Clone(x.Clustering), text})
		}
	}
	if r.Err() != nil {
		t.Fatal(r.Err())
	}
	return all
}

// TestShape checks the columns: a key column keeps its name, and the column of the fragments yields.
func TestShape(t *testing.T) {
	s := newShape(t)
	var names []string
	for _, c := range s.Table.Columns() {
		names = append(names, fmt.Sprint(c.Name, " ", c.Type))
	}
	slices.Sort(names)
	want := []string{"_value text", "d int", "metadata text", "mutation_fragment_kind text", "mutation_source text",
		"p int",
		"partition_region tinyint", "position_weight tinyint", "value int"}
	if !slices.Equal(names, want) || !s.Table.Virtual || s.Table.Name != "t"+Suffix {
		t.Errorf("%s has the columns %q, want %q", s.Table.Name, names, want)
	}
}

// TestFragmentsOfPartition checks kinds, order, metadata and values.
func TestFragmentsOfPartition(t *testing.T) {
	s, rows := newShape(t), 0
	x := stored(s)
	all := read(t, s, &row.ReadCommand{Key: x.Key, Slices: []row.Slice{row.AllRows()}}, reader(x, &rows))
	if !slices.IsSortedFunc(all, func(a, b shown) int { return bytes.Compare(a.clustering, b.clustering) }) {
		t.Error("the fragments are not in the order of the table")
	}
	rowText := func(value int) string {
		return fmt.Sprintf(`metadata={"marker":{"timestamp":6},"columns":{"v":{"is_live":true,"type":"regular","timestamp":6,"ttl":"30s",`+
			`"expiry":"1970-01-01 00:01:30z"}}} mutation_fragment_kind=clustering row _value={"v":"%d"} `, value)
	}
	const deletion = `,"deletion_time":"1970-01-01 00:01:00z"}} `
	want := []string{
		`metadata={"tombstone":{"timestamp":1` + deletion + "mutation_fragment_kind=partition start ",
		`metadata={"s":{"is_live":true,"type":"regular","timestamp":5}} mutation_fragment_kind=static row _value={"s":"9"} `,
		rowText(10), rowText(10),
		`metadata={"tombstone":{"timestamp":2` + deletion + "mutation_fragment_kind=range tombstone change ",
		rowText(20), rowText(20),
		`metadata={"tombstone":{}} mutation_fragment_kind=range tombstone change `,
		rowText(30), rowText(30),
		"mutation_fragment_kind=partition end ",
	}
	for i := range max(len(all), len(want)) {
		if i >= len(all) || i >= len(want) || all[i].text != want[i] {
			t.Fatalf("fragment %d of %d differs from fragment %d of %d:\n%v\nwant\n%v", i, len(all), i, len(want),
				all[min(i, len(all)-1)].text,
				want[min(i, len(want)-1)])
		}
	}
}

// TestSlicesOfFragments checks that a read of each slice returns exactly the fragments in it, without reading the rows
// before it.
func TestSlicesOfFragments(t *testing.T) {
	s, rows := newShape(t), 0
	x := stored(s)
	all := read(t, s, &row.ReadCommand{Key: x.Key, Slices: []row.Slice{row.AllRows()}}, reader(x, &rows))
	for from := range all {
		for to := from; to <= len(all); to++ {
			one := row.Slice{Start: all[from].clustering}
			if to < len(all) {
				one.End = all[to].clustering
			}
			rows = 0
			got := read(t, s, &row.ReadCommand{Key: x.Key, Slices: []row.Slice{one}}, reader(x, &rows))
			if !slices.EqualFunc(got, all[from:to], func(a, b shown) bool {
				return a.text == b.text &&
					bytes.Equal(a.clustering, b.clustering)
			}) {
				t.Errorf("fragments %d to %d are %v", from, to, got)
			}
			if from == 8 && rows > 2 { // the first row with value = 3
				t.Errorf("%d rows are read for the last two", rows)
			}
		}
	}
}

// TestRefusedReads checks the reads without an answer.
func TestRefusedReads(t *testing.T) {
	s := newShape(t)
	failure := errors.New("the disk has failed")
	failing := func(*row.ReadCommand) ([]byte, error) { return nil, failure }
	whole := []row.Slice{row.AllRows()}
	if _, err := s.Page(&row.ReadCommand{Slices: whole, Reversed: true}, failing); !errors.Is(err, ErrReversed) {
		t.Errorf("a reversed read: %v", err)
	}
	if _, err := s.Page(&row.ReadCommand{Slices: whole}, failing); !errors.Is(err, failure) {
		t.Errorf("a failed read: %v", err)
	}
	if all := read(t, s, &row.ReadCommand{}, failing); len(all) > 0 {
		t.Errorf("a read of nothing returns %v", all)
	}
}
