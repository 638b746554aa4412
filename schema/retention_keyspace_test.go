package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cqld/types"
)

func dropKeyspace(name string, at, seconds int64) *DropKeyspace {
	return &DropKeyspace{Keyspace: name, Retention: &Retention{Dropped: at, Until: at + seconds}}
}

// full returns a schema whose keyspace k has a type, functions, an aggregate, a table with an index and a mask, a
// materialized view of it, a comment, and a table that was dropped.
func full(t *testing.T) *Schema {
	t.Helper()
	number := types.Native(types.Int)
	udt := types.NewUDT("k", "u", []string{"a"}, []*types.Type{number}, false)
	s := mustApply(t, Initial(), createKeyspace("k"), &CreateType{Type: udt},
		testFunction("step", udt, udt, number), testFunction("hide", number, number, udt),
		&CreateAggregate{Aggregate: &Aggregate{Keyspace: "k", Name: "total", ArgTypes: []*types.Type{number},
			StateFunction: "step", StateType: udt}},
		&AlterKeyspace{Keyspace: "k", Comment: &Comment{Type: "u", Text: "a type"},
			Extend: map[string][]byte{"x": {1}}})
	create := createTable("k", "t", 1)
	create.Columns[3].Type = types.NewList(udt.Freeze(), false)
	create.Columns = append(create.Columns, ColumnSpec{Name: "m", Kind: Regular, Type: number,
		Mask: &Mask{Function: "hide", Keyspace: "k", Args: [][]byte{nil}, Types: []string{udt.DeclaredClass()}}})
	s = mustApply(t, s, create,
		&CreateIndex{Keyspace: "k", Table: "t", Class: LegacyIndex, Column: "v", Target: IndexSimple})
	base := s.Table("k", "t")
	id := func(name string) ColumnID { return base.Column(name).ID }
	other := createTable("k", "gone", 3)
	other.Columns[3].Type = udt
	return mustApply(t, s, &CreateView{Keyspace: "k", View: "by_c", ID: UUID{2}, Base: "t", BaseID: base.ID, All: true,
		Options: DefaultOptions(), Partition: []ColumnID{id("c")}, Clustering: []ViewClustering{{Column: id("k")}},
		Where: []ViewCondition{{Columns: []ColumnID{id("c")}, Operator: ViewNotNull, Text: "IS NOT NULL"},
			{Columns: []ColumnID{id("k")}, Operator: ViewNotNull, Text: "IS NOT NULL"}}},
		other, dropFor("gone", 1, 1000))
}

// TestDroppedKeyspaceIsHidden drops a keyspace: no name leads to it, also not its hidden name, and everything that
// finds tables by number finds its tables.
func TestDroppedKeyspaceIsHidden(t *testing.T) {
	before := full(t)
	table, gone := before.Table("k", "t"), before.Retained()[0]
	s := applyEncoded(t, before, dropKeyspace("k", 100, 60))
	dropped := s.DroppedKeyspaces()
	if len(dropped) != 1 || dropped[0].Dropped.Name != "k" || *dropped[0].Dropped != (DroppedKeyspace{
		Retention{Dropped: 100, Until: 160}, "k", before.nextStorage}) {
		t.Fatalf("dropped: %+v", dropped)
	}
	hidden := dropped[0].Name
	// The hidden name can be quoted in a statement, so that lookups by statements must not find it.
	if s.Keyspace("k") != nil || s.Keyspace(hidden) != nil || s.Table(hidden, "t") != nil ||
		slices.Contains(s.KeyspaceNames(), hidden) || before.Table("k", "t").Retention != nil {
		t.Error("statements find the keyspace, or an earlier schema has changed")
	}
	// The following are the uses of a schema by storage, streams, repairs, and maintainers of indexes and views.
	kept := s.TableByStorage(table.StorageID)
	if kept == nil || kept.Keyspace != hidden || *kept.Retention != (Retention{Dropped: 100, Until: 160}) ||
		s.StoredKeyspace(kept.Keyspace) != dropped[0] || !slices.Contains(s.StoredKeyspaceNames(), hidden) ||
		!slices.Contains(s.StorageIDs(), table.StorageID) || !slices.Contains(s.IndexedIDs(), table.StorageID) ||
		s.Dropped(table.StorageID) || len(kept.Views()) != 1 || s.BaseOf(kept.Views()[0]) != kept {
		t.Errorf("kept: %+v", kept)
	}
	// The table that was dropped before keeps the end of its own grace period.
	if all := s.Retained(); len(all) != 1 || all[0].StorageID != gone.StorageID || all[0].Retention.Until != 1001 ||
		!slices.Contains(dropped[0].StoredTables(), all[0]) {
		t.Errorf("retained %+v", s.Retained())
	}
	// Drivers get one event, as for a keyspace that is removed.
	if events := Diff(before, s); len(events) != 1 || events[0].Change != Dropped || events[0].Keyspace != "k" ||
		events[0].Target != TargetKeyspace {
		t.Errorf("events %+v", events)
	}
	for _, c := range []Change{&DropKeyspace{Keyspace: hidden}, createTable(hidden, "x", 9),
		&AlterKeyspace{Keyspace: hidden}, &UndropTable{Keyspace: hidden, Table: gone.StorageID, As: "x"},
		&UndropKeyspace{Keyspace: hidden, As: hidden}, &UndropKeyspace{Keyspace: hidden, As: "system"},
		&UndropKeyspace{Keyspace: "k", As: "k"}} {
		if _, err := Apply(s, c); err == nil {
			t.Errorf("%#v was applied", c)
		}
	}
	_, err := Apply(mustApply(t, s, createKeyspace("k")), createTable("k", "t", 1))
	if err == nil || !strings.Contains(err.Error(), "UNDROP KEYSPACE") {
		t.Errorf("a table with the id of one of a dropped keyspace: %v", err)
	}
	// Nodes with the schema before the drop, and with the one after it, understand each other.
	if s.KeyspaceCalled("k") != dropped[0] || before.KeyspaceCalled(hidden) != before.Keyspace("k") ||
		s.KeyspaceCalled(hidden) != dropped[0] || s.KeyspaceCalled("x") != nil || s.KeyspaceCalled("x#1") != nil {
		t.Error("a keyspace is not found by the name that another node uses")
	}
	compareRebuilt(t, s)
}

