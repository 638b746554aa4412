package counters

import (
	"sync"
	"time"

	"cqld/coordinator"
	"cqld/row"
)

// group is the shell of a leading: it locks, steps, checks the invariants, unlocks, and performs the effects. Its
// events follow one another, except that a write to the other replicas may end while their goroutine still performs.
type group struct {
	l        *leader
	queue    *queue
	deadline time.Duration // of the last update
	epoch    uint64        // of the newest plan of an update
	trace    coordinator.Trace
	result   *row.Mutation // the new sums, if writing or replicating
	blocks   bool          // the goroutine of the current event may block on the disk

	mu      sync.Mutex
	machine leading // its steps hold mu
	passed  bool    // the queue has been asked for the next group
}

// lead begins a group. blocks means that the caller's goroutine may block on the disk.
func (l *leader) lead(q *queue, updates []*ledUpdate, blocks bool) {
	g := &group{l: l, queue: q, blocks: blocks, machine: leading{updates: updates}}
	for _, u := range updates {
		// The group ends with its last request: a sum that was written counts for all.
		g.deadline = max(g.deadline, u.deadline)
		g.epoch = max(g.epoch, u.Epoch)
	}
	g.deliver(&groupEvent{kind: groupBegun})
}

// deliver takes an event, and performs its effects.
func (g *group) deliver(ev *groupEvent) {
	if g.l.c.guard != nil {
		defer g.recovered()
	}
	if g.observe(ev); ev.err != nil && ev.kind == groupReplicated {
		ev.blockFor = g.blockFor()
	}
	var backing [groupEffects]groupEffect
	out := g.step(ev, backing[:0])
	for i := range out {
		g.perform(&out[i])
	}
}

// observe adds to an event what the step needs of the clock and the ring, and traces what was read.
func (g *group) observe(ev *groupEvent) {
	c := g.l.c
	//exhaustive:ignore
	switch ev.kind {
	case groupBegun:
		ev.now = c.clock.Now().Unix()
		g.trace = coordinator.TracesOf(g.machine.updates, func(u *ledUpdate) coordinator.Trace { return u.Trace })
	case groupRead:
		if ev.err == nil && g.trace != nil {
			g.trace.Read(coordinator.ReadsOf(ev.page, ev.cmd.Now))
		}
	case groupApplied:
		// A traced write shows the coordinator's events also if there is one replica.
		ev.alone = ev.err == nil && g.trace == nil &&
			c.c.OnlyHere(g.result, g.machine.level, c.view.Topology())
	}
}

// blockFor returns how many acknowledgements the group's level requires, for errors.
func (g *group) blockFor() int {
	c := g.l.c
	table := c.view.Schema().TableByStorage(g.result.Table)
	if table == nil {
		// The table was dropped since the sums were written, and they are on one node.
		return 1
	}
	return g.machine.level.BlockFor(table.Replication, c.localDC)
}

// step is the critical section of an event.
func (g *group) step(ev *groupEvent, out []groupEffect) []groupEffect {
	g.mu.Lock()
	defer g.mu.Unlock()
	out = g.machine.step(ev, out)
	if ev.kind != groupFailed { // the state after a panic is unknown
		g.machine.check()
	}
	return out
}

// perform performs an effect without the lock.
func (g *group) perform(e *groupEffect) {
	//exhaustive:enforce
	switch e.kind {
	case groupAsk:
		g.read(e.cmd)
	case groupApply:
		g.write()
	case groupReplicate:
		g.replicate()
	case groupNote:
		g.l.c.c.Note(coordinator.EventWriteTimeout)
	case groupAnswer:
		for _, u := range e.updates {
			u.answer(g.l.c, e.err)
		}
	case groupPass:
		g.pass()
	}
}

// read reads a page of the shards.
func (g *group) read(cmd *row.ReadCommand) {
	c := g.l.c
	done := func(page []byte, err error) { g.deliver(&groupEvent{kind: groupRead, cmd: cmd, page: page, err: err}) }
	self, timeout := c.self(g.trace), c.c.Remaining(g.deadline)
	if here, ok := self.(coordinator.Blocking); ok && g.blocks { // saves two goroutine switches
		here.ReadHere(g.epoch, cmd, timeout, done)
		return
	}
	// The answer arrives in a goroutine of storage.
	g.blocks = false
	self.Read(g.epoch, cmd, timeout, done)
}

// write makes the new sums durable on this node.
func (g *group) write() {
	c, m := g.l.c, &g.machine
	// No lock is needed, because no other event precedes the answer to this effect.
	first := m.updates[0].Mutation
	g.result = m.change.Result(first.Table, first.Key, c.view.Self(), c.stamps.Next())
	c.self(g.trace).Apply(g.epoch, []*row.Mutation{g.result}, c.c.Remaining(g.deadline), func(err error) {
		g.deliver(&groupEvent{kind: groupApplied, err: err})
	})
}

// replicate sends the new sums to the other replicas.
func (g *group) replicate() {
	c := g.l.c
	c.c.Write(&coordinator.WriteRequest{
		Mutations:   []*row.Mutation{g.result},
		Consistency: g.machine.level,
		Type:        coordinator.WriteCounter,
		Timeout:     c.c.Remaining(g.deadline),
		Applied:     true,
		Trace:       g.trace,
	}, func(err error) { g.deliver(&groupEvent{kind: groupReplicated, err: err}) })
}

// pass lets the queue begin the next group, once.
func (g *group) pass() {
	if g.setPassed() {
		g.l.passed(g.queue)
	}
}

// setPassed reports whether the queue must be notified to begin the next group.
func (g *group) setPassed() (first bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	first = !g.passed
	g.passed = true
	return first
}

// recovered is deferred by events. After a panic, the state of the machine is unknown: the group ends with an error,
// and the next one begins, which reads from the disk what this one has written.
func (g *group) recovered() {
	p := recover()
	if p == nil {
		return
	}
	for _, e := range g.step(&groupEvent{kind: groupFailed, err: g.l.c.guard.Caught("coordinator counter", p)}, nil) {
		g.perform(&e)
	}
	g.pass()
}
