package cqldtest

import (
	"fmt"
	"io"
	"log/slog"
	"time"

	"cqld/node/config"
)

// Option configures a cluster. Without options, Start and Open start one node that keeps its data in memory and listens
// on a loopback address. It is applied by Start and Open, in the order given.
type Option func(*options)

// options are the result of all Option values; a later one overrides an earlier one, except Configure, which adds.
type options struct {
	nodes   int
	centers int
	dir     string // empty means in memory
	fabric  fabric
	clock   *Clock
	log     io.Writer
	// The functions are called in the order in which they were given.
	configure []func(index int, o *config.Options)
}

// Nodes sets the number of nodes, from 1 to 64. Four nodes at replication factor 3 or 4 are enough for most tests.
func Nodes(n int) Option { return func(o *options) { o.nodes = n } }

// Datacenters divides the nodes evenly into n data centers, "datacenter1", "datacenter2", …, in the order of the nodes:
// with Nodes(6) and Datacenters(2), nodes 0 to 2 are in the first. The number of nodes must be a multiple of n. The
// default is one.
func Datacenters(n int) Option { return func(o *options) { o.centers = n } }

// OnDisk stores the data of the nodes in subdirectories node0, node1, … of dir, which must not contain data of another
// cluster, for example testing.T.TempDir. Writes are then acknowledged when they are on that disk.
func OnDisk(dir string) Option { return func(o *options) { o.dir = dir } }

// InMemoryNetwork makes the nodes listen only inside the process. Clients connect with Cluster.DialContext and
// Cluster.RoundTripper; other processes cannot connect. It is faster, and leaves no sockets in TIME_WAIT.
func InMemoryNetwork() Option { return func(o *options) { o.fabric = &memory{} } }

// UseClock sets the wall clock of all nodes. The default is a clock that starts at the current time. Several clusters
// may share one.
func UseClock(c *Clock) Option { return func(o *options) { o.clock = c } }

// LogTo writes the log of all nodes to w, which must be safe for concurrent use. By default, Cluster.Log returns the
// last 256 KiB, and Start adds them to the output of a failed test. Each line contains the index of its node.
func LogTo(w io.Writer) Option { return func(o *options) { o.log = w } }

// Configure calls f with the options of each node before the node starts for the first time. The Cluster overrides
// addresses, seeds, the directory, the clock and the network. The options have the names and defaults of package
// node/config.
func Configure(f func(index int, o *config.Options)) Option {
	return func(o *options) { o.configure = append(o.configure, f) }
}

// nodesMax is the maximum number of nodes of a cluster.
const nodesMax = 64

// startTimeout limits how long Start waits for the nodes.
const startTimeout = time.Minute

// parse applies the options to the defaults and checks them. It does not open anything.
func parse(opts []Option) (options, error) {
	o := options{nodes: 1, centers: 1, fabric: &loopback{}, clock: &Clock{}}
	// Options only set fields; they are checked together afterwards.
	for _, set := range opts {
		set(&o)
	}
	if o.nodes < 1 || o.nodes > nodesMax {
		return o, fmt.Errorf("cqldtest: %d nodes: the number must lie between 1 and %d", o.nodes, nodesMax)
	}
	if o.centers < 1 || o.nodes%o.centers != 0 {
		return o, fmt.Errorf("cqldtest: %d nodes cannot be divided evenly into %d data centers", o.nodes, o.centers)
	}
	if o.clock == nil {
		return o, fmt.Errorf("cqldtest: UseClock needs a clock")
	}
	return o, nil
}

// Sizes for test nodes: a process may run dozens of them, with little data.
const (
	testMemory        = 1 << 30 // bounds what clients use at once
	testCacheBytes    = 4 << 20
	testRowCacheBytes = 1 << 20
	testMemTableBytes = 4 << 20
)

// nodeOptions returns the options of node i without its disk, clock and network. Addresses and seeds are set after the
// functions of Configure, so that these cannot break the ring. Functions of Configure see the defaults and may change
// all of them.
func (o *options) nodeOptions(i int, all []addresses) config.Options {
	n := config.Default()
	n.ClusterName = "cqldtest"
	// Background repairs are off unless a function of Configure enables them.
	n.Memory.Limit, n.Memory.CacheBytes, n.Memory.MemTableBytes, n.Background.AutoRepair = testMemory, testCacheBytes,
		testMemTableBytes, false
	n.Memory.RowCacheBytes = testRowCacheBytes
	// Tests truncate and drop tables all the time.
	n.Snapshots.Auto, n.DropGrace = false, 0
	n.LogLevel = new(slog.LevelVar)
	n.Datacenter = fmt.Sprintf("datacenter%d", 1+i*o.centers/o.nodes)
	for _, f := range o.configure {
		f(i, &n)
	}
	a := all[i]
	n.Listen.Address, n.Listen.StoragePort = a.ip, a.internode
	n.Listen.RPCAddress, n.Listen.NativePort, n.Tables.Port = a.ip, a.native, a.tables
	n.Join.Seeds = append(n.Join.Seeds[:0:0], all[0].internodeAt())
	return n
}
