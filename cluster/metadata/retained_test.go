package metadata

import (
	"testing"

	"cqld/auth"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// TestRestoredTableHasItsGrants drops a table and restores it under another name. The roles that had permissions have
// them again, except for one that was dropped and created again, and the client that restores the table gets none. A
// table that is created with the name meanwhile has none of them either.
func TestRestoredTableHasItsGrants(t *testing.T) {
	m, index := Empty(), uint64(0)
	do := func(c *Command) {
		t.Helper()
		index++
		c.ID = CommandID{byte(index)}
		var err error
		if m, err = Apply(m, c, index); err != nil {
			t.Fatal(err)
		}
		// Each command follows a snapshot.
		b, err := m.Encode()
		if err == nil {
			m, err = Decode(b)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	roles := func(c auth.Change) {
		t.Helper()
		b, err := auth.EncodeChange(c)
		if err != nil {
			t.Fatal(err)
		}
		do(&Command{Roles: &RolesChange{b}})
	}
	define := func(c schema.Change, creator string) {
		t.Helper()
		do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(c), Creator: creator}})
	}
	for _, name := range []string{"maker", "reader", "again", "other"} {
		roles(&auth.CreateRole{Name: name})
	}
	define(&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1}}, "")
	table := &schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{{Name: "a", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}}
	define(table, "maker")
	reads := auth.NewPermissionSet(auth.Select)
	for _, name := range []string{"reader", "again"} {
		roles(&auth.GrantPermissions{Role: name, Resource: auth.Table("k", "t"), Permissions: reads})
	}
	made := m.Roles.Granted("maker", auth.Table("k", "t"))
	id := m.Schema.Table("k", "t").StorageID
	define(&schema.DropTable{Keyspace: "k", Table: "t", Retention: &schema.Retention{Dropped: 1, Until: 2}}, "")
	if len(m.RetainedGrants) != 3 || m.Roles.Granted("maker", auth.Table("k", "t")) != 0 {
		t.Fatalf("retained %v", m.RetainedGrants)
	}
	table.ID = schema.UUID{2}
	define(table, "")
	if m.Roles.Granted("reader", auth.Table("k", "t")) != 0 {
		t.Error("a new table has the grants of the dropped one")
	}
	roles(&auth.DropRole{Name: "again"})
	roles(&auth.CreateRole{Name: "again"})
	define(&schema.UndropTable{Keyspace: "k", Table: id, As: "old"}, "other")
	restored := auth.Table("k", "old")
	if m.Roles.Granted("maker", restored) != made || made == 0 || m.Roles.Granted("reader", restored) != reads ||
		m.Roles.Granted("again", restored) != 0 || m.Roles.Granted("other", restored) != 0 ||
		len(m.RetainedGrants) != 0 {
		t.Errorf("maker %v, reader %v, again %v, other %v, retained %v", m.Roles.Granted("maker", restored),
			m.Roles.Granted("reader", restored), m.Roles.Granted("again", restored),
			m.Roles.Granted("other", restored), m.RetainedGrants)
	}
	define(&schema.DropTable{Keyspace: "k", Table: "old", Retention: &schema.Retention{Dropped: 3, Until: 4}}, "")
	define(&schema.PurgeTables{Tables: map[schema.StorageID]int64{id: 4}}, "")
	if len(m.RetainedGrants) != 0 || !m.Schema.Dropped(id) {
		t.Errorf("after the purge: %v", m.RetainedGrants)
	}
}

// TestReplacedTableKeepsGrants replaces a table. The roles that had permissions on it have them on the restored table,
// those on the restored table alone end, and UNDROP TABLE gives the replaced one its own.
func TestReplacedTableKeepsGrants(t *testing.T) {
	m, index := Empty(), uint64(0)
	do := func(c *Command) {
		t.Helper()
		index++
		c.ID = CommandID{byte(index)}
		var err error
		if m, err = Apply(m, c, index); err != nil {
			t.Fatal(err)
		}
	}
	define := func(c schema.Change, creator string) {
		t.Helper()
		do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(c), Creator: creator}})
	}
	for _, name := range []string{"maker", "other"} {
		b, err := auth.EncodeChange(&auth.CreateRole{Name: name})
		if err != nil {
			t.Fatal(err)
		}
		do(&Command{Roles: &RolesChange{b}})
	}
	define(&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1}}, "")
	for i, of := range []struct{ table, creator string }{{"t", "maker"}, {"r", "other"}} {
		define(&schema.CreateTable{Keyspace: "k", Table: of.table, ID: schema.UUID{byte(i + 1)},
			Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "a", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}},
			of.creator)
	}
	made, id := m.Roles.Granted("maker", auth.Table("k", "t")), m.Schema.Table("k", "t").StorageID
	define(&schema.ReplaceTables{Retention: &schema.Retention{Dropped: 1, Until: 2}, Tables: []schema.Replacement{
		{Keyspace: "k", From: "r", Table: "t", ID: schema.UUID{2}, Replaced: schema.UUID{1}}}}, "")
	if now := m.Schema.Table("k", "t"); made == 0 || now.ID != (schema.UUID{2}) ||
		m.Roles.Granted("maker", auth.Table("k", "t")) != made || m.Roles.Granted("other", auth.Table("k", "t")) != 0 ||
		m.Roles.Granted("other", auth.Table("k", "r")) != 0 {
		t.Errorf("grants on %+v: %v, %v", now, m.Roles.Granted("maker", auth.Table("k", "t")),
			m.Roles.Granted("other", auth.Table("k", "r")))
	}
	define(&schema.UndropTable{Keyspace: "k", Table: id, As: "old"}, "")
	if got := m.Roles.Granted("maker", auth.Table("k", "old")); got != made {
		t.Errorf("after UNDROP TABLE: %v, want %v", got, made)
	}
}
