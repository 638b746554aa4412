package simulation

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/listing"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/texttable"
	"cqld/storage"
	"cqld/types"
)

// ordereds is the workload: clients write and delete many small partitions, each its own ones, and list partition keys
// in key order at QUORUM, in any interval, from either end. A partition must be in a listing that covers it if its
// newest change that may be visible is an acknowledged write. A deleted one may still be listed, if some replica lacks
// the deletion. At the end, no node's partition index may lack a partition with rows on the node. The listing of
// keys is what Azure Tables' queries over a table use (package listing).
type ordereds struct {
	clients
	table *schema.Table
	// partitions are in the order of their keys, which do not change.
	partitions []*orderedPartition
	writes     int
	acked      int
	lists      int
}

// orderedPartition contains one partition's changes, in the order of their timestamps. Changes overlap only if a client
// gave up waiting for one.
type orderedPartition struct {
	key string
	// Timestamps are in the order of calls, because each partition has one client.
	changes []*orderedChange
}

// orderedChange is one change of a partition. call and acked are ticks.
type orderedChange struct {
	// live means that it writes a live row; otherwise it deletes the partition (deletes), or writes its static row.
	live    bool
	deletes bool
	call    int64
	acked   int64 // 0 until acknowledged
	// skipped means that it certainly had no effect.
	skipped bool
}

const (
	// orderedPartitions is a multiple of orderedClients, because each client has its own partitions.
	orderedPartitions = 90
	orderedClients    = 3
)

// orderedTable returns the schema of a table with ordered partitions.
func orderedTable() *schema.CreateTable {
	text := types.Native(types.Text)
	return texttable.Typed("ordered",
		schema.ColumnSpec{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
		schema.ColumnSpec{Name: "RowKey", Kind: schema.Clustering, Type: text},
		schema.ColumnSpec{Name: "s", Kind: schema.Static, Type: text})
}

// walkedTable returns the same without ordered partitions.
func walkedTable() *schema.CreateTable {
	t := orderedTable()
	t.Table = "walked"
	copy(t.ID[:], t.Table)
	t.Columns[0].Name = "k"
	return t
}

// newOrdereds returns the workload for the table with ordered partitions or, in some seeds, for the one without. The
// choice is the seed's, and holds for the run.
func newOrdereds(c *Cluster) *ordereds {
	w := &ordereds{clients: newClients(c, "ordered"), table: c.table("ordered")}
	// A table without ordered partitions is listed by a walk of the ring.
	if w.rand.Chance(150) {
		w.table = c.table("walked")
	}
	for i := range orderedPartitions {
		w.partitions = append(w.partitions, &orderedPartition{key: fmt.Sprintf("p%02d", i)})
	}
	return w
}

// start starts the clients, with pauses of up to 40 ms between their steps.
func (w *ordereds) start() { w.launch(orderedClients, 40*time.Millisecond, w.step) }

// counts returns the changes and listings, and the changes that were acknowledged.
func (w *ordereds) counts() (tried, acked int) { return w.writes + w.lists, w.acked }

// step lists keys, or changes a partition of the client.
func (w *ordereds) step(l *process, client int, end func() bool) {
	if w.rand.Chance(300) {
		w.list(l, w.randomRequest(l), func(error) { end() })
		return
	}
	// Each client has every third partition, so that neighbors in a listing belong to different clients.
	own := w.rand.Intn(orderedPartitions/orderedClients)*orderedClients + client
	w.change(l, w.partitions[own], func() { end() })
}

// change writes a row, or the static row, or deletes the partition.
func (w *ordereds) change(l *process, p *orderedPartition, next func()) {
	ts := w.c.order.stamp()
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, row.NewPartitionKey([]byte(p.key)))
	r := row.NewRow()
	x := &orderedChange{call: w.c.order.tick()}
	// Half of the changes write a row, a tenth the static row, and the others delete the partition.
	switch n := w.rand.Intn(10); {
	case n < 5:
		x.live = true
		r.Clustering, r.Liveness.Timestamp = []byte{'a' + byte(w.rand.Intn(3))}, ts
		m.AddRow(r)
	case n < 6:
		r.Cells = append(r.Cells, row.Cell{Column: w.table.Column("s").ID, Timestamp: ts, Value: []byte("s")})
		m.AddHeader(r)
	default:
		x.deletes = true
		r.Deletion = row.Deletion{Timestamp: ts, LocalTime: clock{l}.Now().Unix()}
		m.AddHeader(r)
	}
	p.changes = append(p.changes, x)
	w.writes++
	l.write(m, ring.Quorum, func(err error) {
		switch {
		// The order of acknowledgments may differ from the order of timestamps.
		case err == nil:
			x.acked = w.c.order.tick()
			w.acked++
		case errors.Is(err, coordinator.ErrNotSent):
			x.skipped = true
		}
		w.c.kernel.Trace(fmt.Sprint("ordered ", p.key, x.live, err))
		next()
	})
}

// randomRequest draws a listing: an interval of keys, its direction, and a limit.
func (w *ordereds) randomRequest(l *process) *listing.Request {
	req := w.request(l, ring.Quorum)
	req.Reversed = w.rand.Chance(400)
	if w.rand.Chance(700) {
		req.Limit = 1 + w.rand.Intn(30)
	}
	// The bounds may be in the wrong order: the interval is then empty.
	bound := func() []byte { return []byte(w.partitions[w.rand.Intn(orderedPartitions)].key) }
	if w.rand.Chance(500) {
		req.Span.From = bound()
	}
	if w.rand.Chance(500) {
		req.Span.To = bound()
	}
	return req
}

