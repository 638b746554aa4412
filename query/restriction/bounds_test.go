package restriction_test

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"testing"

	"cqld/cql"
	"cqld/internal/wire"
	"cqld/query/execution"
	"cqld/query/function"
	"cqld/query/restriction"
	"cqld/query/rowview"
	"cqld/query/term"
	"cqld/query/testschema"
	"cqld/row"
	"cqld/schema"
)

// meter is the environment of an evaluation that sums the memory that it reserves.
type meter struct {
	execution.Environment
	reserved, calls int
}

func (m *meter) Grow(n int) error {
	m.reserved += n
	m.calls++
	return nil
}

// compileWhere compiles the WHERE of a SELECT or DELETE.
func compileWhere(t *testing.T, s *schema.Schema, text string) (*restriction.Set, *schema.Table) {
	t.Helper()
	stmt, err := cql.Parse(text)
	if err != nil {
		t.Fatal(err)
	}
	var table *schema.Table
	var where []cql.Relation
	o := restriction.Options{Statement: restriction.Delete}
	switch stmt := stmt.(type) {
	case *cql.Select:
		table, where = s.Table("ks", stmt.Table.Name), stmt.Where
		o = restriction.Options{Statement: restriction.Select, AllowFiltering: stmt.AllowFiltering}
	case *cql.Delete:
		table, where = s.Table("ks", stmt.Table.Name), stmt.Where
	}
	rs, err := restriction.Compile(&term.Compiler{Schema: s, Functions: function.New(), Keyspace: "ks", Table: table},
		where, o)
	if err != nil {
		t.Fatalf("%s: %v", text, err)
	}
	return rs, table
}

// intList returns the values from start to start+n as a list in wire form.
func intList(start, n int) []byte {
	b := binary.BigEndian.AppendUint32(nil, uint32(n))
	for i := range n {
		b = wire.AppendBytes(b, binary.BigEndian.AppendUint32(nil, uint32(start+i)))
	}
	return b
}

// allocated returns the bytes that f allocates.
func allocated(f func()) int {
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	f()
	runtime.ReadMemStats(&after)
	return int(after.TotalAlloc - before.TotalAlloc)
}

// rangeTable has clustering columns c, d0, d1, …. Their directions alternate, so that no two slices of a range adjoin.
func rangeTable(n int) (definition, columns, values string) {
	var names, defs, ones, order []string
	for i := range n {
		order = append(order, fmt.Sprintf("d%d %s", i, []string{"ASC", "DESC"}[i%2]))
		names = append(names, fmt.Sprintf("d%d", i))
		defs = append(defs, fmt.Sprintf("d%d int", i))
		ones = append(ones, "1")
	}
	columns = strings.Join(names, ", ")
	return "CREATE TABLE r (k int, c int, " + strings.Join(defs, ", ") + ", PRIMARY KEY (k, c, " + columns +
		")) WITH CLUSTERING ORDER BY (c ASC, " + strings.Join(order, ", ") + ")", columns, strings.Join(ones, ", ")
}

// TestSlicesOfRangesAreBoundedBeforeTheyAreBuilt: IN on a column before a range on several columns results in slices
// for each value and column. Their product is limited before they are built, and their memory is reserved.
func TestSlicesOfRangesAreBoundedBeforeTheyAreBuilt(t *testing.T) {
	definition, columns, values := rangeTable(20)
	s := testschema.New(t, definition)
	rs, _ := compileWhere(t, s, "SELECT * FROM r WHERE k = 1 AND c IN ? AND ("+columns+") > ("+values+")")
	for _, test := range []struct {
		n       int
		refused bool
	}{{1000, false}, {6553, false}, {6554, true}, {50_000, true}} {
		m := &meter{}
		sc := &term.Scope{Env: m, Values: []wire.Value{wire.BytesValue(intList(0, test.n))}}
		var in []row.Slice
		var err error
		used := allocated(func() { in, err = rs.Slices(sc) })
		if test.refused {
			if err == nil || !strings.Contains(err.Error(), "in_select_cartesian_product") {
				t.Errorf("%d values: %d slices, %v", test.n, len(in), err)
			}
			if used > 64<<20 {
				t.Errorf("%d values are refused after %d bytes are allocated", test.n, used)
			}
			continue
		}
		if err != nil || len(in) != 20*test.n || !slices.IsSortedFunc(in, func(a, b row.Slice) int {
			return bytes.Compare(a.End, b.Start)
		}) {
			t.Errorf("%d values: %d slices, %v", test.n, len(in), err)
		}
		if m.reserved < used*3/4 {
			t.Errorf("%d values: %d bytes are allocated, %d are reserved", test.n, used, m.reserved)
		}
	}
}

