package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/scan"
	"cqld/schema"
)

// vieweds is the workload of materialized views. Its clients change rows as those of filtereds do. Between two changes
// they read a partition of a view at QUORUM, page after page. The rows that come from the client's partition of the
// base table must be those of a model that has all acknowledged changes. Another client creates and drops the views
// meanwhile, so that they are also read before their indexes are built.
type vieweds struct {
	filtereds
}

// viewedViews are the views: by the value of a cell, and by a part of the key.
var viewedViews = [...]string{"byv", "byc"}

func viewedTable() *schema.CreateTable {
	t := filteredTable()
	t.Table = "vieweds"
	t.ID = schema.UUID{}
	copy(t.ID[:], t.Table)
	return t
}

// viewedKind is the entry of the workload. TestSim draws it besides those of workloadKinds.
func viewedKind() workloadKind {
	return workloadKind{name: "viewed", tables: tables(viewedTable()),
		make: func(c *Cluster) workload { return newVieweds(c) }}
}

func newVieweds(c *Cluster) *vieweds {
	w := &vieweds{filtereds{clients: newClients(c, "viewed"), table: c.table("vieweds")}}
	for i := range filteredClients {
		w.parts = append(w.parts, &filteredPartition{key: row.NewPartitionKey([]byte("viewed" + strconv.Itoa(i)))})
	}
	return w
}

func (w *vieweds) start() {
	w.launch(filteredClients+1, 30*time.Millisecond, func(l *process, client int, end func() bool) {
		if client == filteredClients {
			w.redefine(l, func(error) { end() })
			return
		}
		p := w.parts[client]
		if p.pending == nil && w.rand.Chance(500) {
			w.look(l, p, operationTimeout, func(error) { end() })
			return
		}
		if p.pending == nil {
			p.pending = w.change(l, p)
		}
		w.write(l, p, func(error) { end() })
	})
}

// definition returns the definition of a view: (v, k, c, d) or (c, k, d).
func (w *vieweds) definition(base *schema.Table, name string) *schema.CreateView {
	c := &schema.CreateView{Keyspace: keyspace, View: name, IfNotExists: true, Base: base.Name, BaseID: base.ID,
		Options: schema.DefaultOptions()}
	copy(c.ID[:], fmt.Sprint(name, w.c.order.stamp()))
	keys := []string{"v", "k", "c", "d"}
	if name == "byc" {
		keys = []string{"c", "k", "d"}
	}
	for i, key := range keys {
		id := base.Column(key).ID
		c.Columns = append(c.Columns, id)
		if i == 0 {
			c.Partition = append(c.Partition, id)
		} else {
			c.Clustering = append(c.Clustering, schema.ViewClustering{Column: id})
		}
	}
	if name == "byc" {
		c.Columns = append(c.Columns, base.Column("v").ID)
	}
	return c
}

// redefine creates a view that is missing, and sometimes drops one.
func (w *vieweds) redefine(l *process, done func(error)) {
	name := viewedViews[w.rand.Intn(len(viewedViews))]
	catalog := l.parts.View.Schema()
	base := catalog.Table(keyspace, w.table.Name)
	var change schema.Change
	switch {
	case base == nil:
	case catalog.Table(keyspace, name) == nil:
		change = w.definition(base, name)
	case w.rand.Chance(60):
		change = &schema.DropView{Keyspace: keyspace, View: name, IfExists: true}
	}
	if change == nil {
		done(nil)
		return
	}
	l.Soon(func() {
		met := w.c.meetings.Begin(opView, 10*operationTimeout)
		l.cluster.StartSchema(change, func(err error) {
			met()
			w.c.kernel.Trace(fmt.Sprintf("viewed %T %v", change, err))
			done(err)
		})
	})
}

// look reads a partition of a view, and compares the rows that come from a partition of the base table with its model.
func (w *vieweds) look(l *process, p *filteredPartition, timeout time.Duration, done func(error)) {
	w.tried++
	name, began, now := viewedViews[w.rand.Intn(len(viewedViews))], p.changes, clock{l}.Now().Unix()
	view := l.parts.View.Schema().Table(keyspace, name)
	if view == nil {
		done(errNoIndex)
		return
	}
	x := w.value()
	key := x
	if name == "byc" {
		key = filteredInt(int(x[0] - '0'))
	}
	cursor := &scan.Cursor{Command: row.ReadCommand{Table: view.StorageID, Slices: []row.Slice{row.AllRows()}, Now: now,
		Reversed: w.rand.Chance(300), Limits: row.Limits{Rows: uint32(1 + w.rand.Intn(8))}}}
	cursor.One(row.NewPartitionKey(key))
	var found []string
	var next func()
	next = func() {
		cmd := new(row.ReadCommand)
		if !cursor.Next(cmd) {
			if p.changes == began && p.pending == nil {
				w.acked++
				w.compareView(p, name, string(key), found, now)
			}
			done(nil)
			return
		}
		l.parts.Views.Read(&coordinator.ReadRequest{Command: cmd, Consistency: ring.Quorum, Timeout: timeout},
			func(page []byte, err error) {
				if err == nil {
					found, err = w.addView(found, view, p, cursor, page, now)
				}
				w.c.kernel.Trace(fmt.Sprint("viewed read ", name, len(found), err))
				if err != nil {
					done(err)
					return
				}
				next()
			})
	}
	next()
}

