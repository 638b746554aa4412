package schema

import (
	"strings"
	"testing"

	"cqld/types"
)

// dropColumn drops a column of k.t at a time, with a grace of 60 seconds.
func dropColumn(name string, seconds int64) *AlterTable {
	return &AlterTable{Keyspace: "k", Table: "t", Drop: []string{name}, DropMicros: seconds * 1e6,
		DropUntil: seconds + 60}
}

func undropColumn(name string, at int64) *AlterTable {
	return &AlterTable{Keyspace: "k", Table: "t", Undrop: []string{name}, At: at}
}

// refuses checks that a change is refused with a message that contains want.
func refuses(t *testing.T, s *Schema, c Change, want string) {
	t.Helper()
	if _, err := Apply(s, c); err == nil || !strings.Contains(err.Error(), want) {
		t.Errorf("%+v: %v, want %q", c, err, want)
	}
}

// TestUndropColumnRestoresTheTable drops each column and restores it: the table is the one from before, and there is
// nothing left to restore or to purge.
func TestUndropColumnRestoresTheTable(t *testing.T) {
	before := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	for _, name := range []string{"v", "s"} {
		s := applyEncoded(t, before, dropColumn(name, 100))
		if table := s.Table("k", "t"); table.Column(name) != nil || table.Dropped[0].Until != 160 {
			t.Fatalf("dropped: %+v", table.Dropped)
		}
		refuses(t, s, undropColumn(name, 160), "its grace has ended")
		s = applyEncoded(t, s, undropColumn(name, 159))
		if !s.Table("k", "t").sameDefinition(before.Table("k", "t")) || s.Version() != before.Version() {
			t.Errorf("%s: restored %+v", name, s.Table("k", "t").Column(name))
		}
		refuses(t, s, undropColumn(name, 101), "is not dropped")
		refuses(t, s, &AlterTable{Keyspace: "k", Table: "t", Purge: []string{name}}, "No dropped column")
	}
}

// TestColumnsThatCannotBeRestored drops a column, changes the table, and restores the column: the error says why it
// cannot be.
func TestColumnsThatCannotBeRestored(t *testing.T) {
	add := func(name string) *AlterTable {
		return &AlterTable{Keyspace: "k", Table: "t",
			Add: []ColumnSpec{{Name: name, Kind: Regular, Type: types.Native(types.Int)}}}
	}
	purge := &AlterTable{Keyspace: "k", Table: "t", Purge: []string{"v"}}
	noGrace := dropColumn("v", 101)
	noGrace.DropUntil = 0
	rename := &AlterTable{Keyspace: "k", Table: "t", Rename: []Rename{{From: "c", To: "v"}}}
	for _, x := range []struct {
		changes []Change
		want    string
	}{
		{[]Change{add("v")}, "another column has the name"},
		{[]Change{rename}, "another column has the name"},
		{[]Change{purge}, "was purged"},
		{[]Change{add("v"), purge}, "is not dropped"},
		{[]Change{add("v"), noGrace}, "drop_grace was 0"},
	} {
		s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), dropColumn("v", 100))
		for _, c := range x.changes {
			s = applyEncoded(t, s, c)
		}
		refuses(t, s, undropColumn("v", 110), x.want)
	}
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	refuses(t, s, undropColumn("x", 1), "it was not dropped")
}

// TestUndropOfAColumnThatWasAddedAgain restores the second column with a name: the cells of the first one stay hidden,
// and the purge of the second leaves both hidden.
func TestUndropOfAColumnThatWasAddedAgain(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), dropColumn("v", 100),
		&AlterTable{Keyspace: "k", Table: "t",
			Add: []ColumnSpec{{Name: "v", Kind: Regular, Type: types.Native(types.Int)}}})
	second := *s.Table("k", "t").Column("v")
	s = applyEncoded(t, s, dropColumn("v", 200))
	dropped := s
	s = applyEncoded(t, s, undropColumn("v", 201))
	if c := s.Table("k", "t").Column("v"); *c != second || c.DroppedMicros != 100e6 {
		t.Errorf("restored %+v, want %+v", c, second)
	}
	if d := s.Table("k", "t").Dropped; len(d) != 1 || d[0].Micros != 100e6 || d[0].Until != 0 {
		t.Errorf("the first drop is recorded as %+v", d)
	}
	purged := applyEncoded(t, dropped, &AlterTable{Keyspace: "k", Table: "t", Purge: []string{"v"}})
	if d := purged.Table("k", "t").Dropped; d[0].Micros != 200e6 || d[0].Until != 0 {
		t.Errorf("purged: %+v", d)
	}
}

// TestUndropColumnOfAUserType restores a column of a user-defined type after the type got a field, after its keyspace
// was dropped and restored under another name, and not after the type was dropped.
func TestUndropColumnOfAUserType(t *testing.T) {
	u := types.NewUDT("k", "u", []string{"a"}, []*types.Type{types.Native(types.Int)}, false)
	list := types.NewList(u.Freeze(), false)
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1), &CreateType{Type: u},
		&AlterTable{Keyspace: "k", Table: "t", Add: []ColumnSpec{{Name: "x", Kind: Regular, Type: list}}},
		dropColumn("x", 100))
	altered := applyEncoded(t, s, &AlterType{Keyspace: "k", Name: "u", Field: "b", FieldType: types.Native(types.Text)})
	altered = applyEncoded(t, altered, undropColumn("x", 101))
	if c := altered.Table("k", "t").Column("x"); len(c.Type.Elems()[0].Elems()) != 2 {
		t.Errorf("restored as %s", c.Type)
	}
	moved := mustApply(t, s, &DropKeyspace{Keyspace: "k", Retention: &Retention{Dropped: 101, Until: 200}})
	hidden := moved.DroppedKeyspaces()[0].Name
	moved = mustApply(t, moved, &UndropKeyspace{Keyspace: hidden, As: "z"})
	c := undropColumn("x", 102)
	c.Keyspace = "z"
	moved = applyEncoded(t, moved, c)
	if typ := moved.Table("z", "t").Column("x").Type; !uses(typ, "u") || typ.Elems()[0].UDTKeyspace() != "z" {
		t.Errorf("restored as %s", typ.DeclaredClass())
	}
	s = applyEncoded(t, s, &DropType{Keyspace: "k", Name: "u"})
	refuses(t, s, undropColumn("x", 101), "which was dropped")
}
