package simulation

import (
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/cluster/metadata"
	"cqld/node/assembly"
	"cqld/ring"
	"cqld/schema"
	"cqld/simulation/damage"
	"cqld/simulation/kernel"
	"cqld/simulation/meetings"
	"cqld/simulation/network"
)

// Cluster is one simulated cluster with the observations of a run. One goroutine uses it, except for what Pebble's
// goroutines read through atomic fields (damage.Faults). It belongs to one run and is never reused.
type Cluster struct {
	// options is with points applied (withPoints), and does not change during the run.
	options   Options
	everyNode bool // the workloads' keyspace has a replica on each node
	kernel    *kernel.Kernel
	net       *network.Network
	nodes     []*Node
	failures  []string
	// counted counts the faults by kind, and other events. It shows that a run did something: tests require that some
	// events occur in some seed.
	counted map[string]int
	// began is when the clients started. The nemesis strikes from began on.
	began time.Duration
	// healed is true from the end of the faults (heal). Clients then send no further requests, and parts of faults
	// that are still scheduled (later) are skipped. A soak run sets it to false again each day.
	healed bool
	// losing means that a disk has lost data, or will. Convergence by hints is then not required, because the hints on
	// that disk are lost, too.
	losing bool
	// crashed is when a member last crashed; 0 means never.
	crashed   time.Duration
	workloads []workload
	// machines is the number of machines created so far. Machines that have left count, too.
	machines int
	meetings *meetings.Log
	releases releases
	// settled means that the cluster is healed and idle, and is being read.
	settled bool
	// truncating is the number of TRUNCATEs that have not succeeded: nodes may be waiting for their end.
	truncating int
	// The parts of a run. Each refers to the cluster, except order.
	nemesis  *nemesis
	operator *operator
	verify   *verifier
	order    *order
}

// NewCluster creates a cluster as an operator would: the nodes join one after the other, then the tables are created.
// Failures are recorded in the cluster, and the caller must look at them before it uses it: a cluster that did not form
// has no workloads.
func NewCluster(o Options) *Cluster {
	k := kernel.New()
	c := &Cluster{
		options: o,
		kernel:  k,
		counted: map[string]int{},
		order:   &order{kernel: k}, releases: oneRelease{},
	}
	c.operator, c.verify = &operator{c: c}, &verifier{c: c}
	c.nemesis = newNemesis(c)
	c.net = network.New(k, o.Seed, c.count)
	c.net.Far, c.net.Pace, c.net.NoWorkers = o.Far, max(1, o.Pace), o.Unsafe.NoWorkers
	// Storage reports a fatal error from inside a call, possibly in one of its own goroutines. The process may not end
	// inside that call, so the nemesis looks after each event whether one was reported.
	k.AfterEvent, k.Steady, k.Text, c.meetings = c.nemesis.stopFatal, damage.Steady, o.Trace, meetings.New(k)
	k.Overrun = func(label string) {
		c.fail("more than %d events in one second, the last of which is %q: some work repeats itself",
			kernel.EventsMost, label)
	}
	// A test may change the network or the kernel here, before the first event.
	if o.Made != nil {
		o.Made(c)
	}
	if o.at("early-timeout") {
		c.net.Early = kernel.NewStream(o.Seed, "early")
	}
	if o.at("lose-commits") {
		c.net.Lossy = kernel.NewStream(o.Seed, "lose commits")
	}
	skew := kernel.NewStream(o.Seed, "skew")
	// Each node serves before the next one starts, within 30 simulated seconds. There are no faults yet, so no failure
	// is excused.
	for range o.Nodes {
		n := newNode(c)
		// Clocks differ by up to 400 ms from the start. The clock faults come in addition.
		n.wall.offset = skew.Between(-200*time.Millisecond, 200*time.Millisecond)
		c.nodes = append(c.nodes, n)
		n.start()
		k.RunUntil(k.Now()+c.paced(30*time.Second), func() bool { return n.process.serves() })
		if !n.process.serves() {
			c.fail("node %d does not join a cluster without faults", n.id)
			return c
		}
	}
	// Schema changes and clients begin when every node considers every other node alive.
	k.RunUntil(k.Now()+c.paced(10*time.Second), c.allSeen)
	c.makeSchema()
	for _, kind := range o.kinds() {
		if o.has(kind.name) {
			c.workloads = append(c.workloads, kind.make(c))
		}
	}
	// A misspelled name would otherwise make a run succeed that tests nothing.
	if len(c.workloads) != len(o.Workloads) {
		c.fail("not all of the workloads %v exist", o.Workloads)
	}
	return c
}

