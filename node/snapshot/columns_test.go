package snapshot

import (
	"reflect"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// table returns a table k.t with the changes applied, and the columns of its stored rows.
func table(t *testing.T, columns []schema.ColumnSpec, changes ...schema.Change) []Column {
	t.Helper()
	s := schema.Initial()
	for _, c := range append([]schema.Change{
		&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1},
			DurableWrites: true},
		&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: columns},
	}, changes...) {
		next, err := schema.Apply(s, c)
		if err != nil {
			t.Fatal(err)
		}
		s = next
	}
	return ColumnsOf(s.Table("k", "t"))
}

// spec returns a column of a native type.
func spec(name string, kind schema.ColumnKind, of types.Kind) schema.ColumnSpec {
	return schema.ColumnSpec{Name: name, Kind: kind, Type: types.Native(of)}
}

// TestColumnsAreMapped creates a table whose columns have other numbers, because one was dropped before the snapshot,
// and maps a row with cells of all columns.
func TestColumnsAreMapped(t *testing.T) {
	key := spec("a", schema.PartitionKey, types.Int)
	from := table(t, []schema.ColumnSpec{key, spec("x", schema.Regular, types.Int),
		spec("y", schema.Regular, types.Text), spec("z", schema.Regular, types.Int)},
		&schema.AlterTable{Keyspace: "k", Table: "t", Drop: []string{"x"}, DropMicros: 100})
	to := table(t, []schema.ColumnSpec{spec("b", schema.PartitionKey, types.Int), spec("z", schema.Regular, types.Int),
		spec("new", schema.Regular, types.Int), spec("y", schema.Regular, types.Text)})
	m, err := MapColumns(from, to)
	if err != nil {
		t.Fatal(err)
	}
	id := func(columns []Column, name string) schema.ColumnID {
		at := slices.IndexFunc(columns, func(c Column) bool { return c.Name == name })
		if at < 0 {
			t.Fatalf("%+v has no column %s", columns, name)
		}
		return columns[at].ID
	}
	y, z := id(from, "y"), id(from, "z")
	var dropped schema.ColumnID
	for _, c := range from {
		dropped = max(dropped, c.ID)
	}
	dropped++ // no column has it
	r := row.NewRow()
	r.Cells = []row.Cell{{Column: y, Timestamp: 5, Value: []byte("y")}, {Column: z, Timestamp: 6, Value: []byte("z")},
		{Column: dropped, Timestamp: 7, Value: []byte("x")}}
	r.Sort()
	m.Apply(r)
	want := row.NewRow()
	want.Cells = []row.Cell{{Column: id(to, "y"), Timestamp: 5, Value: []byte("y")},
		{Column: id(to, "z"), Timestamp: 6, Value: []byte("z")}}
	want.Sort()
	if !reflect.DeepEqual(r.Cells, want.Cells) {
		t.Errorf("cells %+v, want %+v", r.Cells, want.Cells)
	}
	// A row becomes empty if all of its cells are of dropped columns.
	r = row.NewRow()
	r.Cells = []row.Cell{{Column: dropped, Timestamp: 7, Value: []byte("x")}}
	if m.Apply(r); !r.Empty() {
		t.Errorf("%+v is not empty", r)
	}
}

// TestCellsOfEarlierColumnsAreLeftOut maps cells and deletions of a column that was dropped and added again.
func TestCellsOfEarlierColumnsAreLeftOut(t *testing.T) {
	columns := []Column{{Name: "a", ID: 0, Kind: "partition_key", Type: "int"},
		{Name: "v", ID: 3, Kind: "regular", Position: -1, Type: "set<int>", MultiCell: true, Dropped: 50}}
	to := slices.Clone(columns)
	to[1].ID, to[1].Dropped = 9, 0
	m, err := MapColumns(columns, to)
	if err != nil {
		t.Fatal(err)
	}
	if m.Identical() {
		t.Error("a map to another number is called identical")
	}
	// Only the time of the drop is left.
	to[1].ID = columns[1].ID
	if same, err := MapColumns(columns, to); err != nil || same.Identical() {
		t.Errorf("a map that leaves cells out is called identical, or %v", err)
	}
	if same, err := MapColumns(to, to); err != nil || !same.Identical() {
		t.Errorf("a map of a table to itself is not identical, or %v", err)
	}
	r := row.NewRow()
	for _, at := range []int64{49, 50, 51} {
		r.Cells = append(r.Cells, row.Cell{Column: 3, Path: []byte{byte(at)}, Timestamp: at})
	}
	r.Complex = []row.ComplexDeletion{{Column: 3, Deletion: row.Deletion{Timestamp: 50}}}
	m.Apply(r)
	if len(r.Cells) != 1 || r.Cells[0].Timestamp != 51 || r.Cells[0].Column != 9 || len(r.Complex) != 0 {
		t.Errorf("%+v", r)
	}
}

// TestColumnsThatDoNotFitAreRefused maps columns with another type, order, kind or name.
func TestColumnsThatDoNotFitAreRefused(t *testing.T) {
	from := []Column{{Name: "a", ID: 0, Kind: "partition_key", Type: "int"},
		{Name: "c", ID: 1, Kind: "clustering", Type: "int"},
		{Name: "v", ID: 2, Kind: "regular", Position: -1, Type: "set<int>", MultiCell: true}}
	for want, change := range map[string]func(to []Column) []Column{
		"": func(to []Column) []Column { to[0].Name = "renamed"; return to },
		"the primary key of the snapshot has 2 columns, the primary key of the table 1": func(to []Column) []Column {
			return slices.Delete(to, 1, 2)
		},
		"the column partition_key a int of the snapshot does not fit": func(to []Column) []Column {
			to[0].Type = "bigint"
			return to
		},
		"does not fit the column clustering c int DESC": func(to []Column) []Column {
			to[1].Descending = true
			return to
		},
		"the column regular v set<int> of the snapshot does not fit": func(to []Column) []Column {
			to[2].MultiCell = false
			return to
		},
		"does not fit the column static v":         func(to []Column) []Column { to[2].Kind = "static"; return to },
		"the table lacks the column regular v set": func(to []Column) []Column { to[2].Name = "w"; return to },
	} {
		_, err := MapColumns(from, change(slices.Clone(from)))
		if want == "" && err != nil || want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}
