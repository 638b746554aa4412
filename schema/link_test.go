package schema

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/internal/tier"
)

// TestSchemasKeepTheirIndexes applies random changes, and compares each schema with one that is built from nothing: by
// numbers in storage, by name, and by version.
func TestSchemasKeepTheirIndexes(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 1))
	s := withTables(t, 0)
	applied := 0
	draws := tier.Draws(2000, 400)
	for i := range draws {
		name := fmt.Sprintf("t%d", rnd.IntN(8))
		var c Change
		switch rnd.IntN(14) {
		case 0, 1:
			create := newTable(i+1, 3)
			create.Table = name
			c = create
		case 2:
			c = &DropTable{Keyspace: "ks", Table: name}
		case 3:
			add := addColumns(fmt.Sprintf("d%d_", i), 1)
			add.Table = name
			c = add
		case 4:
			c = &CreateIndex{Keyspace: "ks", Table: name, Name: fmt.Sprintf("i%d", rnd.IntN(8)), Class: LegacyIndex,
				Column: "c1",
				Target: IndexSimple}
		case 5:
			c = &DropIndex{Keyspace: "ks", Name: fmt.Sprintf("i%d", rnd.IntN(8))}
		case 6:
			if base := s.Table("ks", name); base != nil && base.View == nil {
				c = newView(s, name, fmt.Sprintf("t%d", rnd.IntN(8)), i)
			}
		case 7:
			c = &DropView{Keyspace: "ks", View: name}
		case 8:
			c = &DropTable{Keyspace: "ks", Table: name, Retention: &Retention{Dropped: int64(i), Until: int64(i) + 10}}
		case 9, 10:
			if retained := s.Retained(); len(retained) > 0 {
				dropped := retained[rnd.IntN(len(retained))]
				c = &UndropTable{Keyspace: "ks", Table: dropped.StorageID, As: name}
				if rnd.IntN(4) == 0 {
					c = &PurgeTables{Tables: map[StorageID]int64{dropped.StorageID: dropped.Retention.Until}}
				}
			}
		case 13:
			if table := s.Table("ks", name); table != nil && table.View == nil {
				c = &TruncateTable{Keyspace: "ks", Table: name, Rows: table.StorageID,
					Kept:      UUID{1, byte(i >> 8), byte(i)},
					Retention: Retention{Dropped: int64(i), Until: int64(i) + 10}}
			}
		case 11, 12:
			c = replaceOne(s, rnd, name, int64(i))
		}
		if c == nil {
			continue
		}
		next, err := Apply(s, c)
		if err != nil {
			continue
		}
		applied++
		compareDropped(t, s, next)
		s = next
		compareRebuilt(t, s)
		if t.Failed() {
			t.Fatalf("after %T %+v", c, c)
		}
	}
	if applied < draws/5 {
		t.Fatalf("only %d changes were applied", applied)
	}
}

// replaceOne returns a change that gives a table, with its views, the names of another one, or nil.
func replaceOne(s *Schema, rnd *rand.Rand, name string, now int64) Change {
	from, to := s.Table("ks", fmt.Sprintf("t%d", rnd.IntN(8))), s.Table("ks", name)
	if from == nil || from.View != nil || from == to {
		return nil
	}
	c := &ReplaceTables{Tables: []Replacement{{Keyspace: "ks", From: from.Name, Table: name, ID: from.ID}}}
	if to != nil {
		c.Tables[0].Replaced = to.ID
		for i, v := range from.Views() {
			if i < len(to.Views()) {
				c.Tables = append(c.Tables, Replacement{Keyspace: "ks", From: v.Name, Table: to.Views()[i].Name,
					ID: v.ID})
			}
		}
	}
	if rnd.IntN(2) == 0 {
		c.Retention = &Retention{Dropped: now, Until: now + 10}
	}
	return c
}

// compareRebuilt compares a schema with one whose indexes are built again, and with one that is decoded.
func compareRebuilt(t *testing.T, s *Schema) {
	again := build(s.keyspaces, s.dropped, s.nextStorage)
	if again.version != s.version || len(again.byStorage) != len(s.byStorage) || len(again.byIndex) != len(s.byIndex) {
		t.Errorf("%d tables and %d indexes, version %s; want %d, %d, %s", len(s.byStorage), len(s.byIndex), s.version,
			len(again.byStorage), len(again.byIndex), again.version)
	}
	for id, table := range again.byStorage {
		if s.byStorage[id] != table {
			t.Errorf("number %d does not belong to %s", id, table.Name)
		}
	}
	for id, table := range again.byIndex {
		if s.byIndex[id] != table {
			t.Errorf("index %d does not belong to %s", id, table.Name)
		}
	}
	if !slices.Equal(again.stored, s.stored) || !slices.Equal(again.indexed, s.indexed) {
		t.Errorf("stored %v, indexed %v; want %v and %v", s.stored, s.indexed, again.stored, again.indexed)
	}
	for _, k := range s.keyspaces {
		for i, table := range k.sorted {
			if k.digests[i] != (digested{table.ID, table.digest}) {
				t.Errorf("the digest of %s does not match its definition", table.Name)
			}
		}
		fresh := *k
		fresh.sorted, fresh.linked = nil, false
		if !slices.Equal(k.sorted, fresh.sortTables()) {
			t.Errorf("the tables of %s are not sorted", k.Name)
		}
	}
	decoded, err := Decode(Encode(s))
	if err != nil || decoded.version != s.version {
		t.Errorf("decoded: version %v, want %s: %v", decoded, s.version, err)
	}
}

// compareDropped compares the tables that a change drops with those of the list of numbers.
func compareDropped(t *testing.T, old, now *Schema) {
	var want []StorageID
	for id := FirstStorageID; id < old.nextStorage; id++ {
		if table := old.byStorage[id]; table != nil && table.View == nil && now.Dropped(id) {
			want = append(want, id)
		}
	}
	if got, complete := now.DroppedSince(old); !slices.Equal(got, want) || !complete {
		t.Errorf("dropped %v, complete %v; want %v", got, complete, want)
	}
}

// TestDroppedSinceFindsTablesThatCameAndWent creates and drops a table between two schemas.
func TestDroppedSinceFindsTablesThatCameAndWent(t *testing.T) {
	old := withTables(t, 3)
	now := mustApply(t, old, newTable(3, 2), &DropTable{Keyspace: "ks", Table: "t3"},
		&DropTable{Keyspace: "ks", Table: "t1"})
	if got, complete := now.DroppedSince(old); complete ||
		!slices.Equal(got, []StorageID{old.Table("ks", "t1").StorageID}) {
		t.Errorf("dropped %v, complete %v", got, complete)
	}
	if got, complete := now.DroppedSince(now); !complete || len(got) > 0 {
		t.Errorf("dropped %v, complete %v, without a change", got, complete)
	}
}
