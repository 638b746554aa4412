package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// replaceable returns a schema with a table t, which has an index and a materialized view v, and with a restored table,
// which has both under other names. The change replaces the first by the second.
func replaceable(t *testing.T) (*Schema, *ReplaceTables) {
	t.Helper()
	pair := func(s *Schema, table, view, index string, id byte) *Schema {
		s = mustApply(t, s, createTable("k", table, id),
			&CreateIndex{Keyspace: "k", Table: table, Name: index, Class: LegacyIndex, Column: "v",
				Target: IndexSimple})
		base := s.Table("k", table)
		return mustApply(t, s, &CreateView{Keyspace: "k", View: view, ID: UUID{id, 1}, Base: table, BaseID: base.ID,
			Columns: []ColumnID{base.Column("v").ID}, Partition: []ColumnID{base.Column("c").ID},
			Clustering: []ViewClustering{{Column: base.Column("k").ID}}, Options: DefaultOptions(),
			Where: []ViewCondition{{Columns: []ColumnID{base.Column("c").ID}, Operator: ViewNotNull,
				Text: "IS NOT NULL"}}})
	}
	s := pair(mustApply(t, Initial(), createKeyspace("k")), "t", "v", "i", 1)
	s = pair(s, "r_t", "r_v", "r_i", 2)
	return s, &ReplaceTables{Retention: &Retention{Dropped: 100, Until: 160}, Tables: []Replacement{
		{Keyspace: "k", From: "r_t", Table: "t", ID: UUID{2}, Replaced: UUID{1}, Indexes: map[string]string{"r_i": "i"},
			Extensions: map[string][]byte{"x": {1}}},
		{Keyspace: "k", From: "r_v", Table: "v", ID: UUID{2, 1}}}}
}

// TestTablesAreReplaced replaces a table with its index and view in one step. The restored table has all names, and the
// replaced one is dropped, as by DROP TABLE: UNDROP TABLE restores it under another name, with its index and without
// its view.
func TestTablesAreReplaced(t *testing.T) {
	before, c := replaceable(t)
	was, restored := before.Table("k", "t"), before.Table("k", "r_t")
	after := applyEncoded(t, before, c)
	now, view := after.Table("k", "t"), after.Table("k", "v")
	if now == nil || now.StorageID != restored.StorageID || now.ID != (UUID{2}) || len(now.Options.Extensions) != 1 ||
		now.Index("i") == nil || now.Index("i").ID != restored.Index("r_i").ID || len(now.Indexes()) != 1 {
		t.Fatalf("%+v", now)
	}
	if view == nil || view.ID != (UUID{2, 1}) || after.BaseOf(view) != now || len(now.Views()) != 1 {
		t.Fatalf("%+v of %+v", view, now)
	}
	if after.Table("k", "r_t") != nil || after.Table("k", "r_v") != nil || before.Table("k", "r_t") != restored {
		t.Error("the table has both names, or an earlier schema was changed")
	}
	var events []string
	for _, e := range Diff(before, after) {
		events = append(events, e.Change+" "+e.Name)
	}
	want := []string{"DROPPED r_t", "DROPPED r_v", "DROPPED t", "DROPPED v", "CREATED t", "CREATED v"}
	if !slices.Equal(events, want) {
		t.Errorf("events %q", events)
	}
	if again := mustApply(t, after, c); again != after {
		t.Error("a table was replaced twice")
	}
	compareDropped(t, before, after)
	compareRebuilt(t, after)
	undone := applyEncoded(t, after, &UndropTable{Keyspace: "k", Table: was.StorageID, As: "old"})
	old := undone.Table("k", "old")
	if old.ID != was.ID || old.Index("i_1") == nil || old.Index("i_1").ID != was.Index("i").ID ||
		len(old.Views()) != 0 {
		t.Errorf("%+v", old)
	}
	compareRebuilt(t, undone)

	// Without a grace, and without a table that has the name.
	c.Retention = nil
	gone := applyEncoded(t, before, c)
	if !gone.Dropped(was.StorageID) || !gone.Dropped(was.Index("i").ID) || len(gone.Retained()) != 0 {
		t.Error("the replaced table was not dropped")
	}
	compareDropped(t, before, gone)
	dropped := mustApply(t, before, &DropView{Keyspace: "k", View: "v"}, &DropTable{Keyspace: "k", Table: "t"})
	if named := applyEncoded(t, dropped, c); named.Table("k", "t") == nil || named.Table("k", "t").ID != (UUID{2}) {
		t.Error("a name without a table was not used")
	}
	if late, err := Apply(mustApply(t, after, &DropView{Keyspace: "k", View: "v"},
		&DropTable{Keyspace: "k", Table: "t"}), c); err == nil {
		t.Errorf("a late repetition was applied: %+v", late.Table("k", "t"))
	}
}

