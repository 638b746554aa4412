package simulation

import (
	"fmt"
	"time"

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
		factors = append(factors, ring.DatacenterFactor{Datacenter: datacenterName(i + 1), Factor: f})
	}
	return ring.NewNetworkTopology(factors...)
}

// replicasNearby returns the number of a partition's replicas among the machine and its neighbours.
func (n *Node) replicasNearby() int { return n.cluster.replication().In(n.dc) }

// neighbours reports whether two machines hold replicas of the same group: those of one data center or, with
// SimpleStrategy, all.
func (n *Node) neighbours(o *Node) bool {
	return n.cluster.replication().Class != ring.NetworkTopology || n.dc == o.dc
}

// cutDatacenter separates one data center from the others.
func (c *Cluster) cutDatacenter(r *Stream) {
	dc := datacenterName(1 + r.Intn(max(1, len(c.options.Datacenters))))
	c.cutBetween(r, func(a, b int) bool { return (c.nodes[a].dc == dc) != (c.nodes[b].dc == dc) })
}

// loseDatacenter cuts the power of all machines of one data center for a while.
func (c *Cluster) loseDatacenter(r *Stream) {
	dc, d := datacenterName(1+r.Intn(max(1, len(c.options.Datacenters)))),
		r.Between(500*time.Millisecond, 6*time.Second)
	c.meetings.begin(opDatacenterLoss, c.scaled(d))
	for _, n := range c.nodes {
		if n.dc == dc && !n.dead && !n.departed {
			n.crash(true)
			c.later(d, "restart", n.start)
		}
	}
}

// slowDatacenters delays messages between data centers by up to about the timeout of a request.
func (c *Cluster) slowDatacenters(r *Stream) {
	c.net.far = c.options.Far + r.Between(50*time.Millisecond, 900*time.Millisecond)
	c.later(r.Between(200*time.Millisecond, 2*time.Second), "near", func() { c.net.far = c.options.Far })
}
