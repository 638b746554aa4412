package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/simulation/kernel"
	"cqld/types"
)

// indexeds is the workload of searches by indexes. Its clients change rows as those of filtereds do. Between two
// changes they search at QUORUM by an index of a regular, static or clustering column, or of a component of the
// partition key, for a value or a range of values, in their partition or in the whole ring, page after page. The rows
// must be those of a model that has all acknowledged changes: one that was acknowledged before is found, and one that
// was deleted or overwritten is not. Another client creates and drops the indexes meanwhile, so that they are built
// while rows are written. A build takes several steps (drawIndexes), between which rows are written and streamed, and
// nodes start again.
type indexeds struct {
	filtereds
}

// indexedColumns have an index most of the time.
var indexedColumns = [...]string{"v", "s", "c", "h"}

// drawIndexes draws builds of indexes of 2 to 40 steps, and how many entries a search of a range looks at before it
// looks at rows: fewer than there are, most of the time.
func drawIndexes(o *Options) {
	r := kernel.NewStream(o.Seed, "builds")
	o.BuildRows, o.BuildPause = 1+r.Intn(8), r.Between(5*time.Millisecond, 30*time.Millisecond)
	o.RangeEntries = 1 + r.Intn(12)
}

// indexedTable is filteredTable with a second component of the partition key.
func indexedTable() *schema.CreateTable {
	t := filteredTable()
	t.Columns = slices.Insert(t.Columns, 1, schema.ColumnSpec{Name: "h", Kind: schema.PartitionKey,
		Type: types.Native(types.Text)})
	t.Table = "indexeds"
	t.ID = schema.UUID{}
	copy(t.ID[:], t.Table)
	return t
}

// indexedKind is the entry of the workload. TestSim draws it besides those of workloadKinds.
func indexedKind() workloadKind {
	return workloadKind{name: "indexed", tables: tables(indexedTable()),
		make: func(c *Cluster) workload { return newIndexeds(c) }}
}

func newIndexeds(c *Cluster) *indexeds {
	w := &indexeds{filtereds{clients: newClients(c, "indexed"), table: c.table("indexeds")}}
	for i := range filteredClients {
		key := row.AppendKeyComponents(nil, [][]byte{[]byte("indexed" + strconv.Itoa(i)), indexedComponent(i)})
		w.parts = append(w.parts, &filteredPartition{key: row.NewPartitionKey(key)})
	}
	return w
}

// indexedComponent is the indexed component of the key of the i-th partition; two partitions have the same.
func indexedComponent(i int) []byte { return []byte{'0' + byte(i%2)} }

func (w *indexeds) start() {
	if w.c.options.Meet {
		w.watchBuilds()
	}
	w.launch(filteredClients+1, 30*time.Millisecond, func(l *process, client int, end func() bool) {
		if client == filteredClients {
			w.redefine(l, func(error) { end() })
			return
		}
		p := w.parts[client]
		switch {
		case p.pending == nil && w.rand.Chance(500):
			w.find(l, p, w.drawSearch(p), func(error) { end() })
		case p.pending == nil && w.rand.Chance(50) && client == 0:
			end()
		default:
			if p.pending == nil {
				p.pending = w.change(l, p)
			}
			w.write(l, p, func(error) { end() })
		}
	})
}

// watchBuilds polls for builds in progress, until the cluster has settled.
func (w *indexeds) watchBuilds() {
	building := false
	for _, n := range w.c.present() {
		l := n.process
		if l == nil || !l.serves() {
			continue
		}
		if table := l.parts.View.Schema().Table(keyspace, w.table.Name); table != nil {
			for _, name := range indexedColumns {
				x := table.Index(name)
				building = building || x != nil && !l.parts.Builder.Progress(table.StorageID, x.ID).Built
			}
		}
	}
	w.c.meetings.Saw(opBuild, building)
	if !w.c.settled {
		w.c.kernel.After(meetEvery, "watch builds", w.watchBuilds)
	}
}

