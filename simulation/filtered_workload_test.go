package simulation

import (
	"bytes"
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/internal/model"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
	"cqld/types"
)

// filtereds is the workload of reads with filters. One client for each partition overwrites, expires and deletes the
// values of few rows and of a static column, and tries each change until it is acknowledged. Between two changes it
// reads at QUORUM with a filter on any columns, of its partition or of the whole ring, page after page. After the
// coordinator's own evaluation of the filter, which the workload repeats without package row, the rows must be those of
// a model that has all acknowledged changes: a replica that missed a change must not contribute a row that no longer
// matches.
type filtereds struct {
	clients
	table *schema.Table
	parts []*filteredPartition
	drawn func() []byte // draws values instead of digits, if it is not nil
	tried int
	acked int
}

// filteredPartition is what a client knows of its partition.
type filteredPartition struct {
	key     row.PartitionKey
	model   model.Table
	pending *row.Mutation // until acknowledged
	changes int
}

const (
	filteredClients = 3
	filteredRows    = 12
	filteredValues  = 3 // distinct values of v and s
)

// filteredTable has two clustering columns, one of them descending, and one static and one regular column.
func filteredTable() *schema.CreateTable {
	text, number := types.Native(types.Text), types.Native(types.Int)
	return texttable.Typed("filtereds",
		schema.ColumnSpec{Name: "k", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "c", Kind: schema.Clustering, Type: number},
		schema.ColumnSpec{Name: "d", Kind: schema.Clustering, Type: number, Desc: true},
		schema.ColumnSpec{Name: "s", Kind: schema.Static, Type: text},
		schema.ColumnSpec{Name: "v", Kind: schema.Regular, Type: text})
}

// filteredKind is the entry of the workload. TestSim draws it besides those of workloadKinds.
func filteredKind() workloadKind {
	return workloadKind{name: "filtered", tables: tables(filteredTable()),
		make: func(c *Cluster) workload { return newFiltereds(c) }}
}

func newFiltereds(c *Cluster) *filtereds {
	w := &filtereds{clients: newClients(c, "filtered"), table: c.table("filtereds")}
	for i := range filteredClients {
		w.parts = append(w.parts, &filteredPartition{key: row.NewPartitionKey([]byte("filtered" + strconv.Itoa(i)))})
	}
	return w
}

func (w *filtereds) counts() (tried, acked int) { return w.tried, w.acked }

func (w *filtereds) start() {
	w.launch(filteredClients, 30*time.Millisecond, func(l *process, client int, end func() bool) {
		p := w.parts[client]
		if p.pending == nil && w.rand.Chance(500) {
			w.read(l, w.draw(p), ring.Quorum, func(error) { end() })
			return
		}
		if p.pending == nil {
			p.pending = w.change(l, p)
		}
		w.write(l, p, func(error) { end() })
	})
}

// clustering is that of the i-th row.
func (w *filtereds) clustering(i int) []byte {
	c := w.table.Clustering
	b := c[0].Type.AppendOrdered(nil, filteredInt(i/4), c[0].Desc)
	return c[1].Type.AppendOrdered(b, filteredInt(i%4), c[1].Desc)
}

func filteredInt(i int) []byte { return []byte{0, 0, 0, byte(i)} }

func (w *filtereds) value() []byte {
	if w.drawn != nil {
		return w.drawn()
	}
	return []byte{'0' + byte(w.rand.Intn(filteredValues))}
}

// change draws what is done to a partition.
func (w *filtereds) change(l *process, p *filteredPartition) *row.Mutation {
	p.changes++
	stamp, now := w.c.order.stamp(), clock{l}.Now().Unix()
	deletion := row.Deletion{Timestamp: stamp, LocalTime: now}
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, p.key)
	r := row.NewRow()
	switch w.rand.Intn(16) {
	case 0:
		r.Deletion = deletion
		m.AddHeader(r)
		return m
	case 1:
		from := w.clustering(w.rand.Intn(filteredRows))
		m.AddRangeTombstone(row.RangeTombstone{Start: from, End: row.After(from[:len(from)/2]), Deletion: deletion})
		return m
	case 2:
		r.Deletion, r.Clustering = deletion, w.clustering(w.rand.Intn(filteredRows))
		m.AddRow(r)
		return m
	case 3, 4:
		r.Cells = append(r.Cells, row.Cell{Column: w.table.Column("s").ID, Timestamp: stamp, Value: w.value()})
		m.AddHeader(r)
		return m
	}
	for range 1 + w.rand.Intn(4) {
		r := row.NewRow()
		r.Clustering, r.Liveness.Timestamp = w.clustering(w.rand.Intn(filteredRows)), stamp
		cell := row.Cell{Column: w.table.Column("v").ID, Timestamp: stamp, Value: w.value()}
		switch w.rand.Intn(8) {
		case 0:
			cell.Tombstone, cell.LocalTime, cell.Value = true, now, nil
		case 1:
			cell.TTL = int32(1 + w.rand.Intn(3))
			cell.LocalTime = now + int64(cell.TTL)
		}
		r.Cells = append(r.Cells, cell)
		m.AddRow(r)
	}
	return m
}

