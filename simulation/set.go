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
	"cqld/simulation/history"
)

// sets is a workload of many rows: clients add rows to a few partitions, each once, delete some, each once, and read
// partitions and the whole ring at QUORUM, with limits and reversed (history.Set). It tests completeness: a read that
// stops early, repeats a row at the end of a page or skips one is a violation.
type sets struct {
	clients
	table   *schema.Table
	history history.Set
	reads   int
}

const (
	// Few partitions, so that each has many rows and pages end within them.
	setPartitions = 3
	setClients    = 3
)

// newSets returns the workload; its table is sim.sets, with columns of type text.
func newSets(c *Cluster) *sets {
	return &sets{clients: newClients(c, "sets"), table: c.table("sets")}
}

// start starts the clients, with pauses of up to 60 ms between their steps.
func (w *sets) start() { w.launch(setClients, 60*time.Millisecond, w.step) }

// counts returns the additions and reads, and the additions that were acknowledged. Deletions do not count.
func (w *sets) counts() (tried, acked int) {
	for _, e := range w.history.Elements {
		if e.Added != 0 {
			acked++
		}
	}
	return len(w.history.Elements) + w.reads, acked
}

// step adds a row, deletes one, or reads. Half of the steps add, a fifth deletes, and the rest reads.
func (w *sets) step(l *process, _ int, end func() bool) {
	what, victim := w.rand.Intn(10), w.rand.Uint64()
	next := func() { end() }
	switch {
	case what < 5:
		w.add(l, next)
	// The victim may be a row whose addition is in progress, or failed.
	case what < 7 && len(w.history.Elements) > 0:
		w.delete(l, w.history.Elements[victim%uint64(len(w.history.Elements))], next)
	default:
		cmd := w.randomCommand()
		cmd.Now = clock{l}.Now().Unix()
		w.read(l, cmd, ring.Quorum, func(error) { next() })
	}
}

// key returns the key set0, set1 or set2.
func (w *sets) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("set" + strconv.Itoa(partition)))
}

// add adds a row with a random name, which need not follow the rows before it. The random name makes additions fall
// between existing rows, where short reads and limits are decided.
func (w *sets) add(l *process, next func()) {
	e := &history.Element{
		Key: w.key(w.rand.Intn(setPartitions)), Clustering: fmt.Sprintf("%06d", w.rand.Intn(1_000_000)),
		AddCall: w.c.order.tick(),
	}
	// The drawn row exists already: each is added once.
	if !w.history.Add(e) {
		next()
		return
	}
	r := row.NewRow()
	ts := w.c.order.stamp()
	r.Liveness.Timestamp = ts
	r.Cells = append(r.Cells, row.Cell{Column: w.table.Column("v").ID, Timestamp: ts, Value: []byte("x")})
	w.write(l, e, r, func(err error) {
		switch {
		case err == nil:
			e.Added = w.c.order.tick()
		case errors.Is(err, coordinator.ErrNotSent):
			e.AddSkipped = true
		}
		next()
	})
}

// delete deletes a row, once; a deletion that certainly had no effect does not count. A row whose deletion was sent may
// be in a read or not, until the deletion is acknowledged.
func (w *sets) delete(l *process, e *history.Element, next func()) {
	if e.DeleteCall != 0 {
		next()
		return
	}
	e.DeleteCall = w.c.order.tick()
	r := row.NewRow()
	r.Deletion = row.Deletion{Timestamp: w.c.order.stamp(), LocalTime: clock{l}.Now().Unix()}
	w.write(l, e, r, func(err error) {
		switch {
		case err == nil:
			e.Deleted = w.c.order.tick()
		case errors.Is(err, coordinator.ErrNotSent):
			// As if it had never been sent: another client may delete the row later.
			e.DeleteCall = 0
		}
		next()
	})
}

// write writes r as the row of an element.
func (w *sets) write(l *process, e *history.Element, r *row.Row, done func(error)) {
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, e.Key)
	r.Clustering = []byte(e.Clustering)
	m.AddRow(r)
	l.write(m, ring.Quorum, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("set ", e.Clustering, err))
		done(err)
	})
}

// randomCommand reads a partition or the ring, from either end, with or without a limit. Without a limit, the page of
// storage still bounds the answer.
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

// read reads and compares the rows with the expected ones. Only reads that succeed are compared: an error says nothing
// about the rows.
func (w *sets) read(l *process, cmd *row.ReadCommand, level ring.Consistency, done func(error)) {
	call := w.c.order.tick()
	l.read(cmd, level, func(page []byte, err error) {
		if err == nil {
			w.reads++
			w.c.verify.found(w.history.Check(cmd, page, call, w.c.order.tick())...)
		}
		w.c.kernel.Trace(fmt.Sprint("set read ", len(page), err))
		done(err)
	})
}

// readBack reads all rows from every node in a healed cluster, page by page. At ALL, every replica takes part, so a row
// that one of them lacks cannot be hidden by the others.
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

// must reads in a healed cluster, where no request may fail.
func (w *sets) must(n *Node, cmd *row.ReadCommand, level ring.Consistency) {
	w.c.must(n, fmt.Sprintf("a set at %s", level), func(l *process, done func(error)) {
		cmd.Now = clock{l}.Now().Unix()
		w.read(l, cmd, level, done)
	})
}

// check does nothing: every read is checked when it ends.
func (w *sets) check() {}