// redefine creates an index that is missing, and sometimes drops one.
func (w *indexeds) redefine(l *process, done func(error)) {
	name := indexedColumns[w.rand.Intn(len(indexedColumns))]
	table := l.parts.View.Schema().Table(keyspace, w.table.Name)
	var change schema.Change
	switch {
	case table == nil:
	case table.Index(name) == nil:
		change = &schema.CreateIndex{Keyspace: keyspace, Table: w.table.Name, Name: name, Column: name,
			IfNotExists: true,
			Class:       schema.LegacyIndex, Target: schema.IndexSimple}
	case w.rand.Chance(60):
		change = &schema.DropIndex{Keyspace: keyspace, Name: name, IfExists: true}
	}
	if change == nil {
		done(nil)
		return
	}
	l.Soon(func() {
		met := w.c.meetings.Begin(opIndex, 10*operationTimeout)
		l.cluster.StartSchema(change, func(err error) {
			met()
			w.c.kernel.Trace(fmt.Sprintf("indexed %T %v", change, err))
			done(err)
		})
	})
}

// indexedSearch is a search by an index, with the condition as a function on rows.
type indexedSearch struct {
	column string
	value  []byte
	least  bool // greater values match, too
	match  func(filteredRow) bool
	whole  bool // of the ring
	limit  int
	level  ring.Consistency
}

func (w *indexeds) drawSearch(p *filteredPartition) *indexedSearch {
	return w.search(p, indexedColumns[w.rand.Intn(len(indexedColumns))], w.value(), w.rand.Chance(500))
}

// search is a search for the rows that have a digit in a column, or at least a digit.
func (w *indexeds) search(p *filteredPartition, column string, x []byte, least bool) *indexedSearch {
	has := func(v string) bool { return v == string(x) || least && v > string(x) }
	q := &indexedSearch{column: column, value: x, least: least, whole: w.rand.Chance(500), limit: 1 + w.rand.Intn(8),
		level: ring.Quorum}
	switch q.column {
	case "v":
		q.match = func(r filteredRow) bool { return has(r.v) }
	case "s":
		q.match = func(r filteredRow) bool { return has(r.s) }
	case "c":
		q.value = filteredInt(int(x[0] - '0'))
		q.match = func(r filteredRow) bool { return has(string('0' + rune(w.part(r, 0)))) }
	case "h":
		own := has(string(indexedComponent(slices.Index(w.parts, p))))
		q.match = func(filteredRow) bool { return own }
	}
	return q
}

var errNoIndex = errors.New("there is no such index")

// find searches page after page, and compares the rows of the client's partition with the model.
func (w *indexeds) find(l *process, p *filteredPartition, q *indexedSearch, done func(error)) {
	w.tried++
	began, now := p.changes, clock{l}.Now().Unix()
	table := l.parts.View.Schema().Table(keyspace, w.table.Name)
	if table == nil || table.Index(q.column) == nil {
		done(errNoIndex)
		return
	}
	req := &search.Request{
		Table: table, Index: table.Index(q.column).ID, Tokens: ring.FullRange(), Order: search.ByToken, Limit: q.limit,
		Consistency: q.level,
		Terms:       []row.Slice{row.ExactRow(w.table.Column(q.column).Type.AppendOrdered(nil, q.value, false))},
		Now:         now,
		Timeout:     operationTimeout,
	}
	if q.least {
		req.Terms[0].End = nil
	}
	if !q.whole {
		req.Key = p.key
	}
	var found []filteredRow
	var next func()
	next = func() {
		l.parts.Searcher.Search(req, func(result *search.Result, err error) {
			if err == nil {
				found, err = w.addFound(found, p, q, result.Page, now)
			}
			w.c.kernel.Trace(fmt.Sprint("indexed search ", q.column, len(found), err))
			if err == nil && result.More {
				if again := *req; bytes.Equal(again.From, result.Next) {
					w.c.fail("indexed: a search by %s does not go on behind %x", q.column, result.Next)
				} else {
					again.From = result.Next
					req = &again
					next()
					return
				}
			}
			if err == nil && p.changes == began && p.pending == nil {
				w.acked++
				err = w.compareFound(p, q, found, now)
			}
			done(err)
		})
	}
	next()
}

// addFound appends the rows of a partition in a page. Unlike filtereds, it does not look whether they match.
func (w *indexeds) addFound(to []filteredRow, p *filteredPartition, q *indexedSearch, page []byte,
	now int64) ([]filteredRow, error) {
	var r row.PageReader
	var x row.Row
	for r.Reset(page); r.NextPartition(); {
		for r.NextRow(&x) {
			if bytes.Equal(r.Key.Bytes, p.key.Bytes) {
				to = append(to, filteredRow{key: string(r.Key.Bytes), clustering: string(x.Clustering),
					s: liveText(&r.Header, now), v: liveText(&x, now)})
			}
		}
	}
	return to, r.Err()
}

