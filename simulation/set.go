package simulation

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// sets is a workload of many rows: clients add rows to a few partitions, each once, delete some, each once, and read
// partitions and the whole ring at QUORUM, with limits and reversed. A read must return every row that was acknowledged
// before the read began and that it covers, and none that was deleted.
type sets struct {
	clients
	table    *schema.Table
	elements []*element
	rows     map[string]*element // by partition and clustering
	reads    int
}

// element is the history of one row, with times of Cluster.tick.
type element struct {
	partition  int
	clustering string
	addCall    int64
	added      int64 // 0 until acknowledged
	deleteCall int64 // 0 until a deletion was sent
	deleted    int64
	addSkipped bool // certainly not added
}

const (
	setPartitions = 3
	setClients    = 3
)

func newSets(c *Cluster) *sets {
	return &sets{clients: newClients(c, "sets"), table: c.table("sets"), rows: map[string]*element{}}
}

func (w *sets) start() { w.launch(setClients, 60*time.Millisecond, w.step) }

func (w *sets) counts() (tried, acked int) {
	for _, e := range w.elements {
		if e.added != 0 {
			acked++
		}
	}
	return len(w.elements) + w.reads, acked
}

func (w *sets) step(l *process, _ int, end func() bool) {
	what, victim := w.rand.Intn(10), w.rand.Uint64()
	next := func() { end() }
	switch {
	case what < 5:
		w.add(l, next)
	case what < 7 && len(w.elements) > 0:
		w.delete(l, w.elements[victim%uint64(len(w.elements))], next)
	default:
		cmd := w.randomCommand()
		cmd.Now = clock{l}.Now().Unix()
		w.read(l, cmd, ring.Quorum, func(error) { next() })
	}
}

func (w *sets) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("set" + strconv.Itoa(partition)))
}

func (w *sets) add(l *process, next func()) {
	e := &element{
		partition: w.rand.Intn(setPartitions), clustering: fmt.Sprintf("%06d", w.rand.Intn(1_000_000)),
		addCall: w.c.order.tick(),
	}
	id := string(w.key(e.partition).Bytes) + "/" + e.clustering
	if w.rows[id] != nil {
		next()
		return
	}
	w.rows[id] = e
	w.elements = append(w.elements, e)
	r := row.NewRow()
	ts := w.c.order.stamp()
	r.Liveness.Timestamp = ts
	r.Cells = append(r.Cells, row.Cell{Column: w.table.Column("v").ID, Timestamp: ts, Value: []byte("x")})
	w.write(l, e, r, func(err error) {
		switch {
		case err == nil:
			e.added = w.c.order.tick()
		case errors.Is(err, coordinator.ErrNotSent):
			e.addSkipped = true
		}
		next()
	})
}

// delete deletes a row, once; a deletion that certainly had no effect does not count.
func (w *sets) delete(l *process, e *element, next func()) {
	if e.deleteCall != 0 {
		next()
		return
	}
	e.deleteCall = w.c.order.tick()
	r := row.NewRow()
	r.Deletion = row.Deletion{Timestamp: w.c.order.stamp(), LocalTime: clock{l}.Now().Unix()}
	w.write(l, e, r, func(err error) {
		switch {
		case err == nil:
			e.deleted = w.c.order.tick()
		case errors.Is(err, coordinator.ErrNotSent):
			e.deleteCall = 0
		}
		next()
	})
}

func (w *sets) write(l *process, e *element, r *row.Row, done func(error)) {
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, w.key(e.partition))
	r.Clustering = []byte(e.clustering)
	m.AddRow(r)
	l.write(m, ring.Quorum, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("set ", e.clustering, err))
		done(err)
	})
}

