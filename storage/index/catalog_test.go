package index

import (
	"fmt"
	"runtime"
	"testing"

	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// catalogSchema returns a schema with the table k.t, after changes.
func catalogSchema(t *testing.T, more ...schema.Change) *schema.Schema {
	s := schema.Initial()
	for _, c := range append([]schema.Change{
		&schema.CreateKeyspace{Keyspace: "k", Replication: ring.Replication{Class: ring.Simple, Factor: 1},
			DurableWrites: true},
		&schema.CreateTable{Keyspace: "k", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "p", Kind: schema.PartitionKey, Type: types.Native(types.Int)},
				{Name: "q", Kind: schema.PartitionKey, Type: types.Native(types.Int)},
				{Name: "c", Kind: schema.Clustering, Type: types.Native(types.Text)},
				{Name: "v", Kind: schema.Regular, Type: types.Native(types.Int)},
				{Name: "s", Kind: schema.Static, Type: types.Native(types.Int)},
			}}}, more...) {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatalf("%T: %v", c, err)
		}
	}
	return s
}

func indexOn(column string) schema.Change {
	return &schema.CreateIndex{Keyspace: "k", Table: "t", Name: "by_" + column, Class: schema.LegacyIndex,
		Column: column, Target: schema.IndexSimple}
}

// TestCatalogFollowsTheSchema checks the definitions of a table after each change of the schema.
func TestCatalogFollowsTheSchema(t *testing.T) {
	now := catalogSchema(t)
	id := now.Table("k", "t").StorageID
	c := NewCatalog(func(id schema.StorageID) *schema.Table { return now.TableByStorage(id) }, nil)
	if got := c.Of(id); got != nil {
		t.Errorf("a table without indexes has the definitions %v", got)
	}
	now = catalogSchema(t, indexOn("q"), indexOn("c"), indexOn("v"), indexOn("s"))
	table, got := now.Table("k", "t"), c.Of(id)
	if len(got) != len(table.Indexes()) || len(got) != 4 {
		t.Fatalf("%d definitions of %d indexes", len(got), len(table.Indexes()))
	}
	for i, x := range table.Indexes() {
		kind := table.ColumnByID(x.Column).Kind
		partitions := kind == schema.Static || kind == schema.PartitionKey
		if got[i].ID != x.ID || got[i].Partitions != partitions || got[i].OfKey() != (kind == schema.PartitionKey) {
			t.Errorf("the definition of %s is %+v", x.Name, got[i])
		}
	}
	if again := c.Of(id); &again[0] != &got[0] {
		t.Error("the definitions of a table that has not changed are made again")
	}
	now = catalogSchema(t, indexOn("v"))
	if got := c.Of(id); len(got) != 1 || got[0].ID != now.Table("k", "t").Indexes()[0].ID {
		t.Errorf("after indexes were dropped the definitions are %v", got)
	}
	now = schema.Initial()
	if got := c.Of(id); got != nil {
		t.Errorf("a table that was dropped has the definitions %v", got)
	}
}

// TestCatalogOfManyTables requests the definitions of n tables for each version of their schema: 8 times as many
// allocate less than 16 times as much, and old versions are not kept.
func TestCatalogOfManyTables(t *testing.T) {
	allocated := func(n int) uint64 {
		var changes []schema.Change
		for i := range n {
			create := &schema.CreateTable{Keyspace: "k", Table: fmt.Sprint("t", i),
				ID: schema.UUID{2, byte(i >> 8), byte(i)}, Options: schema.DefaultOptions(),
				Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)},
					{Name: "v", Kind: schema.Regular, Type: types.Native(types.Int)}}}
			create.Indexes = []schema.CreateIndex{{Keyspace: "k", Table: create.Table, Class: schema.LegacyIndex,
				Column: "v", Target: schema.IndexSimple}}
			changes = append(changes, create)
		}
		now := catalogSchema(t)
		for _, c := range changes {
			next, err := schema.Apply(now, c)
			if err != nil {
				t.Fatal(err)
			}
			now = next
		}
		c := NewCatalog(func(id schema.StorageID) *schema.Table { return now.TableByStorage(id) }, nil)
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for range 10 {
			for _, id := range now.IndexedIDs() {
				if got := c.Of(id); len(got) != 1 {
					t.Fatalf("table %d has %d definitions", id, len(got))
				}
			}
		}
		runtime.ReadMemStats(&after)
		decoded, err := schema.Decode(schema.Encode(now)) // new versions of all tables
		if err != nil {
			t.Fatal(err)
		}
		now = decoded
		for range 3 {
			for _, id := range now.IndexedIDs() {
				c.Of(id)
			}
		}
		kept := 0
		c.known.Range(func(any, any) bool { kept++; return true })
		if kept > 2*n {
			t.Errorf("the definitions of %d versions of %d tables are kept", kept, n)
		}
		return after.TotalAlloc - before.TotalAlloc
	}
	if few, many := allocated(100), allocated(800); many > 16*few {
		t.Errorf("definitions of 100 tables allocated %d bytes, those of 800 %d", few, many)
	}
}
