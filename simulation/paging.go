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
)

// pagings is the workload: one client for each partition writes and deletes rows, ranges and the whole partition, with
// old and new timestamps, and retries each change until it is acknowledged. Between two changes, it reads at QUORUM,
// with slices, limits, reversed, page by page. Every row must equal the row of a model of the table (as in Harry).
// Since a client retries its change until it is acknowledged, the model always knows the state exactly, unlike with
// other workloads.
type pagings struct {
	clients
	table *schema.Table
	parts []*pagedPartition
	tried int
	acked int
}

// pagedPartition is a client's knowledge of its partition.
type pagedPartition struct {
	key   row.PartitionKey
	model model.Table
	// The client retries pending until it is acknowledged: only then is the state of the partition known.
	pending *row.Mutation // until acknowledged
	changes int
}

const (
	pagingClients = 3
	// pagingRows is the number of prefixes of rows. Each has up to four rows.
	pagingRows = 30
)

func newPagings(c *Cluster) *pagings {
	w := &pagings{clients: newClients(c, "paging"), table: c.table("pagings")}
	for i := range pagingClients {
		w.parts = append(w.parts, &pagedPartition{key: row.NewPartitionKey([]byte("paging" + strconv.Itoa(i)))})
	}
	return w
}

// start starts the clients, one for each partition. A client reads only when no change of it is pending.
func (w *pagings) start() {
	w.launch(pagingClients, 30*time.Millisecond, func(l *process, client int, end func() bool) {
		p := w.parts[client]
		if p.pending == nil && w.rand.Chance(400) {
			w.read(l, p, w.randomReader(p), ring.Quorum, func(error) { end() })
			return
		}
		if p.pending == nil {
			p.pending = w.randomChange(p)
		}
		w.write(l, p, ring.Quorum, func(error) { end() })
	})
}

func (w *pagings) counts() (tried, acked int) { return w.tried, w.acked }

// randomChange draws a change of a partition. Range tombstones of prefixes cross pages and row boundaries, which is
// what the reads test.
func (w *pagings) randomChange(p *pagedPartition) *row.Mutation {
	p.changes++
	// A change may be up to a fifth of a second older than the last one, so that it has no effect on rows that are
	// newer.
	stamp := w.c.order.stamp() - int64(w.rand.Intn(3))*100_000
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, p.key)
	deletion := row.Deletion{Timestamp: stamp, LocalTime: stamp / 1_000_000}
	a, b := w.rowName(w.rand.Intn(pagingRows)), w.rowName(w.rand.Intn(pagingRows))
	switch w.rand.Intn(12) {
	case 0:
		header := row.NewRow()
		header.Deletion = deletion
		m.AddHeader(header)
	case 1, 2:
		if a > b {
			a, b = b, a
		}
		// The suffix makes the end follow all rows that begin with b.
		m.AddRangeTombstone(row.RangeTombstone{Start: []byte(a), End: []byte(b + "\xff"), Deletion: deletion})
	case 3, 4:
		r := row.NewRow()
		// The clustering of a whole row: no real clustering is a prefix of another (types.Type.AppendOrdered).
		r.Clustering, r.Deletion = []byte(fmt.Sprint(a, w.rand.Intn(4))), deletion
		m.AddRow(r)
	default:
		for i := range 1 + w.rand.Intn(4) {
			m.AddRow(texttable.Row(w.table, fmt.Sprint(a, i), strconv.Itoa(p.changes), stamp))
		}
	}
	return m
}

func (w *pagings) rowName(i int) string { return fmt.Sprintf("%02d", i) }

// randomReader draws how a partition is read.
func (w *pagings) randomReader(p *pagedPartition) *pages.Reader {
	g := &pages.Reader{Table: w.table.StorageID, Only: &p.key, Reversed: w.rand.Chance(400),
		// The limit holds for one page; the reader continues until the slice is read.
		Limit: uint32(1 + w.rand.Intn(12))}
	if w.rand.Chance(500) {
		g.Slice.Start = []byte(w.rowName(w.rand.Intn(pagingRows)))
	}
	if w.rand.Chance(500) {
		g.Slice.End = []byte(w.rowName(w.rand.Intn(pagingRows)) + "\xff")
		if bytes.Compare(g.Slice.Start, g.Slice.End) > 0 {
			g.Slice.Start = nil
		}
	}
	return g
}

// write sends the pending change; once it is acknowledged, it is applied to the model.
func (w *pagings) write(l *process, p *pagedPartition, level ring.Consistency, done func(error)) {
	w.tried++
	m := p.pending
	l.write(m, level, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("paging write ", err))
		// A retry may be acknowledged twice.
		if err == nil && p.pending == m {
			w.acked++
			p.model.Apply(m)
			p.pending = nil
		}
		done(err)
	})
}

// read reads page by page, and compares all rows with the model. A read during which the client's change was pending is
// not compared. No other client writes the partition.
func (w *pagings) read(l *process, p *pagedPartition, g *pages.Reader, level ring.Consistency, done func(error)) {
	w.tried++
	began := p.changes
	// whole is the same read in one command, which the model executes. All pages have its time.
	whole := &row.ReadCommand{
		Table: g.Table, Key: p.key, Slices: []row.Slice{g.Slice}, Reversed: g.Reversed, Now: clock{l}.Now().Unix(),
	}
	var rows [][2]string
	var next func()
	next = func() {
		l.coord.Read(&coordinator.ReadRequest{
			Command: g.Command(whole.Now), Consistency: level, Timeout: operationTimeout,
		}, func(page []byte, err error) {
			var more [][2]string
			if err == nil {
				more, err = texttable.Rows(page, whole.Now)
			}
			if err == nil {
				err = g.Took(page, func(*row.PageReader, *row.Row, bool) {})
			}
			rows = append(rows, more...)
			w.c.kernel.Trace(fmt.Sprint("paging read ", len(rows), err))
			if err == nil && !g.Done() {
				next()
				return
			}
			// the client has not changed the partition meanwhile
			if err == nil && p.changes == began && p.pending == nil {
				w.acked++
				err = w.compare(p, whole, rows)
			}
			done(err)
		})
	}
	next()
}

// compare compares the rows of all pages with one read of the model.
func (w *pagings) compare(p *pagedPartition, cmd *row.ReadCommand, rows [][2]string) error {
	want, err := texttable.Rows(p.model.Read(cmd), cmd.Now)
	if err == nil && !slices.Equal(rows, want) {
		w.c.fail("paging: %s %+v reads %v, not %v", p.key.Bytes, *cmd, rows, want)
	}
	return err
}

// readBack completes the last changes, and reads all partitions from every node.
func (w *pagings) readBack() {
	// An unknown change would make the model wrong, so it is written again first.
	for _, p := range w.parts {
		if p.pending != nil {
			w.c.must(w.c.present()[0], "the last change of a partition",
				func(l *process, done func(error)) { w.write(l, p, ring.Quorum, done) })
		}
		for _, n := range w.c.present() {
			w.c.must(n, "pages", func(l *process, done func(error)) {
				w.read(l, p, w.randomReader(p), ring.Quorum,
					done)
			})
		}
	}
}

// check does nothing: every read is checked when it ends.
func (w *pagings) check() {}
