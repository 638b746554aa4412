package ring_test

import (
	"fmt"
	"net/netip"

	"cqld/ring"
)

// The token of a partition key is computed from its serialized form: in this example, of an int and of a text.
func ExampleMurmur3() {
	fmt.Println(ring.Murmur3([]byte{0, 0, 0, 1}))
	fmt.Println(ring.Murmur3([]byte("theo")))
	// Output:
	// -4069959284402364209
	// -1457224325554927207
}

// A placement contains the replicas of each token under a replication: the owner of the next token on the ring, and the
// owners of the tokens that follow it.
func ExampleTopology_Placement() {
	var nodes []*ring.Node
	for i, token := range []ring.Token{-6e18, -2e18, 2e18, 6e18} {
		nodes = append(nodes, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "dc1", Rack: "rack1", State: ring.Normal,
			Internode: netip.AddrPortFrom(netip.AddrFrom4([4]byte{127, 0, 0, byte(i + 1)}), 7000),
			Tokens:    []ring.Token{token}})
	}
	replication := ring.Replication{Class: ring.Simple, Factor: 3}
	placement := ring.NewTopology(1, nodes).Placement(replication)

	fmt.Println("token 0:", placement.Replicas(0).Natural)
	fmt.Println("token 7e18:", placement.Replicas(7e18).Natural)
	for _, r := range placement.Ranges(ring.FullRange()) {
		fmt.Println(r.Range, r.Replicas.Natural)
	}
	fmt.Println("QUORUM waits for", ring.Quorum.BlockFor(replication, "dc1"))
	// Output:
	// token 0: [3 4 1]
	// token 7e18: [1 2 3]
	// (-9223372036854775808, -6000000000000000000] [1 2 3]
	// (-6000000000000000000, -2000000000000000000] [2 3 4]
	// (-2000000000000000000, 2000000000000000000] [3 4 1]
	// (2000000000000000000, 6000000000000000000] [4 1 2]
	// (6000000000000000000, -9223372036854775808] [1 2 3]
	// QUORUM waits for 2
}
