package simulation

import (
	"fmt"
	"slices"
	"time"

	"cqld/rebalance"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
)

// operator executes the commands of an operator: changes of the ring, repairs, rebuilds and restarts. Commands are sent
// to any node that serves, as with `cqld ctl`.
type operator struct {
	c *Cluster
	// operating means that operate has scheduled its next look.
	operating bool
}

// strikes returns the faults by kind.
func (op *operator) strikes() map[faultKind]func(*kernel.Stream) {
	return map[faultKind]func(*kernel.Stream){
		"join":       op.joinNode,
		"leave":      op.leaveNode,
		"move":       op.moveNode,
		"removenode": op.removeNode,
		"abort":      op.abortOperation,
		"split":      op.splitRange,
		"merge":      op.mergeRanges,
		"reassign":   op.reassignTokens,
		"rebuild":    op.rebuildNode,
		"repair":     op.repairTable,
	}
}

// nodesMost is the maximum number of members of a simulated ring.
const nodesMost = 6

// How long the operator waits before the removal of a dead node, between two attempts, and before the abort of an
// operation that makes no progress.
const (
	removeAfter  = 2 * time.Second
	operateEvery = time.Second
	stuckAfter   = 20 * time.Second
)

// joinNode adds a machine to the ring.
func (op *operator) joinNode(*kernel.Stream) {
	c := op.c
	// A skipped fault keeps its number in the plan, so the draws of the others do not change.
	if len(c.present()) >= max(c.options.NodesMost, nodesMost) {
		return
	}
	n := newNode(c)
	// At the end of the list: faults draw indexes into it.
	c.nodes = append(c.nodes, n)
	n.start()
}

// leaveNode decommissions a node if enough nodes remain. A ring with fewer nodes than replicas would refuse the
// command.
func (op *operator) leaveNode(r *kernel.Stream) {
	n := op.c.any(r)
	staying := 0
	for _, o := range op.c.present() {
		if o.member && !o.leaving && n.neighbours(o) {
			staying++
		}
	}
	// staying includes n itself, so it must exceed the number of replicas.
	if !n.process.serves() || n.damaged || n.leaving || staying <= n.replicasNearby() {
		return
	}
	// From now on, the node is not counted among the nodes that stay (leaveNode, removeNode).
	n.leaving = true
	op.decommission(n)
}

// decommission makes a node hand over its data and leave.
func (op *operator) decommission(n *Node) {
	l := n.process
	l.Soon(func() {
		l.requests++
		l.cluster.Operations().StartDecommission(false, func(err error) {
			l.requests--
			if err != nil {
				// The refusal of a node that is no longer a member means that it has left.
				n.leaving = n.left(err)
				op.c.kernel.Trace(fmt.Sprint("leave ", n.id, err))
			}
		})
	})
}

// moveNode changes the tokens of a node. It is refused while another operation is in progress, which is an outcome like
// any other.
func (op *operator) moveNode(r *kernel.Stream) {
	c := op.c
	n := c.any(r)
	if !n.process.serves() || n.damaged || n.leaving {
		return
	}
	l := n.process
	tokens := make([]ring.Token, c.options.Tokens)
	for i := range tokens {
		// Any token is valid. Two nodes draw the same one with negligible probability.
		tokens[i] = ring.Token(r.Uint64())
	}
	l.Soon(func() {
		l.requests++
		l.cluster.Operations().StartMove(tokens, func(err error) {
			l.requests--
			if err != nil {
				c.kernel.Trace(fmt.Sprint("no move ", n.id, err))
				return
			}
			c.count("nodes moved")
		})
	})
}

// removeNode kills a node permanently, and makes the operator remove it from the ring. Decommissioned nodes hand over
// their data themselves; a removed node cannot, so its ranges are streamed from the other replicas.
func (op *operator) removeNode(r *kernel.Stream) {
	c := op.c
	n := c.any(r)
	staying := 0
	for _, o := range c.present() {
		// A joining node may still be stopped, and its join aborted, so it does not count.
		if o.process.serves() && !o.leaving {
			staying++
		}
	}
	if !c.mayLose(n) || !n.process.serves() || staying <= c.options.Factor {
		return
	}
	// The data of the node are lost with it. Only one node of a run may lose its data (mayLose).
	c.losing = true
	id := n.process.Self()
	n.crash(true)
	n.dead = true
	c.count("nodes removed")
	c.kernel.After(c.paced(removeAfter), "operator", func() { op.remove(id) })
}

