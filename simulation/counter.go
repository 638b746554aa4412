package simulation

import (
	"encoding/binary"
	"errors"
	"fmt"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/history"
	"cqld/simulation/meetings"
	"cqld/simulation/texttable"
	"cqld/types"
)

// additions is a workload of counters: clients add to and read a few counters at QUORUM (history.CheckCounter). The
// outcome of an addition without an answer is unknown, so a count has a lowest and a highest possible value.
type additions struct {
	clients
	table     *schema.Table
	additions []*history.Addition
	acked     int
}

const (
	// Few keys, so that additions to one counter overlap at different leaders.
	counterKeys    = 3
	counterClients = 5
)

// counterTable has a partition key k, a clustering column c and a counter v.
func counterTable(name string) *schema.CreateTable {
	t := texttable.New(name)
	t.Columns[2].Type = types.Native(types.Counter)
	return t
}

// newCounters returns the workload without any addition.
func newCounters(c *Cluster) *additions {
	return &additions{clients: newClients(c, "counters"), table: c.table("counters")}
}

// start starts the clients, with pauses of up to 40 ms between their steps.
func (w *additions) start() { w.launch(counterClients, 40*time.Millisecond, w.step) }

// counts returns the additions that were sent, and the ones that were acknowledged.
func (w *additions) counts() (tried, acked int) { return len(w.additions), w.acked }

// step adds to a counter, or reads one. Three of ten steps read.
func (w *additions) step(l *process, _ int, end func() bool) {
	key := int64(w.rand.Intn(counterKeys))
	// From -3 to 5, including 0: an addition of 0 must not disturb the count either.
	delta := int64(w.rand.Intn(9) - 3)
	if w.rand.Chance(300) {
		w.read(l, key, ring.Quorum, func(error) { end() })
		return
	}
	a := &history.Addition{Key: key, Delta: delta, Call: w.c.order.tick()}
	w.additions = append(w.additions, a)
	met := w.c.meetings.Begin(meetings.Counter, 2*operationTimeout)
	l.parts.Counters.Update(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{w.mutation(a)}, Consistency: ring.Quorum, Type: coordinator.WriteCounter,
		Timeout: operationTimeout,
	}, func(err error) {
		met()
		w.c.kernel.Trace(fmt.Sprint("counted ", a.Key, a.Delta, err))
		switch {
		case err == nil:
			a.Returned = w.c.order.tick()
			w.acked++
		// Any other error leaves the outcome unknown: the addition counts once or not at all.
		case errors.Is(err, coordinator.ErrNotSent):
			a.Dropped = true
		}
		end()
	})
}

// counterKey returns the key counter0 to counter2.
func counterKey(key int64) row.PartitionKey {
	return row.NewPartitionKey([]byte("counter" + strconv.FormatInt(key, 10)))
}

// mutation returns an update of a counter: its cell contains the delta, and the replica that executes it makes a
// shard.
func (w *additions) mutation(a *history.Addition) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, counterKey(a.Key))
	r := row.NewRow()
	r.Clustering = []byte("c")
	r.Cells = append(r.Cells, row.Cell{Column: w.table.Column("v").ID, Value: wire.AppendInt64(nil, a.Delta)})
	m.AddRow(r)
	return m
}

// read checks the value of a counter against the additions before and during the read.
func (w *additions) read(l *process, key int64, level ring.Consistency, done func(error)) {
	call := w.c.order.tick()
	l.read(l.partition(w.table, counterKey(key)), level, func(page []byte, err error) {
		if err == nil {
			w.c.verify.found(history.CheckCounter(w.additions, key, sumOf(page), call, w.c.order.tick()))
		}
		w.c.kernel.Trace(fmt.Sprint("counter read ", key, len(page), err))
		done(err)
	})
}

// sumOf returns the value of the only counter in a page: the sum of its shards.
func sumOf(page []byte) (sum int64) {
	var p row.PageReader
	p.Reset(page)
	for p.NextPartition() {
		var r row.Row
		for p.NextRow(&r) {
			for i := range r.Cells {
				// Each node has a shard with the sum of its own additions.
				if c := &r.Cells[i]; !c.Tombstone && len(c.Value) == 8 {
					sum += int64(binary.BigEndian.Uint64(c.Value))
				}
			}
		}
	}
	return sum
}

// readBack reads every counter from every node. The values at the end may still be ranges: an addition without an
// answer may have been applied or not.
func (w *additions) readBack() {
	for key := range int64(counterKeys) {
		for _, n := range w.c.present() {
			w.c.must(n, fmt.Sprintf("reading counter %d", key),
				func(l *process, done func(error)) { w.read(l, key, ring.Quorum, done) })
		}
		w.c.must(w.c.present()[0], fmt.Sprintf("reading counter %d", key),
			func(l *process, done func(error)) { w.read(l, key, ring.All, done) })
	}
}

// check does nothing: every read is checked when it ends.
func (w *additions) check() {}