// TestRestoredKeyspaceIsTheDroppedOne compares a keyspace after UNDROP KEYSPACE with the one before DROP KEYSPACE.
func TestRestoredKeyspaceIsTheDroppedOne(t *testing.T) {
	before := full(t)
	dropped := applyEncoded(t, before, dropKeyspace("k", 1, 60))
	after := applyEncoded(t, dropped, &UndropKeyspace{Keyspace: dropped.DroppedKeyspaces()[0].Name, As: "k"})
	was, is := marshal(encodeKeyspace(before.Keyspace("k"))), marshal(encodeKeyspace(after.Keyspace("k")))
	if string(was) != string(is) || len(after.DroppedKeyspaces()) != 0 {
		t.Errorf("%s\nbecame\n%s", was, is)
	}
	// Drivers see a new keyspace, with its contents in the order in which they depend on each other.
	var created []string
	for _, e := range Diff(dropped, after) {
		created = append(created, e.Change+" "+e.Target+" "+e.Keyspace+" "+e.Name)
	}
	want := []string{"CREATED KEYSPACE k ", "CREATED TYPE k u", "CREATED TABLE k by_c", "CREATED TABLE k t",
		"CREATED FUNCTION k hide", "CREATED FUNCTION k step", "CREATED AGGREGATE k total"}
	if !slices.Equal(created, want) {
		t.Errorf("events %q", created)
	}
	compareRebuilt(t, after)
	compareDropped(t, after, mustApply(t, after, &DropKeyspace{Keyspace: "k"}))
}

// TestKeyspaceIsRestoredWithAnotherName creates a keyspace with the name of a dropped one, and restores the dropped one
// beside it: its types, functions and masks have the new name, and it can be changed like any other.
func TestKeyspaceIsRestoredWithAnotherName(t *testing.T) {
	s := applyEncoded(t, full(t), dropKeyspace("k", 1, 60))
	hidden, table := s.DroppedKeyspaces()[0], s.StoredKeyspace(s.DroppedKeyspaces()[0].Name).Table("t")
	s = mustApply(t, s, createKeyspace("k"), createTable("k", "t", 7))
	_, err := Apply(s, &UndropKeyspace{Keyspace: hidden.Name, As: "k"})
	if err == nil || !strings.Contains(err.Error(), "UNDROP KEYSPACE … AS another name") {
		t.Fatalf("a name that is in use: %v", err)
	}
	s = applyEncoded(t, s, &UndropKeyspace{Keyspace: hidden.Name, As: "old"})
	// The names in the encoding are all that other nodes and later processes see.
	if text := string(marshal(encodeKeyspace(s.Keyspace("old")))); strings.Contains(text, "UserType(k,") ||
		!strings.Contains(text, "UserType(old,") || strings.Contains(text, `"Keyspace":"k"`) {
		t.Errorf("the keyspace has its former name: %s", text)
	}
	now := s.Table("old", "t")
	if now.StorageID != table.StorageID || now.ID != table.ID || now.Column("m").Mask.Keyspace != "old" ||
		now.Column("s").Type.Elems()[0].UDTKeyspace() != "old" || table.Column("m").Mask.Keyspace != "k" {
		t.Errorf("restored %+v, of %+v", now, table)
	}
	f := s.Keyspace("old").Functions()[0]
	if f.Keyspace != "old" || s.Keyspace("old").Aggregates()[0].StateType.UDTKeyspace() != "old" {
		t.Errorf("function %+v", f)
	}
	gone := s.Keyspace("old").Retained()[0]
	// Types of other keyspaces would not be updated, and a table that was dropped before gets the current types.
	s = mustApply(t, s, &AlterType{Keyspace: "old", Name: "u", Field: "b", FieldType: types.Native(types.Text)},
		&UndropTable{Keyspace: "old", Table: gone.StorageID, As: "gone"})
	for _, name := range []string{"t", "gone"} {
		typ := s.Table("old", name).Column("s").Type
		if name == "t" {
			typ = typ.Elems()[0]
		}
		if !slices.Equal(typ.FieldNames(), []string{"a", "b"}) {
			t.Errorf("%s has type %s with fields %v", name, typ, typ.FieldNames())
		}
	}
	compareRebuilt(t, s)
}

