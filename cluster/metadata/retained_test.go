package metadata

import (
	"testing"

	"cqld/auth"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// commandLog is metadata with the commands that lead to it. Each command follows a snapshot.
type commandLog struct {
	t     *testing.T
	m     *Metadata
	index uint64
}

// do applies a command, and takes a snapshot.
func (l *commandLog) do(c *Command) {
	l.t.Helper()
	l.index++
	c.ID = CommandID{byte(l.index)}
	m, err := Apply(l.m, c, l.index)
	if err != nil {
		l.t.Fatal(err)
	}
	b, err := m.Encode()
	if err == nil {
		l.m, err = Decode(b)
	}
	if err != nil {
		l.t.Fatal(err)
	}
}

// roles applies a change of the roles.
func (l *commandLog) roles(c auth.Change) {
	l.t.Helper()
	b, err := auth.EncodeChange(c)
	if err != nil {
		l.t.Fatal(err)
	}
	l.do(&Command{Roles: &RolesChange{b}})
}

// define applies a change of the schema by a role.
func (l *commandLog) define(c schema.Change, creator string) {
	l.t.Helper()
	l.do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(c), Creator: creator}})
}

// TestRestoredTableHasItsGrants drops a table and restores it under another name. Roles get their permissions back,
// except for a role that was dropped and created again. The client that restores the table gets none, and neither does
// a table that was created with the old name in the meantime.
func TestRestoredTableHasItsGrants(t *testing.T) {
	l := &commandLog{t: t, m: Empty()}
	for _, name := range []string{"maker", "reader", "again", "other"} {
		l.roles(&auth.CreateRole{Name: name})
	}
	l.define(&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1}}, "")
	table := &schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{{Name: "a", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}}
	l.define(table, "maker")
	reads := auth.NewPermissionSet(auth.Select)
	for _, name := range []string{"reader", "again"} {
		l.roles(&auth.GrantPermissions{Role: name, Resource: auth.Table("k", "t"), Permissions: reads})
	}
	made := l.m.Roles.Granted("maker", auth.Table("k", "t"))
	id := l.m.Schema.Table("k", "t").StorageID
	l.define(&schema.DropTable{Keyspace: "k", Table: "t", Retention: &schema.Retention{Dropped: 1, Until: 2}}, "")
	if len(l.m.RetainedGrants) != 3 || l.m.Roles.Granted("maker", auth.Table("k", "t")) != 0 {
		t.Fatalf("retained %v", l.m.RetainedGrants)
	}
	table.ID = schema.UUID{2}
	l.define(table, "")
	if l.m.Roles.Granted("reader", auth.Table("k", "t")) != 0 {
		t.Error("a new table has the grants of the dropped one")
	}
	l.roles(&auth.DropRole{Name: "again"})
	l.roles(&auth.CreateRole{Name: "again"})
	l.define(&schema.UndropTable{Keyspace: "k", Table: id, As: "old"}, "other")
	restored := auth.Table("k", "old")
	if l.m.Roles.Granted("maker", restored) != made || made == 0 || l.m.Roles.Granted("reader", restored) != reads ||
		l.m.Roles.Granted("again", restored) != 0 || l.m.Roles.Granted("other", restored) != 0 ||
		len(l.m.RetainedGrants) != 0 {
		t.Errorf("maker %v, reader %v, again %v, other %v, retained %v", l.m.Roles.Granted("maker", restored),
			l.m.Roles.Granted("reader", restored), l.m.Roles.Granted("again", restored),
			l.m.Roles.Granted("other", restored), l.m.RetainedGrants)
	}
	l.define(&schema.DropTable{Keyspace: "k", Table: "old", Retention: &schema.Retention{Dropped: 3, Until: 4}}, "")
	l.define(&schema.PurgeTables{Tables: map[schema.StorageID]int64{id: 4}}, "")
	if len(l.m.RetainedGrants) != 0 || !l.m.Schema.Dropped(id) {
		t.Errorf("after the purge: %v", l.m.RetainedGrants)
	}
}

// TestReplacedTableKeepsGrants replaces a table. Its grants apply to the restored table, the restored table's previous
// grants end, and UNDROP TABLE restores the replaced table's own.
func TestReplacedTableKeepsGrants(t *testing.T) {
	l := &commandLog{t: t, m: Empty()}
	for _, name := range []string{"maker", "other"} {
		l.roles(&auth.CreateRole{Name: name})
	}
	l.define(&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1}}, "")
	for i, of := range []struct{ table, creator string }{{"t", "maker"}, {"r", "other"}} {
		l.define(&schema.CreateTable{Keyspace: "k", Table: of.table, ID: schema.UUID{byte(i + 1)},
			Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "a", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}},
			of.creator)
	}
	made, id := l.m.Roles.Granted("maker", auth.Table("k", "t")), l.m.Schema.Table("k", "t").StorageID
	l.define(&schema.ReplaceTables{Retention: &schema.Retention{Dropped: 1, Until: 2}, Tables: []schema.Replacement{
		{Keyspace: "k", From: "r", Table: "t", ID: schema.UUID{2}, Replaced: schema.UUID{1}}}}, "")
	if now := l.m.Schema.Table("k", "t"); made == 0 || now.ID != (schema.UUID{2}) ||
		l.m.Roles.Granted("maker", auth.Table("k", "t")) != made ||
		l.m.Roles.Granted("other", auth.Table("k", "t")) != 0 ||
		l.m.Roles.Granted("other", auth.Table("k", "r")) != 0 {
		t.Errorf("grants on %+v: %v, %v", now, l.m.Roles.Granted("maker", auth.Table("k", "t")),
			l.m.Roles.Granted("other", auth.Table("k", "r")))
	}
	l.define(&schema.UndropTable{Keyspace: "k", Table: id, As: "old"}, "")
	if got := l.m.Roles.Granted("maker", auth.Table("k", "old")); got != made {
		t.Errorf("after UNDROP TABLE: %v, want %v", got, made)
	}
}
