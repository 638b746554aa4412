package backups

import (
	"testing"

	"cqld/ring"
)

// TestReplicationFitsTheRing adapts replications to rings of several sizes and data centers.
func TestReplicationFitsTheRing(t *testing.T) {
	simple := func(factor int) ring.Replication { return ring.Replication{Class: ring.Simple, Factor: factor} }
	f := func(center string, factor int) ring.DatacenterFactor {
		return ring.DatacenterFactor{Datacenter: center, Factor: factor}
	}
	network := ring.NewNetworkTopology
	for _, c := range []struct {
		was   ring.Replication
		nodes map[string]int
		want  ring.Replication
	}{
		{simple(3), map[string]int{"a": 4}, simple(3)},
		{simple(3), map[string]int{"a": 1, "b": 1}, simple(2)},
		{simple(3), map[string]int{"a": 1}, simple(1)},
		{network(f("a", 3)), map[string]int{"a": 3}, network(f("a", 3))},
		{network(f("a", 3)), map[string]int{"a": 2, "b": 9}, network(f("a", 2))},
		{network(f("a", 3), f("b", 2)), map[string]int{"b": 4}, network(f("b", 2))},
		{network(f("a", 3), f("b", 2)), map[string]int{"c": 4}, network(f("c", 3))},
		{network(f("a", 2), f("b", 5)), map[string]int{"c": 4, "d": 1}, network(f("c", 4), f("d", 1))},
		{network(f("a", 3), f("b", 0)), map[string]int{"b": 4}, network(f("b", 3))},
		{network(f("a", 3), f("b", 0)), map[string]int{"a": 3, "b": 4}, network(f("a", 3), f("b", 0))},
		{ring.Replication{Class: ring.Local}, map[string]int{"a": 4}, ring.Replication{Class: ring.Local}},
	} {
		if got := fitReplication(c.was, c.nodes); !got.Equal(c.want) {
			t.Errorf("%+v in %v: %+v, want %+v", c.was, c.nodes, got, c.want)
		}
	}
}
