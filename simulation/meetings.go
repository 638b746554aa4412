package simulation

import (
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/paxos"
	"cqld/ring"
	"cqld/simulation/kernel"
)

// The operations whose coincidences docs/MEETINGS.md lists.
const (
	// The names are the names of the table. An operation that lasts is polled (watch); one that a call starts is
	// recorded by begin.
	opJoin           = "join"
	opDecommission   = "decommission"
	opMove           = "move"
	opReplace        = "replace"
	opRebuild        = "rebuild"
	opRepair         = "repair"
	opRepairSome     = "restricted repair"
	opRestart        = "restart"
	opKill           = "kill"
	opPause          = "pause"
	opPartition      = "partition"
	opFullDisk       = "full disk"
	opSchema         = "schema change"
	opTruncate       = "TRUNCATE"
	opHints          = "hints"
	opBatch          = "batch log"
	opConditional    = "conditional change"
	opCounter        = "counter"
	opSnapshot       = "snapshot"
	opClock          = "clock jump"
	opDatacenterLoss = "loss of a data center" // drawn by TestMembersMeetLossOfADatacenter only
)

// meetingOps returns all operations, in the order of the table.
func meetingOps() []string {
	return []string{opJoin, opDecommission, opMove, opReplace, opRebuild, opRepair, opRepairSome, opRestart, opKill,
		opPause, opPartition, opFullDisk, opSchema, opTruncate, opHints, opBatch, opConditional, opCounter, opSnapshot,
		opClock}
}

// pair is two operations in the order of meetingOps.
type pair struct{ a, b string }

// pairOf returns the pair of two operations, whose order does not matter.
func pairOf(a, b string) pair {
	ops := meetingOps()
	if slices.Index(ops, a) > slices.Index(ops, b) {
		a, b = b, a
	}
	return pair{a, b}
}

// meetings counts the pairs of operations that were in progress at the same time. docs/MEETINGS.md has a table of all
// pairs.
type meetings struct {
	kernel *kernel.Kernel
	active []*underway
	// state contains the operations that are polled and in progress.
	state map[string]*underway
	// met counts how often one operation of the pair began while the other one was in progress.
	met map[pair]int
}

// underway is an operation from its begin to its end, or to its maximum duration.
type underway struct {
	op string
	// until is when the operation counts as ended at the latest; a time in the past means that it has ended.
	until time.Duration
}

// newMeetings returns empty counts. They are kept in every run, but polled operations only with Options.Meet (watch).
func newMeetings(k *kernel.Kernel) *meetings {
	return &meetings{kernel: k, state: map[string]*underway{}, met: map[pair]int{}}
}

// begin records that an operation begins. It lasts until end is called, or for most, because its process may end
// before.
func (m *meetings) begin(op string, most time.Duration) (end func()) {
	u := &underway{op, m.kernel.Now() + most}
	// Operations that have ended are removed only here: their time is enough to exclude them.
	m.active = slices.DeleteFunc(m.active, func(o *underway) bool { return o.until < m.kernel.Now() })
	for _, o := range m.active {
		// Two operations of one kind are no pair.
		if o.op != op {
			m.met[pairOf(op, o.op)]++
		}
	}
	m.active = append(m.active, u)
	return func() { u.until = -1 }
}

// lingers is how long a TRUNCATE, whose requests may still be in transit, and a snapshot, which the next power cut must
// not damage, still coincide with operations that begin.
const lingers = 500 * time.Millisecond

// endless is longer than any run.
const endless = 1 << 62

// saw records whether an operation is in progress at the moment. It is called for every operation in each poll, so an
// operation that begins and ends between two polls is missed.
func (m *meetings) saw(op string, is bool) {
	switch was := m.state[op]; {
	case is && was == nil:
		m.begin(op, endless/2)
		m.state[op] = m.active[len(m.active)-1]
	case !is && was != nil:
		was.until = -1
		delete(m.state, op)
	}
}

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
		paused = paused || n.process != nil && n.process.paused
		full = full || n.faults.Full.Load()
		// A machine that is being decommissioned counts from the command on, before the ring has the operation.
		leaving = leaving || n.leaving
		off := n.wall.at(c.kernel.Now())
		// Less is the skew that all runs have.
		jumped = jumped || max(off, -off) > time.Second
	}
	moving := false
	if m := c.metadata(); m != nil {
		for _, o := range m.Topology.Operations() {
			joining = joining || o.Kind == ring.Join
			replacing = replacing || o.Kind == ring.Replace
			leaving = leaving || o.Kind == ring.Leave || o.Kind == ring.Remove
			moving = moving || o.Kind == ring.Move
		}
	}
	cut := false
	for _, n := range c.net.cut {
		cut = cut || n > 0
	}
	// The order of the map does not matter: of two operations that are first seen in one poll, the second counts the
	// pair.
	for op, is := range map[string]bool{opRestart: down, opKill: killed, opPause: paused, opFullDisk: full,
		opClock: jumped, opJoin: joining,
		opReplace: replacing, opDecommission: leaving, opMove: moving, opPartition: cut,
		opHints: c.pendingHints() > 0} {
		c.meetings.saw(op, is)
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
	end := l.node.cluster.meetings.begin(opConditional, 2*operationTimeout)
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