// seeds returns the machines that a node asks for admission. The first machine creates the cluster.
func (c *Cluster) seeds(self *Node) (addrs []netip.AddrPort) {
	for _, n := range c.nodes {
		if n != self && n.member && !n.departed && !n.dead {
			addrs = append(addrs, n.addr)
		}
	}
	// The machine's own address is last: it creates a cluster only if it knows no member to ask.
	return append(addrs, self.addr)
}

// metadata returns the newest metadata of any process. It is nil while no process runs. It is for checks only: nodes
// must not learn from it what they have not received.
func (c *Cluster) metadata() *metadata.Metadata {
	var newest *metadata.Metadata
	for _, n := range c.nodes {
		if n.process != nil && (newest == nil || n.process.cluster.Metadata().Epoch > newest.Epoch) {
			newest = n.process.cluster.Metadata()
		}
	}
	return newest
}

// replication returns the replication of the workloads' keyspace.
func (c *Cluster) replication() ring.Replication {
	if c.everyNode {
		// The metadata count the members; here, the factor is how many nodes the faults leave.
		stay := []ring.DatacenterFactor{{Datacenter: datacenterName(1), Factor: c.options.Factor}}
		return ring.Replication{Class: ring.Everywhere, Datacenters: stay}
	}
	return c.options.replication()
}

// makeSchema creates the tables of the workloads that run.
func (c *Cluster) makeSchema() {
	c.change(&schema.CreateKeyspace{Keyspace: keyspace, Replication: c.replication(), DurableWrites: true})
	for _, kind := range c.options.kinds() {
		if !c.options.has(kind.name) {
			continue
		}
		for _, t := range kind.tables {
			// A copy, because the specifications are shared by all runs of the test process.
			made := *t
			made.Options.SpeculativeRetry = c.options.SpeculativeRetry
			// In a soak run the absences of nodes are scaled. gc_grace must keep its relation to them: nodes are down
			// for longer.
			if c.options.TimeScale > 1 && made.Options.GCGraceSeconds == graveGrace {
				made.Options.GCGraceSeconds = int32(c.scaled(graveGrace*time.Second) / time.Second)
			}
			c.change(&made)
		}
	}
}

// change executes a schema change at the first node. It is for a cluster without faults, in which it must succeed. A
// failure is recorded, and the run continues without the table.
func (c *Cluster) change(change schema.Change) {
	c.must(c.nodes[0], fmt.Sprintf("%T", change), func(l *process, done func(error)) {
		l.Soon(func() { l.cluster.StartSchema(change, done) })
	})
}

// fail records a violation. The run continues, so that later checks may add to the picture. The message begins with the
// simulated time.
func (c *Cluster) fail(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf("%v: ", c.kernel.Now())+fmt.Sprintf(format, args...))
}

// Result is the result of a run.
type Result struct {
	// Failures contains the violations, each with its simulated time; empty means that the run succeeded. The first
	// one is the most informative: later ones may follow from it.
	Failures []string
	// Trace is the hash of all events: equal for equal seeds.
	Trace uint64
	// Events is the number of executed events.
	Events int
	// Time is the simulated time of the whole run, with its preparation.
	Time time.Duration
	// Operations is the number of requests of clients, and Acked how many of them were acknowledged. A run with few
	// acknowledged ones has tested little.
	Operations int
	Acked      int
	// Met counts the operations that were in progress at the same time, and Counted the faults by kind.
	Met     map[meetings.Pair]int
	Counted map[string]int
	// Plan contains the faults in order, with the numbers of the option -faults.
	Plan []string
	// Stats are the sums over the nodes that run at the end.
	Stats stats
}

// stats contains counts of the coordinators that show whether rare code paths were executed. Tests require that some
// are not zero over many seeds.
type stats struct {
	// Each field is a sum over the nodes that run at the end: repairs by reads, additional reads for short results,
	// speculative requests, new plans, hints stored, delivered and lost, and conditional changes that shared a round
	// or needed no prepare.
	ReadRepairs, ShortReads, Speculated, Replans, HintsStored, HintsReplayed, HintsLost, CASShared,
	CASUnprepared uint64
}