// remove sends the removal of a dead node to any serving node, until it is no longer a member.
func (op *operator) remove(id ring.NodeID) {
	c := op.c
	// m is nil if all processes are down. The removal is then still to be made.
	if m := c.metadata(); m != nil && m.Topology.Node(id) == nil {
		return
	}
	// The next attempt is scheduled first: the node that receives this one may end before it answers.
	c.kernel.After(c.paced(operateEvery), "operator", func() { op.remove(id) })
	for _, n := range c.present() {
		if l := n.process; l.serves() {
			l.Soon(func() {
				l.requests++
				l.cluster.Operations().StartRemoveNode(id, false, func(err error) {
					l.requests--
					if err != nil {
						c.kernel.Trace(fmt.Sprint("not removed ", id, err))
					}
				})
			})
			return
		}
	}
}

// members returns the node IDs of machines, except dead ones.
func (op *operator) members() (ids []ring.NodeID) {
	for _, n := range op.c.present() {
		if n.process != nil {
			ids = append(ids, n.process.Self())
		}
	}
	return ids
}

// requesting reports whether a node retries a request for an operation that has not begun, because another one is
// ending.
func (op *operator) requesting() bool {
	return slices.ContainsFunc(op.c.present(), func(n *Node) bool { return n.process != nil && n.process.requests > 0 })
}

// removed reports whether no member is permanently dead.
func (op *operator) removed() bool {
	// A member whose machine has no running process counts as dead.
	ids := op.members()
	return !slices.ContainsFunc(op.c.metadata().Topology.Nodes(),
		func(n *ring.Node) bool { return !slices.Contains(ids, n.ID) })
}

// operate is the operator of a healed cluster: it aborts operations that cannot end because a node is permanently dead.
// Such an operation makes no progress. Its interval is operateEvery, before Pace.
func (op *operator) operate() {
	c := op.c
	if op.operating {
		return
	}
	op.operating = true
	last, since := "", c.kernel.Now()
	var look func()
	look = func() {
		// A soak run begins the next day with new faults: the operator stops, and operate is called again at its end.
		if op.operating = c.healed; !op.operating {
			return
		}
		c.kernel.After(c.paced(operateEvery), "operator", look)
		now := ""
		// Any change of this text is progress.
		for _, o := range c.metadata().Topology.Operations() {
			now += fmt.Sprintln(o.ID, o.Phase, o.Known, o.Streamed, o.Compared)
		}
		if now != last {
			last, since = now, c.kernel.Now()
		}
		// Without a dead member, an operation that does not end is a defect, which settle reports. It is not aborted
		// here.
		if now != "" && c.kernel.Now()-since > c.paced(stuckAfter) && !op.removed() {
			since = c.kernel.Now()
			c.count("operations aborted by the operator")
			op.abort(c.metadata().Topology.Operations()[0].ID)
		}
	}
	look()
}

// abortOperation aborts the operation in progress, as an operator may at any time. The operation may be completing at
// this moment: either outcome must leave a consistent ring.
func (op *operator) abortOperation(*kernel.Stream) {
	if all := op.c.metadata(); all != nil && len(all.Topology.Operations()) > 0 {
		op.abort(all.Topology.Operations()[0].ID)
	}
}

// abort sends the abort of an operation to the first serving node. It does nothing if there is none.
func (op *operator) abort(operation uint64) {
	c := op.c
	for _, n := range c.present() {
		// One node is enough: the abort is a change of the metadata, which all nodes receive.
		if l := n.process; l.serves() {
			l.Soon(func() {
				l.cluster.Operations().StartAbort(operation, func(err error) {
					c.kernel.Trace(fmt.Sprint("abort ", operation, err))
					if err == nil {
						c.count("operations aborted")
					}
				})
			})
			return
		}
	}
}

