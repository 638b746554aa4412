package ring

import "testing"

// The codes are those of the native protocol (v5 §3, [consistency]).
func TestConsistencyCodesAreTheProtocols(t *testing.T) {
	codes := map[uint16]string{0x0: "ANY", 0x1: "ONE", 0x2: "TWO", 0x3: "THREE", 0x4: "QUORUM", 0x5: "ALL",
		0x6: "LOCAL_QUORUM",
		0x7: "EACH_QUORUM", 0x8: "SERIAL", 0x9: "LOCAL_SERIAL", 0xA: "LOCAL_ONE", 0xB: "NODE_LOCAL", 0xC: "UNKNOWN",
		0xFFFF: "UNKNOWN"}
	for code, name := range codes {
		c := Consistency(code)
		if c.String() != name || c.Valid() != (name != "UNKNOWN") {
			t.Errorf("%#x is %s, valid %v; want %s", code, c, c.Valid(), name)
		}
	}
	for c := Any; c <= NodeLocal; c++ {
		if serial := c == Serial || c == LocalSerial; c.IsSerial() != serial {
			t.Errorf("%s is serial: %v", c, c.IsSerial())
		}
		if local := c == LocalOne || c == LocalQuorum || c == LocalSerial; c.IsLocal() != local {
			t.Errorf("%s is local: %v", c, c.IsLocal())
		}
	}
}

func TestBlockFor(t *testing.T) {
	simple := func(f int) Replication { return Replication{Class: Simple, Factor: f} }
	two := NewNetworkTopology(DatacenterFactor{"dc1", 3}, DatacenterFactor{"dc2", 4})
	for _, c := range []struct {
		level Consistency
		r     Replication
		want  int
	}{
		{Any, simple(4), 1}, {One, simple(4), 1}, {Two, simple(4), 2}, {Three, simple(4), 3}, {All, simple(4), 4},
		{Quorum, simple(1), 1}, {Quorum, simple(2), 2}, {Quorum, simple(3), 2}, {Quorum, simple(4), 3},
		{Quorum, simple(5), 3},
		{Quorum, simple(6), 4}, {Serial, simple(4), 3}, {EachQuorum, simple(4), 3},
		{LocalQuorum, simple(4), 3}, {LocalSerial, simple(3), 2}, {LocalOne, simple(3), 1}, {NodeLocal, simple(3), 1},
		{One, two, 1}, {Two, two, 2}, {Quorum, two, 4}, {All, two, 7}, {Serial, two, 4},
		{LocalQuorum, two, 2}, {LocalSerial, two, 2}, {LocalOne, two, 1}, {EachQuorum, two, 5},
		{Quorum, Replication{Class: Local}, 1}, {All, Replication{Class: Local}, 1},
		{LocalQuorum, Replication{Class: Local}, 1},
	} {
		if got := c.level.BlockFor(c.r, "dc1"); got != c.want {
			t.Errorf("%s of %v blocks for %d, want %d", c.level, c.r, got, c.want)
		}
	}
	if got := LocalQuorum.BlockFor(two, "dc2"); got != 3 {
		t.Errorf("LOCAL_QUORUM in dc2 blocks for %d", got)
	}
}

// Read and write quorums always overlap.
func TestQuorumsMeet(t *testing.T) {
	for n := 1; n <= 100; n++ {
		if q := QuorumOf(n); 2*q <= n || q > n {
			t.Errorf("quorum of %d is %d", n, q)
		}
	}
}

func TestReplicationCounts(t *testing.T) {
	two := NewNetworkTopology(DatacenterFactor{"dc2", 4}, DatacenterFactor{"dc1", 3})
	if two.Total() != 7 || two.In("dc1") != 3 || two.In("dc2") != 4 || two.In("dc3") != 0 {
		t.Errorf("%v counts %d, %d, %d, %d", two, two.Total(), two.In("dc1"), two.In("dc2"), two.In("dc3"))
	}
	if !two.Equal(NewNetworkTopology(DatacenterFactor{"dc1", 3}, DatacenterFactor{"dc2", 4})) {
		t.Error("the order of data centers makes a difference")
	}
	if two.Equal(NewNetworkTopology(DatacenterFactor{"dc1", 3})) || two.Equal(Replication{Class: Simple, Factor: 7}) {
		t.Error("different replications compare equal")
	}
	if Simple.Name() != "org.apache.cassandra.locator.SimpleStrategy" || Local.ShortName() != "LocalStrategy" ||
		NetworkTopology.ShortName() != "NetworkTopologyStrategy" || Class(0).Name() != "" {
		t.Error("strategy names are wrong")
	}
}
