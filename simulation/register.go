package simulation

import (
	"errors"
	"fmt"
	"strconv"
	"time"

	"github.com/anishathalye/porcupine"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// registers is the workload: clients write unique values to a few registers and read them, all at QUORUM. Writes have
// timestamps in one global order, as from a perfect clock: the workload does not test which of two writes wins, but
// whether writes persist.
type registers struct {
	clients
	table   *schema.Table
	history []*operation
	acked   int
	skew    []time.Duration // of the clients' clocks; nil means timestamps in one global order (skewed.go)
}

// operation is one request of a client.
type operation struct {
	client   int
	key      int
	write    bool
	value    int64 // written or read; 0 means never written
	call     int64
	returned int64 // 0 while unknown
	dropped  bool  // certainly without effect
}

func newRegisters(c *Cluster) *registers {
	return &registers{clients: newClients(c, "register"), table: c.table("registers")}
}

func (w *registers) start() {
	w.launch(w.c.options.Clients, 40*time.Millisecond, func(l *process, client int, end func() bool) {
		w.run(l, client, w.rand.Intn(w.c.options.Keys), w.rand.Chance(500), ring.Quorum,
			func(error) bool { return end() })
	})
}

func (w *registers) counts() (tried, acked int) { return len(w.history), w.acked }

// run executes one operation; end reports whether the client still waits for its outcome.
func (w *registers) run(l *process, client, key int, write bool, level ring.Consistency,
	end func(error) bool) *operation {
	op := &operation{client: client, key: key, write: write, call: w.c.order.tick()}
	w.history = append(w.history, op)
	done := func(value int64, err error) {
		if end(err) {
			w.finish(op, value, err)
		}
	}
	if write {
		w.write(l, op, level, func(err error) { done(op.value, err) })
	} else {
		w.read(l, op, level, done)
	}
	return op
}

// finish records an outcome. A failed read has none; a failed write may still be applied, unless it certainly was not
// sent.
func (w *registers) finish(op *operation, value int64, err error) {
	w.c.kernel.Trace(fmt.Sprint("end ", op.client, op.key, op.write, value, err))
	switch {
	case err == nil:
		op.returned, op.value = w.c.order.tick(), value
		if op.write {
			w.acked++
		}
	case !op.write || errors.Is(err, coordinator.ErrNotSent):
		op.dropped = true
	}
}

func (w *registers) key(key int) row.PartitionKey {
	return row.NewPartitionKey([]byte("register" + strconv.Itoa(key)))
}

func (w *registers) write(l *process, op *operation, level ring.Consistency, done func(error)) {
	op.value = w.c.order.stamp()
	stamp := op.value
	if w.skew != nil {
		stamp = w.stamp(l, op.client)
	}
	m := textChange(w.table, w.key(op.key), "r", strconv.FormatInt(op.value, 10), stamp)
	l.coord.Write(&coordinator.WriteRequest{
		Mutations: []*row.Mutation{m}, Consistency: level, Type: coordinator.WriteSimple, Timeout: operationTimeout,
		Ordered: w.skew != nil, Stamp: stamp,
	}, done)
}

func (w *registers) command(key int, l *process) *row.ReadCommand {
	return &row.ReadCommand{
		Table: w.table.StorageID, Key: w.key(key), Slices: []row.Slice{row.AllRows()},
		Limits: row.Limits{Rows: 10}, Now: clock{l}.Now().Unix(),
	}
}

func (w *registers) read(l *process, op *operation, level ring.Consistency, done func(int64, error)) {
	l.coord.Read(&coordinator.ReadRequest{
		Command: w.command(op.key, l), Consistency: level, Timeout: operationTimeout,
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

// readBack reads every register at QUORUM, from every node, and then from all replicas.
func (w *registers) readBack() {
	for key := range w.c.options.Keys {
		for _, n := range w.c.present() {
			w.must(n, key, ring.Quorum)
		}
		w.must(w.c.present()[0], key, ring.All)
	}
}

// must reads a register in a healed cluster, where no request may fail.
func (w *registers) must(n *Node, key int, level ring.Consistency) {
	var op *operation
	ok := w.c.must(n, fmt.Sprintf("register %d at %s", key, level), func(l *process, done func(error)) {
		op = w.run(l, w.c.options.Clients, key, false, level, func(err error) bool {
			done(err)
			return true
		})
	})
	if !ok {
		return
	}
	var newest int64
	for _, o := range w.history {
		if o.write && o.key == key && o.returned > 0 {
			newest = max(newest, o.value)
		}
	}
	if op.value < newest && w.skew == nil { // otherwise the checker knows the order
		w.c.fail("register %d: write %d was acknowledged, but %d is read", key, newest, op.value)
	}
}

// check passes the history to porcupine: a sequential register must be able to return the same answers.
func (w *registers) check() {
	for key := range w.c.options.Keys {
		var ops []porcupine.Operation
		seen := w.firstSeen(key)
		for _, o := range w.history {
			if o.key != key || o.dropped || !o.write && o.returned == 0 {
				continue
			}
			returned, client := o.returned, o.client
			if returned == 0 {
				// It is unknown when it took effect, but it did before it was read. If it was never read, it may also
				// be ordered last. Meanwhile, a client whose request timed out continues; for the checker it is another
				// client.
				if returned = seen[o.value]; returned == 0 {
					continue
				}
				client = w.c.options.Clients + 1 + len(ops)
			}
			ops = append(ops, porcupine.Operation{
				ClientId: client, Input: registerInput{o.write, o.value}, Output: o.value, Call: o.call,
				Return: returned,
			})
		}
		w.c.verify.linearizable(registerModel(), ops, fmt.Sprint("register ", key))
	}
}

// firstSeen returns when the first read of each value returned.
func (w *registers) firstSeen(key int) map[int64]int64 {
	seen := map[int64]int64{}
	for _, o := range w.history {
		if at := seen[o.value]; o.key == key && !o.write && o.returned != 0 && (at == 0 || o.returned < at) {
			seen[o.value] = o.returned
		}
	}
	return seen
}

// checkTimeout bounds the time of porcupine for one history.
const checkTimeout = 10 * time.Second

// linearizable calls porcupine.
func (v *verifier) linearizable(model porcupine.Model, ops []porcupine.Operation, what string) {
	switch porcupine.CheckOperationsTimeout(model, ops, checkTimeout) {
	case porcupine.Illegal:
		v.c.fail("%s is not linearizable over %d operations", what, len(ops))
	case porcupine.Unknown:
		v.c.fail("%s: the checker did not finish over %d operations", what, len(ops))
	}
}

type registerInput struct {
	write bool
	value int64
}

func registerModel() porcupine.Model {
	return porcupine.Model{
		Init: func() any { return int64(0) },
		Step: func(state, input, output any) (bool, any) {
			in := input.(registerInput)
			if in.write {
				return true, in.value
			}
			return state == output, state
		},
		DescribeOperation: func(input, output any) string {
			in := input.(registerInput)
			if in.write {
				return fmt.Sprint("write ", in.value)
			}
			return fmt.Sprint("read ", output)
		},
	}
}
