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
	"cqld/simulation/texttable"
)

// levelled is the workload: clients write, delete and read a few rows at every consistency level, at coordinators in
// all data centers (history.Levels). In the healed cluster, every acknowledged write exists, whatever its level. Which
// value a read must return at least depends on both levels: a write at W and a read at R share a replica if W + R
// exceeds the number of replicas that count for them (history.Levels).
type levelled struct {
	clients
	table *schema.Table
	// history is kept by key: each row has its own requirement.
	history [levelledKeys]history.Levels
	tried   int
	acked   int
	// judged is the number of reads with a required value.
	judged int
}

const (
	levelledKeys    = 4
	levelledClients = 4
)

// commitLevel returns the level at which a conditional change commits. The serial phase always needs its own quorum;
// the level is for the commit only, which may be lost without losing the decision.
func (w *clients) commitLevel() ring.Consistency {
	if !w.c.options.Levels {
		return ring.Quorum
	}
	levels := history.WriteLevels()
	if w.c.options.at("lose-commits") {
		// All other levels would wait for lost commits, and time out.
		levels = []ring.Consistency{ring.Any, ring.One, ring.LocalOne}
	}
	return levels[w.rand.Intn(len(levels))]
}

// The replication is the keyspace's at the start of the run; changes of replication have a workload of their own.
func newLevelled(c *Cluster) *levelled {
	w := &levelled{clients: newClients(c, "levels"), table: c.table("levels")}
	for key := range w.history {
		w.history[key] = history.Levels{Key: key, Replication: c.replication()}
	}
	return w
}

// start starts the clients. A write deletes the row with a chance of 15 %.
func (w *levelled) start() {
	w.launch(levelledClients, 40*time.Millisecond, func(l *process, _ int, end func() bool) {
		key, next := w.rand.Intn(levelledKeys), func(error) { end() }
		if w.rand.Chance(500) {
			levels := history.ReadLevels()
			w.read(l, key, levels[w.rand.Intn(len(levels))], next)
			return
		}
		levels := history.WriteLevels()
		w.write(l, key, w.rand.Chance(150), levels[w.rand.Intn(len(levels))], next)
	})
}

func (w *levelled) counts() (tried, acked int) { return w.tried, w.acked }

func (w *levelled) key(key int) row.PartitionKey {
	return row.NewPartitionKey([]byte("level" + strconv.Itoa(key)))
}

// write writes or deletes the row of a key at any level of writes. A deletion has a timestamp like a write, so the
// newest of both wins.
func (w *levelled) write(l *process, key int, deletion bool, level ring.Consistency, done func(error)) {
	w.tried++
	o := &history.LevelCall{
		Stamp:    w.c.order.stamp(),
		Deletion: deletion,
		Level:    history.LevelAt{Level: level, Datacenter: l.node.dc},
		Call:     w.c.order.tick(),
	}
	h := &w.history[key]
	// Recorded before it is sent: a read may see the write before it is acknowledged.
	h.Calls = append(h.Calls, o)
	m := texttable.Change(w.table, w.key(key), "r", strconv.FormatInt(o.Stamp, 10), o.Stamp)
	// The deletion replaces the mutation that was built above.
	if deletion {
		r := row.NewRow()
		r.Clustering, r.Deletion = []byte("r"), row.Deletion{Timestamp: o.Stamp, LocalTime: clock{l}.Now().Unix()}
		m.Reset(w.table.StorageID, w.key(key))
		m.AddRow(r)
	}
	l.write(m, level, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("level write ", key, level, o.Stamp, err))
		switch {
		case err == nil:
			o.Returned = w.c.order.tick()
			w.acked++
		case errors.Is(err, coordinator.ErrNotSent):
			o.Dropped = true
		}
		done(err)
	})
}

// read reads the row of a key at any level of reads, and checks it with the requirement at the time of its begin. Judge
// also notes what the read returned, because a later read at a sufficient level must not return an older value.
func (w *levelled) read(l *process, key int, level ring.Consistency, done func(error)) {
	w.tried++
	at, h := history.LevelAt{Level: level, Datacenter: l.node.dc}, &w.history[key]
	// The requirement is computed when the read begins: only writes that were acknowledged before are visible to it
	// for certain.
	call, least := w.c.order.tick(), h.Least(at, w.c.losing)
	l.read(l.partition(w.table, w.key(key)), level, func(page []byte, err error) {
		var found int64
		if err == nil {
			found, err = liveValueOf(page)
		}
		w.c.kernel.Trace(fmt.Sprint("level read ", key, level, found, err))
		if err == nil {
			w.acked++
			if least != nil {
				w.judged++
			}
			w.c.verify.found(h.Judge(at, call, found, least, w.c.order.tick))
		}
		done(err)
	})
}

// liveValueOf returns the value of the only row in a page; 0 means that it does not exist.
func liveValueOf(page []byte) (int64, error) {
	rows, err := texttable.Rows(page, 0)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return strconv.ParseInt(rows[0][1], 10, 64)
}

// readBack reads every row from every node, at ALL and then at ONE: now all replicas must have all acknowledged writes.
// It raises the level of the recorded calls, from which the requirement of later reads is computed.
func (w *levelled) readBack() {
	for key := range levelledKeys {
		h := &w.history[key]
		for _, o := range h.Calls {
			// Reads at ALL see every acknowledged write, and repair the replicas that lack it. Reads at ONE that
			// follow must then see it, too.
			if o.Returned != 0 && !(w.c.losing && h.Lossy(o)) {
				o.Level.Level = ring.All
			}
		}
		w.c.everywhere(fmt.Sprint("level ", key), func(l *process, done func(error)) { w.read(l, key, ring.All, done) })
		w.c.everywhere(fmt.Sprint("level ", key), func(l *process, done func(error)) { w.read(l, key, ring.One, done) })
	}
}

// check does nothing: every read is checked when it ends.
func (w *levelled) check() {}
