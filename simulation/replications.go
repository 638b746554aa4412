package simulation

import (
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"cqld/repair"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
	"cqld/simulation/pages"
	"cqld/simulation/texttable"
)

// ReplicationsOptions returns the options of a ring of fixed members that are killed, stopped and paused while the
// replication of a keyspace changes and nodes run cleanups.
func ReplicationsOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	r := kernel.NewStream(seed, "replications options")
	o.Nodes, o.Factor, o.Faults = 3+r.Intn(3), 3, 40*time.Second
	o.Workloads, o.FaultKinds, o.Points = []string{"replications"}, nil, nil
	// Two data centers of two or three nodes.
	if r.Chance(400) {
		o.Nodes, o.Datacenters, o.Factor = 4+r.Intn(3), []int{2, 2}, 4
	}
	for _, kind := range strings.Fields("stop kill power-one power-all restart-storm pause isolate") {
		if r.Chance(300) {
			o.FaultKinds = append(o.FaultKinds, kind)
		}
	}
	return o
}

// replications is a workload of rows that are inserted once, at QUORUM, into a keyspace whose replication an operator
// changes repeatedly. The operator repairs the keyspace and runs cleanups, in any order and with nodes down, contrary
// to the documentation. The check: the copies of a row that a majority acknowledged are never all removed, so the row
// is on every node after the keyspace is replicated to all nodes and repaired. The danger is a cleanup by a node that
// lost a range while the new replicas have not received the rows yet: rebalance.Drops must keep the data then.
type replications struct {
	clients
	// table is as it was when the workload was made: only its keyspace changes afterwards.
	table    *schema.Table
	rows     []insertedRow
	tried    int
	operator *kernel.Stream
	// factor is the last one drawn; 0 before the first.
	factor int
}

// alteredKeyspace is the keyspace whose replication changes.
const alteredKeyspace = "altered"

// newReplications creates the keyspace and its table: the other tables are in another keyspace, which stays as it is.
func newReplications(c *Cluster) *replications {
	w := &replications{clients: newClients(c, "replications"),
		operator: kernel.NewStream(c.options.Seed, "replications operator")}
	c.change(&schema.CreateKeyspace{Keyspace: alteredKeyspace, Replication: w.drawn(), DurableWrites: true})
	t := texttable.New("replications")
	t.Keyspace = alteredKeyspace
	c.change(t)
	w.table = c.metadata().Schema.Table(alteredKeyspace, "replications")
	return w
}

// drawn returns a replication with the strategy of the run: to 1 up to all nodes, in one or several data centers. Where
// the factor jumps (a chance of 30 %), old and new majorities need not overlap: rows may be invisible until a repair,
// but must not be removed.
func (w *replications) drawn() ring.Replication {
	o := w.c.options
	if len(o.Datacenters) == 0 {
		if w.factor == 0 || w.operator.Chance(300) {
			w.factor = 1 + w.operator.Intn(o.Nodes)
		} else { // by one, so that majorities of the replicas before and after overlap
			w.factor = min(max(w.factor+1-2*w.operator.Intn(2), 1), o.Nodes)
		}
		return ring.Replication{Class: ring.Simple, Factor: w.factor}
	}
	var factors []ring.DatacenterFactor
	for i := range o.Datacenters {
		// A factor of 0 removes the data center from the replication.
		if f := w.operator.Intn(w.c.nodesIn(datacenterName(i+1)) + 1); f > 0 {
			factors = append(factors, ring.DatacenterFactor{Datacenter: datacenterName(i + 1), Factor: f})
		}
	}
	if len(factors) == 0 {
		factors = append(factors, ring.DatacenterFactor{Datacenter: datacenterName(1), Factor: 1})
	}
	return ring.NewNetworkTopology(factors...)
}

// everywhere returns a replication to all nodes.
func (w *replications) everywhere() ring.Replication {
	o := w.c.options
	if len(o.Datacenters) == 0 {
		return ring.Replication{Class: ring.Simple, Factor: o.Nodes}
	}
	var factors []ring.DatacenterFactor
	for i := range o.Datacenters {
		factors = append(factors, ring.DatacenterFactor{Datacenter: datacenterName(i + 1),
			Factor: w.c.nodesIn(datacenterName(i + 1))})
	}
	return ring.NewNetworkTopology(factors...)
}

// nodesIn returns the number of machines in a data center.
func (c *Cluster) nodesIn(dc string) (n int) {
	for _, node := range c.present() {
		if node.dc == dc {
			n++
		}
	}
	return n
}

func (w *replications) counts() (tried, acked int) { return w.tried, len(w.rows) }

func (w *replications) key(partition int) row.PartitionKey {
	return row.NewPartitionKey(fmt.Append(nil, "replications", partition))
}

// start starts the clients and the operator.
func (w *replications) start() {
	w.launch(w.c.options.Clients, 200*time.Millisecond, w.step)
	w.operate()
}

