package schema

import (
	"errors"
	"reflect"
	"slices"
	"testing"

	"cqld/schema/indexclass"
	"cqld/schema/refused"
	"cqld/types"
)

// indexed returns a schema with the table k.t of createTable, a map, a frozen list and some indexes.
func indexed(t *testing.T, more ...Change) *Schema {
	create := createTable("k", "t", 1)
	create.Columns = append(create.Columns,
		ColumnSpec{Name: "m", Kind: Regular, Type: types.NewMap(types.Native(types.Text), types.Native(types.Int),
			false)},
		ColumnSpec{Name: "fl", Kind: Regular, Type: types.NewList(types.Native(types.Int), true)})
	return mustApply(t, Initial(), append([]Change{createKeyspace("k"), create}, more...)...)
}

func createIndex(name, column string, target IndexTarget) *CreateIndex {
	return &CreateIndex{Keyspace: "k", Table: "t", Name: name, Class: LegacyIndex, Column: column, Target: target}
}

func TestIndexesOfATable(t *testing.T) {
	s := indexed(t, createIndex("", "v", IndexSimple), createIndex("named", "m", IndexKeys),
		createIndex("", "m", IndexSimple),
		createIndex("", "m", IndexEntries), createIndex("", "fl", IndexFull), createIndex("", "c", IndexSimple))
	table := s.Table("k", "t")
	var got []string
	ids := map[StorageID]bool{table.StorageID: true}
	for _, ix := range table.Indexes() {
		got = append(got, ix.Name+" "+ix.Kind+" "+table.ShownOptions(ix)[IndexTargetOption])
		if ids[ix.ID] {
			t.Errorf("the id %d is in use twice", ix.ID)
		}
		ids[ix.ID] = true
		if owner, found := s.IndexByStorage(ix.ID); owner != table || found != ix || s.Dropped(ix.ID) {
			t.Errorf("IndexByStorage(%d) is %v", ix.ID, found)
		}
	}
	want := []string{"named COMPOSITES keys(m)", "t_c_idx COMPOSITES c", "t_fl_idx COMPOSITES full(fl)",
		"t_m_idx COMPOSITES values(m)", "t_m_idx_1 COMPOSITES entries(m)", "t_v_idx COMPOSITES v"}
	if !slices.Equal(got, want) {
		t.Errorf("indexes:\n%q\nwant\n%q", got, want)
	}
	decoded, err := Decode(Encode(s))
	if err != nil || decoded.Version() != s.Version() {
		t.Fatalf("decoded: %v, version %v of %v", err, decoded.Version(), s.Version())
	}
	if !decoded.Table("k", "t").sameDefinition(table) {
		t.Error("the decoded table differs")
	}
	if owner, ix := decoded.Index("k", "named"); owner == nil || ix.Target != IndexKeys {
		t.Errorf("the decoded schema has %v", ix)
	}
}

func TestDropIndex(t *testing.T) {
	before := indexed(t)
	s := indexed(t, createIndex("a", "v", IndexSimple))
	_, ix := s.Index("k", "a")
	if events := Diff(before, s); !reflect.DeepEqual(events,
		[]Event{{Change: Updated, Target: TargetTable, Keyspace: "k", Name: "t"}}) {
		t.Errorf("events of CREATE INDEX: %v", events)
	}
	dropped := mustApply(t, s, &DropIndex{Keyspace: "k", Name: "a"})
	if _, left := dropped.Index("k", "a"); left != nil || !dropped.Dropped(ix.ID) || dropped.Version() == s.Version() {
		t.Errorf("after DROP INDEX: %v", left)
	}
	if events := Diff(s, dropped); !reflect.DeepEqual(events,
		[]Event{{Change: Updated, Target: TargetTable, Keyspace: "k", Name: "t"}}) {
		t.Errorf("events of DROP INDEX: %v", events)
	}
	var missing *refused.NotFound
	if _, err := Apply(dropped, &DropIndex{Keyspace: "k", Name: "a"}); !errors.As(err, &missing) || !missing.Index {
		t.Errorf("a second DROP INDEX: %v", err)
	}
	if next, err := Apply(dropped, &DropIndex{Keyspace: "k", Name: "a", IfExists: true}); err != nil ||
		next != dropped {
		t.Errorf("IF EXISTS: %v", err)
	}
	again := mustApply(t, dropped, createIndex("a", "v", IndexSimple))
	if _, second := again.Index("k", "a"); second.ID <= ix.ID {
		t.Errorf("the id %d is used again", ix.ID)
	}
	gone := mustApply(t, s, &DropTable{Keyspace: "k", Table: "t"})
	if _, left := gone.Index("k", "a"); left != nil || !gone.Dropped(ix.ID) {
		t.Errorf("after DROP TABLE: %v", left)
	}
}

func TestIndexChangesAreEncoded(t *testing.T) {
	create := createIndex("a", "v", IndexSimple)
	create.Class, create.Options = SAI, map[string]string{indexclass.OptionClass: "sai"}
	for _, c := range []Change{create, &DropIndex{Keyspace: "k", Name: "a", IfExists: true}} {
		back, err := DecodeChange(EncodeChange(c))
		if err != nil {
			t.Fatal(err)
		}
		if string(EncodeChange(back)) != string(EncodeChange(c)) {
			t.Errorf("%+v became %+v", c, back)
		}
	}
	create.Class = 9
	if _, err := DecodeChange(EncodeChange(create)); !errors.Is(err, ErrFormat) {
		t.Errorf("a class that does not exist: %v", err)
	}
}

func TestIndexedColumnsStay(t *testing.T) {
	s := indexed(t, createIndex("a", "v", IndexSimple), createIndex("b", "c", IndexSimple))
	for want, c := range map[string]Change{
		"Cannot drop column v because it has dependent secondary indexes (a)": &AlterTable{Keyspace: "k", Table: "t",
			Drop: []string{"v"}},
		"Can't rename column c because it has dependent secondary indexes (b)": &AlterTable{Keyspace: "k", Table: "t",
			Rename: []Rename{{From: "c", To: "d"}}},
	} {
		if _, err := Apply(s, c); err == nil || err.Error() != want {
			t.Errorf("%v, want %s", err, want)
		}
	}
}
