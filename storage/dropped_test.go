package storage

import (
	"runtime"
	"testing"

	"cqld/schema"
)

// TestDropTableCostsTheSame drops tables of a node that has dropped thousands: each copied the set of them.
func TestDropTableCostsTheSame(t *testing.T) {
	e := openTest(t, Options{Inline: true})
	defer e.Close()
	drop := func(from, n schema.StorageID) uint64 {
		var before, after runtime.MemStats
		runtime.ReadMemStats(&before)
		for id := from; id < from+n; id++ {
			if err := e.DropTable(id); err != nil {
				t.Fatal(err)
			}
		}
		runtime.ReadMemStats(&after)
		return (after.TotalAlloc - before.TotalAlloc) / uint64(n)
	}
	const some = 100
	drop(1000, some)
	first := drop(2000, some)
	for id := schema.StorageID(10_000); id < 50_000; id++ {
		e.dropped.Add(id)
	}
	if last := drop(100_000, some); last > 2*first+1024 {
		t.Errorf("a dropped table allocates %d bytes, after 40,000 others %d", first, last)
	}
}
