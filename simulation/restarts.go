package simulation

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/paxos"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
)

// RestartsOptions returns the options of a ring that grows, shrinks and moves while its nodes are restarted: stopped,
// killed or cut from power. It draws from a stream of its own, so that its draws do not depend on DefaultOptions.
func RestartsOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	r := kernel.NewStream(seed, "restarts options")
	// Longer than other runs: joins and moves, one after the other, need seconds each.
	o.Nodes, o.NodesMost, o.Faults = 3+r.Intn(4), 10, 16*time.Second
	o.Factor = 2 + r.Intn(min(4, o.Nodes-1))
	o.Workloads, o.FaultKinds = []string{"restarts"}, nil
	if r.Chance(500) {
		o.Workloads = append(o.Workloads, "cas")
	}
	for _, kind := range strings.Fields("stop kill power-one power-all restart-storm leave removenode wiped-disk " +
		"abort isolate pause") {
		if r.Chance(300) {
			o.FaultKinds = append(o.FaultKinds, kind)
		}
	}
	if len(o.FaultKinds) == 0 {
		o.FaultKinds = []string{"kill"}
	}
	o.Points = nil
	return o
}

// restarts is a workload of rows that are inserted once and never change, conditionally or not, at ALL or at QUORUM. It
// checks the rows of each replica individually, without an earlier read at a consistency level, which would repair
// them. The replicas of a row at the end may be other nodes than those that acknowledged it, so streams and hints must
// have carried it along.
type restarts struct {
	clients
	table *schema.Table
	rows  []insertedRow
	tried int
	// shrinks means that the operator decommissions nodes until the ring has its original size.
	shrinks  bool
	operator *kernel.Stream
}

// insertedRow is an acknowledged insertion.
type insertedRow struct {
	partition  int
	clustering string
	// all means that it was written at ALL, else at QUORUM.
	all         bool
	conditional bool
}

// restartPartitions is the number of partitions of the workloads restarts and replications.
const restartPartitions = 24

// newRestarts returns the workload; the operator draws from its own stream, so that its draws do not depend on the
// clients.
func newRestarts(c *Cluster) *restarts {
	return &restarts{clients: newClients(c, "restarts"), table: c.table("restarts"),
		operator: kernel.NewStream(c.options.Seed, "restarts operator")}
}

// start starts the clients and the operator.
func (w *restarts) start() {
	w.launch(w.c.options.Clients, 60*time.Millisecond, w.step)
	w.operate()
}

// operate begins the next change of the ring as soon as the last one has ended: the ring grows by up to four nodes and
// shrinks again, and its nodes move. The operator waits for a node whose join was interrupted by a fault as well.
func (w *restarts) operate() {
	w.c.later(w.operator.Between(100*time.Millisecond, 300*time.Millisecond), "operator", func() {
		defer w.operate()
		m := w.c.metadata()
		joining := slices.ContainsFunc(w.c.present(), func(n *Node) bool { return !n.member })
		// m is nil if no process runs.
		if m == nil || joining || len(m.Topology.Operations()) > 0 {
			return
		}
		// The ring grows and shrinks between two sizes, and does not rest at either.
		size := len(w.c.present())
		switch {
		case size <= w.c.options.Nodes:
			w.shrinks = false
		case size >= min(w.c.options.Nodes+4, w.c.options.NodesMost):
			w.shrinks = true
		}
		switch {
		case w.operator.Chance(250):
			w.c.operator.moveNode(w.operator)
		case w.shrinks:
			w.c.operator.leaveNode(w.operator)
		default:
			w.c.operator.joinNode(w.operator)
		}
	})
}

// counts returns the insertions, and the ones that were acknowledged.
func (w *restarts) counts() (tried, acked int) { return w.tried, len(w.rows) }

// key returns the keys restarts0 to restarts23.
func (w *restarts) key(partition int) row.PartitionKey {
	return row.NewPartitionKey(fmt.Append(nil, "restarts", partition))
}

