package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/schema"
)

// Cluster is one simulated cluster, and what was seen of it.
type Cluster struct {
	options   Options
	kernel    *Kernel
	net       *Network
	nodes     []*Node
	schema    *schema.Schema
	topology  *ring.Topology
	failures  []string
	plan      []fault
	nemesis   *Stream
	counted   map[string]int // by kind of fault, and what else is worth telling of
	healed    bool
	losing    bool // a disk has lost data, or will
	order     int64
	lastStamp int64
	workloads []workload
}

// NewCluster makes the cluster and starts its nodes.
func NewCluster(o Options) *Cluster {
	k := NewKernel()
	c := &Cluster{
		options: o, kernel: k, net: newNetwork(k, o.Seed), plan: plan(o), nemesis: NewStream(o.Seed, "fatal"),
		counted: map[string]int{},
	}
	k.after, k.story = c.stopFatal, o.Story
	skew := NewStream(o.Seed, "skew")
	var members []*ring.Node
	for i := range o.Nodes {
		id := ring.NodeID(i + 1)
		n := &Node{cluster: c, id: id, disk: vfs.NewCrashableMem()}
		n.wall.offset = skew.Between(-200*time.Millisecond, 200*time.Millisecond)
		c.nodes = append(c.nodes, n)
		c.net.nodes[id] = n
		m := &ring.Node{ID: id, Datacenter: "dc1", Rack: "r1", State: ring.Normal}
		for t := range 4 {
			m.Tokens = append(m.Tokens, ring.MinToken+ring.Token(uint64(t)<<62+uint64(i+1)*((1<<62)/uint64(o.Nodes))))
		}
		members = append(members, m)
	}
	c.topology = ring.NewTopology(1, members)
	c.makeSchema()
	for _, n := range c.nodes {
		n.start()
	}
	for _, kind := range workloadKinds() {
		if slices.Contains(o.Workloads, kind.name) {
			c.workloads = append(c.workloads, kind.make(c))
		}
	}
	return c
}

// replication is that of the workloads' keyspace.
func (c *Cluster) replication() ring.Replication {
	return ring.Replication{Class: ring.Simple, Factor: c.options.Factor}
}

// makeSchema makes the tables of the workloads that run.
func (c *Cluster) makeSchema() {
	c.schema = schema.Empty()
	c.change(&schema.CreateKeyspace{
		Keyspace: keyspace, Replication: c.replication(), DurableWrites: true,
	})
	for _, kind := range workloadKinds() {
		if !slices.Contains(c.options.Workloads, kind.name) {
			continue
		}
		for _, t := range kind.tables {
			t.Options.SpeculativeRetry = c.options.SpeculativeRetry
			c.change(t)
		}
	}
}

func (c *Cluster) change(change schema.Change) {
	next, err := schema.Apply(c.schema, change)
	if err != nil {
		c.fail("schema: %v", err)
		return
	}
	c.schema = next
}

// fail notes a broken promise.
func (c *Cluster) fail(format string, args ...any) {
	c.failures = append(c.failures, fmt.Sprintf("%v: ", c.kernel.Now())+fmt.Sprintf(format, args...))
}

// Result is what a run found.
type Result struct {
	Failures   []string
	Trace      uint64 // of all that happened: equal for equal seeds
	Events     int
	Operations int               // of clients
	Acked      int               // of them those that were acknowledged
	Counted    map[string]int    // faults by kind
	Plan       []string          // the faults in order, as the option -faults numbers them
	Stats      coordinator.Stats // of the nodes as they ended
}

// Run lets clients and nemesis work, heals, waits for what hints must bring, and checks.
func Run(o Options) Result {
	c := NewCluster(o)
	for _, w := range c.workloads {
		w.start()
	}
	c.torment()
	c.kernel.RunUntil(o.Faults, func() bool { return false })
	c.heal()
	c.kernel.RunUntil(o.Faults+time.Minute, func() bool {
		return !slices.ContainsFunc(c.workloads, func(w workload) bool { return !w.idle() })
	})
	c.settle()
	for _, w := range c.workloads {
		w.readBack()
	}
	c.converge()
	for _, w := range c.workloads {
		w.check()
	}
	return c.result()
}

// result sums up, and ends all processes.
func (c *Cluster) result() Result {
	r := Result{Failures: c.failures, Trace: c.kernel.trace, Events: c.kernel.count, Counted: c.counted}
	for _, f := range c.plan {
		r.Plan = append(r.Plan, f.String())
	}
	for _, w := range c.workloads {
		tried, acked := w.counts()
		r.Operations += tried
		r.Acked += acked
	}
	for _, n := range c.nodes {
		if n.life == nil {
			continue
		}
		s := n.life.coord.Stats()
		r.Stats.ReadRepairs += s.ReadRepairs
		r.Stats.HintsStored += s.HintsStored
		r.Stats.HintsReplayed += s.HintsReplayed
		r.Stats.Speculated += s.Speculated
		r.Stats.ShortReads += s.ShortReads
		n.crash(true)
	}
	return r
}

// heal ends all faults and starts what is down. A disk that lost data does not come back as the node it
// was.
func (c *Cluster) heal() {
	c.healed = true
	c.kernel.Trace("heal")
	c.net.calm()
	for _, n := range c.nodes {
		n.faults.mend()
		n.wall = wallClock{}
		if l := n.life; l != nil && (n.damaged || l.fatal.Load()) {
			n.crash(true)
		}
		n.lost = n.lost || n.damaged
		if n.life != nil {
			n.life.resume()
		}
		n.start()
	}
}

// present are the nodes that count when the cluster is healed.
func (c *Cluster) present() (nodes []*Node) {
	for _, n := range c.nodes {
		if !n.lost {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// settle waits until no hint is left.
func (c *Cluster) settle() {
	pending := func() (n int) {
		for _, a := range c.present() {
			for _, b := range c.present() {
				if a.life != nil {
					n += a.life.coord.PendingHints(b.id)
				}
			}
		}
		return n
	}
	c.kernel.RunUntil(c.kernel.Now()+5*time.Second, func() bool { return false }) // for those still in memory
	c.kernel.RunUntil(c.kernel.Now()+time.Minute, func() bool { return pending() == 0 })
	if n := pending(); n > 0 {
		c.fail("%d records of hints are still there a minute after all was healed", n)
	}
}
