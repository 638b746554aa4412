package schema

import (
	"slices"
	"testing"

	"cqld/types"
)

func compactSpecs(clustered bool, others ...string) []ColumnSpec {
	specs := []ColumnSpec{{Name: "k", Kind: PartitionKey, Type: types.Native(types.Int)}}
	if clustered {
		specs = append(specs, ColumnSpec{Name: "c", Kind: Clustering, Type: types.Native(types.Int)})
	}
	for _, name := range others {
		specs = append(specs, ColumnSpec{Name: name, Kind: Regular, Type: types.Native(types.Int)})
	}
	return specs
}

func names(columns []*Column) (list []string) {
	for _, c := range columns {
		list = append(list, c.Name)
	}
	return list
}

// TestCompactTablesHideColumns checks what each form hides, that encoding keeps the form, and what DROP COMPACT STORAGE
// reveals.
func TestCompactTablesHideColumns(t *testing.T) {
	for _, c := range []struct {
		specs    []ColumnSpec
		form     Compact
		visible  []string
		revealed []string
	}{
		{compactSpecs(true, "v"), CompactDense, []string{"k", "c", "v"}, []string{"k", "c", "v"}},
		{compactSpecs(true), CompactDense, []string{"k", "c"}, []string{"k", "c", "value"}},
		{compactSpecs(false, "a", "value"), CompactSparse, []string{"k", "a", "value"},
			[]string{"k", "column1", "a", "value", "value1"}},
	} {
		specs, form, err := CompactColumns(c.specs)
		if err != nil || form != c.form {
			t.Fatalf("%v: form %d, %v", c.specs, form, err)
		}
		s, err := Apply(mustApply(t, Initial(), createKeyspace("ks")),
			&CreateTable{Keyspace: "ks", Table: "t", Columns: specs, Compact: form, Options: DefaultOptions()})
		if err != nil {
			t.Fatal(err)
		}
		if s, err = Decode(Encode(s)); err != nil {
			t.Fatal(err)
		}
		table := s.Table("ks", "t")
		if got := names(table.Columns()); !slices.Equal(got, c.visible) || table.Compact != form {
			t.Errorf("columns %v, want %v; form %d, want %d", got, c.visible, table.Compact, form)
		}
		for _, name := range c.revealed {
			if visible := table.Column(name) != nil; visible != slices.Contains(c.visible, name) {
				t.Errorf("column %s is visible: %v", name, visible)
			}
		}
		change, err := DecodeChange(EncodeChange(&AlterTable{Keyspace: "ks", Table: "t", DropCompact: true}))
		if err != nil {
			t.Fatal(err)
		}
		if s, err = Apply(s, change); err != nil {
			t.Fatal(err)
		}
		if got := names(s.Table("ks", "t").Columns()); !slices.Equal(got, c.revealed) {
			t.Errorf("columns after DROP COMPACT STORAGE %v, want %v", got, c.revealed)
		}
		if _, err := Apply(s, change); err == nil {
			t.Error("DROP COMPACT STORAGE succeeded twice")
		}
	}
}
