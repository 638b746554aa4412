package simulation

import (
	"time"

	"cqld/simulation/damage"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
)

// processFaults end, pause and restart processes.
type processFaults struct{ c *Cluster }

// strikes returns the faults by kind.
func (f processFaults) strikes() map[faultKind]func(*kernel.Stream) {
	return map[faultKind]func(*kernel.Stream){
		"kill":          f.kill,
		"power-one":     f.powerOne,
		"power-all":     f.powerAll,
		"power-torn":    f.powerTorn,
		"restart-storm": f.restartStorm,
		"restart":       f.restart,
		"stop":          f.stopNode,
		"pause":         f.pause,
		"dc-loss":       f.loseDatacenter,
	}
}

// kill kills a process and restarts it.
func (f processFaults) kill(r *kernel.Stream) {
	n := f.c.any(r)
	// A node without a process is started again all the same, perhaps earlier than another fault has planned.
	n.crash(false)
	f.c.later(r.Between(20*time.Millisecond, 3*time.Second), "restart", n.start)
}

// powerOne cuts one machine's power for a while.
func (f processFaults) powerOne(r *kernel.Stream) {
	n := f.c.any(r)
	n.crash(true)
	f.c.later(r.Between(20*time.Millisecond, 3*time.Second), "restart", n.start)
}

// powerAll cuts all machines' power at once.
func (f processFaults) powerAll(r *kernel.Stream) {
	for _, n := range f.c.nodes {
		n.crash(true)
		f.c.later(r.Between(20*time.Millisecond, time.Second), "restart", n.start)
	}
}

// powerTorn cuts a machine's power while it waits for its disk: its unsynced writes survive in part, if the options
// have TornWrites.
func (f processFaults) powerTorn(r *kernel.Stream) {
	c := f.c
	n := c.any(r)
	// With a failed sync, the process has unsynced writes that it waits for when the power fails.
	if r.Chance(700) {
		n.faults.Syncs.Store(true)
	} else {
		n.faults.Raft.Store(damage.RaftSyncs)
	}
	c.later(r.Between(5*time.Millisecond, 200*time.Millisecond), "power", func() {
		n.faults.Syncs.Store(false)
		n.faults.Raft.Store(0)
		n.crash(true)
		c.later(r.Between(20*time.Millisecond, 2*time.Second), "restart", n.start)
	})
}

// restartStorm repeatedly ends and starts one process, or all.
func (f processFaults) restartStorm(r *kernel.Stream) {
	c := f.c
	nodes := c.nodes
	if r.Chance(500) {
		nodes = []*Node{c.any(r)}
	}
	at := time.Duration(0)
	for range 2 + r.Intn(6) {
		n := nodes[r.Intn(len(nodes))]
		// The process may still be starting, or be replaying its log, when it is ended again.
		c.later(at, "storm", func() { n.crash(true) })
		at += r.Between(time.Millisecond, 100*time.Millisecond)
		c.later(at, "restart", n.start)
		at += r.Between(time.Millisecond, 300*time.Millisecond)
	}
}

// restart stops a process gracefully, as SIGTERM does, and starts it again.
func (f processFaults) restart(r *kernel.Stream) {
	c := f.c
	nodes := []*Node{c.any(r)}
	if r.Chance(200) {
		nodes = c.nodes // one after the other
	}
	at := time.Duration(0)
	// Each is started again before the next one stops, but need not serve yet: two nodes may be missing at once.
	for _, n := range nodes {
		c.later(at, "stop", n.stop)
		at += r.Between(10*time.Millisecond, 600*time.Millisecond)
		c.later(at, "restart", n.start)
	}
}

// stopNode stops a process as an operator does, and restarts it.
func (f processFaults) stopNode(r *kernel.Stream) {
	n := f.c.any(r)
	n.stop()
	f.c.later(r.Between(20*time.Millisecond, 3*time.Second), "restart", n.start)
}

// pause stops a process as SIGSTOP does. Its timers and messages wait, and other nodes receive nothing from it.
func (f processFaults) pause(r *kernel.Stream) {
	l, d := f.c.any(r).process, r.Between(10*time.Millisecond, 4*time.Second)
	if l == nil {
		return
	}
	l.Pause()
	f.c.later(d, "resume", l.Resume)
}

// loseDatacenter cuts the power of all machines of one data center for a while.
func (f processFaults) loseDatacenter(r *kernel.Stream) {
	c := f.c
	dc, d := datacenterName(1+r.Intn(max(1, len(c.options.Datacenters)))),
		r.Between(500*time.Millisecond, 6*time.Second)
	// Its end is not reported: the loss lasts exactly d.
	c.meetings.Begin(meetings.DatacenterLoss, c.scaled(d))
	for _, n := range c.nodes {
		if n.dc == dc && !n.dead && !n.departed {
			n.crash(true)
			c.later(d, "restart", n.start)
		}
	}
}