// TestReplacementsAreRefused changes the schema after a replacement was planned. Nothing is replaced then.
func TestReplacementsAreRefused(t *testing.T) {
	type changed func(c *ReplaceTables) []Change
	dropped := []Change{&DropView{Keyspace: "k", View: "v"}, &DropTable{Keyspace: "k", Table: "t"}}
	for want, change := range map[string]changed{
		"the restored table 'r_t' was dropped": func(*ReplaceTables) []Change {
			return []Change{&DropView{Keyspace: "k", View: "r_v"}, &DropTable{Keyspace: "k", Table: "r_t"}}
		},
		"the restored table 'r_v' was dropped": func(*ReplaceTables) []Change {
			return []Change{&DropView{Keyspace: "k", View: "r_v"}}
		},
		"it was created while the table was restored": func(*ReplaceTables) []Change {
			return append(dropped, createTable("k", "t", 9))
		},
		"it is a materialized view": func(c *ReplaceTables) []Change { c.Tables[0].Table = "v"; return nil },
		"its materialized view 'v' is not restored with it": func(c *ReplaceTables) []Change {
			c.Tables = c.Tables[:1]
			return nil
		},
		"without its base table": func(c *ReplaceTables) []Change { c.Tables = c.Tables[1:]; return nil },
		"another table or view has the name": func(*ReplaceTables) []Change {
			return append(dropped, createTable("k", "v", 9))
		},
		"Cannot replace table 'system_auth.t'": func(c *ReplaceTables) []Change {
			c.Tables[0].Keyspace = "system_auth"
			return nil
		},
	} {
		s, c := replaceable(t)
		s = mustApply(t, s, change(c)...)
		if next, err := Apply(s, c); err == nil || !strings.Contains(err.Error(), want) || next != nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestReplacedTablesAreBounded replaces more tables in one step than a schema retains.
func TestReplacedTablesAreBounded(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"))
	c := &ReplaceTables{Retention: &Retention{Dropped: 1, Until: 2}}
	for i := range retainedMax + 1 {
		name := fmt.Sprintf("t%03d", i)
		for j, create := range []*CreateTable{createTable("k", name, 1), createTable("k", "r_"+name, 2)} {
			create.ID = UUID{byte(j + 1), byte(i >> 8), byte(i)}
			s = mustApply(t, s, create)
		}
		c.Tables = append(c.Tables, Replacement{Keyspace: "k", From: "r_" + name, Table: name,
			ID: UUID{2, byte(i >> 8), byte(i)}, Replaced: UUID{1, byte(i >> 8), byte(i)}})
	}
	first := s.Table("k", "t000").StorageID
	now := applyEncoded(t, s, c)
	if len(now.Retained()) != retainedMax || !now.Dropped(first) || now.Keyspace("k").TableCount() != retainedMax+1 {
		t.Errorf("%d tables are retained, of %d", len(now.Retained()), now.Keyspace("k").TableCount())
	}
	compareRebuilt(t, now)
}
