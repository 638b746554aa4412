package cluster

import (
	"context"
	"errors"
	"net/netip"
	"slices"
	"sync"
	"testing"
	"time"

	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/ring"
)

// openForger is a transport of the cluster's name at an address, which acts as node id.
func openForger(t *testing.T, addr string, id ring.NodeID) *messaging.StreamTransport {
	t.Helper()
	n := messaging.NewStreamTransport(messaging.Options{Cluster: "test", Listen: netip.MustParseAddrPort(addr),
		Limits: messaging.DefaultLimits()})
	n.SetSelf(id)
	if err := n.Open(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(n.Close)
	return n
}

// A node does not connect to the address of a node that no member knows, whatever that node sends, and does not pass
// its messages to Raft.
func TestUnknownPeersAreNotTrusted(t *testing.T) {
	first := newTestNode(t, 1)
	var mu sync.Mutex
	var known []ring.NodeID
	first.network = func(n Network) Network {
		return peersNetwork{n, func(peers map[ring.NodeID]netip.AddrPort) {
			mu.Lock()
			defer mu.Unlock()
			known = append(known, sortedIDs(peers)...)
		}}
	}
	first.mustOpen()
	second := newTestNode(t, 2, first.addr).mustOpen()
	eventually(t, func() bool { return first.Alive(2) && second.Alive(1) })
	for _, id := range []ring.NodeID{2, 77} { // a member's id from another address, and an id that no member has
		forger := openForger(t, "127.63.2.66:0", id)
		for range 20 {
			ctx, cancel := context.WithTimeout(context.Background(), 50*time.Millisecond)
			// Raft's messages have no answers
			_, _ = forger.RequestAddr(ctx, first.addr, messaging.VerbRaft, []byte("forged"))
			cancel()
		}
		var remote *messaging.RemoteError
		for _, verb := range []messaging.Verb{messaging.VerbHeartbeat, messaging.VerbApplied} {
			if _, err := forger.RequestAddr(t.Context(), first.addr, verb, make([]byte, 16)); !errors.As(err,
				&remote) || remote.Code != messaging.CodeUnknownPeer {
				t.Errorf("verb %d as node %d: %v", verb, id, err)
			}
		}
		forger.Close()
	}
	mu.Lock()
	defer mu.Unlock()
	if slices.Contains(known, 77) || first.Refused() != 0 {
		t.Errorf("peers %v, %d raft messages got as far as Raft", known, first.Refused())
	}
}

// A joining node must be at the address from which it connects.
func TestJoinAddressMatchesConnection(t *testing.T) {
	first := newTestNode(t, 1).mustOpen()
	spec := `{"Host":"01000000-0000-0000-0000-000000000000","NumTokens":4,"Internode":"127.63.2.8:7000","Native":"127.63.2.8:9042"}`
	forger := openForger(t, "127.63.2.66:0", 0)
	if _, err := forger.RequestAddr(t.Context(), first.addr, messaging.VerbJoin, []byte(spec)); err == nil ||
		len(first.Metadata().Topology.Nodes()) != 1 {
		t.Errorf("it was admitted: %v", err)
	}
	good := metadata.NodeSpec{Host: ring.HostID{1}, Disk: [16]byte{1}, NumTokens: 4,
		Internode: netip.MustParseAddrPort("127.63.2.66:7000"), Native: netip.MustParseAddrPort("127.63.2.66:9042")}
	for name, change := range map[string]func(*metadata.NodeSpec){
		"another address": func(s *metadata.NodeSpec) { s.Internode = netip.MustParseAddrPort("127.63.2.8:7000") },
		"no host id":      func(s *metadata.NodeSpec) { s.Host = ring.HostID{} },
		"no disk id":      func(s *metadata.NodeSpec) { s.Disk = [16]byte{} },
		"no address":      func(s *metadata.NodeSpec) { s.Native = netip.AddrPort{} },
		"no port":         func(s *metadata.NodeSpec) { s.Internode = netip.AddrPortFrom(s.Internode.Addr(), 0) },
		"a long name":     func(s *metadata.NodeSpec) { s.Rack = string(make([]byte, nameMax+1)) },
	} {
		bad := good
		change(&bad)
		if checkSpec(&bad, good.Internode.Addr()) == nil {
			t.Errorf("%s is accepted", name)
		}
	}
	if err := checkSpec(&good, good.Internode.Addr()); err != nil {
		t.Error(err)
	}
}

// A node may return at another address, if the others have a majority without it, also while another one is down, which
// then learns of it from a third.
func TestNodeReturnsAtAnotherAddress(t *testing.T) {
	nodes := startRing(t, 4)
	leader, down := nodes[0], nodes[3]
	down.stop()
	eventually(t, func() bool { return !nodes[1].Alive(4) })
	leader.stop()
	moved := newAddr()
	leader.addr, leader.seeds = moved, []netip.AddrPort{nodes[1].addr}
	restarted := make(chan error, 1)
	go func() { restarted <- leader.open() }()
	eventually(t, func() bool {
		n := nodes[1].Metadata().Topology.Node(1)
		return n.Internode.Addr() == moved.Addr() && nodes[1].Alive(1)
	})
	if err := <-restarted; err != nil {
		t.Fatal(err)
	}
	down.seeds = nil
	down.mustOpen()
	eventually(t, func() bool { return down.Alive(1) && down.Alive(2) && leader.Alive(4) && nodes[1].Alive(4) })
	if err := createKeyspace(down, "afterwards"); err != nil {
		t.Fatal(err)
	}
}
