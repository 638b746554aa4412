package resolve

import (
	"testing"

	"cqld/row"
)

// TestRepairsOutliveTheirPages: a repair may be sent after the read was answered, when its pages contain another read's
// rows (simulation, seed 163: rows of a partition that no client had written).
func TestRepairsOutliveTheirPages(t *testing.T) {
	r := row.NewRow()
	r.Clustering = []byte("c")
	r.Liveness.Timestamp = 1
	w := row.NewPageWriter(nil)
	w.Partition(row.NewPartitionKey([]byte("key")), row.NewRow(), nil)
	w.Row(r)
	w.EndPartition()
	page := w.Finish(false)
	s := New(&row.ReadCommand{Table: 1}, 1<<20)
	v, err := s.Parse(1, page)
	if err != nil {
		t.Fatal(err)
	}
	m := s.Difference(s.cmd, v.partitions[0], nil)
	clear(page)
	if string(m.Key.Bytes) != "key" {
		t.Errorf("the repair's key is %q", m.Key.Bytes)
	}
	var e row.Entry
	if es := m.Entries(); !es.Next(&e) || string(e.Start) != "c" {
		t.Errorf("the repair's row is %q", e.Start)
	}
}
