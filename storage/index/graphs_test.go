package index

import (
	"fmt"
	"math/rand/v2"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/schema"
	"cqld/types/similarity"
)

// TestFullGraphIsFilledAgain fills a graph until it has too many bytes, and removes most of the entries. The graph is
// filled again, and searches use it.
func TestFullGraphIsFilledAgain(t *testing.T) {
	m := &vectorRun{t: t, rng: rand.New(rand.NewPCG(5, 6)), disk: vfs.NewMem(),
		def: vectorDefinition(similarity.Euclidean)}
	m.open()
	defer func() { _ = m.engine.Close() }()
	m.values.SetGraphBytes(20_000, 0)
	const partitions, rows = 10, 20
	for i := range partitions * rows {
		m.apply(putRow(fmt.Sprint(i%partitions), i/partitions, 1, string(encodeVector(float32(i), 1, 2))))
	}
	refresh := func() GraphStats {
		t.Helper()
		for more := true; more; {
			found, err := m.values.Refresh([]schema.StorageID{testTable}, 10)
			if err != nil {
				t.Fatal(err)
			}
			more = found.More
		}
		return m.values.GraphStats()
	}
	if s := refresh(); s.Full != 1 || s.Vectors != 0 {
		t.Fatalf("%d entries fit: %+v", partitions*rows, s)
	}
	m.values.sweeps.patience = 0
	for i := range partitions - 1 {
		m.apply(deleteKey(fmt.Sprint(i), 2, 100))
	}
	// The purge of the rows removes their entries.
	for wrapped, err := false, error(nil); !wrapped; {
		if wrapped, err = m.engine.Sweep(100); err != nil {
			t.Fatal(err)
		}
	}
	for wrapped, err := false, error(nil); !wrapped; {
		if _, wrapped, err = m.values.Sweep(100, 1<<40); err != nil {
			t.Fatal(err)
		}
	}
	if s := refresh(); s.Ready != 1 || s.Vectors != rows {
		t.Errorf("%d entries are left: %+v", rows, s)
	}
	before := m.values.GraphStats()
	m.search()
	if s := m.values.GraphStats(); s.Searches == before.Searches || s.Scans != before.Scans {
		t.Errorf("the graph is not searched: %+v", s)
	}
}
