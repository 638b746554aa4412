package simulation

import (
	"errors"
	"fmt"
	"math/bits"
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

// riches is the workload: one client for each partition changes rows with static columns, elements of maps and expiring
// cells, and deletes elements, maps, rows, ranges and the whole partition, at QUORUM. Some changes are abandoned, and
// may or may not be applied. A read at QUORUM must return the state of the model after all acknowledged changes and
// some of the abandoned ones; a change that one read has returned must persist. The model (package internal/model)
// shares with the code under test only the reconciliation of two cells.
type riches struct {
	clients
	table *schema.Table
	parts []*richPartition
	tried int
	acked int
}

// richPartition is a client's knowledge of its partition. Only the partition's client changes it, so the order of
// changes is known. The possible states of the partition at any time are done with each subset of maybe:
//
//	pending ─ acknowledged ─▶ done ◀─ a read shows it ─ maybe
//	   └──── abandoned ───────────────────────────────▶ maybe
type richPartition struct {
	key row.PartitionKey
	// done contains the changes that were acknowledged, or seen by a read.
	done []*row.Mutation
	// model is the state after done.
	model *model.Table
	// maybe contains abandoned changes: they were sent, and may be applied at any time.
	maybe   []*row.Mutation
	pending *row.Mutation
	// tries counts the attempts of the pending change, changes all changes that were drawn.
	tries   int
	changes int
}

const (
	// Three partitions, each with its own client.
	richClients = 3
	// Rows and elements of maps are few, so that changes hit each other.
	richRows     = 8
	richElements = 4
	// richMaybe is the maximum number of abandoned changes of a partition at a time.
	richMaybe = 3
)

// richTable returns the schema of a table with a static column, a multi-cell map and a plain column.
func richTable() *schema.CreateTable {
	text := types.Native(types.Text)
	return texttable.Typed("riches",
		schema.ColumnSpec{Name: "k", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "c", Kind: schema.Clustering, Type: text},
		schema.ColumnSpec{Name: "s", Kind: schema.Static, Type: text},
		schema.ColumnSpec{Name: "m", Kind: schema.Regular, Type: types.NewMap(text, text, false)},
		schema.ColumnSpec{Name: "v", Kind: schema.Regular, Type: text})
}

// newRiches returns the workload, with an empty model of each partition.
func newRiches(c *Cluster) *riches {
	w := &riches{clients: newClients(c, "rich"), table: c.table("riches")}
	for i := range richClients {
		w.parts = append(w.parts, &richPartition{key: row.NewPartitionKey([]byte("rich" + strconv.Itoa(i))),
			model: new(model.Table)})
	}
	return w
}

// counts returns the attempts of changes and reads, and how many of them were acknowledged or compared.
func (w *riches) counts() (tried, acked int) { return w.tried, w.acked }

// start starts the clients, one for each partition. A client abandons a change only after it has sent it at least
// twice. It abandons a change by forgetting it: the messages of its attempts may still be in transit.
func (w *riches) start() {
	w.launch(richClients, 40*time.Millisecond, func(l *process, client int, end func() bool) {
		p := w.parts[client]
		// The bound keeps the number of sets that compare tries at eight.
		if p.pending != nil && p.tries > 1 && len(p.maybe) < richMaybe && w.rand.Chance(500) {
			p.maybe, p.pending = append(p.maybe, p.pending), nil
		}
		if p.pending == nil && w.rand.Chance(400) {
			w.read(l, p, ring.Quorum, func(error) { end() })
			return
		}
		if p.pending == nil {
			p.pending, p.tries = w.randomChange(l, p), 0
		}
		w.write(l, p, func(error) { end() })
	})
}

// randomChange draws a change of a partition. Of 16 changes, one deletes the partition, one a range, one a row, two set
// the static column, two replace the map, three change elements, and six the column v.
func (w *riches) randomChange(l *process, p *richPartition) *row.Mutation {
	p.changes++
	// Some changes are up to a fifth of a second older than earlier ones, so they may have no effect.
	stamp := w.c.order.stamp() - int64(w.rand.Intn(3))*100_000
	now := clock{l}.Now().Unix()
	deletion := row.Deletion{Timestamp: stamp, LocalTime: now}
	m := new(row.Mutation)
	m.Reset(w.table.StorageID, p.key)
	r := row.NewRow()
	r.Clustering = []byte(w.rowName(w.rand.Intn(richRows)))
	switch w.rand.Intn(16) {
	case 0:
		r.Deletion = deletion
		r.Clustering = nil
		m.AddHeader(r)
		return m
	case 1:
		from := w.rand.Intn(richRows)
		m.AddRangeTombstone(row.RangeTombstone{Start: []byte(w.rowName(from)),
			End: []byte(w.rowName(from + 1 + w.rand.Intn(4))), Deletion: deletion})
		return m
	// The row is deleted, with all of its elements.
	case 2:
		r.Deletion = deletion
	case 3, 4:
		r.Clustering = nil
		r.Cells = append(r.Cells, w.cell(p, "s", nil, stamp, now))
		m.AddHeader(r)
		return m
	// The whole map is replaced: its deletion is one microsecond older than its new elements.
	case 5, 6:
		r.Complex = append(r.Complex, row.ComplexDeletion{Column: w.table.Column("m").ID,
			Deletion: row.Deletion{Timestamp: stamp - 1, LocalTime: now}})
		w.elements(r, p, stamp, now)
	case 7, 8, 9:
		w.elements(r, p, stamp, now)
	default:
		r.Cells = append(r.Cells, w.cell(p, "v", nil, stamp, now))
		// With a row marker as INSERT writes it, or without one as UPDATE does: a row without a marker exists by its
		// cells only.
		if w.rand.Chance(500) {
			r.Liveness.Timestamp = stamp
		}
	}
	r.Sort()
	m.AddRow(r)
	return m
}

// elements sets or deletes some elements of the map.
func (w *riches) elements(r *row.Row, p *richPartition, stamp, now int64) {
	for i := range richElements {
		if w.rand.Chance(400) {
			r.Cells = append(r.Cells, w.cell(p, "m", []byte{'a' + byte(i)}, stamp, now))
		}
	}
	// A row without content would be no change.
	if len(r.Cells) == 0 {
		r.Cells = append(r.Cells, w.cell(p, "m", []byte{'a'}, stamp, now))
	}
}

// cell returns a new value, an expiring one, or a deletion. An eighth of the values is a deletion, and an eighth
// expires after one to five seconds.
func (w *riches) cell(p *richPartition, column string, path []byte, stamp, now int64) row.Cell {
	c := row.Cell{Column: w.table.Column(column).ID, Path: path, Timestamp: stamp,
		Value: []byte(strconv.Itoa(p.changes))}
	switch w.rand.Intn(8) {
	case 0:
		c.Tombstone, c.LocalTime, c.Value = true, now, nil
	case 1:
		// LocalTime of an expiring cell is its expiry, and of a tombstone its deletion.
		c.TTL = int32(1 + w.rand.Intn(5))
		c.LocalTime = now + int64(c.TTL)
	}
	return c
}

// rowName returns 00 to 07, or the end of a range up to 11.
func (w *riches) rowName(i int) string { return fmt.Sprintf("%02d", i) }

// write sends the pending change; once it is acknowledged, it is applied to the model.
func (w *riches) write(l *process, p *richPartition, done func(error)) {
	w.tried++
	p.tries++
	// The client may abandon the change before the answer arrives: confirm finds it then among the abandoned ones.
	m := p.pending
	l.write(m, ring.Quorum, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("rich write ", p.changes, err))
		if err == nil {
			w.acked++
			p.confirm(m)
		}
		done(err)
	})
}