// refusal is an environment without memory.
type refusal struct{ execution.Environment }

func (*refusal) Grow(n int) error { return fmt.Errorf("%d bytes are refused", n) }

// TestRangesOfLongValuesAreReserved: a range on several columns has a slice for each of them, with the values of all
// columns before. Their memory is reserved before they are built.
func TestRangesOfLongValuesAreReserved(t *testing.T) {
	const columns, size = 40, 16 << 10
	var names, defs, markers []string
	sc := &term.Scope{}
	for i := range columns {
		names, markers = append(names, fmt.Sprintf("c%d", i)), append(markers, "?")
		defs = append(defs, fmt.Sprintf("c%d text", i))
		sc.Values = append(sc.Values, wire.BytesValue(bytes.Repeat([]byte("x"), size)))
	}
	key := strings.Join(names, ", ")
	s := testschema.New(t, "CREATE TABLE t (k int, "+strings.Join(defs, ", ")+", PRIMARY KEY (k, "+key+"))")
	rs, _ := compileWhere(t, s, "SELECT * FROM t WHERE k = 1 AND ("+key+") > ("+strings.Join(markers, ", ")+")")
	sc.Env = &refusal{}
	used := allocated(func() {
		if _, err := rs.Slices(sc); err == nil {
			t.Error("a range is built without memory")
		}
	})
	if used > columns*size {
		t.Errorf("%d bytes are allocated before the refusal", used)
	}
	m := &meter{}
	sc.Env = m
	used = allocated(func() {
		if in, err := rs.Slices(sc); err != nil || len(in) != 1 { // adjacent ones are merged
			t.Errorf("%d slices, %v", len(in), err)
		}
	})
	if m.reserved < used/2 {
		t.Errorf("%d bytes are allocated, %d are reserved", used, m.reserved)
	}
}

// TestRangesOnOneColumnReserveTheirSlicesOnly: the bounds of one column are as large as the values.
func TestRangesOnOneColumnReserveTheirSlicesOnly(t *testing.T) {
	const size = 1 << 20
	s := testschema.New(t, "CREATE TABLE t (k int, c text, PRIMARY KEY (k, c))")
	rs, _ := compileWhere(t, s, "SELECT * FROM t WHERE k = 1 AND c > ? AND c < ?")
	m := &meter{}
	sc := &term.Scope{Env: m, Values: []wire.Value{wire.BytesValue(bytes.Repeat([]byte("x"), size)),
		wire.BytesValue(bytes.Repeat([]byte("y"), size))}}
	in, err := rs.Slices(sc)
	if err != nil || len(in) != 1 {
		t.Errorf("%d slices, %v", len(in), err)
	}
	if m.reserved < 2*size || m.reserved > 3*size {
		t.Errorf("%d bytes are reserved for values of %d", m.reserved, 2*size)
	}
}