// TestPurgedKeyspaceIsDropped purges a dropped keyspace, and a dropped table of another one: their ids are never
// reused.
func TestPurgedKeyspaceIsDropped(t *testing.T) {
	s := applyEncoded(t, full(t), dropKeyspace("k", 1, 60))
	hidden, gone := s.DroppedKeyspaces()[0], s.Retained()[0]
	if late := mustApply(t, s, &PurgeKeyspaces{Keyspaces: map[string]int64{hidden.Name: 60}}); late != s {
		t.Error("the purge of another drop removes the keyspace")
	}
	less := applyEncoded(t, s, &PurgeTables{Tables: map[StorageID]int64{gone.StorageID: 1001}})
	if !less.Dropped(gone.StorageID) || len(less.DroppedKeyspaces()) != 1 {
		t.Error("a table that was dropped before its keyspace is not purged")
	}
	compareDropped(t, s, less)
	now := applyEncoded(t, s, &PurgeKeyspaces{Keyspaces: map[string]int64{hidden.Name: 61}})
	if len(now.DroppedKeyspaces()) != 0 || !now.Dropped(gone.StorageID) || !now.Dropped(hidden.Table("t").StorageID) ||
		len(Diff(s, now)) != 0 {
		t.Error("something of the keyspace is left")
	}
	compareDropped(t, s, now)
	compareRebuilt(t, now)
}

// TestDroppedKeyspacesAreBounded drops keyspaces with more elements than a schema retains: those that were dropped
// first are removed. A keyspace that has too many alone is not retained.
func TestDroppedKeyspacesAreBounded(t *testing.T) {
	s, id := Initial(), 0
	fill := func(name string, tables int) {
		s = mustApply(t, s, createKeyspace(name))
		for i := range tables {
			id++
			c := createTable(name, fmt.Sprint("t", i), 0)
			c.ID[1], c.ID[2] = byte(id), byte(id>>8)
			s = mustApply(t, s, c)
		}
	}
	names := func() (all []string) {
		for _, k := range s.DroppedKeyspaces() {
			all = append(all, k.Dropped.Name)
		}
		return all
	}
	// Each keyspace counts as one element, too: a, b and c have 1,024.
	fill("a", 10)
	fill("b", 499)
	fill("c", 512)
	fill("d", 0)
	s = mustApply(t, s, dropKeyspace("a", 1, 60), dropKeyspace("b", 2, 60), dropKeyspace("c", 2, 60))
	if got := names(); !slices.Equal(got, []string{"a", "b", "c"}) {
		t.Fatalf("dropped %v", got)
	}
	if s = mustApply(t, s, dropKeyspace("d", 0, 60)); !slices.Equal(names(), []string{"d", "b", "c"}) {
		t.Errorf("dropped %v", names())
	}
	fill("e", 1024)
	large := s.Table("e", "t0").StorageID
	if Restorable(s.Keyspace("e")) {
		t.Error("the keyspace is said to be restorable")
	}
	if s = mustApply(t, s, dropKeyspace("e", 3, 60)); len(names()) != 3 || !s.Dropped(large) {
		t.Errorf("dropped %v", names())
	}
	compareRebuilt(t, s)
}

// TestDroppedKeyspacesAreChecked decodes schemas whose dropped keyspaces are wrong: without a retention, with the
// number of a table, with one that was not assigned, and in the place of the others.
func TestDroppedKeyspacesAreChecked(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), dropKeyspace("k", 1, 60))
	text := string(Encode(s))
	retention := `,"Retention":{"Dropped":1,"Until":61}`
	for _, x := range [][2]string{{retention, ""},
		{`"Number":1025`, `"Number":1024`}, {`"Number":1025`, `"Number":9999`},
		{`],"Dropped":[`, `,`}, {`{"Name":"k"`, `{"Name":"system_auth"`}} {
		changed := strings.Replace(text, x[0], x[1], 1)
		if changed == text {
			t.Fatalf("%s is not in %s", x[0], text)
		}
		if _, err := Decode([]byte(changed)); err == nil {
			t.Errorf("decoded: %s", changed)
		}
	}
}