// confirm records that a change is permanent.
func (p *richPartition) confirm(m *row.Mutation) {
	if p.pending == m {
		p.pending = nil
	} else if i := slices.Index(p.maybe, m); i >= 0 { // it was abandoned before its answer arrived
		p.maybe = slices.Delete(p.maybe, i, i+1)
	} else {
		return
	}
	p.done = append(p.done, m)
	p.model.Apply(m)
}

// read reads a partition page by page and compares it with the model. Pages are read as of one time, so that expiring
// cells are the same on all of them. A read that is overtaken by an acknowledgment is not compared, because the state
// during it is not known.
func (w *riches) read(l *process, p *richPartition, level ring.Consistency, done func(error)) {
	w.tried++
	// The read is compared only if its client's knowledge has not changed meanwhile.
	began, confirmed := p.changes, len(p.done)
	now := clock{l}.Now().Unix()
	g := &pages.Reader{Table: w.table.StorageID, Only: &p.key}
	var found []string
	var next func()
	next = func() {
		l.coord.Read(&coordinator.ReadRequest{Command: g.Command(now), Consistency: level, Timeout: operationTimeout},
			func(page []byte, err error) {
				// The header counts once, before all rows.
				first := len(found) == 0
				if err == nil {
					err = g.Took(page, func(r *row.PageReader, x *row.Row, _ bool) {
						switch {
						case x != nil:
							found = appendLive(found, x, now)
						case first:
							found = appendLive(found, &r.Header, now)
							first = false
						}
					})
				}
				w.c.kernel.Trace(fmt.Sprint("rich read ", len(found), err))
				switch {
				case err != nil:
					done(err)
				case !g.Done():
					next()
				default:
					if p.changes == began && len(p.done) == confirmed && p.pending == nil {
						w.acked++
						err = w.compare(p, found, now)
					}
					done(err)
				}
			})
	}
	next()
}