// write tries the pending change; once it is acknowledged, the model has it, too.
func (w *filtereds) write(l *process, p *filteredPartition, done func(error)) {
	w.tried++
	m := p.pending
	l.write(m, ring.Quorum, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("filtered write ", err))
		if err == nil && p.pending == m {
			w.acked++
			p.model.Apply(m)
			p.pending = nil
		}
		done(err)
	})
}

// filteredRow is a row as a client sees it. An empty value is null.
type filteredRow struct{ key, clustering, s, v string }

// filteredQuery is a filter, with the same conditions as a function on rows.
type filteredQuery struct {
	part    *filteredPartition
	reader  *pages.Reader
	matches []func(filteredRow) bool
	text    string
}

// draw draws a query of a partition or of the whole ring.
func (w *filtereds) draw(p *filteredPartition) *filteredQuery {
	q := &filteredQuery{part: p, reader: &pages.Reader{Table: w.table.StorageID, Only: &p.key,
		Limit: uint32(1 + w.rand.Intn(8))}}
	if w.rand.Chance(300) {
		q.reader.Only = nil
	} else {
		q.reader.Reversed = w.rand.Chance(300)
	}
	q.reader.Filter = &row.Filter{PartitionKey: 1}
	for _, c := range w.table.Clustering {
		q.reader.Filter.Clustering = append(q.reader.Filter.Clustering,
			row.ClusteringColumn{Type: c.Type, Desc: c.Desc})
	}
	for range 1 + w.rand.Intn(2) {
		w.condition(q)
	}
	return q
}

// condition adds a condition to q.
func (w *filtereds) condition(q *filteredQuery) {
	x := w.value()
	name, op, values := "v", row.FilterEqual, [][]byte{x}
	match := func(r filteredRow) bool { return r.v == string(x) }
	switch w.rand.Intn(8) {
	case 0:
		name, match = "s", func(r filteredRow) bool { return r.s == string(x) }
	case 1:
		y := w.value()
		op, values = row.FilterIn, append(values, y)
		match = func(r filteredRow) bool { return r.v == string(x) || r.v == string(y) }
	case 2:
		name, match = "c", func(r filteredRow) bool { return w.part(r, 0) >= int(x[0]-'0') }
		op, values = row.FilterGreaterOrEqual, [][]byte{filteredInt(int(x[0] - '0'))}
	case 3:
		name, match = "d", func(r filteredRow) bool { return w.part(r, 1) == int(x[0]-'0') }
		values = [][]byte{filteredInt(int(x[0] - '0'))}
	case 4:
		name, values = "k", [][]byte{q.part.key.Bytes}
		match = func(r filteredRow) bool { return r.key == string(q.part.key.Bytes) }
	case 5:
		op, match = row.FilterLess, func(r filteredRow) bool { return r.v != "" && r.v < string(x) }
	}
	c := w.table.Column(name)
	q.reader.Filter.Add(row.Condition{Kind: c.Kind, Column: c.ID, Position: c.Position, Operator: op, Type: c.Type,
		Values: values})
	q.matches = append(q.matches, match)
	q.text += fmt.Sprintf("%s %d %q; ", name, op, values)
}

// part is the value of a clustering column of r.
func (w *filtereds) part(r filteredRow, position int) int {
	rest := []byte(r.clustering)
	for i, c := range w.table.Clustering {
		value, after, err := c.Type.ConsumeOrdered(nil, rest, c.Desc)
		if err != nil {
			w.c.fail("filtered: clustering %x: %v", r.clustering, err)
			return 0
		}
		if rest = after; i == position {
			return int(value[3])
		}
	}
	return 0
}

