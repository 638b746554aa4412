package assembly

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"cqld/ring"
	"cqld/schema"
	"cqld/types"
)

// listedStore is storage with tables, some of which may be of dropped ones. It counts its listings.
type listedStore struct {
	stored []schema.StorageID
	listed int
}

func (s *listedStore) Tables() ([]schema.StorageID, error) {
	s.listed++
	return s.stored, nil
}

func (s *listedStore) DropTable(schema.StorageID) error { return nil }

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
				t.Fatalf("the data of table %d is not dropped, only those of %v", id, got)
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
