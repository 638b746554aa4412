package system

import (
	"strings"
	"testing"

	"cqld/internal/wire"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// TestColumnMasks compares rows of system_schema.column_masks with those that Cassandra 5.0.9 shows for the same masks.
func TestColumnMasks(t *testing.T) {
	text, one := types.Native(types.Text), wire.AppendInt32(nil, 1)
	list := types.NewList(types.Native(types.Int), false)
	two, err := list.AppendParts(nil, [][]byte{one, wire.AppendInt32(nil, 2)})
	if err != nil {
		t.Fatal(err)
	}
	mask := func(function string, args ...[]byte) *schema.Mask {
		return &schema.Mask{Function: function, Args: args}
	}
	s := source(t, &schema.CreateKeyspace{Keyspace: "msk",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}},
		&schema.CreateTable{Keyspace: "msk", Table: "b", Options: schema.DefaultOptions(), ID: schema.UUID{1},
			Columns: []schema.ColumnSpec{
				{Name: "k", Kind: schema.PartitionKey, Type: text},
				{Name: "c", Kind: schema.Clustering, Type: text, Mask: mask("mask_inner", one, one)},
				{Name: "i", Kind: schema.Regular, Type: text, Mask: mask("mask_null")},
				{Name: "l", Kind: schema.Regular, Type: list, Mask: mask("mask_replace", two)},
				{Name: "s", Kind: schema.Static, Type: text, Mask: mask("mask_replace", []byte("st"))},
				{Name: "v", Kind: schema.Regular, Type: text, Mask: mask("mask_outer", one, nil, []byte("#"))}}})
	def := s.o.View.Schema().Table("system_schema", "column_masks")
	var out strings.Builder
	for _, p := range partitions(t, s, "system_schema", "column_masks") {
		for i := range p.Rows {
			r := &p.Rows[i]
			rest := r.Clustering
			for _, c := range def.Clustering {
				var v []byte
				v, rest, _ = c.Type.ConsumeOrdered(nil, rest, false)
				out.WriteString(string(v) + " ")
			}
			for _, c := range def.Regulars {
				out.Write(append(c.Type.AppendLiteral(nil, value(def, r, c.Name)), ' '))
			}
			out.WriteString("\n")
		}
	}
	const want = `b c [false, false] ['int', 'int'] ['1', '1'] 'system' 'mask_inner' 
b i [] [] [] 'system' 'mask_null' 
b l [false] ['list<int>'] ['0000000200000004000000010000000400000002'] 'system' 'mask_replace' 
b s [false] ['text'] ['st'] 'system' 'mask_replace' 
b v [false, true, false] ['int', 'int', 'text'] ['1', '', '#'] 'system' 'mask_outer' 
`
	if out.String() != want {
		t.Errorf("%swant\n%s", out.String(), want)
	}
}
