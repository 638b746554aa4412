package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/meetings"
	"cqld/simulation/texttable"
)

// batches is a workload of logged batches: each adds a row of its own to several partitions. At the end, either all
// rows of a batch exist or none, and all of an acknowledged one.
type batches struct {
	clients
	table *schema.Table
	all   []*logged
	acked int
}

// logged is one batch.
type logged struct {
	// name is the clustering of the batch's row in each of its partitions.
	name       string
	partitions []int
	// one means level ONE, instead of QUORUM. With losing, such a batch may be lost although it was acknowledged.
	one bool
	// acked and dropped exclude each other; neither means that the outcome is unknown.
	acked bool
	// dropped means that it certainly was not written: the request was not sent.
	dropped bool
}

const (
	// More partitions than in other workloads, so that the partitions of a batch have different replicas.
	batchPartitions = 12
	batchClients    = 3
	// batchesDrained bounds how long batches stay in the log of a healed cluster, with waits and retries.
	batchesDrained = 2 * time.Minute
)

func newBatches(c *Cluster) *batches {
	return &batches{clients: newClients(c, "batches"), table: c.table("batches")}
}

func (w *batches) start() { w.launch(batchClients, 60*time.Millisecond, w.step) }

func (w *batches) counts() (tried, acked int) { return len(w.all), w.acked }

func batchKey(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("batch" + strconv.Itoa(partition)))
}

// step writes a logged batch of one row in each of up to four partitions. Consistency ONE acknowledges a batch as soon
// as its copies are in the batch logs and one replica of each partition answers.
func (w *batches) step(l *process, _ int, end func() bool) {
	b := &logged{name: fmt.Sprintf("%06d", len(w.all))}
	for range 2 + w.rand.Intn(3) {
		// A batch may have one partition only, if the draws are equal.
		if p := w.rand.Intn(batchPartitions); !slices.Contains(b.partitions, p) {
			b.partitions = append(b.partitions, p)
		}
	}
	w.all = append(w.all, b)
	req := &coordinator.WriteRequest{Consistency: ring.Quorum, Type: coordinator.WriteBatch, Timeout: operationTimeout}
	if w.rand.Chance(300) {
		req.Consistency, b.one = ring.One, true
	}
	// One timestamp for the whole batch. Each batch writes its own rows, so it never competes with another batch.
	stamp := w.c.order.stamp()
	for _, p := range b.partitions {
		req.Mutations = append(req.Mutations, texttable.Change(w.table, batchKey(p), b.name, b.name, stamp))
	}
	met := w.c.meetings.Begin(meetings.BatchLog, 2*operationTimeout)
	l.parts.Batches.Write(req, func(err error) {
		met()
		w.c.kernel.Trace(fmt.Sprint("batch ", b.name, err))
		switch {
		case err == nil:
			b.acked = true
			w.acked++
		case errors.Is(err, coordinator.ErrNotSent):
			b.dropped = true
		}
		end()
	})
}

// readBack waits until no batch is stored in a batch log, and reads all partitions. An unacknowledged batch may be
// applied or not, but only as a whole; that is why the logs must be empty first.
func (w *batches) readBack() {
	held := func() (n int) {
		for _, x := range w.c.present() {
			if x.process != nil {
				n += x.process.parts.Batches.Held()
			}
		}
		return n
	}
	// A replayed batch is removed from the log when all its writes are acknowledged or stored as hints.
	w.c.kernel.RunUntil(w.c.kernel.Now()+batchesDrained, func() bool { return held() == 0 })
	if n := held(); n > 0 {
		w.c.fail("%d batches are still stored %v after all faults were healed", n, batchesDrained)
	}
	w.c.settle() // the replay may have created hints
	found := map[string]int{}
	// At ALL: a row that any replica has is found.
	whole := w.c.verify.readAll(w.table, func(_ *row.PageReader, r *row.Row, _ bool) {
		if r != nil {
			found[string(r.Clustering)]++
		}
	})
	if !whole {
		return
	}
	for _, b := range w.all {
		w.judge(b, found[b.name])
	}
}

// judge checks a batch that was found in n of its partitions. b.one batches are excused with a lost disk, because their
// acknowledgment promises one replica only.
func (w *batches) judge(b *logged, n int) {
	switch {
	case w.c.losing && (!b.acked || b.one):
		// The rest of it may be one replica's mutations and its hints for the others, all on one disk.
	case n != 0 && n != len(b.partitions):
		w.c.fail("batch %s is in %d of its %d partitions", b.name, n, len(b.partitions))
	case n == 0 && b.acked:
		w.c.fail("batch %s was acknowledged, but is missing", b.name)
	case n != 0 && b.dropped:
		w.c.fail("batch %s was refused, but was applied", b.name)
	}
}

func (w *batches) check() {}
