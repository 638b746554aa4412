package dropped

import (
	"math/rand/v2"
	"sync"
	"testing"

	"cqld/schema"
)

// TestTablesAreASet compares the set with a map, for consecutive and for arbitrary ids.
func TestTablesAreASet(t *testing.T) {
	var d Tables
	if !d.Empty() || d.Contains(0) {
		t.Fatal("the zero value is not empty")
	}
	r := rand.New(rand.NewPCG(7, 31))
	want := map[schema.StorageID]bool{}
	for i := range schema.StorageID(5000) {
		id := i
		if i%3 == 0 {
			id = schema.StorageID(r.Uint32())
		}
		d.Add(id)
		d.Add(id)
		want[id] = true
	}
	d.Add(1<<32 - 1)
	want[1<<32-1] = true
	if d.n != len(want) || d.Empty() {
		t.Errorf("%d elements, want %d", d.n, len(want))
	}
	for id := range want {
		if !d.Contains(id) {
			t.Errorf("table %d is not in the set", id)
		}
	}
	for range 10_000 {
		if id := schema.StorageID(r.Uint32()); d.Contains(id) != want[id] {
			t.Errorf("contains(%d) is %v", id, !want[id])
		}
	}
}

// TestTablesWhileTheyAreRead adds tables while readers look: a reader that was started after a table was added
// finds it, also while the set grows.
func TestTablesWhileTheyAreRead(t *testing.T) {
	var d Tables
	var wg sync.WaitGroup
	for id := range schema.StorageID(2000) {
		d.Add(id)
		if id%100 == 0 {
			wg.Go(func() {
				for known := range id + 1 {
					if !d.Contains(known) {
						t.Errorf("table %d of %d is not in the set", known, id)
					}
				}
			})
		}
	}
	wg.Wait()
}
