package metadata

import (
	"errors"
	"testing"

	"cqld/auth"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// TestRestoredKeyspaceHasItsGrants drops a keyspace with grants and a former replication, creates another one with its
// name, and restores the first one under another name: what belonged to it returns under this name.
func TestRestoredKeyspaceHasItsGrants(t *testing.T) {
	m, index := Empty(), uint64(0)
	do := func(c *Command) error {
		t.Helper()
		index++
		c.ID = CommandID{byte(index)}
		next, err := Apply(m, c, index)
		if m = next; err != nil {
			return err
		}
		// Each command follows a snapshot.
		b, err := m.Encode()
		if err == nil {
			m, err = Decode(b)
		}
		if err != nil {
			t.Fatal(err)
		}
		return nil
	}
	must := func(err error) {
		t.Helper()
		if err != nil {
			t.Fatal(err)
		}
	}
	define := func(c schema.Change, creator string) {
		t.Helper()
		must(do(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(c), Creator: creator}}))
	}
	roles := func(c auth.Change) {
		t.Helper()
		b, err := auth.EncodeChange(c)
		must(err)
		must(do(&Command{Roles: &RolesChange{b}}))
	}
	for _, name := range []string{"maker", "reader", "again", "other"} {
		roles(&auth.CreateRole{Name: name})
	}
	create := &schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1}}
	define(create, "maker")
	define(&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
		Columns: []schema.ColumnSpec{{Name: "a", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}}, "maker")
	reads := auth.NewPermissionSet(auth.Select)
	for _, name := range []string{"reader", "again"} {
		roles(&auth.GrantPermissions{Role: name, Resource: auth.Table("k", "t"), Permissions: reads})
	}
	roles(&auth.GrantPermissions{Role: "reader", Resource: auth.AllTables("k"), Permissions: reads})
	made := m.Roles.Granted("maker", auth.KeyspaceFunctions("k"))
	// As after an ALTER KEYSPACE whose node 1 has not dropped the rows that it lost.
	m.Former = []Former{{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 2}, Epoch: index,
		Nodes: []ring.NodeID{1}}}
	drop := &schema.DropKeyspace{Keyspace: "k", Retention: &schema.Retention{Dropped: 1, Until: 2}}
	define(drop, "")
	hidden := m.Schema.DroppedKeyspaces()[0].Name
	if len(m.RetainedKeyspaceGrants) != 6 || len(m.Roles.Grants("maker")) != 0 || m.Former[0].Keyspace != hidden {
		t.Fatalf("retained %v, former %v", m.RetainedKeyspaceGrants, m.Former)
	}
	define(create, "")
	if m.Roles.Has("reader", auth.Select, auth.Table("k", "t")) {
		t.Error("a new keyspace has the grants of the dropped one")
	}
	roles(&auth.DropRole{Name: "again"})
	roles(&auth.CreateRole{Name: "again"})
	undrop := &schema.UndropKeyspace{Keyspace: hidden, As: "old"}
	// Nodes that stream Paxos states of the dropped keyspace use its hidden name.
	idle := m.Topology
	m.Topology = ring.NewMovingTopology(index, index, []*ring.Node{{ID: 1, Tokens: []ring.Token{1}}},
		[]*ring.Operation{{ID: 1, Kind: ring.Move, Node: 1, Phase: ring.Streaming}})
	var refused *Refused
	index++
	_, err := Apply(m, &Command{ID: CommandID{byte(index)},
		Schema: &SchemaChange{Change: schema.EncodeChange(undrop)}}, index)
	if !errors.As(err, &refused) || !refused.Busy {
		t.Errorf("while the ring changes: %v", err)
	}
	m.Topology = idle
	define(undrop, "other")
	if m.Roles.Granted("maker", auth.KeyspaceFunctions("old")) != made || made == 0 ||
		m.Roles.Granted("maker", auth.Keyspace("old")) == 0 || m.Roles.Granted("maker", auth.Table("old", "t")) == 0 ||
		m.Roles.Granted("reader", auth.Table("old", "t")) != reads ||
		m.Roles.Granted("reader", auth.AllTables("old")) != reads || len(m.Roles.Grants("again")) != 0 ||
		len(m.Roles.Grants("other")) != 0 || len(m.RetainedKeyspaceGrants) != 0 || m.Former[0].Keyspace != "old" {
		t.Errorf("maker %v, reader %v, again %v, other %v, retained %v, former %v", m.Roles.Grants("maker"),
			m.Roles.Grants("reader"), m.Roles.Grants("again"), m.Roles.Grants("other"),
			m.RetainedKeyspaceGrants, m.Former)
	}
	drop.Keyspace = "old"
	define(drop, "")
	define(&schema.PurgeKeyspaces{Keyspaces: map[string]int64{m.Schema.DroppedKeyspaces()[0].Name: 2}}, "")
	if len(m.RetainedKeyspaceGrants) != 0 || len(m.Former) != 0 {
		t.Errorf("after the purge: %v, %v", m.RetainedKeyspaceGrants, m.Former)
	}
}
