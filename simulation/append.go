package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/elle"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
)

// appends is the workload: clients read the lists of a partition and append to them by conditional changes, which are
// transactions of the partition, and read them at SERIAL. elle.Check checks the history. A list is one cell of text
// with its values separated by commas, for example "17,23,24", so an append is a read and a write that must be one
// atomic step.
type appends struct {
	clients
	table *schema.Table
	// history is kept by partition: a conditional change is a transaction of one partition, so no order exists between
	// two.
	history [appendPartitions][]*elle.Transaction
	// value is the last appended value: each value is appended once in a run, so that a read identifies the appends it
	// saw.
	value int64
	tried int
	acked int
}

const (
	// Few lists and clients keep the graph of dependencies dense, so that a lost append soon closes a cycle.
	appendPartitions = 2
	appendLists      = 3
	appendClients    = 4
)

func newAppends(c *Cluster) *appends {
	return &appends{clients: newClients(c, "append"), table: c.table("appends")}
}

// start starts the clients. A step changes or reads one partition. Partitions are also purged of Paxos state while
// clients use them (purges).
func (w *appends) start() {
	w.purges(w.table, func(r *kernel.Stream) row.PartitionKey { return w.key(r.Intn(appendPartitions)) })
	w.launch(appendClients, 120*time.Millisecond, func(l *process, _ int, end func() bool) {
		// About a third of the transactions append to no list, and only read.
		var lists []int
		for i := range appendLists {
			if w.rand.Chance(300) {
				lists = append(lists, i)
			}
		}
		w.run(l, w.rand.Intn(appendPartitions), lists, func(error) bool { return end() })
	})
}

func (w *appends) key(partition int) row.PartitionKey {
	return row.NewPartitionKey([]byte("append" + strconv.Itoa(partition)))
}

func (w *appends) counts() (tried, acked int) { return w.tried, w.acked }

// run reads all lists of a partition and appends to some of them. end is called with the outcome, and reports whether
// the client still waits; after a client's patience, the answer is too late to order anything by.
func (w *appends) run(l *process, partition int, lists []int, end func(error) bool) {
	// The transaction is in the history before it is sent: without an answer, it may still have taken effect.
	t := &elle.Transaction{Call: w.c.order.tick(), Appends: map[string][]int64{}}
	w.history[partition] = append(w.history[partition], t)
	w.tried++
	for _, i := range lists {
		for range 1 + w.rand.Intn(2) {
			w.value++
			t.Appends[listName(i)] = append(t.Appends[listName(i)], w.value)
		}
	}
	cmd := l.partition(w.table, w.key(partition))
	done := func(read map[string][]int64, err error) {
		// The client gave up earlier. For the checker, the outcome stays unknown.
		if !end(err) {
			return
		}
		w.c.kernel.Trace(fmt.Sprint("append ", partition, len(read), err))
		switch {
		case err == nil:
			t.Reads, t.Returned = read, w.c.order.tick()
			w.acked++
		// Any other error leaves Returned at 0: the appends may be seen later or never.
		case errors.Is(err, coordinator.ErrNotSent):
			t.Failed = true
		}
	}
	// A transaction without appends is a plain SERIAL read, which takes another path through the proposer.
	if len(lists) == 0 {
		l.read(cmd, ring.Serial, func(page []byte, err error) {
			var read map[string][]int64
			if err == nil {
				read, err = listsOf(page)
			}
			done(read, err)
		})
		return
	}
	// Update may be called in several attempts. The reads of the last one are the reads of the transaction.
	var read map[string][]int64
	l.cas(&paxos.CASRequest{
		Command: cmd, Serial: ring.Serial, Consistency: w.commitLevel(), Contention: operationTimeout,
		Timeout: operationTimeout,
		Update: func(page []byte, timestamp int64) (m *row.Mutation, applies bool, err error) {
			if read, err = listsOf(page); err != nil {
				return nil, false, err
			}
			// The mutation replaces whole lists, so an append that was not seen would be lost, which elle.Check finds.
			return w.mutation(cmd.Key, read, t.Appends, timestamp), true, nil
		},
	}, func(applied bool, _ []byte, err error) {
		if err == nil && !applied {
			err = errors.New("a change without a condition was not applied")
			w.c.fail("append: %v", err)
		}
		done(read, err)
	})
}

func listName(i int) string { return "list" + strconv.Itoa(i) }

// mutation returns the change that writes the lists of more, each as the values read followed by the values to append.
// timestamp is the ballot's, so a later change of the partition has a greater one.
func (w *appends) mutation(key row.PartitionKey, read, more map[string][]int64, timestamp int64) *row.Mutation {
	m := &row.Mutation{}
	m.Reset(w.table.StorageID, key)
	// Sorted: the bytes of the mutation are part of the trace.
	for _, name := range slices.Sorted(maps.Keys(more)) {
		var text []string
		for _, list := range [][]int64{read[name], more[name]} {
			for _, v := range list {
				text = append(text, strconv.FormatInt(v, 10))
			}
		}
		m.AddRow(texttable.Row(w.table, name, strings.Join(text, ","), timestamp))
	}
	return m
}

// listsOf returns the lists in a page. A missing list is empty; it was read nevertheless. An error means that a value
// is not a list that this workload wrote.
func listsOf(page []byte) (map[string][]int64, error) {
	// elle distinguishes a list that was read as empty from one that was not read.
	lists := map[string][]int64{}
	for i := range appendLists {
		lists[listName(i)] = nil
	}
	rows, err := texttable.Rows(page, 0)
	if err != nil {
		return nil, err
	}
	for _, r := range rows {
		for _, text := range strings.Split(r[1], ",") {
			v, err := strconv.ParseInt(text, 10, 64)
			if err != nil {
				return nil, err
			}
			lists[r[0]] = append(lists[r[0]], v)
		}
	}
	return lists, nil
}

// readBack reads all lists from every node. The longest of these reads usually is the order of a list. Reading from
// each node makes every coordinator take part, also one that was down for most of the run.
func (w *appends) readBack() {
	for partition := range appendPartitions {
		w.c.everywhere(fmt.Sprint("lists ", partition), func(l *process, done func(error)) {
			w.run(l, partition, nil, func(err error) bool {
				done(err)
				return true
			})
		})
	}
}

// check checks each partition on its own.
func (w *appends) check() {
	for partition, txns := range w.history {
		for _, anomaly := range elle.Check(txns) {
			w.c.fail("lists %d: %s", partition, anomaly)
		}
	}
}
