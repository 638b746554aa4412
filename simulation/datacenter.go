package simulation

import (
	"fmt"

	"cqld/ring"
)

// datacenterName returns the name of the data center with a number, starting at 1.
func datacenterName(number int) string { return fmt.Sprintf("dc%d", number) }

// datacenterOf returns the data center of the machine with a number, starting at 1: each data center first gets as many
// nodes as replicas; further nodes are distributed evenly.
func (o Options) datacenterOf(machine int) string {
	if len(o.Datacenters) == 0 {
		return datacenterName(1)
	}
	// In rounds: one node for each data center whose factor exceeds the number of the round, until all factors are
	// reached.
	n := machine - 1
	for round := 0; round < o.Factor; round++ {
		for i, factor := range o.Datacenters {
			if round >= factor {
				continue
			}
			if n == 0 {
				return datacenterName(i + 1)
			}
			n--
		}
	}
	return datacenterName(1 + n%len(o.Datacenters))
}

// replication returns the replication of the workloads' keyspace.
func (o Options) replication() ring.Replication {
	if len(o.Datacenters) == 0 {
		return ring.Replication{Class: ring.Simple, Factor: o.Factor}
	}
	var factors []ring.DatacenterFactor
	for i, f := range o.Datacenters {
		// A data center without replicas has nodes only.
		if f > 0 {
			factors = append(factors, ring.DatacenterFactor{Datacenter: datacenterName(i + 1), Factor: f})
		}
	}
	return ring.NewNetworkTopology(factors...)
}

// replicasNearby returns the number of a partition's replicas among the machine and its neighbours.
func (n *Node) replicasNearby() int { return n.cluster.replication().In(n.dc) }

// neighbours reports whether two machines hold replicas of the same group: those of one data center or, with
// SimpleStrategy, all.
func (n *Node) neighbours(o *Node) bool {
	return !n.cluster.replication().ByDatacenter() || n.dc == o.dc
}