// A process that ended during the run is not included, so the numbers are lower bounds.
func statsOf(p *assembly.Parts) stats {
	o, h, x := p.Coordinator.Stats(), p.Hints.Stats(), p.Proposer.Stats()
	// The fields are positional: their order is the order of the type.
	return stats{o.ReadRepairs, o.ShortReads, o.Speculated, o.Replans + x.Replans, h.Stored, h.Replayed, h.Lost,
		x.Shared, x.Unprepared}
}

func (s *stats) add(o stats) {
	s.ReadRepairs += o.ReadRepairs
	s.ShortReads += o.ShortReads
	s.Speculated += o.Speculated
	s.Replans += o.Replans
	s.HintsStored += o.HintsStored
	s.HintsReplayed += o.HintsReplayed
	s.HintsLost += o.HintsLost
	s.CASShared += o.CASShared
	s.CASUnprepared += o.CASUnprepared
}

// add sums the results of several runs.
func (r *Result) add(o Result) {
	r.Events += o.Events
	r.Time += o.Time
	r.Operations += o.Operations
	r.Acked += o.Acked
	if r.Counted == nil {
		r.Counted = map[string]int{}
	}
	for kind, n := range o.Counted {
		r.Counted[kind] += n
	}
	r.Stats.add(o.Stats)
}

// Run executes the workloads and the nemesis, heals the cluster, waits for hints to be delivered, and checks the
// results. The phases are in the order of the package comment, and each has a bound in simulated time. Two runs with
// equal options have equal results, including the trace.
func Run(o Options) Result {
	// Drawn sizes of pages would break workloads that evaluate a partition in one page. PageBytes is drawn
	// independently of the workloads so that the draws of seeds do not depend on them.
	if o = o.withPoints(); o.wantsPartitions() {
		o.PageBytes = 0
	}
	c := NewCluster(o)
	if len(c.failures) > 0 {
		return c.result()
	}
	for _, w := range c.workloads {
		w.start()
	}
	if o.Meet {
		c.watch()
	}
	// The times of faults are relative to this moment, after the cluster was created.
	c.began = c.kernel.Now()
	c.nemesis.torment()
	c.kernel.RunUntil(c.began+c.scaled(o.Faults), func() bool { return false })
	// From here on, every request must succeed.
	c.heal()
	// Clients whose last request is in progress end with its answer, or when their patience ends.
	c.kernel.RunUntil(c.kernel.Now()+time.Minute, func() bool {
		return !slices.ContainsFunc(c.workloads, func(w workload) bool { return !w.idle() })
	})
	c.settle()
	c.settled = true
	// This comes before readBack, because reads at higher levels repair the differences that they find.
	c.verify.convergeWithoutReads()
	for _, w := range c.workloads {
		w.readBack()
	}
	// After the workloads' own reads: a workload observes what its clients would, not the state after a complete
	// repair.
	c.verify.converge()
	for _, w := range c.workloads {
		w.check()
	}
	c.verify.checkSnapshots()
	return c.result()
}

// result returns the result, and ends all processes. It is called once. The processes are crashed and not closed,
// because their stores are in memory and need no flush.
func (c *Cluster) result() Result {
	r := Result{Failures: c.failures, Trace: c.kernel.Hash(), Events: c.kernel.Count(), Time: c.kernel.Now(),
		Counted: c.counted,
		Met:     c.meetings.Met()}
	for _, f := range c.nemesis.plan {
		r.Plan = append(r.Plan, f.String())
	}
	for _, w := range c.workloads {
		tried, acked := w.counts()
		r.Operations += tried
		r.Acked += acked
	}
	for _, n := range c.nodes {
		if n.process == nil {
			continue
		}
		// Only the last process of each node is counted; processes that ended before have taken their counts with
		// them.
		r.Stats.add(statsOf(n.process.parts))
		n.crash(true)
	}
	return r
}

// heal ends all faults and starts the nodes that are down. A node whose disk lost data is replaced by a new one. From
// here on, requests of checks must succeed.
func (c *Cluster) heal() {
	c.healed = true
	c.kernel.Trace("heal")
	c.net.ClearFaults()
	// Points end, too: a healed network has no early timeouts and loses no commits. Data centers stay as far apart as
	// they are.
	c.net.Early, c.net.Lossy, c.net.Late, c.net.Far = nil, nil, nil, c.options.Far
	for _, n := range c.nodes {
		n.faults.Heal()
		// The correction is itself a jump, in either direction, up to the size of the preceding faults.
		n.wall = wallClock{}
		// A process with a failed disk would stop by itself, but up to half a second later (stopFatal).
		if l := n.process; l != nil && (n.damaged || l.fatal.Load() != nil) {
			// A crash is quicker than an orderly stop, and closes the engine and the Raft log just as well.
			n.crash(true)
		}
		// Corrupt tables are never repaired in place: an operator replaces the node.
		if n.damaged && !n.departed {
			n.wipe()
		}
		if n.process != nil {
			n.process.Resume()
		}
		// It does nothing for a node that runs, has left or is dead.
		n.start()
	}
}

