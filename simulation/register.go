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

// registers is the workload: clients write unique values to a few registers and read them, all at QUORUM. Writes have
// timestamps in one global order, as from a perfect clock: the workload does not test which of two writes wins, but
// whether writes persist. The check is linearizability for reads and writes at QUORUM, with unknown outcomes allowed
// (history.CheckRegister).
type registers struct {
	clients
	table   *schema.Table
	history []*history.RegisterCall
	acked   int
	// skew contains the offsets of the clients' clocks. nil means timestamps in one global order (skewed.go).
	skew []time.Duration
}

func newRegisters(c *Cluster) *registers {
	return &registers{clients: newClients(c, "register"), table: c.table("registers")}
}

// start starts the clients, half of whose steps are writes.
func (w *registers) start() {
	w.launch(w.c.options.Clients, 40*time.Millisecond, func(l *process, client int, end func() bool) {
		w.run(l, client, w.rand.Intn(w.c.options.Keys), w.rand.Chance(500), ring.Quorum,
			func(error) bool { return end() })
	})
}

func (w *registers) counts() (tried, acked int) { return len(w.history), w.acked }

// run executes one operation; end reports whether the client still waits for its outcome.
func (w *registers) run(l *process, client, key int, write bool, level ring.Consistency,
	end func(error) bool) *history.RegisterCall {
	op := &history.RegisterCall{Client: client, Key: key, Write: write, Call: w.c.order.tick()}
	w.history = append(w.history, op)
	done := func(value int64, err error) {
		if end(err) {
			w.finish(op, value, err)
		}
	}
	if write {
		w.write(l, op, level, func(err error) { done(op.Value, err) })
	} else {
		w.read(l, op, level, done)
	}
	return op
}

// finish records an outcome. A failed read has none; a failed write may still be applied, unless it certainly was not
// sent.
func (w *registers) finish(op *history.RegisterCall, value int64, err error) {
	w.c.kernel.Trace(fmt.Sprint("end ", op.Client, op.Key, op.Write, value, err))
	switch {
	case err == nil:
		op.Returned, op.Value = w.c.order.tick(), value
		if op.Write {
			w.acked++
		}
	case !op.Write || errors.Is(err, coordinator.ErrNotSent):
		op.Dropped = true
	}
}

func (w *registers) key(key int) row.PartitionKey {
	return row.NewPartitionKey([]byte("register" + strconv.Itoa(key)))
}

// write writes a new value. Without skew, its timestamp is the value itself. The value is unique, so a read identifies
// the write that it saw.
func (w *registers) write(l *process, op *history.RegisterCall, level ring.Consistency, done func(error)) {
	// Unique in the run, and in the order of calls.
	op.Value = w.c.order.stamp()
	stamp := op.Value
	if w.skew != nil {
		stamp = w.stamp(l, op.Client)
	}
	m := texttable.Change(w.table, w.key(op.Key), "r", strconv.FormatInt(op.Value, 10), stamp)
	l.coord.Write(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level, Type: coordinator.WriteSimple, Timeout: operationTimeout,
		// With write_ordering, the coordinator may replace Stamp by a later timestamp.
		Ordered: w.skew != nil, Stamp: stamp,
	}, done)
}

func (w *registers) command(key int, l *process) *row.ReadCommand {
	return &row.ReadCommand{
		Table: w.table.StorageID, Key: w.key(key), Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: 10}, Now: clock{l}.Now().Unix(),
	}
}

// read reads a register; done receives 0 if it was never written.
func (w *registers) read(l *process, op *history.RegisterCall, level ring.Consistency, done func(int64, error)) {
	l.coord.Read(&coordinator.ReadRequest{
		Command: w.command(op.Key, l), Consistency: level, Timeout: operationTimeout,
	}, func(page []byte, err error) {
		if err != nil {
			done(0, err)
			return
		}
		done(valueOf(page))
	})
}

// valueOf returns the register in a page; 0 means never written.
func valueOf(page []byte) (value int64, err error) {
	var p row.PageReader
	p.Reset(page)
	var r row.Row
	for p.NextPartition() {
		for p.NextRow(&r) {
			// Both column v and the row are written by each write, so a row without its cell is damaged.
			if len(r.Cells) != 1 {
				return 0, fmt.Errorf("a register of %d cells", len(r.Cells))
			}
			if value, err = strconv.ParseInt(string(r.Cells[0].Value), 10, 64); err != nil {
				return 0, err
			}
		}
	}
	return value, p.Err()
}

// readBack reads every register at QUORUM, from every node, and then from all replicas. Reads of every node find a
// coordinator with a stale view of the ring.
func (w *registers) readBack() {
	for key := range w.c.options.Keys {
		for _, n := range w.c.present() {
			w.must(n, key, ring.Quorum)
		}
		w.must(w.c.present()[0], key, ring.All)
	}
}

// must reads a register in a healed cluster, where no request may fail. The read is part of the history, of an
// additional client.
func (w *registers) must(n *Node, key int, level ring.Consistency) {
	var op *history.RegisterCall
	ok := w.c.must(n, fmt.Sprintf("register %d at %s", key, level), func(l *process, done func(error)) {
		op = w.run(l, w.c.options.Clients, key, false, level, func(err error) bool {
			done(err)
			return true
		})
	})
	if !ok {
		return
	}
	// The register must have the newest acknowledged value, or a later one whose write had no known outcome.
	var newest int64
	for _, o := range w.history {
		if o.Write && o.Key == key && o.Returned > 0 {
			newest = max(newest, o.Value)
		}
	}
	// With skew, values are not in the order of timestamps: the checker of histories knows which value may be read.
	if op.Value < newest && w.skew == nil {
		w.c.fail("register %d: write %d was acknowledged, but %d is read", key, newest, op.Value)
	}
}

// check checks the history of each register.
func (w *registers) check() {
	for key := range w.c.options.Keys {
		w.c.verify.found(history.CheckRegister(w.history, key, w.c.options.Clients+1))
	}
}
