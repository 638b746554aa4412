package cluster

import (
	"errors"
	"net/netip"
	"sync"
	"testing"
	"time"
)

// names resolves the seeds of test nodes to changing addresses.
type names struct {
	mu    sync.Mutex
	nodes []*testNode // nil: the name does not exist
	fail  bool        // lookups fail
}

// seedsOf returns the lookup of a node. The first node of the directory is the first seed.
func (d *names) seedsOf(n *testNode) func(func(SeedAddresses)) {
	return func(then func(SeedAddresses)) {
		go func() {
			d.mu.Lock()
			defer d.mu.Unlock()
			if d.fail {
				then(SeedAddresses{Missing: errors.New("the resolver does not answer")})
				return
			}
			var s SeedAddresses
			for _, m := range d.nodes {
				if m != nil {
					s.Addrs = append(s.Addrs, m.addr)
				}
			}
			s.First = d.nodes[0] == n
			then(s)
		}()
	}
}

func (d *names) set(change func()) {
	d.mu.Lock()
	defer d.mu.Unlock()
	change()
}

// TestRingReturnsWithOtherAddresses stops all nodes of a ring and starts them with other addresses, as an orchestrator
// does. Only the first three are seeds, and the metadata of one node are behind.
func TestRingReturnsWithOtherAddresses(t *testing.T) {
	if testing.Short() {
		t.Skip("the elections of four restarting nodes take minutes under the race detector on a busy machine")
	}
	nodes := startRing(t, 4)
	nodes[2].stop()
	if err := createKeyspace(nodes[0], "ks"); err != nil {
		t.Fatal(err)
	}
	for _, n := range nodes {
		n.stop()
	}
	directory := &names{nodes: nodes[:3]}
	errs := make([]error, len(nodes))
	var starting sync.WaitGroup
	directory.set(func() {
		for i, n := range nodes {
			n.addr = netip.AddrPortFrom(newAddr().Addr(), n.addr.Port())
			n.lookUp = directory.seedsOf(n)
			starting.Go(func() { errs[i] = n.open() })
		}
	})
	starting.Wait()
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	eventually(t, func() bool {
		for _, n := range nodes {
			for _, m := range nodes {
				if at := n.Metadata().Topology.Node(m.Self()); at == nil || at.Internode != m.addr ||
					!n.Alive(m.Self()) {
					return false
				}
			}
		}
		return true
	})
	if err := createKeyspace(nodes[3], "after"); err != nil {
		t.Error(err)
	}
}

// TestFirstSeedWaitsForTheResolver checks that the first seed does not create a cluster while lookups fail, and that
// names that do not exist do not prevent it.
func TestFirstSeedWaitsForTheResolver(t *testing.T) {
	first := newTestNode(t, 1)
	directory := &names{nodes: []*testNode{first, nil, nil}, fail: true}
	first.lookUp = directory.seedsOf(first)
	opened := make(chan error, 1)
	go func() { opened <- first.open() }()
	select {
	case err := <-opened:
		t.Fatalf("joined without seeds: %v", err)
	case <-time.After(300 * time.Millisecond):
	}
	directory.set(func() { directory.fail = false })
	if err := <-opened; err != nil {
		t.Fatal(err)
	}
	second := newTestNode(t, 2)
	directory.set(func() { directory.nodes[1] = second })
	second.lookUp = directory.seedsOf(second)
	second.mustOpen()
	if nodes := second.Metadata().Topology.Nodes(); len(nodes) != 2 {
		t.Errorf("%d nodes", len(nodes))
	}
}

// TestMovedNodes checks which reported addresses are used.
func TestMovedNodes(t *testing.T) {
	nodes := startRing(t, 3)
	n := nodes[0]
	elsewhere, third := newAddr(), nodes[2].Self()
	elsewhere = netip.AddrPortFrom(elsewhere.Addr(), 7000)
	peer := func() netip.AddrPort {
		got := make(chan netip.AddrPort, 1)
		n.loop.post(func() { got <- n.addresses.peers()[third] })
		return <-got
	}
	n.loop.post(func() { n.addresses.noteMoved(third, elsewhere) })
	if got := peer(); got != nodes[2].addr {
		t.Errorf("the address of a node that is alive is %v", got)
	}
	nodes[2].stop()
	eventually(t, func() bool { return !n.Alive(third) })
	n.loop.post(func() { n.addresses.noteMoved(third, netip.AddrPort{}); n.addresses.noteMoved(99, elsewhere) })
	if got := peer(); got != nodes[2].addr {
		t.Errorf("an invalid address: %v", got)
	}
	n.loop.post(func() { n.addresses.noteMoved(third, elsewhere) })
	if got := peer(); got != elsewhere {
		t.Errorf("the address of a node that has moved is %v", got)
	}
	n.loop.post(func() { n.addresses.noteMoved(third, nodes[2].addr) })
	if got := peer(); got != nodes[2].addr {
		t.Errorf("the address of a node that has returned is %v", got)
	}
}
