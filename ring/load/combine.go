package load

import (
	"cmp"
	"maps"
	"slices"

	"cqld/ring"
)

// Physical is a physical partition: a range of the ring with the nodes that report it. Rates and charges are the sums
// of these nodes, so a write to four replicas counts four times.
type Physical struct {
	Tokens ring.Range
	Nodes  []ring.NodeID // ascending
	// Bytes is the size on disk of the largest replica, and TotalBytes of all.
	Bytes, TotalBytes  int64
	Reads, Writes      float64
	Charge, SlowCharge float64
	// Busiest is the node with the most charge of the range. Hottest is the key with the most charge on one node; its
	// share is of the charge of the range on this node.
	Busiest ring.NodeID
	Hottest HotKey

	busiest float64 // the charge of the range on Busiest
	hottest float64 // the charge of Hottest on its node
}

// NodeLoad is the load of one node.
type NodeLoad struct {
	Node ring.NodeID
	Report
	// Share is the part of the charge of all nodes, and BytesShare of their bytes.
	Share, BytesShare float64
}

// Cluster is the load of all ranges and nodes, as one node knows it.
type Cluster struct {
	Ranges []Physical // in the order of their ends; without ranges that no node reports
	Nodes  []NodeLoad // by number
	Sum    Reported   // of all nodes
}

// Combine adds up the reports of all nodes.
func Combine(reports map[ring.NodeID]*Report) Cluster {
	c := CombineNodes(reports)
	byEnd := map[ring.Range]*Physical{}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		for j := range n.Ranges {
			e := &n.Ranges[j]
			p := byEnd[e.Tokens]
			if p == nil {
				p = &Physical{Tokens: e.Tokens}
				byEnd[e.Tokens] = p
			}
			p.add(n.Node, e)
		}
	}
	for _, p := range byEnd {
		c.Ranges = append(c.Ranges, *p)
	}
	slices.SortFunc(c.Ranges, func(a, b Physical) int {
		return cmp.Or(cmp.Compare(a.Tokens.End, b.Tokens.End), cmp.Compare(a.Tokens.Start, b.Tokens.Start))
	})
	return c
}

// CombineNodes is Combine without the ranges, which are many.
func CombineNodes(reports map[ring.NodeID]*Report) Cluster {
	var c Cluster
	for _, id := range slices.Sorted(maps.Keys(reports)) {
		c.Nodes = append(c.Nodes, NodeLoad{Node: id, Report: *reports[id]})
		c.Sum = c.Sum.plus(reports[id].Sum)
	}
	for i := range c.Nodes {
		n := &c.Nodes[i]
		n.Share, n.BytesShare = part(n.Sum.Charge, c.Sum.Charge), part(float64(n.Sum.Bytes), float64(c.Sum.Bytes))
	}
	return c
}

// add adds the report of one node. Nodes are added in the order of their numbers.
func (p *Physical) add(id ring.NodeID, e *RangeReport) {
	if len(p.Nodes) == 0 || e.Charge > p.busiest {
		p.Busiest, p.busiest = id, e.Charge
	}
	if hot := e.Hottest.Share * e.Charge; hot > p.hottest {
		p.Hottest, p.hottest = e.Hottest, hot
	}
	p.Nodes = append(p.Nodes, id)
	p.Bytes, p.TotalBytes = max(p.Bytes, e.Bytes), p.TotalBytes+e.Bytes
	p.Reads, p.Writes = p.Reads+e.Reads, p.Writes+e.Writes
	p.Charge, p.SlowCharge = p.Charge+e.Charge, p.SlowCharge+e.SlowCharge
}

// plus returns the sum.
func (r Reported) plus(o Reported) Reported {
	return Reported{r.Bytes + o.Bytes, r.Reads + o.Reads, r.Writes + o.Writes, r.BytesOut + o.BytesOut,
		r.BytesIn + o.BytesIn, r.Charge + o.Charge, r.SlowCharge + o.SlowCharge}
}

// part returns x as a part of all; 0 if all is 0.
func part(x, all float64) float64 {
	if all == 0 {
		return 0
	}
	return x / all
}

// Imbalance returns how far the most loaded node is above the mean: by charge, and by bytes. 0 means that no node has
// more than the mean, and 1 that one has twice the mean.
func (c *Cluster) Imbalance() (charge, bytes float64) {
	for _, n := range c.Nodes {
		charge = max(charge, n.Share*float64(len(c.Nodes))-1)
		bytes = max(bytes, n.BytesShare*float64(len(c.Nodes))-1)
	}
	return charge, bytes
}