// rebuildNode makes a node stream its ranges from others again.
func (op *operator) rebuildNode(r *kernel.Stream) {
	c := op.c
	l := c.any(r).process
	if !l.serves() {
		return
	}
	l.Soon(func() {
		// A rebuild whose process ends never calls its callback; it counts as in progress for a minute at most.
		met := c.meetings.Begin(meetings.Rebuild, time.Minute)
		l.moves.Rebuild(rebalance.RebuildOptions{}, func(err error) {
			met()
			c.kernel.Trace(fmt.Sprint("rebuilt ", l.node.id, err))
			if err == nil {
				c.count("nodes rebuilt")
			}
		})
	})
}

// repairTable repairs one table of the workloads, or some of its replicas. An error is no violation: faults continue
// while the repair runs.
func (op *operator) repairTable(r *kernel.Stream) {
	c := op.c
	var tables []*schema.Table
	// The metadata is nil if no process runs.
	if c.metadata() != nil {
		tables = c.tables()
	}
	l := c.any(r).process
	if !l.serves() || len(tables) == 0 {
		return
	}
	table := tables[r.Intn(len(tables))]
	// Without SkipDown, a repair fails while a replica is down.
	job := repair.Job{Table: table.StorageID, Range: ring.FullRange(), SkipDown: r.Chance(500)}
	kind := meetings.Repair
	if r.Chance(500) {
		kind, job.Scope = meetings.RestrictedRepair, op.someReplicas(r)
	}
	l.Soon(func() {
		met := c.meetings.Begin(kind, time.Minute)
		l.repairer.Start(job, nil, func(report repair.Report, err error) {
			met()
			c.kernel.Trace(fmt.Sprint("repaired ", table.Name, report.Rows, err))
			if err == nil {
				c.count("tables repaired")
			}
			if err == nil && kind == meetings.RestrictedRepair {
				c.count("some replicas repaired")
			}
		})
	})
}

// someReplicas draws the scope of a restricted repair: a data center, or two or more nodes. The list may wrap around
// the end of the nodes.
func (op *operator) someReplicas(r *kernel.Stream) (s repair.Scope) {
	// With one data center, it would be a complete repair.
	if n := len(op.c.options.Datacenters); n > 1 && r.Chance(700) {
		s.Datacenters = []string{datacenterName(1 + r.Intn(n))}
		return s
	}
	nodes := op.c.metadata().Topology.Nodes()
	// At least two nodes, starting at any: a repair of one replica has nothing to compare.
	first := r.Intn(len(nodes))
	for i := range min(len(nodes), 2+r.Intn(max(1, len(nodes)-2))) {
		s.Nodes = append(s.Nodes, nodes[(first+i)%len(nodes)].ID)
	}
	return s
}

// restartAll stops, kills or cuts from power all nodes of a healed cluster, one by one or all at once, and waits until
// they serve again. The data must survive the simultaneous end of all processes, including power cuts. A node that is
// killed loses what was not synced only if its power is cut (crash(true)).
func (op *operator) restartAll(r *kernel.Stream) {
	c := op.c
	// How each node ends is drawn before any of them ends, in the order of the nodes.
	end := map[*Node]func(){}
	for _, n := range c.present() {
		switch r.Intn(3) {
		case 0:
			end[n] = n.stop
		case 1:
			end[n] = func() { n.crash(false) }
		default:
			end[n] = func() { n.crash(true) }
		}
	}
	serving := func() bool { return len(c.missing()) == 0 && c.allSeen() }
	// All nodes must see each other, not only serve: the caller sends requests that need every replica.
	await := func() {
		c.kernel.RunUntil(c.kernel.Now()+c.paced(time.Minute), serving)
		for _, n := range c.missing() {
			c.fail("node %d does not serve a minute after a restart", n.id)
		}
		// Background work of the new processes, such as the replay of hints, begins before the caller checks anything.
		c.kernel.RunUntil(c.kernel.Now()+5*time.Second, func() bool { return false })
	}
	if r.Chance(500) {
		for _, n := range c.present() {
			end[n]()
		}
		for _, n := range c.present() {
			n.start()
		}
		await()
		return
	}
	for _, n := range c.present() {
		end[n]()
		n.start()
		await()
	}
}