// addView appends the rows of a page that come from a partition, as "c d v".
func (w *vieweds) addView(to []string, view *schema.Table, p *filteredPartition, cursor *scan.Cursor, page []byte,
	now int64) ([]string, error) {
	var x row.Row
	cursor.Page(page)
	for cursor.NextPartition() {
		for cursor.NextRow(&x) {
			values := map[string]string{view.PartitionKey[0].Name: string(cursor.Reader.Key.Bytes),
				"v": liveText(&x, now)}
			if view.PartitionKey[0].Name == "v" {
				values["v"] = string(cursor.Reader.Key.Bytes)
			}
			rest := x.Clustering
			for _, c := range view.Clustering {
				value, after, err := c.Type.ConsumeOrdered(nil, rest, c.Desc)
				if err != nil {
					return to, err
				}
				values[c.Name], rest = string(value), after
			}
			if values["k"] == string(p.key.Bytes) {
				to = append(to, fmt.Sprintf("%x %x %s", values["c"], values["d"], values["v"]))
			}
			cursor.Consumed()
		}
	}
	return to, cursor.EndPage()
}

// compareView compares what was found with the rows of the model that are in the partition of the view.
func (w *vieweds) compareView(p *filteredPartition, name, key string, found []string, now int64) {
	var want []string
	var r row.PageReader
	var x row.Row
	for r.Reset(p.model.Read(&row.ReadCommand{Table: w.table.StorageID, Key: p.key, Slices: []row.Slice{row.AllRows()},
		Now: now})); r.NextPartition(); {
		for r.NextRow(&x) {
			c, rest, _ := w.table.Clustering[0].Type.ConsumeOrdered(nil, x.Clustering, false)
			d, _, _ := w.table.Clustering[1].Type.ConsumeOrdered(nil, rest, true)
			v := liveText(&x, now)
			if name == "byv" && v == key || name == "byc" && string(c) == key && x.Live(now) {
				want = append(want, fmt.Sprintf("%x %x %s", c, d, v))
			}
		}
	}
	slices.Sort(want)
	got := slices.Sorted(slices.Values(found))
	if !slices.Equal(got, want) {
		w.c.fail("viewed: the partition %q of %s has %q of %s, not %q", key, name, got, p.key.Bytes, want)
	}
}

// buildTimeout is for reads that wait until an index is built: the options may draw a row a step, and 30 ms between
// steps.
const buildTimeout = 8 * time.Second

// readBack makes the last changes, and then reads the views from every node until their indexes are built, and
// afterwards.
func (w *vieweds) readBack() {
	for _, name := range viewedViews {
		w.c.must(w.c.present()[0], "the creation of a view", func(l *process, done func(error)) {
			l.Soon(func() {
				l.cluster.StartSchema(w.definition(l.parts.View.Schema().Table(keyspace, w.table.Name), name), done)
			})
		})
	}
	for _, p := range w.parts {
		if p.pending != nil {
			w.c.must(w.c.present()[0], "the last change of a viewed partition",
				func(l *process, done func(error)) { w.write(l, p, done) })
		}
		w.c.everywhere("a read of a new view", func(l *process, done func(error)) { w.look(l, p, buildTimeout, done) })
	}
	w.c.kernel.RunUntil(w.c.kernel.Now()+w.c.paced(20*time.Second), w.allBuilt)
	for _, p := range w.parts {
		for range 3 {
			w.c.everywhere("a read of a view", func(l *process, done func(error)) {
				w.look(l, p, operationTimeout, done)
			})
		}
	}
}

// allBuilt reports whether every node has built the indexes of the views.
func (w *vieweds) allBuilt() bool {
	for _, n := range w.c.present() {
		if n.process == nil || n.process.parts == nil {
			continue
		}
		catalog := n.process.parts.View.Schema()
		for _, name := range viewedViews {
			view := catalog.Table(keyspace, name)
			if view == nil || !n.process.instance.Values.Built(w.table.StorageID, view.StorageID) {
				return false
			}
		}
	}
	return true
}
