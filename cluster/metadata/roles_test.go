package metadata

import (
	"bytes"
	"testing"

	"cqld/auth"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// TestRolesAreInTheMetadata applies changes of roles and of the schema as commands, and checks that snapshots contain
// the roles, that creators get their grants in the same command, that dropped keyspaces lose theirs, and that metadata
// without roles decode.
func TestRolesAreInTheMetadata(t *testing.T) {
	m, index := Empty(), uint64(0)
	do := func(c *Command) {
		t.Helper()
		index++
		c.ID = CommandID{byte(index)}
		b, err := c.Encode()
		if err != nil {
			t.Fatal(err)
		}
		if c, err = DecodeCommand(b); err != nil {
			t.Fatal(err)
		}
		if m, err = apply(m, c, index); err != nil {
			t.Fatal(err)
		}
	}
	again := func() *Metadata {
		t.Helper()
		b, err := m.Encode()
		if err != nil {
			t.Fatal(err)
		}
		decoded, err := Decode(b)
		if err != nil {
			t.Fatal(err)
		}
		return decoded
	}
	if b, err := m.Encode(); err != nil || bytes.Contains(b, []byte("Roles")) || !again().Roles.Empty() {
		t.Errorf("metadata without roles: %s, %v", b, err)
	}
	change := func(c auth.Change) *Command {
		b, err := auth.EncodeChange(c)
		if err != nil {
			t.Fatal(err)
		}
		return &Command{Roles: &RolesChange{b}}
	}
	do(change(&auth.CreateRole{Name: "maker"}))
	create := &schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1},
		DurableWrites: true}
	do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(create), Creator: "maker"}})
	if d := again().Roles; !d.Has("maker", auth.Modify, auth.Table("k", "t")) ||
		!d.Has("maker", auth.Execute, auth.KeyspaceFunctions("k")) {
		t.Errorf("the creator has %v", d.Grants("maker"))
	}
	columns := []schema.ColumnSpec{{Name: "a", Kind: schema.PartitionKey, Type: types.Native(types.Int)},
		{Name: "b", Kind: schema.Regular, Type: types.Native(types.Int)}}
	table := &schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Columns: columns,
		Options: schema.DefaultOptions()}
	do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(table), Creator: "maker"}})
	base := m.Schema.Table("k", "t")
	view := &schema.CreateView{Keyspace: "k", View: "v", Base: "t", BaseID: base.ID, ID: schema.UUID{2},
		Options:    schema.DefaultOptions(),
		Partition:  []schema.ColumnID{base.Column("b").ID},
		Clustering: []schema.ViewClustering{{Column: base.Column("a").ID}},
		Where: []schema.ViewCondition{{Columns: []schema.ColumnID{base.Column("a").ID}, Operator: schema.ViewNotNull},
			{Columns: []schema.ColumnID{base.Column("b").ID}, Operator: schema.ViewNotNull}}}
	do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(view), Creator: "maker"}})
	if d := again().Roles; d.Granted("maker", auth.Table("k", "t")) == 0 ||
		d.Granted("maker", auth.Table("k", "v")) != 0 {
		t.Errorf("the creator of a table and its view has %v", d.Grants("maker"))
	}
	do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(&schema.DropKeyspace{Keyspace: "k"})}})
	if d := again().Roles; len(d.Grants("maker")) != 0 {
		t.Errorf("after DROP KEYSPACE: %v", d.Grants("maker"))
	}
	epoch := m.Epoch
	for _, c := range []*Command{change(&auth.CreateRole{Name: "maker"}),
		{Roles: &RolesChange{[]byte(`{"Unknown":{}}`)}}} {
		c.ID = CommandID{0xFF, byte(len(c.Roles.Change))}
		next, err := apply(m, c, index+1)
		if err == nil || next.Epoch != epoch || next.Roles != m.Roles {
			t.Errorf("%s: %v", c.Roles.Change, err)
		}
	}
}
