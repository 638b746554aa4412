package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
)

// truncates is a workload of rows that are written once, at QUORUM, read at QUORUM, and truncated sometimes,
// concurrently with all faults. A row that was acknowledged before a TRUNCATE began is not read after that TRUNCATE
// succeeded; a row that was written after the last TRUNCATE ended exists. Reads do not repair, so that rows which a
// replica must not have are found. A replica that was unreachable during a TRUNCATE may keep its rows until it is
// reached again, and no read or hint may bring them back meanwhile.
type truncates struct {
	clients
	table *schema.Table
	rows  []*truncatedRow
	byKey map[string]*truncatedRow
	done  []*truncate
	reads int
}

// truncatedRow is the history of one row; times are of the kernel.
type truncatedRow struct {
	partition  int
	clustering string
	call, end  time.Duration // end is 0 while it is unknown
	// acked means that the write succeeded. If end is set and acked is not, it may be applied until truncateSettled
	// later.
	acked bool
	// all means that it was written at ALL, else at QUORUM.
	all bool
}

// truncate is one TRUNCATE. Times are of the kernel.
type truncate struct {
	// end is 0 while the TRUNCATE is in progress.
	call, end time.Duration
	ok        bool
	// by is the coordinator's process, whose end means that the TRUNCATE has failed.
	by *process
}

const (
	truncatePartitions = 6
	// truncateSettled is how long after the end of a write that was not acknowledged, or of a TRUNCATE that failed, its
	// messages may still arrive.
	truncateSettled = 5 * time.Second
	// truncateTimeout is longer than operationTimeout: a TRUNCATE has two phases, and waits for slow messages.
	truncateTimeout = 3 * time.Second
)

// truncateTable returns the schema of a table that reads do not repair.
func truncateTable() *schema.CreateTable {
	t := texttable.New("truncates")
	t.Options.ReadRepair = "NONE"
	return t
}

func newTruncates(c *Cluster) *truncates {
	return &truncates{clients: newClients(c, "truncates"), table: c.table("truncates"),
		byKey: map[string]*truncatedRow{}}
}

// start slows down the network, and starts the clients and the truncations. It changes the network of the whole run,
// which is a reason why the workload is explicit.
func (w *truncates) start() {
	// Some messages take long, but less than a coordinator waits: it knows of all messages in transit.
	w.c.net.Slow, w.c.net.SlowMax = 100, operationTimeout/2
	if w.c.options.LateTruncates {
		w.c.net.Late = kernel.NewStream(w.c.options.Seed, "late truncates")
	}
	w.launch(4, 40*time.Millisecond, w.step)
	w.again()
}

func (w *truncates) counts() (tried, acked int) {
	for _, t := range w.done {
		if t.ok {
			acked++
		}
	}
	return len(w.rows) + w.reads, acked
}

// again schedules repeated truncations. Truncations may overlap, because the next one does not wait for an answer.
func (w *truncates) again() {
	pause := w.rand.Between(20*time.Millisecond, 500*time.Millisecond)
	if w.c.options.LateTruncates { // so that rows are written between two of them
		pause *= 4
	}
	w.c.later(pause, "truncate", func() {
		defer w.again()
		w.noteKilledCoordinators()
		n := w.c.any(w.rand)
		if n.process == nil || !n.process.serves() {
			return
		}
		t := &truncate{call: w.c.kernel.Now(), by: n.process}
		w.done = append(w.done, t)
		w.c.truncating++
		w.c.kernel.Trace("truncate")
		l := n.process
		if w.c.options.LateTruncates && w.rand.Chance(400) {
			// Requests of this process may be delayed beyond its end (Transport.request).
			n.process.transport.Dying = true
			w.c.later(w.rand.Between(5*time.Millisecond, 800*time.Millisecond), "kill the coordinator", func() {
				n.crash(false)
				w.noteKilledCoordinators()
				w.c.later(w.rand.Between(100*time.Millisecond, 600*time.Millisecond), "restart", n.start)
			})
		}
		l.Do(func() {
			l.coord.Truncate(w.table, truncateTimeout, func(err error) {
				// The callback of a killed coordinator does not run: noteKilledCoordinators sets the end.
				if t.end, t.ok = w.c.kernel.Now(), err == nil; t.ok {
					w.c.truncating--
				}
				w.c.kernel.Trace(fmt.Sprint("truncated ", err))
				if err == nil && len(l.Topology().Operations()) > 0 {
					w.c.count("truncated while the ring changes")
				}
			})
		})
	})
}

// noteKilledCoordinators records that TRUNCATEs have failed whose coordinators were killed.
func (w *truncates) noteKilledCoordinators() {
	for _, t := range w.done {
		if t.end == 0 && t.by.Ended() {
			t.end = w.c.kernel.Now()
		}
	}
}

func (w *truncates) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("truncate" + strconv.Itoa(partition)))
}

