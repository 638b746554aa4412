package resolve

import (
	"testing"

	"cqld/row"
)

// TestRepairsOutliveTheirPages: a repair may be sent after the read was answered, when its pages contain another read's rows
// (simulation, seed 163: rows of a partition that no client had written).
func TestRepairsOutliveTheirPages(t *testing.T) {
	page := []byte("key")
	r := row.NewRow()
	r.Clustering = []byte("c")
	r.Liveness.Timestamp = 1
	merged := &row.Partition{Key: row.NewPartitionKey(page), Header: *row.NewRow(), Rows: []row.Row{*r}}
	m := Difference(&row.ReadCommand{Table: 1}, merged, nil)
	clear(page)
	clear(r.Clustering)
	if string(m.Key.Bytes) != "key" {
		t.Errorf("the repair's key is %q", m.Key.Bytes)
	}
	var e row.Entry
	if es := m.Entries(); !es.Next(&e) || string(e.Start) != "c" {
		t.Errorf("the repair's row is %q", e.Start)
	}
}
