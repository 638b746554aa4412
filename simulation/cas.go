package simulation

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/history"
	"cqld/simulation/kernel"
	"cqld/simulation/texttable"
)

// casRegisters is the workload: clients change a few registers conditionally, from the value that they last saw to a
// unique new one, and read them at SERIAL. Two registers are rows of one partition. Sometimes a client sends several
// requests at once, so that they are queued at their coordinator and share rounds. Timestamps are the ballots of the
// nodes' own clocks, which differ. The check is linearizability of each register, in which reads and refused changes
// take part as well (history.CheckConditional).
type casRegisters struct {
	clients
	table   *schema.Table
	history []*history.ConditionalCall
	// seen is what each client last saw in each register: the value that its next change expects.
	seen map[casClient]int64
	// acked is the number of changes that were applied.
	acked int
}

// casClient identifies what one client knows of one register.
type casClient struct{ client, key int }

func newCASRegisters(c *Cluster) *casRegisters {
	return &casRegisters{clients: newClients(c, "cas"), table: c.table("cas"), seen: map[casClient]int64{}}
}

// start starts the clients. A step is a burst, a conditional change or a read. A change that expects an outdated value
// must be refused, and its refusal shows the present one, from which the client continues.
func (w *casRegisters) start() {
	w.purges(w.table, func(r *kernel.Stream) row.PartitionKey { return w.partition(r.Intn(w.keys())) })
	w.launch(w.c.options.Clients, 60*time.Millisecond, func(l *process, client int, end func() bool) {
		// Few keys, so that clients contend.
		key := w.rand.Intn(w.keys())
		// At LOCAL_SERIAL, only the replicas of the coordinator's data center vote. Changes in two data centers would
		// not be linearizable together.
		if _, dc := w.serial(key); dc != "" && dc != l.node.dc {
			end() // belongs to another data center
			return
		}
		if w.rand.Chance(250) {
			w.burst(l, client, key, end)
			return
		}
		in := history.ConditionalInput{}
		if w.rand.Chance(650) {
			// The tick makes the value unique. Value 0 means a read.
			in = history.ConditionalInput{Expect: w.seen[casClient{client, key}], Value: w.c.order.tick()}
		}
		w.run(l, client, key, in, func(error) bool { return end() })
	})
}

// partition returns the partition of a register: registers 2n and 2n+1 share one.
func (w *casRegisters) partition(key int) row.PartitionKey {
	return row.NewPartitionKey([]byte("cas" + strconv.Itoa(key/2)))
}

// serial returns the serial level of all requests for a partition, and the data center of their coordinators; empty
// means any.
func (w *casRegisters) serial(key int) (level ring.Consistency, dc string) {
	if !w.c.options.Levels {
		return ring.Serial, ""
	}
	// The same draws for each call: the level belongs to the partition, because levels must not be mixed within one.
	r := kernel.NewStream(w.c.options.Seed, fmt.Sprint("serial ", key/2))
	if r.Chance(600) {
		return ring.Serial, ""
	}
	return ring.LocalSerial, datacenterName(1 + r.Intn(max(1, len(w.c.options.Datacenters))))
}

// keys returns the number of registers.
func (w *casRegisters) keys() int { return cmp.Or(w.c.options.Registers, min(w.c.options.Keys, 3)) }

// burst sends several requests for a partition at once: changes that depend on each other, competing changes, and
// reads. The client continues when all of them have ended. waited is false once its patience has ended, after which
// outcomes no longer count.
func (w *casRegisters) burst(l *process, client, key int, end func() bool) {
	left := 2 + w.rand.Intn(5)
	expect := w.seen[casClient{client, key}]
	waited, over := true, false
	for range left {
		in, at := history.ConditionalInput{}, key
		switch {
		case w.rand.Chance(600):
			in = history.ConditionalInput{Expect: expect, Value: w.c.order.tick()}
			// The next change of the burst then depends on this one. Otherwise both expect the same value, and at most
			// one applies.
			if w.rand.Chance(700) {
				expect = in.Value
			}
		case w.rand.Chance(300):
			// key^1 is the other row of the partition. The last register may be alone in its partition.
			at = min(key^1, w.keys()-1) // the other row
		}
		w.run(l, client, at, in, func(error) bool {
			if left--; left == 0 && !over {
				over, waited = true, end()
			}
			return waited
		})
	}
}