// TestExclusionsOfADeletionCostTheirSum: many NOT IN on one column cost their sum, and are evaluated once, not for each
// value of a column before.
func TestExclusionsOfADeletionCostTheirSum(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE t (k int, c int, d int, PRIMARY KEY (k, c, d))")
	cost := func(lists int) int {
		var where strings.Builder
		for i := range lists {
			fmt.Fprintf(&where, " AND c != %d", i)
		}
		rs, _ := compileWhere(t, s, "DELETE FROM t WHERE k = 1"+where.String())
		return allocated(func() {
			in, err := rs.Slices(&term.Scope{Env: &meter{}})
			if err != nil || len(in) != lists+1 {
				t.Fatalf("%d lists: %d slices, %v", lists, len(in), err)
			}
		})
	}
	if few, many := cost(120), cost(960); many > 16*few {
		t.Errorf("8 times as many lists allocate %d bytes, not %d", many, few)
	}
	rs, _ := compileWhere(t, s, "DELETE FROM t WHERE k = 1 AND c IN ? AND d NOT IN ?")
	m := &meter{}
	in, err := rs.Slices(&term.Scope{Env: m, Values: []wire.Value{wire.BytesValue(intList(0, 100)),
		wire.BytesValue(intList(0, 1000))}})
	if err != nil || len(in) != 100*1001 || m.calls > 10 {
		t.Errorf("%d slices, %d reservations, %v", len(in), m.calls, err)
	}
}

// TestListsAreCountedBeforeTheyAreExpanded: a list that is too long to select keys is refused without a slice for each
// of its values, and a list that filters reserves the memory of its slices.
func TestListsAreCountedBeforeTheyAreExpanded(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE t (k int, c int, d int, v int, PRIMARY KEY (k, c, d))")
	// Elements without bytes are the shortest that a list can have.
	const n = 1 << 20
	list := append(binary.BigEndian.AppendUint32(nil, n), make([]byte, 4*n)...)
	for text, evaluate := range map[string]func(*restriction.Set, *term.Scope) error{
		"SELECT * FROM t WHERE k IN ?": func(rs *restriction.Set, sc *term.Scope) error {
			_, err := rs.PartitionKeys(sc)
			return err
		},
		"SELECT * FROM t WHERE k = 1 AND c IN ?": func(rs *restriction.Set, sc *term.Scope) error {
			_, err := rs.Slices(sc)
			return err
		},
	} {
		rs, _ := compileWhere(t, s, text)
		var err error
		used := allocated(func() {
			err = evaluate(rs, &term.Scope{Env: &meter{}, Values: []wire.Value{wire.BytesValue(list)}})
		})
		if err == nil || !strings.Contains(err.Error(), fmt.Sprintf("produces %d values", n)) || used > 1<<20 {
			t.Errorf("%s: %v after %d bytes", text, err, used)
		}
	}
	rs, _ := compileWhere(t, s, "SELECT * FROM t WHERE v IN ? ALLOW FILTERING")
	m := &meter{}
	used := allocated(func() {
		if _, err := rs.Filters(&term.Scope{Env: m, Values: []wire.Value{wire.BytesValue(list)}}, nil); err != nil {
			t.Fatal(err)
		}
	})
	if m.reserved < used/2 {
		t.Errorf("a filter allocates %d bytes and reserves %d", used, m.reserved)
	}
}

