package schema

import (
	"reflect"
	"strings"
	"testing"

	"cqld/types"
)

func maskedTable() *CreateTable {
	c := createTable("k", "t", 1)
	c.Columns[0].Mask = &Mask{Function: "mask_default"}
	c.Columns[2].Mask = &Mask{Function: "mask_inner", Args: [][]byte{{0, 0, 0, 1}, nil, {}}}
	return c
}

// TestMasksSurviveEncoding checks changes and schemas. Null and empty arguments must remain different.
func TestMasksSurviveEncoding(t *testing.T) {
	for _, c := range []Change{maskedTable(),
		&AlterTable{Keyspace: "k", Table: "t", Add: []ColumnSpec{{Name: "x", Kind: Regular,
			Type: types.Native(types.Int), Mask: &Mask{Function: "mask_null"}}}},
		&AlterTable{Keyspace: "k", Table: "t", Mask: &MaskChange{Column: "s",
			Mask: &Mask{Function: "mask_replace", Args: [][]byte{{}}}}},
		&AlterTable{Keyspace: "k", Table: "t", Mask: &MaskChange{Column: "v", IfExists: true}},
	} {
		decoded, err := DecodeChange(EncodeChange(c))
		if err != nil || !reflect.DeepEqual(decoded, c) {
			t.Errorf("%+v was decoded as %+v, %v", c, decoded, err)
		}
	}
	s := mustApply(t, Initial(), createKeyspace("k"), maskedTable())
	decoded, err := Decode(Encode(s))
	if err != nil {
		t.Fatal(err)
	}
	table := decoded.Table("k", "t")
	if !table.sameDefinition(s.Table("k", "t")) || !table.Masked() || decoded.Version() != s.Version() {
		t.Errorf("decoded: %+v", table.Column("v").Mask)
	}
}

// TestMasksAreOmittedFromOtherEncodings checks that the encodings of tables without masks are those of versions without
// masks.
func TestMasksAreOmittedFromOtherEncodings(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	for _, b := range [][]byte{Encode(s), EncodeChange(createTable("k", "t", 1)),
		EncodeChange(&AlterTable{Keyspace: "k", Table: "t", Drop: []string{"v"}})} {
		if strings.Contains(string(b), "Mask") {
			t.Errorf("%s", b)
		}
	}
	if s.Table("k", "t").Masked() {
		t.Error("the table has a mask")
	}
}

func TestAlterSetsAndRemovesMasks(t *testing.T) {
	before := mustApply(t, Initial(), createKeyspace("k"), createTable("k", "t", 1))
	for _, column := range []string{"k", "c", "s", "v"} {
		set := &AlterTable{Keyspace: "k", Table: "t", Mask: &MaskChange{Column: column,
			Mask: &Mask{Function: "mask_null"}}}
		s := mustApply(t, before, set)
		if m := s.Table("k", "t").Column(column).Mask; m == nil || m.Function != "mask_null" ||
			!s.Table("k", "t").Masked() {
			t.Errorf("%s: mask %+v", column, m)
		}
		if before.Table("k", "t").Masked() {
			t.Fatal("the previous schema changed")
		}
		if events := Diff(before, s); len(events) != 1 || events[0].Change != Updated {
			t.Errorf("%s: events %v", column, events)
		}
		if s.Version() == before.Version() {
			t.Errorf("%s: the version is the same", column)
		}
		if again := mustApply(t, s, set); again != s {
			t.Errorf("%s: the same mask again is a change", column)
		}
		s = mustApply(t, s, &AlterTable{Keyspace: "k", Table: "t", Mask: &MaskChange{Column: column}})
		if s.Table("k", "t").Masked() || s.Version() != before.Version() {
			t.Errorf("%s: DROP MASKED left something", column)
		}
	}
	missing := &AlterTable{Keyspace: "k", Table: "t", Mask: &MaskChange{Column: "x"}}
	if _, err := Apply(before, missing); err == nil || err.Error() != "Column with name 'x' doesn't exist on table "+
		"'t'" {
		t.Error(err)
	}
	missing.Mask.IfExists = true
	if s := mustApply(t, before, missing); s != before {
		t.Error("IF EXISTS of a missing column is a change")
	}
}

// TestMasksFollowTheirColumn checks renamed, dropped and added columns, and altered types.
func TestMasksFollowTheirColumn(t *testing.T) {
	s := mustApply(t, Initial(), createKeyspace("k"), maskedTable(),
		&AlterTable{Keyspace: "k", Table: "t", Rename: []Rename{{From: "k", To: "renamed"}}})
	if s.Table("k", "t").Column("renamed").Mask == nil {
		t.Error("RENAME lost the mask")
	}
	s = mustApply(t, s, &AlterTable{Keyspace: "k", Table: "t", Drop: []string{"v"}, DropMicros: 5},
		&AlterTable{Keyspace: "k", Table: "t", Add: []ColumnSpec{{Name: "v", Kind: Regular,
			Type: types.Native(types.Int)}}})
	if s.Table("k", "t").Column("v").Mask != nil {
		t.Error("a column that was dropped and added without a mask has its mask again")
	}
	if s.Table("k", "t").Dropped[0].Mask == nil {
		t.Error("the dropped column has no mask")
	}
}

func TestMasksWithoutFunctionAreRefused(t *testing.T) {
	for _, c := range []Change{
		&AlterTable{Keyspace: "k", Table: "t", Mask: &MaskChange{Column: "v", Mask: &Mask{}}},
		&AlterTable{Keyspace: "k", Table: "t", Add: []ColumnSpec{{Name: "x", Kind: Regular,
			Type: types.Native(types.Int), Mask: &Mask{}}}},
	} {
		if _, err := DecodeChange(EncodeChange(c)); err == nil {
			t.Errorf("%+v was decoded", c)
		}
	}
}
