package assembly

import (
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/cluster/metadata"
	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// listedStore is storage with tables. Some of them may be dropped. It counts its listings, and records the drops.
type listedStore struct {
	stored  []schema.StorageID
	listed  int
	dropped []schema.StorageID
}

func (s *listedStore) Tables() ([]schema.StorageID, error) {
	s.listed++
	return s.stored, nil
}

func (s *listedStore) DropTable(id schema.StorageID) error {
	s.dropped = append(s.dropped, id)
	return nil
}

func changed(t *testing.T, s *schema.Schema, c schema.Change) *schema.Schema {
	t.Helper()
	next, err := schema.Apply(s, c)
	if err != nil {
		t.Fatal(err)
	}
	return next
}

// TestDroppedTablesAreFound applies random schema changes and reconciles after one or several of them. Each
// reconciliation must find all tables that were dropped since the previous one, including tables that were created and
// dropped in between. It may list the tables in storage only to find the latter.
func TestDroppedTablesAreFound(t *testing.T) {
	rnd := rand.New(rand.NewPCG(1, 2))
	now := changed(t, schema.Initial(), &schema.CreateKeyspace{Keyspace: "ks",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}, DurableWrites: true})
	store := &listedStore{stored: []schema.StorageID{schema.FirstStorageID}}
	r := newReactions(reactionOptions{store: store})
	serial, wantListed := 0, 1
	var names []string
	open := map[string]schema.StorageID{}
	for range 500 {
		var want []schema.StorageID
		first, list := now, false
		for range 1 + rnd.IntN(3) {
			if len(names) > 0 && rnd.IntN(2) == 0 {
				i := rnd.IntN(len(names))
				id := open[names[i]]
				now = changed(t, now, &schema.DropTable{Keyspace: "ks", Table: names[i]})
				names = slices.Delete(names, i, i+1)
				want = append(want, id)
				list = list || first.TableByStorage(id) == nil
				continue
			}
			serial++
			name := fmt.Sprint("t", serial)
			now = changed(t, now, &schema.CreateTable{Keyspace: "ks", Table: name,
				ID:      schema.UUID{byte(serial >> 8), byte(serial)},
				Options: schema.DefaultOptions(),
				Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}})
			names, open[name] = append(names, name), now.Table("ks", name).StorageID
			store.stored = append(store.stored, open[name])
		}
		got, err := r.dropped(now)
		if err != nil {
			t.Fatal(err)
		}
		for _, id := range want {
			if !slices.Contains(got, id) {
				t.Fatalf("the data of table %d is not dropped, only the data of %v", id, got)
			}
		}
		for _, id := range got {
			if !now.Dropped(id) {
				t.Fatalf("the data of table %d would be dropped", id)
			}
		}
		if list && r.catalog != nil {
			wantListed++
		}
		r.catalog = now
	}
	if store.listed != wantListed {
		t.Errorf("storage was listed %d times, want %d", store.listed, wantListed)
	}
}

// TestDroppedTablesAreDescribed drops two tables before a pass has seen them. The owner of the node receives the schema
// that still contained each, and can postpone the removal of the data. Reconciled tables are forgotten.
func TestDroppedTablesAreDescribed(t *testing.T) {
	var history []*schema.Schema
	now := changed(t, schema.Initial(), &schema.CreateKeyspace{Keyspace: "ks",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}, DurableWrites: true})
	refused, described := errors.New("refused"), map[schema.StorageID]*schema.Schema{}
	refuse := true
	store := &listedStore{}
	r := newReactions(reactionOptions{store: store, log: slog.New(slog.DiscardHandler), opening: &Opening{
		TableDropped: func(before *schema.Schema, id schema.StorageID) error {
			if refuse {
				return refused
			}
			described[id] = before
			return nil
		}}})
	follow := func(c schema.Change) {
		next := changed(t, now, c)
		r.noteDrops(now, next)
		now, history = next, append(history, next)
	}
	for i, name := range []string{"a", "b"} {
		follow(&schema.CreateTable{Keyspace: "ks", Table: name, ID: schema.UUID{byte(i + 1)},
			Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}})
	}
	a, b := now.Table("ks", "a").StorageID, now.Table("ks", "b").StorageID
	store.stored = []schema.StorageID{a, b}
	follow(&schema.DropTable{Keyspace: "ks", Table: "a"})
	follow(&schema.DropTable{Keyspace: "ks", Table: "b"})
	if err := r.dropTables(&metadata.Metadata{Schema: now}); !errors.Is(err, refused) || store.dropped != nil {
		t.Fatalf("%v, dropped %v", err, store.dropped)
	}
	refuse = false
	for _, id := range []schema.StorageID{a, b} {
		if err := r.dropTable(id); err != nil {
			t.Fatal(err)
		}
	}
	if !slices.Equal(store.dropped, []schema.StorageID{a, b}) || described[a] != history[1] ||
		described[b] != history[2] {
		t.Errorf("dropped %v, described by %v", store.dropped, described)
	}
	if r.forgetDrops(history[2]); !slices.Equal(r.mu.described, []description{{b, history[2]}}) {
		t.Errorf("after the pass of the first drop: %v", r.mu.described)
	}
	if r.forgetDrops(now); len(r.mu.described) != 0 {
		t.Errorf("after both: %v", r.mu.described)
	}
}

// TestDescriptionsOfDroppedTablesAreBounded drops more tables than are described while nothing is reconciled. The
// schema that was reconciled last describes the others, also one whose drop is not noted yet.
func TestDescriptionsOfDroppedTablesAreBounded(t *testing.T) {
	before := changed(t, schema.Initial(), &schema.CreateKeyspace{Keyspace: "ks",
		Replication: ring.Replication{Class: ring.Simple, Factor: 1}, DurableWrites: true})
	var ids []schema.StorageID
	for i := range describedMax + 3 {
		name := fmt.Sprint("t", i)
		before = changed(t, before, &schema.CreateTable{Keyspace: "ks", Table: name, Options: schema.DefaultOptions(),
			ID:      schema.UUID{byte(i), byte(i >> 8), 1},
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Int)}}})
		ids = append(ids, before.Table("ks", name).StorageID)
	}
	r := newReactions(reactionOptions{})
	now := before
	for i := range describedMax + 2 {
		next := changed(t, now, &schema.DropTable{Keyspace: "ks", Table: fmt.Sprint("t", i)})
		r.noteDrops(now, next)
		if i > 0 && r.describing(ids[i]) != now {
			t.Fatalf("table %d is described by another schema", i)
		}
		now = next
	}
	if n := len(r.mu.described); n != describedMax {
		t.Errorf("%d descriptions, want %d", n, describedMax)
	}
	for _, i := range []int{0, 1, describedMax + 2} {
		if r.describing(ids[i]) != nil {
			t.Errorf("table %d is described before the first pass", i)
		}
	}
	r.catalog = before
	for i, id := range ids {
		if s := r.describing(id); s == nil || s.TableByStorage(id) == nil {
			t.Errorf("table %d is not described", i)
		}
	}
}