// step inserts a row at QUORUM. An unacknowledged row is not checked, as its outcome is unknown.
func (w *replications) step(l *process, _ int, end func() bool) {
	w.tried++
	r := insertedRow{partition: w.rand.Intn(restartPartitions), clustering: fmt.Sprintf("%06d", w.tried)}
	m := texttable.Change(w.table, w.key(r.partition), r.clustering, strconv.Itoa(w.tried), w.c.order.stamp())
	l.write(m, ring.Quorum, func(err error) {
		if err == nil {
			w.rows = append(w.rows, r)
		}
		end()
	})
}

// operate executes the operator's next command on any serving node. Of 100 commands, 20 change the replication, 45 are
// cleanups and 35 repairs.
func (w *replications) operate() {
	w.c.later(w.operator.Between(100*time.Millisecond, time.Second), "operator", func() {
		// The next command does not wait for this one, so cleanups, repairs and changes overlap.
		defer w.operate()
		l := w.c.any(w.operator).process
		what := w.operator.Intn(100)
		if !l.serves() {
			return
		}
		switch {
		case what < 20:
			replication := w.drawn()
			l.Soon(func() {
				met := w.c.meetings.Begin(meetings.SchemaChange, 10*operationTimeout)
				l.cluster.StartSchema(&schema.AlterKeyspace{Keyspace: alteredKeyspace, Replication: &replication},
					func(err error) {
						met()
						w.c.kernel.Trace(fmt.Sprint("replication of altered: ", replication, err))
						if err == nil {
							w.c.count("replications changed")
						}
					})
			})
		case what < 65:
			// Errors are expected, for example while nodes are down. A cleanup that fails must have dropped nothing
			// that is needed.
			l.Do(func() { w.cleanup(l, func(error) {}) })
		default:
			l.Do(func() { l.repairer.Start(w.job(), nil, func(repair.Report, error) {}) })
		}
	})
}

// job returns a repair of the whole table.
func (w *replications) job() repair.Job {
	return repair.Job{Table: w.table.StorageID, Range: ring.FullRange()}
}

// cleanup makes a node drop the data of ranges that it no longer holds. done gets an error if the replicas of a range
// do not confirm that they have the data.
func (w *replications) cleanup(l *process, done func(error)) {
	// The difference may include other cleanups of the node that run meanwhile: it is only counted, not checked.
	before := l.parts.Drops.Stats()
	l.parts.Drops.Cleanup("", nil, nil, func(err error) {
		after := l.parts.Drops.Stats()
		w.c.counted["ranges cleaned up"] += int(after.Ranges - before.Ranges)
		w.c.kernel.Trace(fmt.Sprint("cleanup ", err))
		done(err)
	})
}

// readBack replicates the keyspace to all nodes, repairs it, and requires every row on every node.
func (w *replications) readBack() {
	w.c.must(w.c.present()[0], "replicating to all nodes", func(l *process, done func(error)) {
		all := w.everywhere()
		l.Soon(func() {
			l.cluster.StartSchema(&schema.AlterKeyspace{Keyspace: alteredKeyspace, Replication: &all}, done)
		})
	})
	w.c.mustWithin(time.Minute, w.c.present()[0], "repairing replications", func(l *process, done func(error)) {
		l.repairer.Start(w.job(), nil, func(_ repair.Report, err error) { done(err) })
	})
	// The repair has copied every row that any replica had. A row that is missing now was removed everywhere.
	w.judge("after the replication to all nodes")
	// A cleanup must keep everything now: each node is a replica of each row.
	w.c.operator.restartAll(w.operator)
	for _, n := range w.c.present() {
		w.c.mustWithin(time.Minute, n, "cleaning up", func(l *process, done func(error)) { w.cleanup(l, done) })
	}
	w.judge("after restarts and a cleanup of all nodes")
}

// judge reads each node's storage individually. It reads storage directly: a read through a coordinator would find a
// row on any replica.
func (w *replications) judge(when string) {
	stored := map[*Node]map[string]bool{}
	for _, n := range w.c.present() {
		if n.process == nil {
			return // it did not start, which was recorded
		}
		rows, err := pages.Rows(n.process.engine, w.table, clock{n.process}.Now().Unix())
		if err != nil {
			w.c.fail("node %d cannot read table replications: %v", n.id, err)
			return
		}
		stored[n] = rows
	}
	// Every present node must have every row, whatever replicas the row had when it was written.
	for _, r := range w.rows {
		name := string(w.key(r.partition).Bytes) + "/" + r.clustering
		lacking := slices.DeleteFunc(w.c.present(), func(n *Node) bool { return stored[n][name] })
		if len(lacking) > 0 {
			w.c.fail("%s, acknowledged row %s is on %d of %d nodes", when, name, len(stored)-len(lacking), len(stored))
		}
	}
}

func (w *replications) check() {}
