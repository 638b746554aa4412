package schema

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/types"
)

// viewed returns a schema with the table ks.t (p, c, v, w, s static) and the views all (SELECT *) and some (v, p, c) of
// it, both with the key (v, p, c).
func viewed(t *testing.T) *Schema {
	t.Helper()
	integer := types.Native(types.Int)
	s := applyEncoded(t, Initial(), &CreateKeyspace{Keyspace: "ks",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}})
	s = applyEncoded(t, s, &CreateTable{Keyspace: "ks", Table: "t", ID: UUID{1}, Options: DefaultOptions(),
		Columns: []ColumnSpec{
			{Name: "p", Kind: PartitionKey, Type: integer}, {Name: "c", Kind: Clustering, Type: integer},
			{Name: "v", Kind: Regular, Type: integer}, {Name: "w", Kind: Regular, Type: integer},
			{Name: "s", Kind: Static, Type: integer}}})
	s = applyEncoded(t, s, viewOf(s, "all", true))
	return applyEncoded(t, s, viewOf(s, "some", false))
}

func viewOf(s *Schema, name string, all bool) *CreateView {
	base := s.Table("ks", "t")
	id := func(name string) ColumnID { return base.Column(name).ID }
	c := &CreateView{Keyspace: "ks", View: name, ID: UUID{2, name[0]}, Base: "t", BaseID: base.ID, All: all,
		Options:   DefaultOptions(),
		Partition: []ColumnID{id("v")}, Clustering: []ViewClustering{{Column: id("p"), Desc: true}, {Column: id("c")}},
		Where: []ViewCondition{{Columns: []ColumnID{id("v")}, Operator: ViewNotNull, Text: "IS NOT NULL"},
			{Columns: []ColumnID{id("p")}, Operator: ViewGreater, Values: [][]byte{{0, 0, 0, 1}}, Text: "> 1"},
			{Columns: []ColumnID{id("c")}, Operator: ViewNotNull, Text: "IS NOT NULL"}}}
	if !all {
		c.Columns = []ColumnID{id("v"), id("p"), id("c")}
	}
	return c
}

func applyEncoded(t *testing.T, s *Schema, c Change) *Schema {
	t.Helper()
	decoded, err := DecodeChange(EncodeChange(c))
	if err != nil {
		t.Fatal(err)
	}
	next, err := Apply(s, decoded)
	if err != nil {
		t.Fatal(err)
	}
	again, err := Decode(Encode(next))
	if err != nil {
		t.Fatal(err)
	}
	if again.Version() != next.Version() {
		t.Fatalf("the decoded schema has another version after %T", c)
	}
	return next
}

func viewColumns(t *Table) string {
	var all []string
	for _, c := range t.Columns() {
		all = append(all, c.Name+" "+c.Kind.String())
	}
	return strings.Join(all, ", ")
}

// TestViewsFollowTheirBase checks that changes of the base table update the columns of its views.
func TestViewsFollowTheirBase(t *testing.T) {
	s := viewed(t)
	integer := types.Native(types.Int)
	s = applyEncoded(t, s, &AlterTable{Keyspace: "ks", Table: "t",
		Add: []ColumnSpec{{Name: "x", Kind: Regular, Type: integer}, {Name: "s2", Kind: Static, Type: integer}}})
	before := s
	s = applyEncoded(t, s, &AlterTable{Keyspace: "ks", Table: "t", Rename: []Rename{{From: "p", To: "Pp"}}})
	base := s.Table("ks", "t")
	if got := viewColumns(s.Table("ks", "all")); got != "v partition_key, Pp clustering, c clustering, w regular, x "+
		"regular" {
		t.Errorf("the view of all columns has %s", got)
	}
	if got := viewColumns(s.Table("ks", "some")); got != "v partition_key, Pp clustering, c clustering" {
		t.Errorf("the view of some columns has %s", got)
	}
	for _, name := range []string{"all", "some"} {
		v := s.Table("ks", name)
		if got := v.WhereText(base); got != `v IS NOT NULL AND "Pp" > 1 AND c IS NOT NULL` {
			t.Errorf("the conditions of %s are %s", name, got)
		}
		if !v.Column("Pp").Desc || v.Column("Pp").ID != base.Column("Pp").ID || s.BaseOf(v) != base ||
			v.ViewColumn(base).Name != "v" {
			t.Errorf("the view %s does not refer to its base table", name)
		}
	}
	if got := base.Views(); len(got) != 2 || got[0].Name != "all" {
		t.Errorf("the table has the views %v", got)
	}
	if slices.Contains(s.Keyspace("ks").TableNames(), "all") ||
		slices.Contains(s.StorageIDs(), s.Table("ks", "all").StorageID) {
		t.Error("a view is listed as a stored table")
	}
	if got := Diff(before, s); len(got) != 3 {
		t.Errorf("the rename gives the events %v", got)
	}
}