// request returns a listing of all keys.
func (w *ordereds) request(l *process, level ring.Consistency) *listing.Request {
	return &listing.Request{Table: w.table, Consistency: level, Timeout: operationTimeout, Now: clock{l}.Now().Unix()}
}

// list lists keys and compares them with the expected ones. A listing that fails says nothing about the partitions.
func (w *ordereds) list(l *process, req *listing.Request, done func(error)) {
	call := w.c.order.tick()
	l.parts.Lister.List(req, func(p *listing.Result, err error) {
		listed := 0
		if err == nil {
			w.lists++
			listed = len(p.Keys)
			w.compare(req, p, call, w.c.order.tick())
		}
		w.c.kernel.Trace(fmt.Sprint("ordered list ", listed, err))
		done(err)
	})
}

// compare checks a listing that lasted from call to returned. A page that ends early (More) makes claims only up to
// Reached.
func (w *ordereds) compare(req *listing.Request, p *listing.Result, call, returned int64) {
	before := func(a, b []byte) bool {
		if req.Reversed {
			a, b = b, a
		}
		return bytes.Compare(a, b) < 0
	}
	// An empty page with more to come would not advance.
	if p.More && len(p.Keys) == 0 || req.Limit > 0 && len(p.Keys) > req.Limit {
		w.c.fail("%d partitions listed, more %v, of %+v", len(p.Keys), p.More, *req)
		return
	}
	for i, key := range p.Keys {
		if i > 0 && !before(p.Keys[i-1], key) {
			w.c.fail("partition %s is listed before %s", p.Keys[i-1], key)
		}
		at := slices.IndexFunc(w.partitions, func(x *orderedPartition) bool { return x.key == string(key) })
		// A scan does not know whether more of a partition follows if a page ended within it.
		if at < 0 || !w.partitions[at].mayLive(returned, !w.table.OrderedPartitions()) {
			w.c.fail("partition %s is listed, but was never written", key)
		}
	}
	for _, x := range w.partitions {
		key := []byte(x.key)
		switch {
		case bytes.Compare(key, req.Span.From) < 0, req.Span.To != nil && bytes.Compare(key, req.Span.To) >= 0:
		// The listing has not come to this key yet.
		case p.More && before(p.Reached, key):
		case !x.mustLive(call, returned):
		case !slices.ContainsFunc(p.Keys, func(k []byte) bool { return bytes.Equal(k, key) }):
			w.c.fail("partition %s is not listed: read from %d to %d, %+v", x.key, call, returned, *req)
		}
	}
}

// mayLive reports whether a row of p, or any content of it, can have existed until then. anything is true for walked
// tables, whose listing may contain a partition with a static row only.
func (p *orderedPartition) mayLive(returned int64, anything bool) bool {
	return slices.ContainsFunc(p.changes, func(x *orderedChange) bool {
		return (x.live || anything) && !x.skipped && x.call < returned
	})
}

// mustLive reports whether p has a live row, whichever of the changes in progress are visible.
func (p *orderedPartition) mustLive(call, returned int64) bool {
	// From the newest to the oldest. An older acknowledged write counts only if no later deletion may be visible; a
	// later write, or one of the static row, does not remove it.
	for _, x := range slices.Backward(p.changes) {
		switch {
		case x.skipped || x.call > returned:
		case x.deletes:
			return false
		case x.live && x.acked != 0 && x.acked < call:
			return true
		}
	}
	return false
}

// readBack lists all keys from every node in a healed cluster. At ALL, a replica that lacks a partition cannot hide it.
func (w *ordereds) readBack() {
	for _, n := range w.c.present() {
		for _, level := range []ring.Consistency{ring.Quorum, ring.All} {
			w.c.must(n, fmt.Sprintf("a listing at %s", level), func(l *process, done func(error)) {
				r := w.request(l, level)
				if w.c.options.at("one-row-pages") {
					// For as many pages as there are rows, one after the other.
					r.Timeout = time.Minute
				}
				w.list(l, r, done)
			})
		}
	}
}

// check compares the rows of each node with its index, which must contain every partition with a live row. The index is
// maintained by storage in the same commit as the rows, so a difference is a defect of one node.
func (w *ordereds) check() {
	if !w.table.OrderedPartitions() {
		return
	}
	for _, n := range w.c.present() {
		if n.process == nil {
			continue // it did not start, which was recorded
		}
		now := clock{n.process}.Now().Unix()
		listed := map[string]bool{}
		for q := (&storage.PartitionsRead{Table: w.table.StorageID, Limit: 7, Now: now}); ; {
			page, err := n.process.engine.Partitions(q)
			if err != nil {
				w.c.fail("the partition index of node %d: %v", n.id, err)
				return
			}
			for _, key := range page.Keys {
				listed[string(key)] = true
			}
			if !page.More {
				break
			}
			// The smallest key after the last one.
			q.From = append(page.Last, 0)
		}
		for _, p := range w.partitions {
			page, err := n.process.engine.Read(nil, &row.ReadCommand{
				Table: w.table.StorageID, Key: row.NewPartitionKey([]byte(p.key)), Slices: []row.Slice{row.AllRows()},
				Now: now,
			})
			// The index may contain partitions without a live row while they have other data, but Partitions returns
			// live ones only.
			if live := err == nil && liveRow(page, now); err != nil || live != listed[p.key] {
				w.c.fail("node %d has a live row in %s: %v, its index has an entry: %v, %v", n.id, p.key, live,
					listed[p.key], err)
			}
		}
	}
}

// liveRow reports whether a page has a live row at the time now.
func liveRow(page []byte, now int64) bool {
	var p row.PageReader
	p.Reset(page)
	var r row.Row
	for p.NextPartition() {
		for p.NextRow(&r) {
			if r.Live(now) {
				return true
			}
		}
	}
	return false
}