// compareFound compares what was found with the rows of the model that match. Static values need not be in pages of
// rows.
func (w *indexeds) compareFound(p *filteredPartition, q *indexedSearch, found []filteredRow, now int64) error {
	model := indexedModel{w, q}
	want, err := model.rows(p, now)
	same := len(found) == len(want)
	for i := range found {
		same = same && found[i].clustering == want[i].clustering && found[i].v == want[i].v
	}
	if err == nil && !same {
		w.c.fail("indexed: %s at %s by %s = %q, or more %v, whole ring %v, finds %q, not %q", p.key.Bytes, q.level,
			q.column, q.value, q.least, q.whole, found, want)
	}
	return err
}

// indexedModel reads what a search must find.
type indexedModel struct {
	w *indexeds
	q *indexedSearch
}

func (m indexedModel) rows(p *filteredPartition, now int64) (want []filteredRow, err error) {
	t := &p.model
	cmd := &row.ReadCommand{Table: m.w.table.StorageID, Key: p.key, Slices: []row.Slice{row.AllRows()}, Now: now}
	var r row.PageReader
	var x row.Row
	for r.Reset(t.Read(cmd)); r.NextPartition(); {
		for r.NextRow(&x) {
			seen := filteredRow{key: string(r.Key.Bytes), clustering: string(x.Clustering),
				s: liveText(&r.Header, now), v: liveText(&x, now)}
			if x.Live(now) && m.q.match(seen) {
				want = append(want, seen)
			}
		}
	}
	return want, r.Err()
}

// readBack sees to it that the last changes are made and that every index is built on every node. Then it searches all
// partitions from every node: at QUORUM and, after repairs by searches and reads at ALL, by every value at ONE, where a
// replica answers alone.
func (w *indexeds) readBack() {
	for _, name := range indexedColumns {
		w.c.must(w.c.present()[0], "the creation of an index", func(l *process, done func(error)) {
			w.c.kernel.Trace("indexed readback " + name)
			l.Soon(func() {
				l.cluster.StartSchema(&schema.CreateIndex{Keyspace: keyspace, Table: w.table.Name, Name: name,
					Column: name, IfNotExists: true,
					Class: schema.LegacyIndex, Target: schema.IndexSimple}, done)
			})
		})
	}
	w.c.kernel.RunUntil(w.c.kernel.Now()+w.c.paced(20*time.Second), w.allBuilt)
	for _, p := range w.parts {
		if p.pending != nil {
			w.c.must(w.c.present()[0], "the last change of an indexed partition",
				func(l *process, done func(error)) { w.write(l, p, done) })
		}
		for range 2 {
			w.c.everywhere("a search of an indexed partition",
				func(l *process, done func(error)) { w.find(l, p, w.drawSearch(p), done) })
		}
		w.c.must(w.c.present()[0], "an indexed partition at ALL", func(l *process, done func(error)) {
			w.readAll(l, p, done)
		})
		w.compareAtOne(p)
	}
}

// compareAtOne searches by all values of all indexes, and for all ranges, from every node.
func (w *indexeds) compareAtOne(p *filteredPartition) {
	for _, column := range indexedColumns {
		for x := range 2 * filteredValues {
			w.c.everywhere("a search of an indexed partition at ONE", func(l *process, done func(error)) {
				q := w.search(p, column, []byte{'0' + byte(x%filteredValues)}, x >= filteredValues)
				q.level, q.whole, q.limit = ring.One, false, filteredRows
				w.find(l, p, q, done)
			})
		}
	}
}

// allBuilt reports whether every node has built every index.
func (w *indexeds) allBuilt() bool {
	for _, n := range w.c.present() {
		if n.process == nil || n.process.parts == nil {
			continue
		}
		table := n.process.parts.View.Schema().Table(keyspace, w.table.Name)
		for _, name := range indexedColumns {
			if table == nil || table.Index(name) == nil ||
				!n.process.instance.Values.Built(table.StorageID, table.Index(name).ID) {
				return false
			}
		}
	}
	return true
}
