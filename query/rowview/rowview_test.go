package rowview_test

import (
	"bytes"
	"testing"

	"cqld/query/rowview"
	"cqld/query/testschema"
	"cqld/row"
)

// TestSizeOfAUserTypeIsMeasured checks that Size of a user-defined type is the size of its value, and does not build
// it: memory for the value is reserved between the two.
func TestSizeOfAUserTypeIsMeasured(t *testing.T) {
	const size = 1 << 20
	table := testschema.New(t, "CREATE TYPE ty (a text, b text, c text)", "CREATE TABLE t (k int PRIMARY KEY, u ty)").
		Table("ks", "t")
	u := table.Column("u")
	v := &rowview.View{}
	v.Reset(table, 0)
	v.Partition(row.NewPartitionKey([]byte{0, 0, 0, 1}))
	for i := range 2 {
		v.Row.Cells = append(v.Row.Cells, row.Cell{Column: u.ID, Timestamp: 1, Path: rowview.FieldPath(i),
			Value: bytes.Repeat([]byte("x"), size)})
	}
	v.Next(v.Marked(), nil)
	v.Mark(&v.Row)
	if got, want := v.Size(u), len(v.Append(nil, u)); got != want {
		t.Errorf("Size returns %d for %d bytes", got, want)
	}
	result := testing.Benchmark(func(b *testing.B) {
		for range b.N {
			v.Size(u)
		}
	})
	if n := result.AllocedBytesPerOp(); n > 1024 {
		t.Errorf("Size allocates %d bytes", n)
	}
}