// present returns the nodes that must serve in the healed cluster. Nodes that run and nodes that are down are both in
// it: in a healed cluster, a node that is down is a violation itself.
func (c *Cluster) present() (nodes []*Node) {
	for _, n := range c.nodes {
		if !n.departed && !n.dead {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// missing returns the nodes that should serve and do not.
func (c *Cluster) missing() (nodes []*Node) {
	for _, n := range c.present() {
		if !n.process.serves() {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// settle waits until the ring no longer changes and no hint is left. Each condition has its own limit and message, so
// that a run that hangs says for what. It may be called again after a workload has caused new hints.
func (c *Cluster) settle() {
	// Operations of the ring may be stuck because of a node that is permanently dead. Only an operator can end them.
	c.operator.operate()
	c.kernel.RunUntil(c.kernel.Now()+c.paced(2*time.Minute),
		func() bool { return len(c.missing()) == 0 && c.operator.removed() })
	for _, n := range c.missing() {
		c.fail("node %d does not serve two minutes after all faults were healed", n.id)
	}
	// Nodes serve before all operations of the ring have ended; both are required, within a time limit each.
	c.kernel.RunUntil(c.kernel.Now()+c.paced(2*time.Minute), func() bool {
		return len(c.metadata().Topology.Operations()) == 0 && !c.operator.requesting() && c.operator.removed()
	})
	if !c.operator.removed() {
		c.fail("two minutes after all faults were healed, a dead node is still a member")
	}
	for _, o := range c.metadata().Topology.Operations() {
		c.fail("two minutes after all faults were healed, %+v is still in progress", *o)
	}
	// Until a node has waited for the end of an unfinished TRUNCATE, reads and repairs do not repair the table there.
	if c.truncating > 0 {
		c.kernel.RunUntil(c.kernel.Now()+truncationWait, func() bool { return false })
	}
	// Hints may still be in memory, where Pending does not count them.
	c.kernel.RunUntil(c.kernel.Now()+5*time.Second, func() bool { return false })
	c.kernel.RunUntil(c.kernel.Now()+c.paced(time.Minute), func() bool { return c.pendingHints() == 0 })
	// Hints for nodes that have left do not count (pendingHints).
	if n := c.pendingHints(); n > 0 {
		c.fail("%d hint records are left a minute after all faults were healed", n)
	}
}

// mayLose reports whether a node may lose its data permanently: one per run, and the quorums of the remaining nodes
// must overlap with the previous ones. With four replicas, QUORUM is three: after the loss of one, any three of the
// others and any earlier three share a replica that is intact.
func (c *Cluster) mayLose(n *Node) bool {
	return !c.losing && c.options.Factor >= 4 && (len(c.options.Datacenters) == 0 || c.options.Meet) && n.member &&
		!n.departed && !n.dead && !n.leaving
}

// memberAt reports whether a member has the address.
func (c *Cluster) memberAt(addr string) bool {
	return slices.ContainsFunc(c.metadata().Topology.Nodes(),
		func(n *ring.Node) bool { return n.Internode.String() == addr })
}

// count counts an event for the result.
func (c *Cluster) count(what string) { c.counted[what]++ }

// later schedules a part of a fault, which is skipped after the cluster was healed.
func (c *Cluster) later(d time.Duration, label string, f func()) {
	c.kernel.After(c.scaled(d), label, func() {
		if !c.healed {
			f()
		}
	})
}

// scaled returns a duration multiplied by TimeScale. It is for faults and clients; timeouts of requests are never
// scaled, as in production.
func (c *Cluster) scaled(d time.Duration) time.Duration {
	return d * time.Duration(max(1, c.options.TimeScale))
}

// paced returns a timeout of the cluster multiplied by Pace. It is for waits on the failure detector and on Raft, whose
// heartbeats are slower by the same factor.
func (c *Cluster) paced(d time.Duration) time.Duration {
	return d * time.Duration(max(1, c.options.Pace))
}

// any returns one of the nodes.
func (c *Cluster) any(r *kernel.Stream) *Node { return c.nodes[r.Intn(len(c.nodes))] }
