package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cqld/ring"
	"cqld/types"
)

func dropFor(table string, at, seconds int64) *DropTable {
	return &DropTable{Keyspace: "k", Table: table, Retention: &Retention{Dropped: at, Until: at + seconds}}
}

// TestRetainedTableIsRestored drops a table with an index, creates another one of its name, and restores the first one
// under another name: it has its number, id and index, and clients see one table dropped and one created.
func TestRetainedTableIsRestored(t *testing.T) {
	before := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1),
		&CreateIndex{Keyspace: "k", Table: "t", Class: LegacyIndex, Column: "v", Target: IndexSimple})
	table := before.Table("k", "t")
	dropped := applyEncoded(t, before, dropFor("t", 100, 60))
	if dropped.Table("k", "t") != nil || dropped.Dropped(table.StorageID) || dropped.Version() == before.Version() {
		t.Fatal("the table has a name, or its data would be removed, or clients do not see the change")
	}
	kept := dropped.TableByStorage(table.StorageID)
	if kept == nil || *kept.Retention != (Retention{Dropped: 100, Until: 160}) || table.Retention != nil ||
		!slices.Contains(dropped.StorageIDs(), table.StorageID) ||
		!slices.Contains(dropped.IndexedIDs(), table.StorageID) ||
		!slices.Contains(dropped.Keyspace("k").StoredTables(), kept) {
		t.Fatalf("retained: %+v", kept)
	}
	if _, x := dropped.Index("k", "t_v_idx"); x != nil {
		t.Error("the index of a dropped table has a name")
	}
	if events := Diff(before, dropped); len(events) != 1 || events[0].Change != Dropped {
		t.Errorf("events %+v", events)
	}
	_, err := Apply(dropped, createTable("k", "u", 1))
	if err == nil || !strings.Contains(err.Error(), "UNDROP TABLE") {
		t.Errorf("a table with the id of a dropped one: %v", err)
	}
	again := applyEncoded(t, dropped, createTable("k", "t", 2))
	again = applyEncoded(t, again, &CreateIndex{Keyspace: "k", Table: "t", Class: LegacyIndex, Column: "v",
		Target: IndexSimple})
	_, err = Apply(again, &UndropTable{Keyspace: "k", Table: table.StorageID, As: "t"})
	if err == nil || !strings.Contains(err.Error(), "another table or view has the name 't'") {
		t.Fatalf("a name that is in use: %v", err)
	}
	restored := applyEncoded(t, again, &UndropTable{Keyspace: "k", Table: table.StorageID, As: "old"})
	old := restored.Table("k", "old")
	if old == nil || old.ID != table.ID || old.StorageID != table.StorageID || old.Retention != nil ||
		len(restored.Retained()) != 0 {
		t.Fatalf("restored: %+v", old)
	}
	// The new table has the name of its index.
	if old.Index("t_v_idx_1") == nil || old.Index("t_v_idx_1").ID != table.Index("t_v_idx").ID {
		t.Error("the index was not restored")
	}
	if events := Diff(again, restored); len(events) != 1 || events[0].Change != Created || events[0].Name != "old" {
		t.Errorf("events %+v", events)
	}
	if _, err = Apply(restored, &UndropTable{Keyspace: "k", Table: table.StorageID, As: "x"}); err == nil {
		t.Error("a table was restored twice")
	}
	compareRebuilt(t, restored)
}

// TestRestoredTableIsTheDroppedOne compares the schema after UNDROP TABLE with the one before DROP TABLE: without other
// changes in between, both are equal.
func TestRestoredTableIsTheDroppedOne(t *testing.T) {
	before := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), createTable("k", "u", 2))
	after := mustApply(t, before, dropFor("t", 1, 1),
		&UndropTable{Keyspace: "k", Table: before.Table("k", "t").StorageID, As: "t"})
	if after.Version() != before.Version() || string(Encode(after)) != string(Encode(before)) {
		t.Errorf("%s\nbecame\n%s", Encode(before), Encode(after))
	}
}

// TestPurgedTableIsDropped purges a retained table, and drops a keyspace with one: their ids are never reused.
func TestPurgedTableIsDropped(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), createTable("k", "u", 2))
	first, second := s.Table("k", "t").StorageID, s.Table("k", "u").StorageID
	s = mustApply(t, s, dropFor("t", 1, 1), dropFor("u", 2, 1))
	if late := mustApply(t, s, &PurgeTables{Tables: map[StorageID]int64{first: 1}}); late != s {
		t.Error("the purge of an earlier drop removes the table")
	}
	purge := &PurgeTables{Tables: map[StorageID]int64{first: 2}}
	now := applyEncoded(t, s, purge)
	if !now.Dropped(first) || now.Dropped(second) || len(Diff(s, now)) != 0 {
		t.Errorf("dropped %v %v, events %v", now.Dropped(first), now.Dropped(second), Diff(s, now))
	}
	compareDropped(t, s, now)
	if again := mustApply(t, now, purge); again != now {
		t.Error("a second purge changes the schema")
	}
	gone := mustApply(t, now, &DropKeyspace{Keyspace: "k"})
	if !gone.Dropped(second) {
		t.Error("a retained table outlives its keyspace")
	}
	compareDropped(t, now, gone)
}

