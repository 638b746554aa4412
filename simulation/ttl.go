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
	"cqld/simulation/texttable"
)

// ttls is the workload: clients write rows that expire, each once, by the clock of their node, and read them with the
// clock of another. A read contains its time, so all replicas must agree on the rows that have expired, whatever their
// own clocks show. A replica that decided by its own clock would return rows that others consider expired, and digests
// would differ.
type ttls struct {
	clients
	table *schema.Table
	// rows are in the order of their clusterings, which are their indexes.
	rows  []*expiring
	tried int
	acked int
}

// expiring is the history of a row, with times of order.tick, and its expiry, in seconds of the writer's clock.
type expiring struct {
	partition int
	expiry    int64
	call      int64
	// written is when the write was acknowledged; 0 before.
	written int64
	// skipped means that it certainly was not written.
	skipped bool
}

const (
	ttlPartitions = 3
	ttlClients    = 3
)

func newTTLs(c *Cluster) *ttls { return &ttls{clients: newClients(c, "ttl"), table: c.table("ttls")} }

// start starts the clients. Rows expire after one to six seconds, so most expire during a run.
func (w *ttls) start() {
	w.launch(ttlClients, 80*time.Millisecond, func(l *process, _ int, end func() bool) {
		if w.rand.Chance(600) {
			w.write(l, w.rand.Intn(ttlPartitions), int32(1+w.rand.Intn(6)), func() { end() })
			return
		}
		w.read(l, w.rand.Intn(ttlPartitions), ring.Quorum, func(error) { end() })
	})
}

func (w *ttls) counts() (tried, acked int) { return w.tried, w.acked }

func (w *ttls) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("ttl" + strconv.Itoa(partition)))
}

// write writes a row that expires after ttl seconds.
func (w *ttls) write(l *process, partition int, ttl int32, end func()) {
	w.tried++
	stamp := w.c.order.stamp()
	// The coordinator computes the expiry from its own clock, and replicas store it as a time.
	e := &expiring{partition: partition, expiry: clock{l}.Now().Unix() + int64(ttl), call: w.c.order.tick()}
	r := texttable.Row(w.table, fmt.Sprintf("%06d", len(w.rows)), "x", stamp)
	w.rows = append(w.rows, e)
	// Row and cell expire together.
	r.Liveness.TTL, r.Liveness.LocalTime = ttl, e.expiry
	r.Cells[0].TTL, r.Cells[0].LocalTime = ttl, e.expiry
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, w.key(partition))
	m.AddRow(r)
	l.write(m, ring.Quorum, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("ttl ", partition, err))
		switch {
		case err == nil:
			w.acked++
			e.written = w.c.order.tick()
		case errors.Is(err, coordinator.ErrNotSent):
			e.skipped = true
		}
		end()
	})
}

// read reads a partition as of the time of its coordinator's clock, and checks which rows have expired by that time.
func (w *ttls) read(l *process, partition int, level ring.Consistency, done func(error)) {
	w.tried++
	call := w.c.order.tick()
	cmd := l.partition(w.table, w.key(partition))
	l.read(cmd, level, func(page []byte, err error) {
		w.c.kernel.Trace(fmt.Sprint("ttl read ", partition, len(page), err))
		if err == nil {
			w.acked++
			err = w.judge(partition, cmd.Now, call, page)
		}
		done(err)
	})
}

// judge checks the rows of a read with the time now. A row that expires in the same second as now has expired.
func (w *ttls) judge(partition int, now, call int64, page []byte) error {
	rows, err := texttable.Rows(page, now)
	if err != nil {
		return err
	}
	seen := map[int]bool{}
	for _, r := range rows {
		// The clustering is the index of the row.
		id, err := strconv.Atoi(r[0])
		if err != nil {
			return err
		}
		seen[id] = true
		if e := w.rows[id]; e.expiry <= now || e.skipped || e.partition != partition || r[1] != "x" {
			w.c.fail("ttl: row %d of %d should not be there at %d: %+v", id, partition, now, *e)
		}
	}
	var p row.PageReader
	// More is known at the end of the page only.
	for p.Reset(page); p.NextPartition(); {
	}
	for id, e := range w.rows {
		if e.partition == partition && !seen[id] && e.written != 0 && e.written < call && e.expiry > now && !p.More() {
			w.c.fail("ttl: row %d of %d is missing at %d: %+v", id, partition, now, *e)
		}
	}
	return p.Err()
}

func (w *ttls) readBack() {
	for partition := range ttlPartitions {
		w.c.everywhere(fmt.Sprint("expiring rows ", partition),
			func(l *process, done func(error)) { w.read(l, partition, ring.Quorum, done) })
	}
}

// check does nothing: every read is checked when it ends.
func (w *ttls) check() {}
