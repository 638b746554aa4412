package cqldtest

import (
	"context"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"cqld/azuretables"
)

// Cluster is a ring of nodes in this process. Its methods are safe for concurrent use. Node i has the same index in all
// methods.
type Cluster struct {
	// nodes does not change after Open.
	nodes []*Node
	// Kept from Open to Close.
	fabric fabric
	clock  *Clock
	log    tail
	// http is shared by all clients of Azure Tables, and connects through the fabric.
	http *http.Transport

	mu    sync.Mutex
	links map[[2]int]*gate // between two nodes, the smaller index first
	// ended is set by the first Close; later ones do nothing.
	ended bool
}

// Start starts a cluster for a test or benchmark, and closes it when the test ends. It fails the test if the cluster
// does not start, or if a node fails before the test ends. When Start returns, clients can connect, and all nodes see
// each other up. Options that are not valid fail the test.
func Start(tb testing.TB, opts ...Option) *Cluster {
	tb.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), startTimeout)
	defer cancel()
	c, err := Open(ctx, opts...)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		if err := c.Close(); err != nil {
			tb.Error(err)
		}
		// After Close, so that the log of the end is included.
		if tb.Failed() {
			tb.Logf("log of the cluster:\n%s", c.Log())
		}
	})
	return c
}

// Open starts a cluster that the caller closes, for instance in TestMain. ctx limits only the start. The error contains
// the log of the nodes. After an error, nothing is left running and the addresses are free.
func Open(ctx context.Context, opts ...Option) (*Cluster, error) {
	o, err := parse(opts)
	if err != nil {
		return nil, err
	}
	// All addresses are reserved before the first node starts, because each node has the first one as its seed.
	all, err := o.fabric.reserve(o.nodes)
	if err != nil {
		return nil, err
	}
	c := &Cluster{fabric: o.fabric, clock: o.clock, links: map[[2]int]*gate{}}
	c.http = &http.Transport{DialContext: c.DialContext, IdleConnTimeout: time.Minute}
	if o.log == nil {
		o.log = &c.log
	}
	for i := range all {
		c.nodes = append(c.nodes, newNode(c, i, all, &o))
	}
	if err := c.open(ctx, o.dir); err != nil {
		return nil, errors.Join(fmt.Errorf("cqldtest: start: %w", err), c.Close(), logged(c.Log()))
	}
	return c, nil
}

// logged returns the log as an error, or nil if it is empty. Join omits nil errors.
func logged(log string) error {
	if log == "" {
		return nil
	}
	return errors.New("log of the cluster:\n" + log)
}

// open starts the first node, which creates the cluster, and then the others concurrently. The data directories must be
// empty. The others find the first one as their seed.
func (c *Cluster) open(ctx context.Context, dir string) error {
	if dir != "" {
		if err := prepare(dir, len(c.nodes)); err != nil {
			return err
		}
	}
	if err := c.nodes[0].Restart(ctx); err != nil {
		return err
	}
	if err := c.each(c.nodes[1:], func(n *Node) error { return n.Restart(ctx) }); err != nil {
		return err
	}
	return c.AwaitUp(ctx)
}

// each calls f for all nodes concurrently. It waits for all calls and joins their errors. Each call has its own element
// of the errors, so no lock is needed.
func (c *Cluster) each(nodes []*Node, f func(*Node) error) error {
	errs := make([]error, len(nodes))
	var running sync.WaitGroup
	for i, n := range nodes {
		running.Go(func() { errs[i] = f(n) })
	}
	running.Wait()
	return errors.Join(errs...)
}

// Close stops all nodes immediately, without waiting for requests. It returns the errors of nodes that failed. Nodes
// that run are killed, not drained. A second call returns nil.
func (c *Cluster) Close() error {
	c.mu.Lock()
	ended := c.ended
	c.ended = true
	c.mu.Unlock()
	if ended {
		return nil
	}
	// Partitioned nodes and slow disks would delay the end of the nodes.
	c.Heal()
	// The delay applies to the last syncs as well.
	for _, n := range c.nodes {
		n.SlowDisk(0)
	}
	err := c.each(c.nodes, func(n *Node) error { return n.end() })
	c.fabric.close()
	c.http.CloseIdleConnections()
	return err
}

// Nodes returns all nodes in order, including stopped ones. The slice is the caller's.
func (c *Cluster) Nodes() []*Node { return slices.Clone(c.nodes) }

// Node returns node i, counted from zero. It panics if there is no such node.
func (c *Cluster) Node(i int) *Node { return c.nodes[i] }

// Datacenter returns the nodes of a data center in order, including stopped ones. An unknown name has no nodes.
func (c *Cluster) Datacenter(name string) (nodes []*Node) {
	for _, n := range c.nodes {
		if n.Datacenter() == name {
			nodes = append(nodes, n)
		}
	}
	return nodes
}

// Clock returns the wall clock of all nodes.
func (c *Cluster) Clock() *Clock { return c.clock }

// Log returns the end of the log of all nodes. It is empty if LogTo is used.
func (c *Cluster) Log() string { return c.log.String() }

// Addresses returns the addresses of the nodes for CQL clients, as "host:port".
func (c *Cluster) Addresses() []string {
	var out []string
	for _, n := range c.nodes {
		out = append(out, n.Address())
	}
	return out
}

// Port returns the CQL port of the first node. All nodes use it, except on systems whose only loopback address is
// 127.0.0.1. Drivers that take one port for all contact points need it.
// With InMemoryNetwork it is 9042.
func (c *Cluster) Port() int { return int(c.nodes[0].at.native) }