// step adds a row, or reads a partition.
func (w *truncates) step(l *process, _ int, end func() bool) {
	if w.rand.Intn(10) < 7 {
		w.add(l, end)
		return
	}
	level := ring.Quorum
	if w.c.options.LateTruncates && w.rand.Chance(500) {
		// At ONE, a late TRUNCATE that reached a single replica is visible.
		level = ring.One
	}
	w.read(l, w.rand.Intn(truncatePartitions), level, func(error) { end() })
}

// add writes one new row. Clusterings ascend in the order of additions.
func (w *truncates) add(l *process, end func() bool) {
	x := &truncatedRow{partition: w.rand.Intn(truncatePartitions), clustering: fmt.Sprintf("%06d", len(w.rows)),
		call: w.c.kernel.Now()}
	w.rows = append(w.rows, x)
	w.byKey[x.clustering] = x
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, w.key(x.partition))
	r := row.NewRow()
	r.Clustering = []byte(x.clustering)
	r.Liveness.Timestamp = w.c.order.stamp()
	m.AddRow(r)
	level := ring.Quorum
	// Only rows on all replicas must be found by reads at ONE.
	if x.all = w.c.options.LateTruncates && w.rand.Chance(700); x.all {
		level = ring.All
	}
	l.write(m, level, func(err error) {
		x.end, x.acked = w.c.kernel.Now(), err == nil
		w.c.kernel.Trace(fmt.Sprint("row ", x.clustering, err))
		end()
	})
}

// read reads the first page of a partition, and checks its rows. Rows after the page are not judged.
func (w *truncates) read(l *process, partition int, level ring.Consistency, done func(error)) {
	call := w.c.kernel.Now()
	l.read(l.partition(w.table, w.key(partition)), level, func(page []byte, err error) {
		if err == nil {
			w.reads++
			w.judge(partition, page, call, w.c.kernel.Now(), level)
		}
		done(err)
	})
}

// judge compares a page with the rows that must and must not exist.
func (w *truncates) judge(partition int, page []byte, call, returned time.Duration, level ring.Consistency) {
	seen, last := map[string]bool{}, ""
	var p row.PageReader
	for p.Reset(page); p.NextPartition(); {
		for r := row.NewRow(); p.NextRow(r); {
			last = string(r.Clustering)
			seen[last] = true
		}
	}
	for _, x := range w.rows {
		if x.partition != partition || x.end == 0 || p.More() && x.clustering > last { // it may be on the next page
			continue
		}
		// Only one of the two can be certain: a row that a TRUNCATE may have removed can be read or not.
		switch there := seen[x.clustering]; {
		case there && w.truncatedBefore(x, call):
			w.c.fail("row %s of truncates was resurrected: %+v, read from %v to %v", x.clustering, *x, call, returned)
		case !there && x.acked && x.end < call && (x.all || level != ring.One) && !w.mayBeTruncated(x, returned):
			w.c.fail("row %s of truncates is missing: %+v, read from %v to %v", x.clustering, *x, call, returned)
		}
	}
}

// truncatedBefore reports whether a TRUNCATE certainly removed the row before a time.
func (w *truncates) truncatedBefore(x *truncatedRow, before time.Duration) bool {
	ended := x.end
	// A write that failed may be applied later, when its messages arrive.
	if !x.acked {
		ended += truncateSettled
	}
	for _, t := range w.done {
		// The write had ended when the TRUNCATE began, and the TRUNCATE when the read began.
		if t.ok && t.end < before && ended < t.call {
			return true
		}
	}
	return false
}

// mayBeTruncated reports whether a TRUNCATE may have removed the row until a time.
func (w *truncates) mayBeTruncated(x *truncatedRow, until time.Duration) bool {
	for _, t := range w.done {
		if t.call <= until && (t.end == 0 || x.call <= t.end || !t.ok && x.call <= t.end+truncateSettled &&
			!w.overtaken(t, x)) {
			return true
		}
	}
	return false
}

// overtaken reports whether a TRUNCATE that failed was followed by one that succeeded before the row was written: its
// messages then have no effect.
func (w *truncates) overtaken(failed *truncate, x *truncatedRow) bool {
	return slices.ContainsFunc(w.done, func(t *truncate) bool { return t.ok && t.call > failed.end && t.end < x.call })
}

// readBack repairs the table, which reads do not, and reads every partition from every node.
func (w *truncates) readBack() {
	// A repair must not bring back rows that one replica still had when the others were truncated.
	w.c.verify.repair(w.table)
	for partition := range truncatePartitions {
		for _, n := range w.c.present() {
			w.c.must(n, "reading truncates", func(l *process,
				done func(error)) {
				w.read(l, partition, ring.Quorum, done)
			})
		}
		w.c.must(w.c.present()[0], "reading truncates",
			func(l *process, done func(error)) { w.read(l, partition, ring.All, done) })
	}
}

func (w *truncates) check() {}
