package write

import (
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"testing"

	"cqld/internal/uuid"
	"cqld/internal/wire"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/query/testschema"
	"cqld/row"
)

// intValue returns an int in wire form.
func intValue(n int) []byte { return binary.BigEndian.AppendUint32(nil, uint32(n)) }

// intTerm returns a constant of an int, or of a list of several.
func intTerm(values ...int) term.Term {
	if len(values) == 1 {
		return term.Constant(intValue(values[0]))
	}
	b := intValue(len(values))
	for _, v := range values {
		b = wire.AppendBytes(b, intValue(v))
	}
	return term.Constant(b)
}

// listChange is a statement on a row with a list of n ints, from 0 to n-1.
type listChange struct {
	target
	other target // an empty list
	x     operationContext
	r     row.Row
}

func newListChange(t *testing.T, n int) *listChange {
	s := testschema.New(t, "CREATE TABLE t (k int PRIMARY KEY, l list<int>, m list<int>)")
	table := s.Table("ks", "t")
	c := &listChange{target: target{table.Column("l")}, other: target{table.Column("m")}}
	ids := uuid.New(rand.NewPCG(1, 2))
	const timestamp = 1_700_000_000_000_000 // µs since 1970: prepended elements need a time after 2010
	older, newer := ids.At(timestamp), ids.At(timestamp+1000)
	c.x = operationContext{Positions: &newer, Timestamp: timestamp + 1000}
	v := &rowview.View{}
	v.Reset(table, 0)
	v.Partition(row.NewPartitionKey([]byte{0, 0, 0, 1}))
	for i := range n {
		v.Row.Cells = append(v.Row.Cells, row.Cell{Column: c.col.ID, Path: older.Append(), Timestamp: timestamp,
			Value: intValue(i)})
	}
	v.Next(v.Marked(), []byte{})
	v.Mark(&v.Row)
	c.x.Found = v
	c.r.Reset()
	return c
}

// ints returns the elements that the next operation finds.
func (c *listChange) ints() (out []int) {
	for _, b := range c.x.existing(c.col, &c.r).blocks {
		for _, e := range b {
			out = append(out, int(int32(binary.BigEndian.Uint32(e.value))))
		}
	}
	return out
}

// TestOperationsOnListsFindEarlierOnes compares random operations of one statement on a list with the same operations
// on a slice.
func TestOperationsOnListsFindEarlierOnes(t *testing.T) {
	for seed := range uint64(10) {
		r := rand.New(rand.NewPCG(seed, 1))
		n := r.IntN(3000)
		c := newListChange(t, n)
		replace := seed%2 == 0 // the list by an assignment, before other operations
		reading := readingTarget{c.target}
		var want []int
		for i := range n {
			want = append(want, i)
		}
		if replace {
			c.ints() // found before they are deleted
			if err := (&setParts{c.target, intTerm(1, 2, 3)}).Apply(&c.x, &c.r); err != nil {
				t.Fatal(err)
			}
			want = []int{1, 2, 3}
		}
		for range 2000 {
			v, i := r.IntN(5000), r.IntN(len(want)+1)
			var o operation
			switch kind := r.IntN(10); {
			case kind == 0:
				o, want = &prependElements{c.target, intTerm(v, v+1, v+2)}, append([]int{v, v + 1, v + 2}, want...)
			case kind == 1:
				o, want = &addElements{c.target, intTerm(v, v+1)}, append(want, v, v+1)
			case kind == 2:
				o = &removeElements{reading, intTerm(v, v+1, v+2)}
				want = slices.DeleteFunc(want, func(x int) bool { return x >= v && x <= v+2 })
			case kind == 3 && r.IntN(300) == 0:
				// As in Cassandra, elements of the same statement survive, so only the first one replaces the list.
				if len(c.r.Complex) == 0 && len(c.r.Cells) == 0 {
					o, want = &setParts{c.target, intTerm(v, v+1)}, []int{v, v + 1}
				}
			case i == len(want):
			case kind < 7:
				o = &setIndex{reading, intTerm(i), intTerm(v)}
				want[i] = v
			default:
				o, want = &deleteIndex{reading, intTerm(i)}, slices.Delete(want, i, i+1)
			}
			if o == nil {
				continue
			}
			if err := o.Apply(&c.x, &c.r); err != nil {
				t.Fatalf("seed %d: %T of index %d of %d: %v", seed, o, i, len(want), err)
			}
		}
		if got := c.ints(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: %d elements, want %d: %v, %v", seed, len(got), len(want), got, want)
		}
		// The list read from the row, without the state kept between the operations, is the same.
		c.x.elements = nil
		if got := c.ints(); !slices.Equal(got, want) {
			t.Fatalf("seed %d: built again: %v, want %v", seed, got, want)
		}
	}
}

// TestOperationsOnListsDoNotCopyThem: many assignments by index to two lists in turn, after elements were prepended,
// allocate in proportion to their number and not to its product with the length of the lists.
func TestOperationsOnListsDoNotCopyThem(t *testing.T) {
	cost := func(n int) int {
		c := newListChange(t, n)
		reading := readingTarget{c.target}
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for _, list := range []target{c.target, c.other} {
			if err := (&prependElements{list, intTerm(make([]int, n)...)}).Apply(&c.x, &c.r); err != nil {
				t.Fatal(err)
			}
		}
		for i := range n {
			operations := []operation{&setIndex{reading, intTerm(i), intTerm(i)}, &deleteIndex{reading, intTerm(n)},
				&setIndex{readingTarget{c.other}, intTerm(i), intTerm(i)}}
			for _, o := range operations {
				if err := o.Apply(&c.x, &c.r); err != nil {
					t.Fatal(err)
				}
			}
		}
		runtime.ReadMemStats(&after)
		return int(after.TotalAlloc - before.TotalAlloc)
	}
	if few, many := cost(200), cost(1600); many > 16*few {
		t.Errorf("8 times as many operations allocate %d bytes, not %d", many, few)
	}
}

// TestConditionsOfManyRowsAreFound compares the rows of conditions with a map, below and above the number from which
// they are indexed.
func TestConditionsOfManyRowsAreFound(t *testing.T) {
	for _, n := range []int{1, rowsSearched, rowsSearched + 1, 1000} {
		x := &cas{}
		for i := range 3 * n {
			x.at([]byte(fmt.Sprint(i % n))).columns = append(x.at([]byte(fmt.Sprint(i%n))).columns, boundCondition{})
		}
		if len(x.rows) != n || (x.index != nil) != (n > rowsSearched) {
			t.Errorf("%d rows, want %d", len(x.rows), n)
		}
		for i, r := range x.rows {
			if string(r.clustering) != fmt.Sprint(i) || len(r.columns) != 3 {
				t.Errorf("row %d of %d: %s with %d conditions", i, n, r.clustering, len(r.columns))
			}
		}
	}
}
