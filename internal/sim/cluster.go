package sim

import (
	"fmt"
	"slices"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
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
	faults    int
	healed    bool
	order     int64
	lastStamp int64
	workloads []workload
}

// NewCluster makes the cluster and starts its nodes.
func NewCluster(o Options) *Cluster {
	k := NewKernel()
	c := &Cluster{options: o, kernel: k, net: newNetwork(k, o.Seed)}
	skew := NewStream(o.Seed, "skew")
	var members []*ring.Node
	for i := range o.Nodes {
		id := ring.NodeID(i + 1)
		n := &Node{cluster: c, id: id, disk: vfs.NewCrashableMem(), skew: skew.Between(-200*time.Millisecond, 200*time.Millisecond)}
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

// makeSchema makes the tables of the workloads that run.
func (c *Cluster) makeSchema() {
	c.schema = schema.Empty()
	c.change(&schema.CreateKeyspace{
		Keyspace: keyspace, Replication: ring.Replication{Class: ring.Simple, Factor: len(c.nodes)}, DurableWrites: true,
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
	Operations int // of clients
	Acked      int // of them those that were acknowledged
	Faults     int
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
	for _, w := range c.workloads {
		w.check()
	}
	return c.result()
}

// result sums up, and ends all processes.
func (c *Cluster) result() Result {
	r := Result{Failures: c.failures, Trace: c.kernel.trace, Events: c.kernel.count, Faults: c.faults}
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
		n.crash()
	}
	return r
}

// heal ends all faults and starts what is down.
func (c *Cluster) heal() {
	c.healed = true
	c.kernel.Trace("heal")
	c.net.calm()
	for _, n := range c.nodes {
		n.start()
	}
}

// settle waits until no hint is left.
func (c *Cluster) settle() {
	pending := func() (n int) {
		for _, a := range c.nodes {
			for _, b := range c.nodes {
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

// converged checks that all replicas answer a command with the same bytes.
func (c *Cluster) converged(cmd *row.ReadCommand, what string) {
	var pages []string
	for _, n := range c.nodes {
		if n.life == nil {
			continue
		}
		page, err := n.life.engine.Read(nil, cmd)
		if err != nil {
			c.fail("node %d cannot read %s: %v", n.id, what, err)
		}
		pages = append(pages, string(page))
	}
	if len(slices.Compact(pages)) != 1 {
		c.fail("%s: the replicas have not converged", what)
	}
}