// appendLive appends the content of a row that a client sees. now is in seconds. Values of expired and deleted cells
// are invisible, and a row without visible content as well.
func appendLive(to []string, r *row.Row, now int64) []string {
	if !r.Live(now) {
		return to
	}
	to = append(to, fmt.Sprintf("row %s", r.Clustering))
	for i := range r.Cells {
		if c := &r.Cells[i]; c.Live(now) {
			to = append(to, fmt.Sprintf("%d %s=%s", c.Column, c.Path, c.Value))
		}
	}
	return to
}

// compare searches for a set of abandoned changes that, with the acknowledged ones, result in the rows that were read.
// An ambiguous result leaves all of the sets possible, and a later read decides. found and the expected rows are in the
// form of appendLive.
func (w *riches) compare(p *richPartition, found []string, now int64) error {
	var fits []int
	sets := make([]int, 1<<len(p.maybe))
	for i := range sets {
		sets[i] = i
	}
	// Smaller sets first: the first that fits has the fewest abandoned changes.
	slices.SortStableFunc(sets, func(a, b int) int { return bits.OnesCount(uint(a)) - bits.OnesCount(uint(b)) })
	var want []string
	for _, set := range sets {
		t := p.model
		if set != 0 {
			t = p.with(set)
		}
		expected, err := w.expected(t, p, now)
		if err != nil {
			return err
		}
		if set == 0 {
			want = expected
		}
		if slices.Equal(expected, found) {
			fits = append(fits, set)
		}
	}
	switch {
	case len(fits) == 0:
		w.c.fail("rich: %s reads %q, not %q, nor that with any of %d changes that were given up", p.key.Bytes, found,
			want, len(p.maybe))
	// Only an unambiguous result shows which abandoned changes were applied. They are then permanent.
	case len(fits) == 1 && fits[0] != 0:
		for i, m := range slices.Clone(p.maybe) {
			if fits[0]>>i&1 == 1 {
				p.confirm(m)
			}
		}
	}
	return nil
}

// with returns the model with some of the abandoned changes.
func (p *richPartition) with(set int) *model.Table {
	// Timestamps decide, so the order in which changes are applied to the model does not matter.
	t := new(model.Table)
	for _, m := range p.done {
		t.Apply(m)
	}
	for i, m := range p.maybe {
		if set>>i&1 == 1 {
			t.Apply(m)
		}
	}
	return t
}

// expected returns the rows that a client should read.
func (w *riches) expected(t *model.Table, p *richPartition, now int64) (seen []string, err error) {
	var r row.PageReader
	var x row.Row
	for r.Reset(t.Read(&row.ReadCommand{Table: w.table.StorageID, Key: p.key, Slices: []row.Slice{row.AllRows()},
		Now: now})); r.NextPartition(); {
		seen = appendLive(seen, &r.Header, now)
		for r.NextRow(&x) {
			seen = appendLive(seen, &x, now)
		}
	}
	return seen, r.Err()
}

// readBack completes the last changes, and reads all partitions from every node. Nothing may stay undecided: a read
// that was not compared is an error here.
func (w *riches) readBack() {
	for _, p := range w.parts {
		if p.pending != nil {
			w.c.must(w.c.present()[0], "the last change of a rich partition",
				func(l *process, done func(error)) { w.write(l, p, done) })
		}
		w.c.everywhere("a rich partition", func(l *process, done func(error)) { w.read(l, p, ring.Quorum, done) })
		w.c.must(w.c.present()[0], "a rich partition", func(l *process, done func(error)) {
			// Without writes, acked increases only with a comparison, and nothing is pending that could prevent one.
			judged := w.acked
			w.read(l, p, ring.All, func(err error) {
				if err == nil && w.acked == judged {
					err = errors.New("the read was not compared")
				}
				done(err)
			})
		})
	}
}

// check does nothing: every read is checked when it ends.
func (w *riches) check() {}
