package execution

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// generated is a Source of fixed partitions.
type generated struct {
	partitions []*row.Partition
	err        error
}

func (g *generated) Serves(*schema.Table) bool { return true }

func (g *generated) Partitions(_ *schema.Table, _ *row.ReadCommand, yield func(*row.Partition) bool) (bool, error) {
	for _, x := range g.partitions {
		if !yield(x) {
			break
		}
	}
	return false, g.err
}

// threeRows returns a Source of partitions with the keys, each with three rows of two cells.
func threeRows(keys ...string) *generated {
	g := &generated{}
	for _, k := range keys {
		x := &row.Partition{Key: row.NewPartitionKey([]byte(k)), Header: *row.NewRow()}
		for c := byte(1); c <= 3; c++ {
			r := row.NewRow()
			r.Clustering = []byte{c}
			r.Cells = []row.Cell{{Column: 1, Value: []byte("a")}, {Column: 2, Value: []byte("secret")}}
			x.Rows = append(x.Rows, *r)
		}
		g.partitions = append(g.partitions, x)
	}
	return g
}

// text returns the rows of a page: key, clustering and columns.
func text(t *testing.T, g *generated, table *schema.Table, cmd *row.ReadCommand, hidden *schema.Column) string {
	t.Helper()
	page, err := VirtualPage(g, table, cmd, hidden)
	if err != nil {
		t.Fatal(err)
	}
	var b bytes.Buffer
	var r row.PageReader
	r.Reset(page)
	for r.NextPartition() {
		fmt.Fprintf(&b, "%s:", r.Key.Bytes)
		var x row.Row
		for r.NextRow(&x) {
			fmt.Fprintf(&b, "%d/%d ", x.Clustering[0], len(x.Cells))
		}
	}
	if r.Err() != nil || r.More() {
		t.Fatalf("the page ends with %v, more %t", r.Err(), r.More())
	}
	return b.String()
}

// TestVirtualPage checks which rows a command returns, and in which order. Partitions of system_views are in the order
// of their keys, others in the order of their tokens.
func TestVirtualPage(t *testing.T) {
	all := []row.Slice{row.AllRows()}
	whole := row.KeyRange{Tokens: ring.Range{}}
	views, local := &schema.Table{Keyspace: "system_views"}, &schema.Table{Keyspace: "system"}
	g := threeRows("b", "a", "c")
	tokens := slices.Clone(g.partitions)
	slices.SortFunc(tokens, func(a, b *row.Partition) int { return a.Key.Compare(b.Key) })
	byToken := ""
	for _, x := range tokens {
		byToken += string(x.Key.Bytes) + ":1/2 2/2 3/2 "
	}
	after := row.NewPartitionKey([]byte("a"))
	for _, c := range []struct {
		name   string
		table  *schema.Table
		cmd    row.ReadCommand
		hidden *schema.Column
		want   string
	}{
		{"all", views, row.ReadCommand{Range: whole, Slices: all}, nil, "a:1/2 2/2 3/2 b:1/2 2/2 3/2 c:1/2 2/2 3/2 "},
		{"all by token", local, row.ReadCommand{Range: whole, Slices: all}, nil, byToken},
		{"after a", views, row.ReadCommand{Range: row.KeyRange{After: &after}, Slices: all}, nil,
			"b:1/2 2/2 3/2 c:1/2 2/2 3/2 "},
		{"one partition", views, row.ReadCommand{Key: row.NewPartitionKey([]byte("b")), Slices: all}, nil,
			"b:1/2 2/2 3/2 "},
		{"no partition", views, row.ReadCommand{Key: row.NewPartitionKey([]byte("x")), Slices: all}, nil, ""},
		{"reversed", views, row.ReadCommand{Key: after, Slices: all, Reversed: true}, nil, "a:3/2 2/2 1/2 "},
		{"a slice", views, row.ReadCommand{Key: after, Slices: []row.Slice{{Start: []byte{2}, End: []byte{3}}}}, nil,
			"a:2/2 "},
		{"a hidden column", views, row.ReadCommand{Key: after, Slices: all}, &schema.Column{ID: 2}, "a:1/1 2/1 3/1 "},
	} {
		if got := text(t, g, c.table, &c.cmd, c.hidden); got != c.want {
			t.Errorf("%s: %s, want %s", c.name, got, c.want)
		}
	}
	if len(g.partitions[0].Rows[0].Cells) != 2 {
		t.Error("the generated rows are changed")
	}
	g.err = errors.New("no answer")
	if _, err := VirtualPage(g, views, &row.ReadCommand{Range: whole, Slices: all}, nil); !errors.Is(err, g.err) {
		t.Errorf("a failed source: %v", err)
	}
}
