package backups

import (
	"fmt"
	"slices"
	"strings"

	"cqld/backup"
	"cqld/ring"
	"cqld/schema"
)

// fitKeyspaces adapts the keyspaces that changes create to a ring.
func fitKeyspaces(changes []schema.Change, t *ring.Topology) {
	nodes := nodesByDatacenter(t)
	for _, c := range changes {
		// Keyspaces that exist keep the replication that their operator has given them.
		if k, ok := c.(*schema.CreateKeyspace); ok {
			k.Replication = fitReplication(k.Replication, nodes)
		}
	}
}

// nodesByDatacenter returns the number of nodes in each data center of a ring.
func nodesByDatacenter(t *ring.Topology) map[string]int {
	nodes := map[string]int{}
	for _, n := range t.Nodes() {
		nodes[n.Datacenter]++
	}
	return nodes
}

// fitReplication returns a replication with at most as many replicas as there are nodes. Data centers that the ring
// lacks are left out. If it has none of them, each of its own gets the largest factor. For example, {eu: 3, us: 2}
// becomes {eu: 2} in a ring with two nodes in eu, and {datacenter1: 3} in one with four nodes in datacenter1.
func fitReplication(r ring.Replication, nodes map[string]int) ring.Replication {
	all := 0
	for _, n := range nodes {
		all += n
	}
	if r.Class == ring.Simple {
		r.Factor = min(r.Factor, all)
	}
	if r.Class != ring.NetworkTopology {
		return r
	}
	var kept []ring.DatacenterFactor
	largest, placed := 0, false
	for _, f := range r.Datacenters {
		largest = max(largest, f.Factor)
		// More replicas than nodes would make each QUORUM fail in a small ring.
		if n := nodes[f.Datacenter]; n > 0 {
			kept = append(kept, ring.DatacenterFactor{Datacenter: f.Datacenter, Factor: min(f.Factor, n)})
			placed = placed || f.Factor > 0
		}
	}
	// None of the data centers exists, or only those without replicas.
	if !placed {
		kept = nil
		for center, n := range nodes {
			kept = append(kept, ring.DatacenterFactor{Datacenter: center, Factor: min(largest, n)})
		}
	}
	return ring.NewNetworkTopology(kept...)
}

// placeable refuses targets in keyspaces that have no replica in the ring: their rows would be restored nowhere. s is
// the schema after the restoration.
func placeable(targets []backup.Target, s *schema.Schema, t *ring.Topology) error {
	nodes := nodesByDatacenter(t)
	for _, target := range targets {
		// The other strategies place replicas on any node.
		r := s.Keyspace(target.Into).Replication
		if r.Class != ring.NetworkTopology || slices.ContainsFunc(r.Datacenters, func(f ring.DatacenterFactor) bool {
			return f.Factor > 0 && nodes[f.Datacenter] > 0
		}) {
			continue
		}
		var wanted, present []string
		for _, f := range r.Datacenters {
			wanted = append(wanted, f.Datacenter)
		}
		// Maps have no order, and messages need one.
		for center := range nodes {
			present = append(present, center)
		}
		slices.Sort(present)
		return fmt.Errorf("keyspace %s has replicas in the data centers [%s], and this ring has only [%s]: restore "+
			"with --fit-replication, or create or alter the keyspace with replicas in this ring first", target.Into,
			strings.Join(wanted, ", "), strings.Join(present, ", "))
	}
	return nil
}
