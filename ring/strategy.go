package ring

import (
	"maps"
	"slices"
	"strings"
)

// Class is a replication strategy.
type Class uint8

// The strategies. Local keeps data on the node that wrote it. Everywhere places a replica on each node that owns
// tokens.
const (
	Local Class = iota + 1
	Simple
	NetworkTopology
	Everywhere
)

// Name returns the full class name that system_schema.keyspaces shows.
func (c Class) Name() string {
	//exhaustive:enforce
	switch c {
	case Local:
		return "org.apache.cassandra.locator.LocalStrategy"
	case Simple:
		return "org.apache.cassandra.locator.SimpleStrategy"
	case NetworkTopology:
		return "org.apache.cassandra.locator.NetworkTopologyStrategy"
	case Everywhere:
		return "org.apache.cassandra.locator.EverywhereStrategy"
	}
	return ""
}

// ShortName returns Name without its package.
func (c Class) ShortName() string { return c.Name()[strings.LastIndexByte(c.Name(), '.')+1:] }

// DatacenterFactor is the number of replicas in one data center.
type DatacenterFactor struct {
	Datacenter string
	// Zero places no replica there.
	Factor int
}

// Replication is a keyspace's strategy with its parameters. Values are immutable.
type Replication struct {
	Class  Class
	Factor int // Simple
	// Datacenters are sorted by name. For NetworkTopology, they are part of the definition. For Everywhere, they are
	// the numbers of members that own tokens, and follow the members (package cluster/metadata).
	Datacenters []DatacenterFactor
}

// NewNetworkTopology returns NetworkTopologyStrategy with the given factors, sorted by name.
func NewNetworkTopology(factors ...DatacenterFactor) Replication {
	f := slices.Clone(factors)
	slices.SortFunc(f, func(a, b DatacenterFactor) int { return strings.Compare(a.Datacenter, b.Datacenter) })
	return Replication{Class: NetworkTopology, Datacenters: f}
}

// ByDatacenter reports whether r has a number of replicas for each data center, so that the local levels and
// EACH_QUORUM count data centers separately.
func (r Replication) ByDatacenter() bool { return r.Class == NetworkTopology || r.Class == Everywhere }

// Definition returns r without what follows from the members: as it is defined, shown and stored.
func (r Replication) Definition() Replication {
	if r.Class == Everywhere {
		r.Datacenters = nil
	}
	return r
}

// Among returns r with the factors of an Everywhere replication whose only replicas are the nodes. Other replications
// are returned as they are. During a change of the ring, the replicas before and after it differ in number.
func (r Replication) Among(t *Topology, nodes []NodeID) Replication {
	if r.Class != Everywhere {
		return r
	}
	count := map[string]int{}
	for _, id := range nodes {
		// A node that has left counts nowhere.
		if n := t.Node(id); n != nil {
			count[n.Datacenter]++
		}
	}
	return everywhere(count)
}

// EverywhereOn returns the replication that places a replica on each of the nodes that own tokens.
func EverywhereOn(nodes []*Node) Replication {
	count := map[string]int{}
	for _, n := range nodes {
		// Leaving nodes own their tokens until the operation ends.
		if n.State != Joining {
			count[n.Datacenter]++
		}
	}
	return everywhere(count)
}

// everywhere returns an Everywhere replication with a number of replicas for each data center.
func everywhere(count map[string]int) Replication {
	r := Replication{Class: Everywhere}
	for _, dc := range slices.Sorted(maps.Keys(count)) {
		r.Datacenters = append(r.Datacenters, DatacenterFactor{Datacenter: dc, Factor: count[dc]})
	}
	return r
}

// Equal reports whether both place data alike.
//
// The order of Datacenters counts. NewNetworkTopology sorts them.
func (r Replication) Equal(o Replication) bool {
	return r.Class == o.Class && r.Factor == o.Factor && slices.Equal(r.Datacenters, o.Datacenters)
}

// Total returns the number of replicas of a partition in all data centers.
func (r Replication) Total() int {
	switch r.Class {
	case Local:
		return 1
	case Simple:
		return r.Factor
	}
	n := 0
	for _, f := range r.Datacenters {
		n += f.Factor
	}
	return n
}

// In returns the number of replicas that a data center should hold. Strategies without data centers count all of
// their replicas, as Cassandra does for the LOCAL levels.
func (r Replication) In(datacenter string) int {
	if !r.ByDatacenter() {
		return r.Total()
	}
	for _, f := range r.Datacenters {
		if f.Datacenter == datacenter {
			return f.Factor
		}
	}
	return 0
}

// simple returns the next distinct nodes clockwise from tokens[i].
func (r *tokenRing) simple(i, factor int) []NodeID {
	var out []NodeID
	// A node has many tokens: the other tokens of a selected node are skipped.
	for k := 0; k < len(r.owner) && len(out) < factor; k++ {
		if id := r.owner[(i+k)%len(r.owner)].ID; !slices.Contains(out, id) {
			out = append(out, id)
		}
	}
	return out
}

// datacenterPlacement collects one data center's replicas during the walk.
type datacenterPlacement struct {
	name          string
	wanted        int // replicas still needed
	repeatsLeft   int // how many more nodes of racks already used may be selected
	racksSeen     []string
	acceptedNodes []NodeID
}

// network walks clockwise and places every data center's replicas on as many racks as it has. It selects a second
// node of a rack immediately only while the data center has fewer racks than replicas
// (NetworkTopologyStrategy.calculateNaturalReplicas of Cassandra 3.0 and later).
func (r *tokenRing) network(i int, factors []DatacenterFactor) []NodeID {
	dcs, open := r.placements(factors)
	var out []NodeID
	for k := 0; k < len(r.owner) && open > 0; k++ {
		n := r.owner[(i+k)%len(r.owner)]
		// The data centers are placed in one walk, so the result lists the replicas of all of them in the order of the
		// ring.
		for _, dc := range dcs {
			if dc.name != n.Datacenter || dc.wanted == 0 || slices.Contains(dc.acceptedNodes, n.ID) {
				continue
			}
			// A node that is skipped here is not selected later: repeatsLeft is the number of replicas beyond the
			// number of racks, and the racks that have not been seen yet supply the others.
			if slices.Contains(dc.racksSeen, n.Rack) {
				if dc.repeatsLeft <= 0 {
					continue
				}
				dc.repeatsLeft--
			} else {
				dc.racksSeen = append(dc.racksSeen, n.Rack)
			}
			dc.acceptedNodes = append(dc.acceptedNodes, n.ID)
			out = append(out, n.ID)
			if dc.wanted--; dc.wanted == 0 {
				open--
			}
		}
	}
	return out
}

// placements returns the data centers that get replicas, and their number. A data center without nodes is left out:
// the walk would never complete it.
func (r *tokenRing) placements(factors []DatacenterFactor) (dcs []*datacenterPlacement, open int) {
	for _, f := range factors {
		nodes, racks := 0, []string{}
		for _, n := range r.members {
			if n.Datacenter != f.Datacenter {
				continue
			}
			nodes++
			if !slices.Contains(racks, n.Rack) {
				racks = append(racks, n.Rack)
			}
		}
		// repeatsLeft counts from the whole factor, as in Cassandra, also if the data center has fewer nodes.
		wanted := min(f.Factor, nodes)
		if wanted <= 0 {
			continue
		}
		dcs = append(dcs, &datacenterPlacement{name: f.Datacenter, wanted: wanted, repeatsLeft: f.Factor - len(racks)})
		open++
	}
	return dcs, open
}