// randomCommand reads a partition or the ring, from either end, with or without a limit.
func (w *sets) randomCommand() *row.ReadCommand {
	cmd := &row.ReadCommand{
		Table: w.table.StorageID, Slices: []row.Slice{row.AllRows()}, Reversed: w.rand.Chance(300),
	}
	if w.rand.Chance(600) {
		cmd.Limits.Rows = uint32(1 + w.rand.Intn(20))
	}
	if w.rand.Chance(700) {
		cmd.Key = w.key(w.rand.Intn(setPartitions))
	} else {
		cmd.Range.Tokens = ring.FullRange()
	}
	return cmd
}

// read reads and compares the rows with the expected ones.
func (w *sets) read(l *process, cmd *row.ReadCommand, level ring.Consistency, done func(error)) {
	call := w.c.order.tick()
	l.read(cmd, level, func(page []byte, err error) {
		if err == nil {
			w.reads++
			w.compare(cmd, page, call, w.c.order.tick())
		}
		w.c.kernel.Trace(fmt.Sprint("set read ", len(page), err))
		done(err)
	})
}

// compare checks a page: every row in it may exist, and every row that must exist is in it, up to the end of the page.
func (w *sets) compare(cmd *row.ReadCommand, page []byte, call, returned int64) {
	seen := map[*element]bool{}
	var p row.PageReader
	p.Reset(page)
	var last *element
	for p.NextPartition() {
		var r row.Row
		for p.NextRow(&r) {
			e := w.rows[string(p.Key.Bytes)+"/"+string(r.Clustering)]
			if e == nil {
				w.c.fail("a row that was never written: %q/%q", p.Key.Bytes, r.Clustering)
				return
			}
			last = e // including deleted ones: the page covers the rows up to it
			if !r.Live(cmd.Now) {
				continue
			}
			seen[e] = true
			if e.addCall > returned || e.addSkipped || e.deleted != 0 && e.deleted < call {
				w.c.fail("row %s/%s should not be there: %+v, read from %d to %d", p.Key.Bytes, r.Clustering, *e, call,
					returned)
			}
		}
	}
	if err := p.Err(); err != nil {
		w.c.fail("a page that cannot be read: %v", err)
		return
	}
	for _, e := range w.elements {
		if cmd.SinglePartition() && w.key(e.partition).Compare(cmd.Key) != 0 || p.More() && !w.covered(cmd, e, last) {
			continue
		}
		if !seen[e] && e.added != 0 && e.added < call && (e.deleteCall == 0 || e.deleteCall > returned) {
			w.c.fail("row set%d/%s is missing: %+v, read from %d to %d: %+v", e.partition, e.clustering, *e, call,
				returned, *cmd)
		}
	}
}

// covered reports whether e is not after last in the order of cmd.
func (w *sets) covered(cmd *row.ReadCommand, e, last *element) bool {
	if last == nil {
		return false
	}
	if c := w.key(e.partition).Compare(w.key(last.partition)); c != 0 {
		return c < 0
	}
	if cmd.Reversed {
		return e.clustering >= last.clustering
	}
	return e.clustering <= last.clustering
}

// readBack reads all rows from every node in a healed cluster, page by page.
func (w *sets) readBack() {
	for partition := range setPartitions {
		cmd := &row.ReadCommand{Table: w.table.StorageID, Key: w.key(partition), Slices: []row.Slice{row.AllRows()}}
		for _, n := range w.c.present() {
			w.must(n, cmd, ring.Quorum)
		}
		w.must(w.c.present()[0], cmd, ring.All)
	}
	scan := &row.ReadCommand{Table: w.table.StorageID, Slices: []row.Slice{row.AllRows()}}
	scan.Range.Tokens = ring.FullRange()
	for _, n := range w.c.present() {
		w.must(n, scan, ring.Quorum)
	}
}

func (w *sets) must(n *Node, cmd *row.ReadCommand, level ring.Consistency) {
	w.c.must(n, fmt.Sprintf("a set at %s", level), func(l *process, done func(error)) {
		cmd.Now = clock{l}.Now().Unix()
		w.read(l, cmd, level, done)
	})
}

// check does nothing: every read is checked when it ends.
func (w *sets) check() {}
