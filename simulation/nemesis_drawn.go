package simulation

import (
	"errors"
	"fmt"
	"time"

	"cqld/rebalance"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
)

// restart stops a process gracefully, as SIGTERM does, and starts it again.
func (c *Cluster) restart(r *Stream) {
	nodes := []*Node{c.any(r)}
	if r.Chance(200) {
		nodes = c.nodes // one after the other
	}
	at := time.Duration(0)
	for _, n := range nodes {
		c.later(at, "stop", n.stop)
		at += r.Between(10*time.Millisecond, 600*time.Millisecond)
		c.later(at, "restart", n.start)
	}
}

// stop ends the process in the order of node.Close. A process that is paused, or whose disk fails, is killed.
func (n *Node) stop() {
	l := n.process
	if l == nil {
		return
	}
	if l.paused || l.fatal.Load() != nil || n.faults.any() || n.damaged {
		n.crash(false)
		return
	}
	n.stopped = true
	l.instance.Stop()
	n.ended()
	l.endTasks()
	l.transport.close()
	if err := errors.Join(l.cluster.Close(), l.engine.Close()); err != nil {
		n.cluster.fail("node %d cannot stop: %v", n.id, err)
	}
}

// powerTorn cuts a machine's power while it waits for its disk: its unsynced writes survive in part, if the options
// have TornWrites.
func (c *Cluster) powerTorn(r *Stream) {
	n := c.any(r)
	if r.Chance(700) {
		n.faults.syncs.Store(true)
	} else {
		n.faults.raft.Store(raftSyncs)
	}
	c.later(r.Between(5*time.Millisecond, 200*time.Millisecond), "power", func() {
		n.faults.syncs.Store(false)
		n.faults.raft.Store(0)
		n.crash(true)
		c.later(r.Between(20*time.Millisecond, 2*time.Second), "restart", n.start)
	})
}

// clockLeap changes a clock by up to three minutes, in either direction: by more than a timestamp may be ahead.
// Sometimes it is corrected later.
func (c *Cluster) clockLeap(r *Stream) {
	n := c.any(r)
	by := r.Between(stampAhead, 3*stampAhead)
	if r.Chance(500) {
		by = -by
	}
	n.wall.offset += by
	if r.Chance(600) {
		c.later(r.Between(50*time.Millisecond, 2*time.Second), "leap back", func() { n.wall.offset -= by })
	}
}

// rebuildNode makes a node stream its ranges from others again.
func (c *Cluster) rebuildNode(r *Stream) {
	l := c.any(r).process
	if !l.serves() {
		return
	}
	l.soon(func() {
		met := c.meetings.begin(opRebuild, time.Minute)
		l.moves.Rebuild(rebalance.RebuildOptions{}, func(err error) {
			met()
			c.kernel.Trace(fmt.Sprint("rebuilt ", l.node.id, err))
			if err == nil {
				c.count("nodes rebuilt")
			}
		})
	})
}

// repairTable repairs one table of the workloads, or some of its replicas.
func (c *Cluster) repairTable(r *Stream) {
	var tables []*schema.Table
	if c.metadata() != nil { // nil means that no process runs
		tables = c.tables()
	}
	l := c.any(r).process
	if !l.serves() || len(tables) == 0 {
		return
	}
	table := tables[r.Intn(len(tables))]
	job := repair.Job{Table: table.StorageID, Range: ring.FullRange(), SkipDown: r.Chance(500)}
	op := opRepair
	if r.Chance(500) {
		op, job.Scope = opRepairSome, c.someReplicas(r)
	}
	l.soon(func() {
		met := c.meetings.begin(op, time.Minute)
		l.repairer.Start(job, nil, func(report repair.Report, err error) {
			met()
			c.kernel.Trace(fmt.Sprint("repaired ", table.Name, report.Rows, err))
			if err == nil {
				c.count("tables repaired")
			}
			if err == nil && op == opRepairSome {
				c.count("some replicas repaired")
			}
		})
	})
}