func (w *casRegisters) counts() (tried, acked int) { return len(w.history), w.acked }

// run executes one operation; end reports whether the client still waits for its outcome. The result is the call, which
// the caller may complete differently (tests).
func (w *casRegisters) run(l *process, client, key int, in history.ConditionalInput,
	end func(error) bool) *history.ConditionalCall {
	op := &history.ConditionalCall{Client: client, Key: key, Input: in, Call: w.c.order.tick()}
	// The call is in the history before it is sent, because it may take effect without an answer.
	w.history = append(w.history, op)
	done := func(applied bool, page []byte, err error) {
		if end(err) {
			w.finish(op, applied, page, err)
		}
	}
	cmd := l.partition(w.table, w.partition(key))
	cmd.Slices[0] = row.ExactRow([]byte(casRow(key)))
	serial, _ := w.serial(key)
	if in.Value == 0 {
		l.read(cmd, serial, func(page []byte, err error) { done(false, page, err) })
		return op
	}
	l.cas(&paxos.CASRequest{
		Command: cmd, Serial: serial, Consistency: w.commitLevel(), Contention: operationTimeout,
		Timeout: operationTimeout,
		Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
			found, err := valueOf(page)
			// The condition is evaluated in each attempt. false ends the change without a mutation.
			if err != nil || found != in.Expect {
				return nil, false, err
			}
			return texttable.Change(w.table, cmd.Key, casRow(key),
				strconv.FormatInt(in.Value, 10), timestamp), true, nil
		},
	}, done)
	return op
}

// casRow returns the row of a register.
func casRow(key int) string { return fmt.Sprint("r", key%2) }

// finish records an outcome. A failed change may still be applied, unless it certainly was not sent, or the error says
// that it did not get enough votes: then it was not and will not be made. (The error of a change that may have been
// made is CASUnknown. If messages are duplicated, a proposal may be accepted and then refused, which the coordinator
// takes for a refusal.)
func (w *casRegisters) finish(op *history.ConditionalCall, applied bool, page []byte, err error) {
	var found int64
	if err == nil && !applied {
		// A change that was not applied returns the row that did not meet its condition.
		found, err = valueOf(page)
	}
	w.c.kernel.Trace(fmt.Sprint("end cas ", op.Client, op.Key, op.Input, applied, found, err))
	switch {
	case err != nil:
		var timeout *coordinator.WriteTimeout
		// A proposal that is delivered twice may be refused at its second delivery, although the first was accepted.
		notMade := errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS &&
			!slices.ContainsFunc(w.c.options.FaultKinds,
				// Both kinds duplicate messages.
				func(kind string) bool { return kind == "bad-links" || kind == "reorder" })
		// A failed read constrains nothing.
		op.Dropped = op.Input.Value == 0 || notMade || errors.Is(err, coordinator.ErrNotSent)
		return
	case applied:
		w.acked++
		found = op.Input.Value
		op.Output.Applied = true
	default:
		op.Output.Found = found
	}
	op.Returned = w.c.order.tick()
	w.seen[casClient{op.Client, op.Key}] = found
}

// readBack reads every register at SERIAL, from every node. A read at SERIAL completes unfinished rounds, so the second
// node's read must see what the first one's decided.
func (w *casRegisters) readBack() {
	for key := range w.keys() {
		w.c.everywhere(fmt.Sprintf("cas register %d", key), func(l *process, done func(error)) {
			if _, dc := w.serial(key); dc != "" && dc != l.node.dc {
				done(nil)
				return
			}
			// An additional client, after the last one of the run.
			w.run(l, w.c.options.Clients, key, history.ConditionalInput{}, func(err error) bool {
				done(err)
				return true
			})
		})
	}
}

// check checks the history of each register.
func (w *casRegisters) check() {
	for key := range w.keys() {
		w.c.verify.found(history.CheckConditional(w.history, key, w.c.options.Clients+1))
	}
}