// TestLongListsFilterLikeShortOnes compares lists of any length with a search value by value, for types whose order is
// not the order of their bytes, and for several columns. A row is filtered without allocations.
func TestLongListsFilterLikeShortOnes(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE t (k int, c int, d varint, v varint, PRIMARY KEY (k, c, d)) WITH CLUSTERING "+
		"ORDER BY (c DESC, d ASC)")
	r := rand.New(rand.NewPCG(1, 2))
	for _, n := range []int{1, 8, 9, 10, 100} {
		values := func() []int {
			out := make([]int, n)
			for i := range out {
				out[i] = r.IntN(4*n) - 2*n
			}
			return out
		}
		a, b := values(), values()
		var singles, pairs []string
		for i := range a {
			singles = append(singles, fmt.Sprint(a[i]))
			pairs = append(pairs, fmt.Sprintf("(%d, %d)", a[i], b[i]))
		}
		for text, matches := range map[string]func(c, d, v int) bool{
			"v IN (" + strings.Join(singles, ", ") + ")": func(_, _, v int) bool { return slices.Contains(a, v) },
			"v NOT IN (" + strings.Join(singles, ", ") + ")": func(_, _, v int) bool {
				return !slices.Contains(a, v)
			},
			"(c, d) NOT IN (" + strings.Join(pairs, ", ") + ")": func(c, d, _ int) bool {
				return !containsPair(a, b, c, d)
			},
			"d IN (" + strings.Join(singles, ", ") + ") AND v=0": func(_, d, v int) bool {
				return v == 0 && slices.Contains(a, d)
			},
		} {
			rs, table := compileWhere(t, s, "SELECT * FROM t WHERE "+text+" ALLOW FILTERING")
			filters, err := rs.Filters(&term.Scope{Env: &meter{}}, nil)
			if err != nil {
				t.Fatal(err)
			}
			for range 20 * n {
				i := r.IntN(n)
				c, d, v := a[i], b[i]+r.IntN(2), a[r.IntN(n)]*r.IntN(2)
				view := viewOf(table, c, d, v)
				if got := restriction.Matches(filters, view); got != matches(c, d, v) {
					t.Fatalf("%s on c = %d, d = %d, v = %d: %t", text, c, d, v, got)
				}
			}
			view := viewOf(table, a[0], b[0], 0)
			if n := testing.AllocsPerRun(100, func() { restriction.Matches(filters, view) }); n > 0 {
				t.Errorf("%s: %v allocations for a row", text, n)
			}
		}
	}
}

func containsPair(a, b []int, c, d int) bool {
	for i := range a {
		if a[i] == c && b[i] == d {
			return true
		}
	}
	return false
}

// viewOf returns a row of the table t.
func viewOf(t *schema.Table, c, d, v int) *rowview.View {
	varint := func(n int) []byte { // minimal, for small numbers
		if n >= -128 && n < 128 {
			return []byte{byte(n)}
		}
		return binary.BigEndian.AppendUint16(nil, uint16(n))
	}
	var clustering []byte
	for i, b := range [][]byte{binary.BigEndian.AppendUint32(nil, uint32(c)), varint(d)} {
		clustering = t.Clustering[i].Type.AppendOrdered(clustering, b, t.Clustering[i].Desc)
	}
	view := &rowview.View{}
	view.Reset(t, 0)
	view.Partition(row.NewPartitionKey([]byte{0, 0, 0, 1}))
	view.Row.Cells = []row.Cell{{Column: t.Column("v").ID, Timestamp: 1, Value: bytes.Clone(varint(v))}}
	view.Next(view.Marked(), clustering)
	view.Mark(&view.Row)
	return view
}

// TestNotInOfADeleteIsBoundedByItsValues: the values of NOT IN are counted, not the slices between them.
func TestNotInOfADeleteIsBoundedByItsValues(t *testing.T) {
	s := testschema.New(t, "CREATE TABLE r (k int, c int, d int, PRIMARY KEY (k, c, d))")
	for _, test := range []struct {
		where   string
		n       int
		refused bool
	}{
		{"k = 1 AND c NOT IN ?", 1 << 17, false},
		{"k = 1 AND c NOT IN ?", 1<<17 + 1, true},
		{"k = 1 AND c > -1 AND c NOT IN ?", 1 << 17, false},
		{"k = 1 AND c IN (1, 2) AND d NOT IN ?", 1<<16 - 1, false},
		{"k = 1 AND c IN (1, 2) AND d NOT IN ?", 1 << 16, true},
	} {
		rs, _ := compileWhere(t, s, "DELETE FROM r WHERE "+test.where)
		sc := &term.Scope{Env: &meter{}, Values: []wire.Value{wire.BytesValue(intList(0, test.n))}}
		in, err := rs.Slices(sc)
		if err == nil {
			err = restriction.CheckProduct(1, len(in))
		}
		refused := err != nil && strings.Contains(err.Error(), "in_select_cartesian_product")
		if refused != test.refused || err != nil && !refused {
			t.Errorf("%s with %d values: %d slices, %v", test.where, test.n, len(in), err)
		}
	}
	if err := restriction.CheckProduct(2, 1<<16+1); err == nil {
		t.Error("2 keys with 65,537 slices are accepted")
	}
}
