package simulation

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/history"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
)

// calm is the workload: requests of every kind at QUORUM, while the ring changes only by commands of its operator, and
// while at most one of the replicas of a row is dead. No request may then fail, and none may take long. Other workloads
// check the contents of answers; this one checks that there are answers. It needs a run without link and disk faults;
// with them, requests may fail legitimately.
type calm struct {
	clients
	table, counter *schema.Table
	tried, acked   int
}

const (
	// calmMost bounds the duration of a request: several round trips, and the new plans that a change of the ring
	// causes. Both are in simulated time. One round trip takes a few milliseconds.
	calmMost = 400 * time.Millisecond
	// noticedAfter is how soon after a node's death its requests are sent to other nodes.
	noticedAfter = 2 * time.Second
	calmClients  = 4
)

func newCalm(c *Cluster) *calm {
	return &calm{clients: newClients(c, "calm"), table: c.table("calms"), counter: c.table("calmcounters")}
}

func (w *calm) start() { w.launch(calmClients, 15*time.Millisecond, w.step) }

func (w *calm) counts() (tried, acked int) { return w.tried, w.acked }

// step executes a request of a random kind, and fails the run if the request fails or is late without an excuse. Kinds
// are equally likely, so that writes, reads, scans, Paxos, counters and batches all meet each change of the ring.
func (w *calm) step(l *process, client int, end func() bool) {
	kinds := []struct {
		name string
		do   func(l *process, client int, done func(error))
	}{
		{"write", w.write}, {"read", w.read}, {"scan", w.scan}, {"conditional change", w.change},
		{"SERIAL read", w.serial},
		{"increment", w.count}, {"batch", w.batch},
	}
	kind := kinds[w.rand.Intn(len(kinds))]
	w.tried++
	began := w.c.kernel.Now()
	kind.do(l, client, func(err error) {
		w.c.kernel.Trace(fmt.Sprint("calm ", kind.name, client, err))
		took := w.c.kernel.Now() - began
		if err == nil {
			w.acked++
		}
		end()
		// Excused are requests whose coordinator has ended or has left, all requests after the end of the faults, and
		// requests that began before a node's death could be noticed.
		excused := l.node.process != l || !l.serves() || w.c.healed || w.c.crashed > 0 &&
			began < w.c.crashed+noticedAfter
		switch {
		case excused:
		case err != nil:
			w.c.fail("a %s at node %d, of %v, fails after %v: %v", kind.name, l.node.id, began, took, err)
		case took > calmMost:
			w.c.fail("a %s at node %d, of %v, takes %v", kind.name, l.node.id, began, took)
		}
	})
}

// key returns one of few partitions. Each client has its own for conditional changes, because contention delays them.
func (w *calm) key(client int) row.PartitionKey {
	return row.NewPartitionKey([]byte(fmt.Sprint("calm", client, w.rand.Intn(w.c.options.Keys))))
}

// mutation returns a write to one of the partitions that all clients share.
func (w *calm) mutation() *row.Mutation {
	stamp := w.c.order.stamp()
	// The index after the last client selects the partitions that all clients share.
	return texttable.Change(w.table, w.key(calmClients), "r", strconv.FormatInt(stamp, 10), stamp)
}

func (w *calm) write(l *process, _ int, done func(error)) { l.write(w.mutation(), ring.Quorum, done) }

func (w *calm) read(l *process, _ int, done func(error)) {
	l.read(l.partition(w.table, w.key(calmClients)), ring.Quorum, func(_ []byte, err error) { done(err) })
}

func (w *calm) serial(l *process, client int, done func(error)) {
	l.read(l.partition(w.table, w.key(client)), ring.Serial, func(_ []byte, err error) { done(err) })
}

// scan reads the first page of the whole ring, which needs replicas of every range. Page by page would multiply the
// time by the number of pages, which the bound does not allow for.
func (w *calm) scan(l *process, _ int, done func(error)) {
	p := &pages.Reader{Table: w.table.StorageID}
	l.read(p.Command(clock{l}.Now().Unix()), ring.Quorum, func(_ []byte, err error) { done(err) })
}

// change changes a row unconditionally in a round of Paxos.
func (w *calm) change(l *process, client int, done func(error)) {
	cmd := l.partition(w.table, w.key(client))
	cmd.Slices[0] = row.ExactRow([]byte("r"))
	l.cas(&paxos.CASRequest{
		Command: cmd, Serial: ring.Serial, Consistency: ring.Quorum, Contention: operationTimeout,
		Timeout: operationTimeout,
		Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
			return texttable.Change(w.table, cmd.Key, "r", strconv.FormatInt(timestamp, 10), timestamp), true, nil
		},
	}, func(applied bool, _ []byte, err error) {
		if err == nil && !applied {
			err = errors.New("not applied, though its condition holds")
		}
		done(err)
	})
}

// Counters have no timestamps of clients; the leader is any replica that is alive.
func (w *calm) count(l *process, _ int, done func(error)) {
	x := additions{table: w.counter}
	l.parts.Counters.Update(&coordinator.WriteRequest{
		Mutations:   []*row.Mutation{x.mutation(&history.Addition{Key: int64(w.rand.Intn(counterKeys)), Delta: 1})},
		Consistency: ring.Quorum, Type: coordinator.WriteCounter, Timeout: operationTimeout,
	}, done)
}

func (w *calm) batch(l *process, _ int, done func(error)) {
	l.parts.Batches.Write(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{w.mutation(), w.mutation()}, Consistency: ring.Quorum, Type: coordinator.WriteBatch,
		Timeout: operationTimeout,
	}, done)
}

// There is nothing to read back: the contents of answers are not checked.
func (w *calm) readBack() {}

func (w *calm) check() {}
