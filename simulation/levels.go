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

// levelled is the workload: clients write, delete and read a few rows at every consistency level, at coordinators in
// all data centers. A read must return a value that was written and, if the levels and data centers of two requests
// make their replicas overlap, nothing older than a value that was acknowledged or read before. In the healed cluster,
// every acknowledged write exists, whatever its level.
type levelled struct {
	clients
	table   *schema.Table
	history [levelledKeys][]*levelledWrite
	tried   int
	acked   int
	judged  int // number of reads with a required value
}

// levelledWrite is a write or a deletion, or a read that returned it and therefore stored it on as many replicas as
// answered.
type levelledWrite struct {
	stamp    int64
	deletion bool
	level    levelAt
	call     int64
	returned int64 // 0 while unknown
	dropped  bool  // certainly without effect
	read     bool  // a read
}

// levelAt is a consistency level at a coordinator's data center.
type levelAt struct {
	level ring.Consistency
	dc    string
}

const (
	levelledKeys    = 4
	levelledClients = 4
)

// writeLevels and readLevels are the levels that clients use; SERIAL and LOCAL_SERIAL are levels of reads only.
func writeLevels() []ring.Consistency {
	return []ring.Consistency{ring.Any, ring.One, ring.Two, ring.Three, ring.Quorum, ring.All, ring.LocalQuorum,
		ring.EachQuorum, ring.LocalOne}
}

func readLevels() []ring.Consistency {
	return append(writeLevels()[1:], ring.Serial, ring.LocalSerial)
}

// commitLevel returns the level at which a conditional change commits.
func (w *clients) commitLevel() ring.Consistency {
	if !w.c.options.Levels {
		return ring.Quorum
	}
	levels := writeLevels()
	if w.c.options.at("lose-commits") {
		levels = []ring.Consistency{ring.Any, ring.One, ring.LocalOne} // the others would wait for lost commits
	}
	return levels[w.rand.Intn(len(levels))]
}

// groups returns how many replicas of each data center, and of all, have answered at least when a request succeeds.
func (a levelAt) groups(r ring.Replication) (each []int, all int) {
	if r.Class != ring.NetworkTopology {
		if a.level != ring.Any {
			all = a.level.BlockFor(r, a.dc)
		}
		return []int{0}, all
	}
	each = make([]int, len(r.Datacenters))
	for i, f := range r.Datacenters {
		switch {
		case a.level == ring.EachQuorum, a.level.IsLocal() && f.Datacenter == a.dc:
			each[i] = ring.QuorumOf(f.Factor)
			if a.level == ring.LocalOne {
				each[i] = 1
			}
		}
		all += each[i]
	}
	switch {
	case a.level == ring.Any || a.level.IsLocal() || a.level == ring.EachQuorum:
	default:
		all = a.level.BlockFor(r, a.dc)
	}
	return each, all
}

// overlaps reports whether any replicas that answer at a overlap with any replicas that answer at b.
func (a levelAt) overlaps(b levelAt, r ring.Replication) bool {
	eachA, allA := a.groups(r)
	eachB, allB := b.groups(r)
	if allA+allB > r.Total() {
		return true
	}
	for i := range eachA {
		have := r.Total()
		if r.Class == ring.NetworkTopology {
			have = r.Datacenters[i].Factor
		}
		if eachA[i]+eachB[i] > have {
			return true
		}
	}
	return false
}

func newLevelled(c *Cluster) *levelled {
	return &levelled{clients: newClients(c, "levels"), table: c.table("levels")}
}

func (w *levelled) start() {
	w.launch(levelledClients, 40*time.Millisecond, func(l *process, _ int, end func() bool) {
		key, next := w.rand.Intn(levelledKeys), func(error) { end() }
		if w.rand.Chance(500) {
			levels := readLevels()
			w.read(l, key, levels[w.rand.Intn(len(levels))], next)
			return
		}
		levels := writeLevels()
		w.write(l, key, w.rand.Chance(150), levels[w.rand.Intn(len(levels))], next)
	})
}

func (w *levelled) counts() (tried, acked int) { return w.tried, w.acked }

func (w *levelled) key(key int) row.PartitionKey {
	return row.NewPartitionKey([]byte("level" + strconv.Itoa(key)))
}