// read reads page after page, and compares the rows of the client's partition with the model.
func (w *filtereds) read(l *process, q *filteredQuery, level ring.Consistency, done func(error)) {
	w.tried++
	p, began := q.part, q.part.changes
	now := clock{l}.Now().Unix()
	var found []filteredRow
	var next func()
	next = func() {
		l.coord.Read(&coordinator.ReadRequest{Command: q.reader.Command(now), Consistency: level,
			Timeout: operationTimeout}, func(page []byte, err error) {
			if err == nil {
				err = q.reader.Took(page, func(r *row.PageReader, x *row.Row, _ bool) {
					if x != nil && x.Live(now) && bytes.Equal(r.Key.Bytes, p.key.Bytes) {
						found = w.add(found, q, r, x, now)
					}
				})
			}
			w.c.kernel.Trace(fmt.Sprint("filtered read ", len(found), err))
			if err == nil && !q.reader.Done() {
				next()
				return
			}
			if err == nil && p.changes == began && p.pending == nil {
				w.acked++
				err = w.compare(q, level, found, now)
			}
			done(err)
		})
	}
	next()
}

// readAll reads all pages of a partition at ALL, which repairs every replica.
func (w *filtereds) readAll(l *process, p *filteredPartition, done func(error)) {
	w.read(l, &filteredQuery{part: p, reader: &pages.Reader{Table: w.table.StorageID, Only: &p.key}}, ring.All, done)
}

// add appends a live row if it matches, as the coordinator's node does.
func (w *filtereds) add(to []filteredRow, q *filteredQuery, r *row.PageReader, x *row.Row, now int64) []filteredRow {
	seen := filteredRow{key: string(r.Key.Bytes), clustering: string(x.Clustering), s: liveText(&r.Header, now),
		v: liveText(x, now)}
	for _, match := range q.matches {
		if !match(seen) {
			return to
		}
	}
	return append(to, seen)
}

// liveText is the only value of a row with at most one cell.
func liveText(r *row.Row, now int64) string {
	if len(r.Cells) > 0 && r.Cells[0].Live(now) {
		return string(r.Cells[0].Value)
	}
	return ""
}

// compare compares what was read with the rows of the model that match.
func (w *filtereds) compare(q *filteredQuery, level ring.Consistency, found []filteredRow, now int64) error {
	var want []filteredRow
	var r row.PageReader
	var x row.Row
	cmd := &row.ReadCommand{Table: w.table.StorageID, Key: q.part.key, Slices: []row.Slice{row.AllRows()},
		Reversed: q.reader.Reversed, Now: now}
	for r.Reset(q.part.model.Read(cmd)); r.NextPartition(); {
		for r.NextRow(&x) {
			if x.Live(now) {
				want = w.add(want, q, &r, &x, now)
			}
		}
	}
	if r.Err() == nil && !slices.Equal(found, want) {
		w.c.fail("filtered: %s at %s with %s reads %q, not %q", q.part.key.Bytes, level, q.text, found, want)
	}
	return r.Err()
}

// readBack sees to it that the last changes are made, and reads all partitions with filters from every node: at QUORUM
// and, after a read at ALL has repaired every replica, at ONE, where the replica evaluates the whole filter.
func (w *filtereds) readBack() {
	for _, p := range w.parts {
		if p.pending != nil {
			w.c.must(w.c.present()[0], "the last change of a filtered partition",
				func(l *process, done func(error)) { w.write(l, p, done) })
		}
		w.c.everywhere("a filtered partition", func(l *process,
			done func(error)) {
			w.read(l, w.draw(p), ring.Quorum, done)
		})
		w.c.must(w.c.present()[0], "a filtered partition at ALL", func(l *process, done func(error)) {
			w.readAll(l, p, done)
		})
		for range 3 {
			w.c.everywhere("a filtered partition at ONE", func(l *process, done func(error)) {
				q := w.draw(p)
				q.reader.Only, q.reader.Reversed = &p.key, false
				w.read(l, q, ring.One, done)
			})
		}
	}
}

// check has nothing left to do: every read was compared when it ended.
func (w *filtereds) check() {}
