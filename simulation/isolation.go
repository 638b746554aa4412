package simulation

import (
	"fmt"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/texttable"
)

// isolation is the workload: a write changes all rows of a partition to one value, and a read at QUORUM must return the
// same value for all of them, not older than one that an earlier read returned or an acknowledged write wrote. A
// mutation of one partition is atomic on each replica, so a read that mixes two values shows that a replica or the
// merge of answers has torn it.
type isolation struct {
	clients
	table *schema.Table
	// Values are timestamps, so a later write has a greater value.
	// least is the minimum value that reads may return from now on.
	least [isolationPartitions]int64
	tried int
	acked int
}

const (
	isolationPartitions = 3
	// isolationRows must fit into one page (Options.wantsPartitions).
	isolationRows    = 4
	isolationClients = 4
)

func newIsolation(c *Cluster) *isolation {
	return &isolation{clients: newClients(c, "isolation"), table: c.table("isolation")}
}

// start starts the clients. A step writes or reads a whole partition.
func (w *isolation) start() {
	w.launch(isolationClients, 60*time.Millisecond, func(l *process, _ int, end func() bool) {
		partition := w.rand.Intn(isolationPartitions)
		if w.rand.Chance(500) {
			w.write(l, partition, func() { end() })
			return
		}
		w.read(l, partition, ring.Quorum, func(error) { end() })
	})
}

func (w *isolation) counts() (tried, acked int) { return w.tried, w.acked }

func (w *isolation) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("isolation" + strconv.Itoa(partition)))
}

// write writes one new value to all rows of a partition.
func (w *isolation) write(l *process, partition int, end func()) {
	w.tried++
	stamp := w.c.order.stamp()
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, w.key(partition))
	for i := range isolationRows {
		m.AddRow(texttable.Row(w.table, strconv.Itoa(i), strconv.FormatInt(stamp, 10), stamp))
	}
	l.coord.Write(&coordinator.WriteRequest{
		// One mutation: all rows of a partition in one batch are written atomically and in isolation.
		Mutations: []*row.Mutation{m}, Consistency: ring.Quorum, Type: coordinator.WriteUnloggedBatch,
		Timeout: operationTimeout,
	}, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("isolation ", partition, err))
		if err == nil {
			w.acked++
			w.least[partition] = max(w.least[partition], stamp)
		}
		end()
	})
}

// read reads a partition in either order, and checks that all of its rows have one value.
func (w *isolation) read(l *process, partition int, level ring.Consistency, done func(error)) {
	w.tried++
	// As of the time of the request: what others read meanwhile does not bind it.
	least := w.least[partition]
	cmd := l.partition(w.table, w.key(partition))
	// A reversed read finds the rows in the other order, and must see the same write in all of them.
	cmd.Reversed = w.rand.Chance(300)
	l.read(cmd, level, func(page []byte, err error) {
		w.c.kernel.Trace(fmt.Sprint("isolation read ", partition, len(page), err))
		if err == nil {
			w.acked++
			err = w.judge(partition, page, least)
		}
		done(err)
	})
}

// judge checks the rows of a read.
func (w *isolation) judge(partition int, page []byte, least int64) error {
	rows, err := texttable.Rows(page, 0)
	if err != nil {
		return err
	}
	// No row is correct only before the first write is known.
	if len(rows) != isolationRows && (len(rows) != 0 || least != 0) {
		w.c.fail("isolation %d: %d rows of %d are read: %v", partition, len(rows), isolationRows, rows)
		return nil
	}
	var found int64
	for _, r := range rows {
		if r[1] != rows[0][1] {
			w.c.fail("isolation %d: half of a write is read: %v", partition, rows)
			return nil
		}
		if found, err = strconv.ParseInt(r[1], 10, 64); err != nil {
			return err
		}
	}
	if found < least {
		w.c.fail("isolation %d: %d is read, but %d was read or acknowledged before", partition, found, least)
	}
	// A value that one read has returned must not disappear again, even if its write was not acknowledged: a read at
	// QUORUM repairs the replicas that it contacted.
	w.least[partition] = max(w.least[partition], found)
	return nil
}

func (w *isolation) readBack() {
	for partition := range isolationPartitions {
		w.c.everywhere(fmt.Sprint("isolation ", partition),
			func(l *process, done func(error)) { w.read(l, partition, ring.Quorum, done) })
	}
}

// check does nothing: every read is checked when it ends.
func (w *isolation) check() {}