func (w *levelled) write(l *process, key int, deletion bool, level ring.Consistency, done func(error)) {
	w.tried++
	o := &levelledWrite{
		stamp:    w.c.order.stamp(),
		deletion: deletion,
		level:    levelAt{level, l.node.dc},
		call:     w.c.order.tick(),
	}
	w.history[key] = append(w.history[key], o)
	m := textChange(w.table, w.key(key), "r", strconv.FormatInt(o.stamp, 10), o.stamp)
	if deletion {
		r := row.NewRow()
		r.Clustering, r.Deletion = []byte("r"), row.Deletion{Timestamp: o.stamp, LocalTime: clock{l}.Now().Unix()}
		m.Reset(w.table.StorageID, w.key(key))
		m.AddRow(r)
	}
	l.write(m, level, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("level write ", key, level, o.stamp, err))
		switch {
		case err == nil:
			o.returned = w.c.order.tick()
			w.acked++
		case errors.Is(err, coordinator.ErrNotSent):
			o.dropped = true
		}
		done(err)
	})
}

func (w *levelled) read(l *process, key int, level ring.Consistency, done func(error)) {
	w.tried++
	at := levelAt{level, l.node.dc}
	call, least := w.c.order.tick(), w.least(key, at)
	l.read(l.partition(w.table, w.key(key)), level, func(page []byte, err error) {
		var found int64
		if err == nil {
			found, err = liveValueOf(page)
		}
		w.c.kernel.Trace(fmt.Sprint("level read ", key, level, found, err))
		if err == nil {
			w.acked++
			w.judge(key, at, call, found, least)
		}
		done(err)
	})
}

// liveValueOf returns the value of the only row in a page; 0 means that it does not exist.
func liveValueOf(page []byte) (int64, error) {
	rows, err := textRows(page, 0)
	if err != nil || len(rows) == 0 {
		return 0, err
	}
	return strconv.ParseInt(rows[0][1], 10, 64)
}

// least returns the newest write that a read which begins now must return, or a newer one; nil means none.
func (w *levelled) least(key int, at levelAt) (newest *levelledWrite) {
	r := w.c.replication()
	for _, o := range w.history[key] {
		if o.returned != 0 && o.level.overlaps(at, r) && !w.lost(o) && (newest == nil || o.stamp > newest.stamp) {
			newest = o
		}
	}
	return newest
}

// lost reports whether an acknowledged write may be lost with a disk: one that fewer than a quorum acknowledged.
func (w *levelled) lost(o *levelledWrite) bool {
	quorum := levelAt{ring.Quorum, o.level.dc}
	return w.c.losing && !o.level.overlaps(quorum, w.c.replication())
}

// judge compares the value that a read returned, 0 for none, with the required one.
func (w *levelled) judge(key int, at levelAt, call, found int64, least *levelledWrite) {
	if least != nil {
		w.judged++
	}
	for _, o := range w.history[key] {
		switch {
		case o.read || o.dropped && o.stamp != found || o.deletion != (found == 0) || found != 0 && o.stamp != found:
			continue
		case o.dropped:
			w.c.fail("level %d: a read at %s finds %d, whose write was refused", key, at.level, found)
			return
		case least == nil || o.stamp >= least.stamp:
			w.seen(key, at, o, found)
			return
		case found != 0:
			w.c.fail("level %d: a read at %s in %s, called at %d, finds %d, but %+v was acknowledged or read before",
				key, at.level, at.dc, call, found, *least)
			return
		}
	}
	if found != 0 || least != nil {
		w.c.fail("level %d: a read at %s in %s, called at %d, finds %d, and must find %+v", key, at.level, at.dc, call,
			found, least)
	}
}

// seen records that a read has returned a value: later reads whose level overlaps with its own must return it, too.
// This holds only for reads that repair: those of a level that overlaps with itself.
func (w *levelled) seen(key int, at levelAt, o *levelledWrite, found int64) {
	if found == 0 || at.level.IsSerial() || !at.overlaps(at, w.c.replication()) {
		return
	}
	w.history[key] = append(w.history[key], &levelledWrite{stamp: o.stamp, level: at, call: o.call,
		returned: w.c.order.tick(), read: true})
}

// readBack reads every row from every node, at ALL and then at ONE: now all replicas must have all acknowledged writes.
func (w *levelled) readBack() {
	for key := range levelledKeys {
		for _, o := range w.history[key] {
			if o.returned != 0 && !w.lost(o) {
				o.level.level = ring.All
			}
		}
		w.c.everywhere(fmt.Sprint("level ", key), func(l *process, done func(error)) { w.read(l, key, ring.All, done) })
		w.c.everywhere(fmt.Sprint("level ", key), func(l *process, done func(error)) { w.read(l, key, ring.One, done) })
	}
}

// check does nothing: every read is checked when it ends.
func (w *levelled) check() {}
