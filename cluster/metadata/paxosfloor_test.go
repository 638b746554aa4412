package metadata

import (
	"maps"
	"testing"

	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// TestPaxosLowBoundsRiseAndAreDropped applies commands in sequence, each to metadata decoded from a snapshot.
func TestPaxosLowBoundsRiseAndAreDropped(t *testing.T) {
	m := Empty()
	step := func(c *Command) error {
		t.Helper()
		c.ID = CommandID{byte(m.Epoch + 1)}
		next, err := apply(m, c, m.Epoch+1)
		m = recode(t, next)
		m.Epoch = next.Epoch + 1 // also after a refusal, because the log continues
		return err
	}
	change := func(c schema.Change) {
		t.Helper()
		if err := step(&Command{Schema: &SchemaChange{Change: schema.EncodeChange(c)}}); err != nil {
			t.Fatal(err)
		}
	}
	table := func(name string) *schema.CreateTable {
		return &schema.CreateTable{Keyspace: "ks", Table: name, ID: schema.UUID{name[0]},
			Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}}}
	}
	raise := func(id schema.StorageID, micros int64) error {
		return step(&Command{PaxosFloor: &PaxosFloor{id, micros}})
	}
	change(&schema.CreateKeyspace{Keyspace: "ks", DurableWrites: true,
		Replication: ring.Replication{Class: ring.Simple, Factor: 3}})
	change(table("a"))
	change(table("b"))
	a, b := m.Schema.Table("ks", "a").StorageID, m.Schema.Table("ks", "b").StorageID
	for _, micros := range []int64{5, 9, 7} {
		if err := raise(a, micros); err != nil {
			t.Fatal(err)
		}
	}
	if err := raise(b, 3); err != nil {
		t.Fatal(err)
	}
	if want := map[schema.StorageID]int64{a: 9, b: 3}; !maps.Equal(m.PaxosFloors, want) {
		t.Errorf("low bounds %v, want %v", m.PaxosFloors, want)
	}
	if err := raise(b+1, 3); err == nil {
		t.Error("a table that does not exist has a low bound")
	}
	change(&schema.DropTable{Keyspace: "ks", Table: "a"})
	if want := map[schema.StorageID]int64{b: 3}; !maps.Equal(m.PaxosFloors, want) {
		t.Errorf("low bounds %v after a drop, want %v", m.PaxosFloors, want)
	}
}
