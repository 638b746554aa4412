package schema

import (
	"testing"

	"cqld/ring"
	"cqld/types"
)

// TestAttributesAreEncoded applies changes of attributes from their encodings, and compares the schemas after an
// encoding.
func TestAttributesAreEncoded(t *testing.T) {
	text := func(s string) *string { return &s }
	s := Initial()
	for _, c := range []Change{
		&CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&CreateTable{Keyspace: "ks", Table: "t", ID: UUID{1}, Options: DefaultOptions(), Columns: []ColumnSpec{
			{Name: "k", Kind: PartitionKey, Type: types.Native(types.Int)},
			{Name: "v", Kind: Regular, Type: types.Native(types.Int),
				Attributes: &Attributes{Check: "v > 5", Default: "7"}}}},
		&AlterTable{Keyspace: "ks", Table: "t", Attributes: &AttributesChange{Column: "v", Comment: text("c"),
			Default: text("")}},
		&AlterTable{Keyspace: "ks", Table: "t", Attributes: &AttributesChange{Column: "k", Check: text("k > 0")}},
	} {
		decoded, err := DecodeChange(EncodeChange(c))
		if err != nil {
			t.Fatal(err)
		}
		if s, err = Apply(s, decoded); err != nil {
			t.Fatal(err)
		}
	}
	next, err := Decode(Encode(s))
	if err != nil {
		t.Fatal(err)
	}
	for _, s := range []*Schema{s, next} {
		v, k := s.Table("ks", "t").Column("v"), s.Table("ks", "t").Column("k")
		if v.CheckText() != "v > 5" || v.DefaultText() != "" || v.Comment() != "c" || k.CheckText() != "k > 0" {
			t.Errorf("%+v, %+v", v.Attributes, k.Attributes)
		}
	}
	if !next.Table("ks", "t").sameDefinition(s.Table("ks", "t")) {
		t.Error("the decoded table differs")
	}
	drop := &AlterTable{Keyspace: "ks", Table: "t", Attributes: &AttributesChange{Column: "k", Check: text("")}}
	if s, err = Apply(s, drop); err != nil || s.Table("ks", "t").Column("k").Attributes != nil {
		t.Errorf("%v: attributes remain after the last one is dropped", err)
	}
	if again, err := Apply(s, drop); err != nil || again != s {
		t.Errorf("%v: a change without effect makes another schema", err)
	}
}
