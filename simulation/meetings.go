package simulation

import (
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/paxos"
	"cqld/ring"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
)

// meetEvery is the interval of polls for lasting operations.
const meetEvery = 10 * time.Millisecond

// watch polls for lasting operations, while there are faults and until the cluster has settled. It reads the state of
// the nodes and changes nothing, so the messages of a run are the same with and without Meet.
func (c *Cluster) watch() {
	var down, killed, paused, full, jumped, joining, replacing, leaving bool
	for _, n := range c.nodes {
		switch {
		case n.departed || n.dead:
			continue
		// The process was stopped, and its successor does not serve yet.
		case !n.process.serves() && n.member && n.stopped:
			down = true
		case !n.process.serves() && n.member && n.incarnations > 0:
			killed = true
		case !n.member && n.replace != "":
			replacing = true
		case !n.member:
			joining = true
		}
		paused = paused || n.process != nil && n.process.Paused()
		full = full || n.faults.Full.Load()
		// A machine that is being decommissioned counts from the command on, before the ring has the operation.
		leaving = leaving || n.leaving
		off := n.wall.at(c.kernel.Now())
		// Less is the skew that all runs have.
		jumped = jumped || max(off, -off) > time.Second
	}
	moving, reassigning := false, false
	if m := c.metadata(); m != nil {
		for _, o := range m.Topology.Operations() {
			joining = joining || o.Kind == ring.Join
			replacing = replacing || o.Kind == ring.Replace
			leaving = leaving || o.Kind == ring.Leave || o.Kind == ring.Remove
			moving = moving || o.Kind == ring.Move
			reassigning = reassigning || o.Kind == ring.Reassign
		}
	}
	// The order of the map does not matter: of two operations that are first seen in one poll, the second counts the
	// pair.
	for op, is := range map[string]bool{meetings.Restart: down, meetings.Kill: killed, meetings.Pause: paused,
		meetings.FullDisk:  full,
		meetings.ClockJump: jumped, meetings.Join: joining,
		meetings.Replace: replacing, meetings.Decommission: leaving, meetings.Move: moving,
		meetings.Reassignment: reassigning,
		meetings.Partition:    c.net.IsCut(),
		meetings.Hints:        c.pendingHints() > 0} {
		c.meetings.Saw(op, is)
	}
	if !c.settled {
		c.kernel.After(meetEvery, "watch", c.watch)
	}
}

// pendingHints returns the number of hint records for existing nodes.
func (c *Cluster) pendingHints() (n int) {
	for _, a := range c.present() {
		for _, b := range c.present() {
			if a.process != nil && b.process != nil {
				n += a.process.parts.Hints.Pending(b.process.Self())
			}
		}
	}
	return n
}

// cas executes a conditional change as a client of the process does.
func (l *process) cas(r *paxos.CASRequest, done func(applied bool, page []byte, err error)) {
	// A process that ends does not call end: the change then counts until its clients have given up.
	end := l.node.cluster.meetings.Begin(meetings.ConditionalChange, 2*operationTimeout)
	l.proposer.CAS(r, func(applied bool, page []byte, err error) {
		end()
		done(applied, page, err)
	})
}

// MeetingOptions returns the options of a run in which all operations coincide: nearly all kinds of faults, and the
// workloads of docs/MEETINGS.md. Hurry makes faults four times as frequent, so that they overlap.
func MeetingOptions(seed uint64) Options {
	o := DefaultOptions(seed)
	r := kernel.NewStream(seed, "meetings")
	// Points would end operations early, or keep hints from existing.
	o.Points, o.PageBytes, o.Meet = nil, 0, true
	o.Nodes, o.Factor, o.Faults, o.Hurry = 5, 4, 8*time.Second, 4
	o.Levels, o.TornWrites = true, true
	o.ConvergeBy = []string{ByReads, ByHints, ByRepair}[r.Intn(3)]
	o.Limits, o.HintLimits = coordinator.Limits{}, hints.Limits{}
	o.Workloads, o.Clients = []string{"cas", "counter", "batch", "churn", "reborn"}, 3
	o.FaultKinds = []string{"kill", "restart", "pause", "isolate", "disk-full", "join", "leave", "move", "rebuild",
		"repair", "snapshot", "clock-leap"}
	// Not always: after a wiped disk, convergence by hints is no longer checked (convergeWithoutReads).
	if r.Chance(700) {
		o.FaultKinds = append(o.FaultKinds, "wiped-disk")
	}
	return o
}