// TestViewsRefuse checks the changes that views prevent, and the changes that they do not allow.
func TestViewsRefuse(t *testing.T) {
	s := viewed(t)
	noGrace := DefaultOptions()
	noGrace.GCGraceSeconds = 0
	ttl := DefaultOptions()
	ttl.DefaultTTL = 1
	for _, test := range []struct {
		change Change
		want   string
	}{
		{&DropTable{Keyspace: "ks", Table: "t"}, "Cannot drop a table when materialized views still depend on it (ks)"},
		{&DropTable{Keyspace: "ks", Table: "all", IfExists: true},
			"Cannot use DROP TABLE on a materialized view. Please use DROP MATERIALIZED VIEW instead."},
		{&AlterTable{Keyspace: "ks", Table: "t", Drop: []string{"s"}},
			"Cannot drop column s on base table t with materialized views"},
		{&AlterTable{Keyspace: "ks", Table: "all", Drop: []string{"w"}},
			"Cannot use ALTER TABLE on a materialized view; use ALTER MATERIALIZED VIEW instead"},
		{&AlterTable{Keyspace: "ks", Table: "t", Set: []string{"gc_grace_seconds"}, Options: noGrace},
			"Cannot alter gc_grace_seconds of the base table"},
		{&AlterView{Keyspace: "ks", View: "all", Set: []string{"gc_grace_seconds"}, Options: noGrace},
			"Cannot alter gc_grace_seconds of a materialized view"},
		{&AlterView{Keyspace: "ks", View: "all", Set: []string{"default_time_to_live"}, Options: ttl},
			"Forbidden default_time_to_live"},
		{&AlterView{Keyspace: "ks", View: "t"}, "Materialized view 'ks.t' doesn't exist"},
		{&DropView{Keyspace: "ks", View: "t"}, "Materialized view 'ks.t' doesn't exist"},
		{viewOf(s, "all", true), "Table 'ks.all' already exists"},
		{viewOf(s, "t", true), "Cannot create materialized view 't' - a table with the same name already exists"},
		{&CreateTable{Keyspace: "ks", Table: "all"}, "Table 'ks.all' already exists"},
	} {
		if _, err := Apply(s, test.change); err == nil || !strings.HasPrefix(err.Error(), test.want) {
			t.Errorf("%#v: %v, want %s", test.change, err, test.want)
		}
	}
	for _, change := range []Change{&DropView{Keyspace: "ks", View: "none", IfExists: true},
		&AlterView{Keyspace: "ks", View: "none", IfExists: true}} {
		if next, err := Apply(s, change); err != nil || next != s {
			t.Errorf("%#v: %v", change, err)
		}
	}
	s = applyEncoded(t, applyEncoded(t, s, &DropView{Keyspace: "ks", View: "all"}),
		&DropView{Keyspace: "ks", View: "some"})
	applyEncoded(t, s, &DropTable{Keyspace: "ks", Table: "t"})
}

// TestDecodeChecksViews checks that a view without its base table is not decoded.
func TestDecodeChecksViews(t *testing.T) {
	b := string(Encode(viewed(t)))
	for _, damage := range [][2]string{{`"Base":"t"`, `"Base":"u"`}, {`"Base":"t"`, `"Base":"all"`}} {
		damaged := strings.Replace(b, damage[0], damage[1], 1)
		if damaged == b {
			t.Fatalf("the encoding has no %s", damage[0])
		}
		if _, err := Decode([]byte(damaged)); !errors.Is(err, ErrFormat) {
			t.Errorf("%s: %v", damage[1], err)
		}
	}
}
