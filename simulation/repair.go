package simulation

import (
	"fmt"
	"slices"
	"time"

	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/texttable"
	"cqld/storage/reading"
)

// repairMargin covers the clock skew in the runs of graves, and the duration of a request.
const repairMargin = 2 * time.Second

// settlingTime is longer than any read takes: a coordinator gives up after operationTimeout.
const settlingTime = 2 * operationTimeout

// repair repairs a table of a healed cluster, and compares the roots of its replicas' trees. Roots are computed with
// one leaf, so a single differing byte changes them.
func (v *verifier) repair(table *schema.Table) {
	c := v.c
	for range 2 { // the first makes the replicas equal, the second must find no difference
		c.must(c.present()[0], "repairing table "+table.Name, func(l *process, done func(error)) {
			job := repair.Job{Table: table.StorageID, Range: ring.FullRange()}
			l.repairer.Start(job, nil, func(_ repair.Report, err error) { done(err) })
		})
	}
	now := int64(epoch) + int64(c.kernel.Now()/time.Second)
	// Each piece has the same replicas everywhere, so its roots can be compared.
	for _, piece := range c.metadata().Topology.Placement(table.Replication).Ranges(ring.FullRange()) {
		var roots []reading.LeafHash
		// Start is exclusive.
		for _, n := range c.holders(piece.Range.Start + 1) {
			var root reading.LeafHash
			cmd := &reading.HashCommand{Table: table.StorageID, Tokens: piece.Range, Leaves: 1, Now: now,
				BytesMax: 1 << 40}
			if _, _, err := n.process.engine.Hash(cmd, func(_ int, h reading.LeafHash) { root.Add(h) }); err != nil {
				c.fail("node %d cannot hash %v of table %s: %v", n.id, piece.Range, table.Name, err)
			}
			roots = append(roots, root)
		}
		if roots = slices.Compact(roots); len(roots) > 1 {
			c.fail("after a repair of table %s, the replicas of %v have the roots %x", table.Name, piece.Range, roots)
		}
	}
}

// graves is a workload of rows that exist once: clients insert rows on all replicas, delete some, and read. Nodes are
// down for longer than gc_grace, one after the other, and hints expire earlier. Deleted rows must not be resurrected,
// which only repairs ensure. A replica that was down for longer than gc_grace still has a deleted row when the others
// may have purged its tombstone. Purging only what was repaired prevents that the row returns.
type graves struct {
	clients
	table *schema.Table
	rows  []*grave
	reads int
	// made is the number of rows that were sent, and the clustering of the next one.
	made int
	// forgotten is the number of rows that are no longer checked.
	forgotten int
}

// grave is the history of one row, with times of order.tick.
type grave struct {
	partition  int
	clustering string
	// added is when all replicas had the row; graves.rows has only such rows.
	added int64
	// deleteCall is when its deletion was first sent, deleted when a quorum acknowledged it; 0 means never.
	deleteCall int64
	deleted    int64
}

const (
	gravePartitions = 4
	// graveGrace is gc_grace of the table, in seconds. Every absence of a node is longer.
	graveGrace = 5
)

// graveTable returns a table with tombstones that may be purged soon after they are repaired.
func graveTable() *schema.CreateTable {
	t := texttable.New("graves")
	t.Options.GCGraceSeconds = graveGrace
	t.Options.TombstoneGC = "repair"
	return t
}

func newGraves(c *Cluster) *graves {
	return &graves{clients: newClients(c, "graves"), table: c.table("graves")}
}

// start starts the clients, and the absences of nodes.
func (w *graves) start() {
	w.launch(4, 150*time.Millisecond, w.step)
	w.absence()
}

// absence repeatedly stops a node for longer than tombstones must be kept.
func (w *graves) absence() {
	// Nodes are absent one after the other: the next absence begins after the return.
	n := w.c.any(w.rand)
	w.c.later(w.rand.Between(2*time.Second, 8*time.Second), "absence", func() {
		n.crash(w.rand.Chance(500))
		w.c.count("absence")
		w.c.later(w.rand.Between((graveGrace+1)*time.Second, 2*graveGrace*time.Second), "return", func() {
			n.start()
			w.absence()
		})
	})
}

func (w *graves) counts() (tried, acked int) {
	for _, g := range w.rows {
		if g.deleted != 0 {
			acked++
		}
	}
	return w.made + w.reads, acked + w.forgotten
}

func (w *graves) key(partition int) row.PartitionKey {
	return row.NewPartitionKey(fmt.Append(nil, "grave", partition))
}

