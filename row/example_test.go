package row_test

import (
	"fmt"
	"math/rand/v2"

	"cqld/row"
	"cqld/schema"
)

const name, age schema.ColumnID = 1, 2

// version returns a row whose cells have one timestamp, in microseconds.
func version(timestamp int64, cells ...row.Cell) *row.Row {
	r := row.NewRow()
	for _, c := range cells {
		c.Timestamp = timestamp
		r.Cells = append(r.Cells, c)
	}
	return r
}

func show(r *row.Row) {
	for _, c := range r.Cells {
		fmt.Printf("column %d at %d: %q, tombstone %t\n", c.Column, c.Timestamp, c.Value, c.Tombstone)
	}
}

// A row is encoded without its clustering, which is part of its key. A decoded row points into the encoded bytes.
func ExampleAppendRow() {
	r := row.NewRow()
	r.Liveness = row.Liveness{Timestamp: 1000}
	r.Cells = []row.Cell{{Column: name, Timestamp: 1000, Value: []byte("Ada")},
		{Column: age, Timestamp: 1000, Value: []byte{0, 0, 0, 36}}}
	encoded := row.AppendRow(nil, r)

	var decoded row.Row
	if err := row.DecodeRow(&decoded, encoded); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println(len(encoded), "bytes, live:", decoded.Live(0))
	show(&decoded)
	fmt.Println(row.DecodeRow(&decoded, encoded[:len(encoded)-1]) != nil)
	// Output:
	// 22 bytes, live: true
	// column 1 at 1000: "Ada", tombstone false
	// column 2 at 1000: "\x00\x00\x00$", tombstone false
	// true
}

// Reconcile merges two versions of a row, as replicas have them: for each cell the later version wins.
func ExampleReconcile() {
	inserted := version(1000, row.Cell{Column: name, Value: []byte("Ada")},
		row.Cell{Column: age, Value: []byte{0, 0, 0, 36}})
	updated := version(2000, row.Cell{Column: name, Value: []byte("Grace")})
	deleted := version(3000, row.Cell{Column: age, Tombstone: true, LocalTime: 3})

	versions := []*row.Row{inserted, updated, deleted}
	// the order does not matter
	rand.Shuffle(len(versions), func(i, j int) { versions[i], versions[j] = versions[j], versions[i] })
	merged, all := row.NewRow(), row.NewRow()
	row.Reconcile(merged, versions[0], versions[1])
	row.Reconcile(all, merged, versions[2])
	show(all)
	// Output:
	// column 1 at 2000: "Grace", tombstone false
	// column 2 at 3000: "", tombstone true
}

// Of two versions of a cell with one timestamp, a tombstone wins over a value, and the greater value over the smaller.
func ExampleReconcileCells() {
	a := &row.Cell{Column: name, Timestamp: 1000, Value: []byte("Ada")}
	b := &row.Cell{Column: name, Timestamp: 1000, Value: []byte("Grace")}
	fmt.Printf("%s\n", row.ReconcileCells(a, b).Value)
	tombstone := &row.Cell{Column: name, Timestamp: 1000, Tombstone: true}
	fmt.Println(row.ReconcileCells(a, tombstone).Tombstone)
	// Output:
	// Grace
	// true
}

// A mutation changes one partition of one table atomically.
func ExampleMutation() {
	m := &row.Mutation{Table: schema.FirstStorageID, Key: row.NewPartitionKey([]byte("user 1"))}
	r := version(1000, row.Cell{Column: name, Value: []byte("Ada")})
	r.Clustering = []byte("c")
	m.AddRow(r)

	entries := m.Entries()
	for e := (row.Entry{}); entries.Next(&e); {
		if err := row.DecodeRow(r, e.Value); err != nil {
			fmt.Println(err)
			return
		}
		fmt.Printf("row %q\n", e.Start)
		show(r)
	}
	fmt.Println(entries.Err())
	// Output:
	// row "c"
	// column 1 at 1000: "Ada", tombstone false
	// <nil>
}