// TablesEndpoint returns the URL of the development account of Azure Tables at the first node. The account's name and
// key are the well-known ones of the storage emulator.
func (c *Cluster) TablesEndpoint() string { return c.nodes[0].TablesEndpoint() }

// TablesConnectionString returns the connection string with which the Azure SDKs connect to the development account at
// the first node. Its form is the one of the emulator's connection string.
func (c *Cluster) TablesConnectionString() string {
	return fmt.Sprintf("DefaultEndpointsProtocol=http;AccountName=%s;AccountKey=%s;TableEndpoint=%s;",
		azuretables.DevelopmentAccount,
		azuretables.DevelopmentKey, c.TablesEndpoint())
}

// DialContext connects to an address of a node. It makes Cluster a gocql.Dialer. network is "tcp". An address at which
// no node listens is refused, as by an operating system. The client's address is 127.0.0.1 for connections in memory.
func (c *Cluster) DialContext(ctx context.Context, network, address string) (net.Conn, error) {
	to, err := netip.ParseAddrPort(address)
	if err != nil || network != "tcp" && network != "tcp4" {
		return nil, &net.OpError{Op: "dial", Net: network,
			Err: fmt.Errorf("cqldtest: %q is not the TCP address of a node", address)}
	}
	return c.fabric.dial(ctx, netip.Addr{}, to)
}

// RoundTripper returns an HTTP transport that connects to the nodes, for clients of Azure Tables. Its connections are
// closed by Close.
func (c *Cluster) RoundTripper() http.RoundTripper { return c.http }

// Partition divides the ring: nodes of different groups cannot communicate; nodes in none of the groups form another
// group. Clients can connect to all nodes. It replaces an earlier partition. Nodes detect it within about two seconds;
// see AwaitDown. A node in several groups belongs to the last one. Connections are not closed: they transfer nothing
// until the partition ends.
func (c *Cluster) Partition(groups ...[]int) {
	// Zero is the group of the nodes that are not named.
	of := make([]int, len(c.nodes))
	for g, group := range groups {
		for _, i := range group {
			of[i] = g + 1
		}
	}
	for i := range c.nodes {
		for j := range i {
			if of[i] != of[j] {
				c.link(i, j).shut()
			} else {
				c.link(i, j).open()
			}
		}
	}
}

// Heal ends a partition. Data that nodes have sent meanwhile is delivered. It does not wait until nodes see each other
// up: AwaitUp does.
func (c *Cluster) Heal() { c.Partition() }

// link returns the gate between two nodes. It is made at the first use, and open then. Both directions have one gate.
func (c *Cluster) link(i, j int) *gate {
	c.mu.Lock()
	defer c.mu.Unlock()
	key := [2]int{min(i, j), max(i, j)}
	if c.links[key] == nil {
		c.links[key] = &gate{}
	}
	return c.links[key]
}

// linkTo returns the gate between node i and the node with the given internode address, or nil if there is none. Only
// connections between nodes have one; clients are never partitioned.
func (c *Cluster) linkTo(i int, to netip.AddrPort) *gate {
	for j, n := range c.nodes {
		if j != i && n.at.internodeAt() == to {
			return c.link(i, j)
		}
	}
	return nil
}

// awaitEvery is the polling interval of AwaitUp and AwaitDown. A poll takes a few microseconds for each pair of nodes.
const awaitEvery = time.Millisecond

// AwaitUp returns when all running nodes serve clients, see each other up and have the same metadata. The error names
// what is missing when ctx ends. It does not wait for hints or repairs.
func (c *Cluster) AwaitUp(ctx context.Context) error { return awaitNil(ctx, c.notUp) }

// AwaitDown returns when all other nodes that are running and not paused see node i down, for instance after
// Node.Pause.
func (c *Cluster) AwaitDown(ctx context.Context, i int) error {
	return awaitNil(ctx, func() error {
		for _, n := range c.nodes {
			if s := n.running(); n.index != i && s != nil && !s.paused.isShut() &&
				s.node.Up(c.nodes[i].at.internodeAt()) {
				return fmt.Errorf("node %d sees node %d up", n.index, i)
			}
		}
		return nil
	})
}

// notUp returns the reason why AwaitUp must wait, or nil. Stopped nodes are left out, also as members that others must
// see up. Its text is the error when ctx ends.
func (c *Cluster) notUp() error {
	var first *Node
	var status string
	for _, n := range c.nodes {
		p := n.running()
		if p == nil {
			continue
		}
		if !p.serves() {
			return fmt.Errorf("node %d does not serve clients yet", n.index)
		}
		// Nodes that the test has stopped need not be seen up.
		for _, m := range c.nodes {
			if m.running() != nil && !p.node.Up(m.at.internodeAt()) {
				return fmt.Errorf("node %d does not see node %d up", n.index, m.index)
			}
		}
		s := p.node.Status()
		// The number of nodes that are up is left out: stopped members are down at every node.
		line := fmt.Sprintf("epoch %d, schema %x, %d members", s.Epoch, s.Schema, s.Members)
		if first == nil {
			first, status = n, line
		}
		if line != status {
			return fmt.Errorf("nodes %d (%s) and %d (%s) differ", first.index, status, n.index, line)
		}
	}
	return nil
}

// awaitNil polls missing until it returns nil or ctx ends. It calls missing at least once, even if ctx has ended. Both
// errors are wrapped.
func awaitNil(ctx context.Context, missing func() error) error {
	tick := time.NewTicker(awaitEvery)
	defer tick.Stop()
	for {
		err := missing()
		if err == nil {
			return nil
		}
		select {
		case <-ctx.Done():
			return fmt.Errorf("cqldtest: %w: %w", err, ctx.Err())
		case <-tick.C:
		}
	}
}
