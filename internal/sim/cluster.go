package sim

import (
	"fmt"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/coordinator"
	"cqld/cql/types"
	"cqld/ring"
	"cqld/schema"
	"cqld/storage"
)

// Options are what a run is made of. The seed decides all the rest.
type Options struct {
	Seed    uint64
	Nodes   int
	Clients int
	Keys    int
	Faults  time.Duration // how long the nemesis is at work
	Sync    storage.SyncMode
	Unsafe  coordinator.Unsafe
	Limits  coordinator.Limits
}

// DefaultOptions are those of a run that must not fail: four nodes, eight clients.
func DefaultOptions(seed uint64) Options {
	return Options{Seed: seed, Nodes: 4, Clients: 8, Keys: 6, Faults: 8 * time.Second, Sync: storage.SyncBatch}
}

// Cluster is one simulated cluster, and what was seen of it.
type Cluster struct {
	options  Options
	kernel   *Kernel
	net      *Network
	nodes    []*Node
	schema   *schema.Schema
	table    *schema.Table
	topology *ring.Topology
	failures []string
	faults   int
	healed   bool
	work     *registers
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
	c.work = newRegisters(c)
	return c
}

func (c *Cluster) makeSchema() {
	text := types.Native(types.Text)
	c.schema = schema.Empty()
	for _, change := range []schema.Change{
		&schema.CreateKeyspace{
			Keyspace: "sim", Replication: ring.Replication{Class: ring.Simple, Factor: len(c.nodes)}, DurableWrites: true,
		},
		&schema.CreateTable{
			Keyspace: "sim", Table: "registers", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{
				{Name: "k", Kind: schema.PartitionKey, Type: text},
				{Name: "c", Kind: schema.Clustering, Type: text},
				{Name: "v", Kind: schema.Regular, Type: text},
			},
		},
	} {
		next, err := schema.Apply(c.schema, change)
		if err != nil {
			c.fail("schema: %v", err)
			return
		}
		c.schema = next
	}
	c.table = c.schema.Table("sim", "registers")
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
	Acked      int // of them writes that were acknowledged
	Faults     int
	Stats      coordinator.Stats // of the nodes as they ended
}

// Run lets clients and nemesis work, heals, waits for what hints must bring, and checks.
func Run(o Options) Result {
	c := NewCluster(o)
	never := func() bool { return false }
	c.work.start()
	c.torment()
	c.kernel.RunUntil(o.Faults, never)
	c.heal()
	c.kernel.RunUntil(o.Faults+time.Minute, c.work.idle)
	c.settle()
	c.work.readBack()
	c.work.check()
	r := Result{
		Failures: c.failures, Trace: c.kernel.trace, Events: c.kernel.count,
		Operations: len(c.work.history), Acked: c.work.acked, Faults: c.faults,
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