// TestRetainedTablesAreBounded drops one table more than a schema retains: the table that was dropped first is removed.
func TestRetainedTablesAreBounded(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createKeyspace("other"))
	first := createTable("other", "t", 255)
	s = mustApply(t, s, first, &DropTable{Keyspace: "other", Table: "t", Retention: &Retention{Dropped: 1, Until: 9}})
	id := s.Retained()[0].StorageID
	for i := range retainedMax {
		create := createTable("k", "t", 0)
		create.ID[1], create.ID[2] = byte(i), 1
		if s.Dropped(id) {
			t.Fatalf("removed after %d", i)
		}
		s = mustApply(t, s, create, dropFor("t", int64(i)+2, 60))
	}
	if !s.Dropped(id) || len(s.Retained()) != retainedMax {
		t.Errorf("%d tables, the first is dropped: %v", len(s.Retained()), s.Dropped(id))
	}
	compareRebuilt(t, s)
}

// TestRetainedTableFollowsItsKeyspace changes the replication while a table is dropped: its rows stay with the
// replicas of the keyspace.
func TestRetainedTableFollowsItsKeyspace(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), dropFor("t", 1, 60))
	now := mustApply(t, s, &AlterKeyspace{Keyspace: "k", Replication: &ring.Replication{Class: ring.Simple, Factor: 1}})
	if f := now.Retained()[0].Replication.Factor; f != 1 || s.Retained()[0].Replication.Factor != 3 {
		t.Errorf("factor %d", f)
	}
}

// TestRestoredTableHasPresentTypes alters, drops and creates the type of a column while its table is dropped.
func TestRestoredTableHasPresentTypes(t *testing.T) {
	udt := func(fields ...string) *types.Type {
		elems := make([]*types.Type, len(fields))
		for i, f := range fields {
			_, kind, _ := strings.Cut(f, " ")
			fields[i], elems[i] = strings.TrimSuffix(f, " "+kind), types.Native(types.Int)
			if kind == "text" {
				elems[i] = types.Native(types.Text)
			}
		}
		return types.NewUDT("k", "u", fields, elems, false)
	}
	dropType := &DropType{Keyspace: "k", Name: "u"}
	add := &AlterType{Keyspace: "k", Name: "u", Field: "b", FieldType: types.Native(types.Text)}
	for i, test := range []struct {
		key     bool // the type is in the partition key
		changes []Change
		want    string // the fields afterwards, or the error
	}{
		{false, nil, "[a]"},
		{false, []Change{add}, "[a b]"},
		{false, []Change{&AlterType{Keyspace: "k", Name: "u", Rename: []Rename{{From: "a", To: "x"}}}}, "[x]"},
		{false, []Change{dropType}, "column 'v' has type"},
		{false, []Change{dropType, &CreateType{Type: udt("a text")}}, "column 'v' has type"},
		{false, []Change{dropType, &CreateType{Type: udt("y int", "z text")}}, "[y z]"},
		{true, []Change{add}, "column 'k' has type"},
		{true, nil, "[a]"},
	} {
		create := createTable("k", "t", 1)
		column := &create.Columns[2]
		if test.key {
			column = &create.Columns[0]
		}
		column.Type = types.NewList(udt("a int").Freeze(), true)
		s := mustApply(t, Initial(), createKeyspace("k"), &CreateType{Type: udt("a int")}, create)
		id := s.Table("k", "t").StorageID
		s = mustApply(t, s, dropFor("t", 1, 60))
		s = mustApply(t, s, test.changes...)
		now, err := Apply(s, &UndropTable{Keyspace: "k", Table: id, As: "t"})
		got := fmt.Sprint(err)
		if err == nil {
			got = fmt.Sprint(now.Table("k", "t").Column(column.Name).Type.Elems()[0].FieldNames())
		}
		if !strings.Contains(got, test.want) {
			t.Errorf("%d: %s, want %s", i, got, test.want)
		}
	}
}

// TestRetainedTablesAreChecked decodes schemas whose retained tables are not: one has the number of another table, one
// has no retention, and a table has one.
func TestRetainedTablesAreChecked(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), createTable("k", "u", 2),
		dropFor("t", 1, 60))
	text := string(Encode(s))
	ids := [2]string{fmt.Sprintf(`"StorageID":%d`, s.Retained()[0].StorageID),
		fmt.Sprintf(`"StorageID":%d`, s.Table("k", "u").StorageID)}
	retention := `,"Retention":{"Dropped":1,"Until":61}`
	for _, changed := range []string{strings.Replace(text, ids[0], ids[1], 1), strings.Replace(text, retention, "", 1),
		strings.Replace(text, `,"Retained":[`, `,"Ignored":[`, 1)} {
		if changed == text {
			t.Fatalf("nothing was replaced in %s", text)
		}
		if _, err := Decode([]byte(changed)); err == nil {
			t.Errorf("decoded: %s", changed)
		}
	}
}
