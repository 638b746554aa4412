package schema

import (
	"fmt"
	"slices"
	"strings"
	"testing"
)

// truncateAt returns the TRUNCATE of a table of the keyspace k as it is in s, at a time in seconds.
func truncateAt(s *Schema, table string, at int64) *TruncateTable {
	return &TruncateTable{Keyspace: "k", Table: table, Rows: s.Table("k", table).StorageID,
		Kept: UUID{9, byte(at >> 8), byte(at)}, Retention: Retention{Dropped: at, Until: at + 60}}
}

// truncatable returns a schema with a table that has an index and a view.
func truncatable(t *testing.T) *Schema {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1),
		&CreateIndex{Keyspace: "k", Table: "t", Class: LegacyIndex, Column: "v", Target: IndexSimple})
	base := s.Table("k", "t")
	view := &CreateView{Keyspace: "k", View: "by", ID: UUID{2}, Base: "t", BaseID: base.ID, All: true,
		Options:   DefaultOptions(),
		Partition: []ColumnID{base.Column("v").ID}}
	for _, key := range slices.Concat(base.PartitionKey, base.Clustering) {
		view.Clustering = append(view.Clustering, ViewClustering{Column: key.ID})
	}
	for _, c := range base.Columns() {
		if c.Kind != Regular || c.Name == "v" {
			view.Where = append(view.Where, ViewCondition{Columns: []ColumnID{c.ID}, Operator: ViewNotNull,
				Text: "IS NOT NULL"})
		}
	}
	return mustApply(t, s, view)
}

// TestTruncatedRowsAreRetained truncates a table with an index and a view: clients see no change, all numbers in
// storage are new, and the former ones belong to a table that UNDROP TABLE restores under another name, or under its
// own after a drop.
func TestTruncatedRowsAreRetained(t *testing.T) {
	before := truncatable(t)
	table := before.Table("k", "t")
	truncate := truncateAt(before, "t", 100)
	now := applyEncoded(t, before, truncate)
	compareRebuilt(t, now)
	compareDropped(t, before, now)
	if events := Diff(before, now); len(events) != 0 || now.Version() == before.Version() {
		t.Errorf("events %+v, or the version stays", events)
	}
	empty, kept := now.Table("k", "t"), now.TableByStorage(table.StorageID)
	view := now.Table("k", "by")
	numbers := []StorageID{table.StorageID, table.Indexes()[0].ID, before.Table("k", "by").StorageID,
		empty.StorageID, empty.Indexes()[0].ID, view.StorageID}
	slices.Sort(numbers)
	if len(slices.Compact(numbers)) != 6 || empty.ID != table.ID || view.ID != before.Table("k", "by").ID ||
		now.BaseOf(view) != empty || empty.Views()[0] != view || empty.Index("t_v_idx") == nil {
		t.Errorf("numbers %v, table %+v", numbers, empty)
	}
	want := Retention{Dropped: 100, Until: 160, Truncated: table.ID}
	if kept == nil || *kept.Retention != want || kept.ID != truncate.Kept || len(kept.Views()) != 0 ||
		kept.Indexes()[0].ID != table.Indexes()[0].ID || !now.Dropped(before.Table("k", "by").StorageID) {
		t.Fatalf("retained: %+v", kept)
	}
	// The proposal of another node, or an earlier one.
	truncate.Kept = UUID{7}
	if again := mustApply(t, now, truncate); again != now {
		t.Error("rows that were truncated before were truncated again")
	}
	undrop := &UndropTable{Keyspace: "k", Table: table.StorageID, As: "t"}
	_, err := Apply(now, undrop)
	if err == nil || !strings.Contains(err.Error(), "another table or view has the name") {
		t.Errorf("the name of the table: %v", err)
	}
	beside := applyEncoded(t, now, &UndropTable{Keyspace: "k", Table: table.StorageID, As: "old"})
	if old := beside.Table("k", "old"); old.StorageID != table.StorageID || old.ID != kept.ID || old.Retention != nil {
		t.Errorf("restored: %+v", old)
	}
	back := mustApply(t, now, &DropView{Keyspace: "k", View: "by"}, dropFor("t", 101, 60), undrop)
	if restored := back.Table("k", "t"); restored.StorageID != table.StorageID || restored.Index("t_v_idx") == nil {
		t.Errorf("restored under its own name: %+v", restored)
	}
	compareRebuilt(t, back)
}

// TestTruncationsWithOtherChangesHaveEvents compares schemas with a TRUNCATE and another change between them.
func TestTruncationsWithOtherChangesHaveEvents(t *testing.T) {
	before := truncatable(t)
	truncated := mustApply(t, before, truncateAt(before, "t", 1))
	for _, x := range []struct {
		c    Change
		want string
	}{
		{&DropIndex{Keyspace: "k", Name: "t_v_idx"}, Updated},
		{&DropView{Keyspace: "k", View: "by"}, Dropped},
	} {
		if events := Diff(before, mustApply(t, truncated, x.c)); len(events) != 1 || events[0].Change != x.want {
			t.Errorf("%T: events %+v", x.c, events)
		}
	}
}

// TestTruncationsAreRefused truncates what cannot be truncated.
func TestTruncationsAreRefused(t *testing.T) {
	s := truncatable(t)
	for want, change := range map[string]func(*TruncateTable){
		"k.none' doesn't exist": func(c *TruncateTable) { c.Table = "none" },
		"none.t' doesn't exist": func(c *TruncateTable) { c.Keyspace = "none" },
		"materialized view":     func(c *TruncateTable) { c.Table = "by" },
		"cannot be retained":    func(c *TruncateTable) { c.Keyspace, c.Table = "system_auth", "roles" },
		"is in use":             func(c *TruncateTable) { c.Kept = s.Table("k", "t").ID },
	} {
		c := truncateAt(s, "t", 1)
		change(c)
		if _, err := Apply(s, c); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTruncationsAreBounded truncates a table again and again, also by a node whose clock is behind, and many tables:
// the newest rows are retained, and a dropped table is not removed for them.
func TestTruncationsAreBounded(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "gone", 1), dropFor("gone", 1, 60),
		createTable("k", "t", 2))
	var ids []StorageID
	for at := range int64(6) {
		ids = append(ids, s.Table("k", "t").StorageID)
		s = applyEncoded(t, s, truncateAt(s, "t", 300-at))
	}
	for i, id := range ids {
		if s.Dropped(id) != (i < len(ids)-truncationsOfTable) {
			t.Errorf("truncation %d is dropped: %v", i, s.Dropped(id))
		}
	}
	for i := range truncationsMax {
		create := createTable("k", "u", 3)
		create.Table, create.ID[1] = fmt.Sprint("u", i), byte(i)
		s = mustApply(t, s, create)
		s = mustApply(t, s, truncateAt(s, create.Table, 1000+int64(i)))
	}
	if n := len(s.Retained()); n != truncationsMax+1 || s.Retained()[0].Name != "gone" || !s.Dropped(ids[5]) {
		t.Errorf("%d tables are retained", n)
	}
	compareRebuilt(t, s)
}