// step adds a row, deletes one, or reads a partition. victim is drawn in every step, so that the draws do not depend on
// the branch.
func (w *graves) step(l *process, _ int, end func() bool) {
	what, victim := w.rand.Intn(10), w.rand.Uint64()
	next := func(error) { end() }
	switch {
	case what < 4:
		w.add(l, next)
	case what < 7 && len(w.rows) > gravesKept:
		// One of the oldest rows is deleted.
		w.bury(l, w.rows[victim%16], next) // so that their number is bounded
	case what < 7 && len(w.rows) > 0:
		w.bury(l, w.rows[victim%uint64(len(w.rows))], next)
	default:
		w.look(l, w.rand.Intn(gravePartitions), ring.Quorum, next)
	}
}

// add inserts a row on all replicas. A row that some replicas may lack is not checked.
func (w *graves) add(l *process, done func(error)) {
	// At ALL: the row is on every replica, so a replica that is down misses deletions only.
	g := &grave{partition: w.rand.Intn(gravePartitions), clustering: fmt.Sprintf("%06d", w.made)}
	w.made++
	r := row.NewRow()
	r.Clustering = []byte(g.clustering)
	r.Liveness.Timestamp = w.c.order.stamp()
	m := new(row.Mutation)
	m.Reset(w.table.StorageID, w.key(g.partition))
	m.AddRow(r)
	l.write(m, ring.All, func(err error) {
		if err == nil {
			g.added = w.c.order.tick()
			w.rows = append(w.rows, g)
			w.forget()
		}
		done(err)
	})
}

// gravesKept bounds the rows that are checked: a run of weeks has more.
const gravesKept = 1500

// forget removes the oldest row from the list, if the list is too long and its client has tried to delete the row.
func (w *graves) forget() {
	if len(w.rows) > gravesKept && w.rows[0].deleteCall != 0 {
		w.rows = w.rows[1:]
		w.forgotten++
	}
}

// bury deletes a row, individually or as a range, at QUORUM, once.
func (w *graves) bury(l *process, g *grave, done func(error)) {
	// A second deletion would hide the loss of the first one.
	if g.deleteCall != 0 {
		done(nil)
		return
	}
	g.deleteCall = w.c.order.tick()
	d := row.Deletion{Timestamp: w.c.order.stamp(), LocalTime: clock{l}.Now().Unix()}
	m := new(row.Mutation)
	m.Reset(w.table.StorageID, w.key(g.partition))
	// Both forms of deletion must be purged and repaired alike.
	if w.rand.Chance(500) {
		exact := row.ExactRow([]byte(g.clustering))
		m.AddRangeTombstone(row.RangeTombstone{Start: exact.Start, End: exact.End, Deletion: d})
	} else {
		r := row.NewRow()
		r.Clustering, r.Deletion = []byte(g.clustering), d
		m.AddRow(r)
	}
	l.write(m, ring.Quorum, func(err error) {
		if err == nil {
			g.deleted = w.c.order.tick()
		}
		done(err)
	})
}

// look reads a partition and checks its rows. Also at nodes that have just returned and lack deletions.
func (w *graves) look(l *process, partition int, level ring.Consistency, done func(error)) {
	w.reads++
	began := w.c.order.tick()
	l.read(l.partition(w.table, w.key(partition)), level, func(page []byte, err error) {
		if err == nil {
			w.judge(partition, page, began)
		}
		done(err)
	})
}

// judge checks a read that began at began: deleted rows must stay deleted, and all others must be there.
func (w *graves) judge(partition int, page []byte, began int64) {
	seen := map[string]bool{}
	var p row.PageReader
	for p.Reset(page); p.NextPartition(); {
		for r := row.NewRow(); p.NextRow(r); {
			// The rows of this workload never expire.
			if r.Live(0) {
				seen[string(r.Clustering)] = true
			}
		}
	}
	for _, g := range w.rows {
		switch there := seen[g.clustering]; {
		case g.partition != partition:
		// A deletion at QUORUM is visible to each read at QUORUM or ALL that begins later.
		case there && g.deleted != 0 && g.deleted < began:
			w.c.fail("row %s of graves was resurrected: it was deleted at %d, and read at %d", g.clustering, g.deleted,
				began)
		// A row whose deletion was sent may be there or not.
		case !there && g.added < began && g.deleteCall == 0:
			w.c.fail("row %s of graves is missing: it was added at %d, and read at %d", g.clustering, g.added, began)
		}
	}
}

// readBack repairs the table, and reads every partition at ALL, where a resurrected row of any replica is visible.
// Reads at QUORUM during the run may miss a row that one replica resurrected.
func (w *graves) readBack() {
	for _, n := range w.c.present() {
		if n.process != nil {
			// Tests require that tombstones were purged: otherwise no row could be resurrected.
			w.c.counted["purged"] += int(n.process.engine.Metrics().Purged)
		}
	}
	w.c.verify.repair(w.table)
	for partition := range gravePartitions {
		w.c.must(w.c.present()[partition%len(w.c.present())], "reading graves", func(l *process, done func(error)) {
			w.look(l, partition, ring.All, done)
		})
	}
}

func (w *graves) check() {}
