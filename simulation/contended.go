package simulation

import (
	"errors"
	"fmt"
	"maps"
	"slices"
	"strconv"
	"time"

	"cqld/coordinator"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/texttable"
)

// contended is the workload: every node coordinates conditional changes of one partition at its maximum rate, without
// faults except, with an odd seed, one dead node. Each change inserts a different row, so its condition always holds.
// It checks that no outcome is unknown, that changes answered as applied were applied and the others were not, and that
// no coordinator starves. Contention is settled by an arbiter that gives turns (paxos/contention); without it, ballots
// outvote each other and changes starve.
type contended struct {
	clients
	table *schema.Table
	// made is the answer to the client, by row. A row whose change has no known outcome has no entry.
	made map[string]bool
	// acked counts the completed changes by node.
	acked []int
	// slow is the longest duration of a change that is not excused.
	slow  time.Duration
	tried int
	// alive are the nodes without the victim: only their coordinators are compared.
	alive []*Node
}

const (
	// contendedClients is the number of clients of each node.
	contendedClients = 2
	// contendedRatio bounds the ratio of the numbers of changes that two coordinators complete.
	contendedRatio = 2
	// contendedMost bounds the duration of a change, during which up to twelve others may be ahead of it.
	contendedMost = 900 * time.Millisecond
)

func newContended(c *Cluster) *contended {
	return &contended{clients: newClients(c, "contended"), table: c.table("contended"), made: map[string]bool{},
		acked: make([]int, len(c.nodes))}
}

// start starts the clients. Each uses one node. A client that is fast keeps its coordinator always busy: it sends the
// next change at most 5 ms after an answer.
func (w *contended) start() {
	w.alive = slices.Clone(w.c.nodes)
	if w.c.options.Seed%2 == 1 {
		victim := w.rand.Intn(len(w.c.nodes))
		w.alive = slices.Delete(w.alive, victim, victim+1)
		w.c.kernel.After(w.rand.Between(0, time.Second), "kill for good", func() {
			// The victim is killed for good. Requests are excused until the others have noticed.
			w.c.crashed = w.c.kernel.Now()
			w.c.nodes[victim].crash(false)
		})
	}
	// Clients stay at one node each, unlike clients of other workloads, so that a starving coordinator is found.
	for i, n := range w.c.nodes {
		for range contendedClients {
			w.running++
			w.c.kernel.After(w.rand.Between(0, 20*time.Millisecond), w.name, func() { w.step(i, n) })
		}
	}
}

func (w *contended) counts() (tried, acked int) {
	for _, n := range w.acked {
		acked += n
	}
	return w.tried, acked
}

func (w *contended) key() row.PartitionKey { return row.NewPartitionKey([]byte("contended")) }

// step executes one change through a node, and then the next one.
func (w *contended) step(i int, n *Node) {
	l := n.process
	// Turns bounds the changes of all clients together, unlike in other workloads.
	if w.c.healed || w.tried >= w.c.options.Turns || !l.serves() {
		w.running--
		return
	}
	w.tried++
	name := fmt.Sprintf("%06d", w.tried)
	began := w.c.kernel.Now()
	cmd := l.partition(w.table, w.key())
	cmd.Slices[0] = row.ExactRow([]byte(name))
	ended := false
	// A live coordinator must answer within its timeouts; only the clients of a dead one end here.
	w.c.kernel.After(2*operationTimeout, "patience", func() {
		if !ended && n.process != l { // the process of its node ended
			ended = true
			w.running--
		}
	})
	l.Do(func() {
		l.proposer.CAS(&paxos.CASRequest{
			Command: cmd, Serial: ring.Serial, Consistency: ring.Quorum, Contention: operationTimeout,
			Timeout: operationTimeout,
			Update: func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
				rows, err := texttable.Rows(page, 0)
				// The row cannot exist before: its name is new.
				if err != nil || len(rows) > 0 {
					return nil, false, err
				}
				return texttable.Change(w.table, cmd.Key, name, strconv.FormatInt(timestamp, 10), timestamp), true, nil
			},
		}, func(applied bool, _ []byte, err error) {
			if ended {
				return
			}
			ended = true
			w.c.kernel.Trace(fmt.Sprint("end contended ", name, applied, err))
			w.judge(i, n, name, began, applied, err)
			w.c.kernel.After(w.rand.Between(100*time.Microsecond, 5*time.Millisecond), w.name, func() { w.step(i, n) })
		})
	})
}

// judge checks an answer.
func (w *contended) judge(i int, n *Node, name string, began time.Duration, applied bool, err error) {
	took := w.c.kernel.Now() - began
	excused := w.c.healed || w.c.crashed > 0 && began < w.c.crashed+noticedAfter
	var unknown *coordinator.CASUnknown
	var timeout *coordinator.WriteTimeout
	switch {
	// The name of the row is new, so its condition holds whatever happened to other changes.
	case err == nil && !applied:
		w.c.fail("contended: row %s exists before its change was applied", name)
	case err == nil:
		w.made[name] = true
		w.acked[i]++
		if !excused {
			w.slow = max(w.slow, took)
		}
	// Enough acceptances would have been a decision, and not an unknown outcome.
	case errors.As(err, &unknown) && unknown.Received >= unknown.BlockFor:
		w.c.fail("contended: an answer contradicts its text: %v, of %d", err, unknown.BlockFor)
	case errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS:
		// A WriteTimeout of type CAS means that the change was not and will not be made. CASUnknown is the other case.
		w.made[name] = false
	}
	switch {
	case excused:
	case err != nil:
		w.c.fail("contended: a change at node %d fails after %v: %v", n.id, took, err)
	case took > contendedMost:
		w.c.fail("contended: a change at node %d takes %v", n.id, took)
	}
}

// readBack compares the rows with the answers. At QUORUM and not at SERIAL: an acknowledged change has a commit at a
// quorum.
func (w *contended) readBack() {
	// Sorted, because each read is an event of the trace.
	for _, name := range slices.Sorted(maps.Keys(w.made)) {
		w.c.must(w.c.present()[0], "row "+name, func(l *process, done func(error)) {
			cmd := l.partition(w.table, w.key())
			cmd.Slices[0] = row.ExactRow([]byte(name))
			l.read(cmd, ring.Quorum, func(page []byte, err error) {
				rows, err2 := texttable.Rows(page, 0)
				if err = errors.Join(err, err2); err == nil && w.made[name] != (len(rows) > 0) {
					w.c.fail("contended: the change of row %s was reported as applied: %v; it was applied: %v", name,
						w.made[name], len(rows) > 0)
				}
				done(err)
			})
		})
	}
}

// check compares the coordinators' numbers of changes.
func (w *contended) check() {
	least, most := 1<<30, 0
	for i, n := range w.c.nodes {
		if slices.Contains(w.alive, n) {
			least, most = min(least, w.acked[i]), max(most, w.acked[i])
		}
	}
	if most > contendedRatio*least {
		w.c.fail("contended: one coordinator completes %d changes, another one %d", most, least)
	}
}