// step inserts a row.
func (w *restarts) step(l *process, _ int, end func() bool) {
	w.tried++
	r := insertedRow{partition: w.rand.Intn(restartPartitions), clustering: fmt.Sprintf("%06d", w.tried),
		all: w.rand.Chance(700), conditional: w.rand.Chance(300)}
	// Three of ten rows are written at QUORUM, so that replicas differ and hints have a purpose.
	level := ring.Quorum
	if r.all {
		level = ring.All
	}
	done := func(err error) {
		if err == nil {
			// Even if its client did not wait for the answer.
			w.rows = append(w.rows, r)
		}
		end()
	}
	if !r.conditional {
		m := texttable.Change(w.table, w.key(r.partition), r.clustering, strconv.Itoa(w.tried), w.c.order.stamp())
		l.write(m, level, done)
		return
	}
	cmd := l.partition(w.table, w.key(r.partition))
	cmd.Slices[0] = row.ExactRow([]byte(r.clustering))
	l.proposer.CAS(&paxos.CASRequest{
		Command: cmd, Serial: ring.Serial, Consistency: level, Contention: operationTimeout, Timeout: operationTimeout,
		Update: func(_ []byte, timestamp int64) (*row.Mutation, bool, error) {
			// The change has no condition: only the way of the write differs.
			return texttable.Change(w.table, cmd.Key, r.clustering, "conditional", timestamp), true, nil
		},
	}, func(applied bool, _ []byte, err error) {
		if err == nil && !applied {
			err = errors.New("not applied")
		}
		done(err)
	})
}

// readBack restarts all nodes and compares the replicas with the acknowledged rows, then repairs, twice: the second
// repair must find no difference.
func (w *restarts) readBack() {
	// No repair and no read at a consistency level has run yet: the rows must be there by writes, hints and streams
	// alone.
	w.judge("before the last restarts")
	for range 2 {
		w.c.operator.restartAll(w.operator)
	}
	w.judge("after the last restarts")
	for i := range 2 {
		var report repair.Report
		ok := w.c.mustWithin(time.Minute, w.c.present()[0], "repairing restarts", func(l *process, done func(error)) {
			l.repairer.Start(repair.Job{Table: w.table.StorageID, Range: ring.FullRange()}, nil,
				func(r repair.Report, err error) {
					report = r
					done(err)
				})
		})
		if ok && i == 1 && (report.Rows > 0 || report.Differing > 0) {
			w.c.fail("the second repair of restarts sends %d rows, of %d ranges that differ", report.Rows,
				report.Differing)
		}
	}
}

// judge reads each replica individually. Streams must preserve the promise of the level: all replicas, or a quorum of
// them.
func (w *restarts) judge(when string) {
	stored := map[*Node]map[string]bool{}
	for _, n := range w.c.present() {
		if n.process == nil {
			return // it did not start, which was recorded
		}
		rows, err := pages.Rows(n.process.engine, w.table, clock{n.process}.Now().Unix())
		if err != nil {
			w.c.fail("node %d cannot read table restarts: %v", n.id, err)
			return
		}
		stored[n] = rows
	}
	for _, r := range w.rows {
		key := w.key(r.partition)
		nodes := w.c.holders(key.Token)
		has := 0
		for _, n := range nodes {
			if stored[n][string(key.Bytes)+"/"+r.clustering] {
				has++
			}
		}
		// A replica that lacked the write has a hint for it; but hints may be lost, so a quorum is all that is
		// promised.
		need := ring.QuorumOf(len(nodes))
		if r.all {
			need = len(nodes)
		}
		if has < need {
			w.c.fail("%s, row %s of partition %s, acknowledged by all: %v, conditional: %v, is on %d of its %d "+
				"replicas", when, r.clustering,
				key.Bytes, r.all, r.conditional, has, len(nodes))
		}
	}
}

// allSeen reports whether all present nodes consider each other alive. It is false as long as a present node has no
// process.
func (c *Cluster) allSeen() bool {
	for _, a := range c.present() {
		for _, b := range c.present() {
			if a.process == nil || b.process == nil || !a.process.Alive(b.process.Self()) {
				return false
			}
		}
	}
	return true
}

func (w *restarts) check() {}
