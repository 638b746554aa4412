package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"

	"cqld/cluster"
	"cqld/node/assembly"
	"cqld/node/control"
	"cqld/query/system"
	"cqld/ring"
	"cqld/ring/load"
	"cqld/schema"
)

// Ranges shows the load of the physical partitions and of the nodes, as this node knows it: its own measurements, and
// the last reports of the other nodes.
type Ranges struct {
	cluster *cluster.Cluster
	members members
	loads   *assembly.Loads
}

// register adds the operations that show the load and plan how to even it out. They change nothing.
func (v *Ranges) register(s *control.Server) {
	control.Handle(s, control.RangesOf, v.Load)
	control.Handle(s, control.BalanceOf, v.Balance)
}

// Combined returns the load of all nodes that this node knows.
func (v *Ranges) Combined() load.Cluster { return load.Combine(v.loads.Reports.All(v.cluster.Self())) }

// Load shows the load of all nodes, and of the selected ranges.
func (v *Ranges) Load(_ context.Context, a control.RangesArgs, _ control.Report) (control.RangeLoads, error) {
	order, ok := map[string]func(a, b control.RangeLoad) int{
		"":                func(a, b control.RangeLoad) int { return cmp.Compare(b.Charge, a.Charge) },
		control.SortLoad:  func(a, b control.RangeLoad) int { return cmp.Compare(b.Charge, a.Charge) },
		control.SortBytes: func(a, b control.RangeLoad) int { return cmp.Compare(b.Bytes, a.Bytes) },
		control.SortToken: func(a, b control.RangeLoad) int { return cmp.Compare(a.End, b.End) },
	}[a.Sort]
	if !ok {
		return control.RangeLoads{}, &control.Error{Code: control.Invalid, Message: fmt.Sprintf(
			"ranges are sorted by %s, %s or %s, not by %q", control.SortLoad, control.SortBytes, control.SortToken,
			a.Sort)}
	}
	if a.Limit < 0 {
		return control.RangeLoads{}, &control.Error{Code: control.Invalid,
			Message: "the number of ranges must not be negative"}
	}
	m, c := v.cluster.Metadata(), v.Combined()
	out := control.RangeLoads{Nodes: v.nodes(m.Topology, &c), Ranges: []control.RangeLoad{}, All: len(c.Ranges)}
	keys := v.keys()
	for i := range c.Ranges {
		out.Ranges = append(out.Ranges, rangeLoad(m.Topology, m.Schema, &c, &c.Ranges[i], keys))
	}
	// Ranges with equal figures stay in the order of the ring.
	slices.SortStableFunc(out.Ranges, order)
	if a.Limit > 0 {
		out.Ranges = out.Ranges[:min(a.Limit, len(out.Ranges))]
	}
	return out, nil
}

// nodes returns the loads of all members; members that have not reported have none.
func (v *Ranges) nodes(t *ring.Topology, c *load.Cluster) []control.NodeLoad {
	out := []control.NodeLoad{}
	for _, m := range t.Nodes() {
		n := control.NodeLoad{Member: v.members.one(m)}
		if i := slices.IndexFunc(c.Nodes, func(n load.NodeLoad) bool { return n.Node == m.ID }); i >= 0 {
			of := &c.Nodes[i]
			n.Reported, n.Ranges, n.Share, n.BytesShare = true, of.Held, of.Share, of.BytesShare
			n.Bytes, n.Reads, n.Writes = of.Sum.Bytes, of.Sum.Reads, of.Sum.Writes
			n.BytesOut, n.BytesIn = of.Sum.BytesOut, of.Sum.BytesIn
			n.Charge, n.ChargeSlow = of.Sum.Charge, of.Sum.SlowCharge
			n.CPU, n.DiskFree, n.DiskTotal = of.Host.CPU, of.Host.DiskFree, of.Host.DiskTotal
		}
		out = append(out, n)
	}
	return out
}

// identity identifies a partition.
type identity struct {
	table schema.StorageID
	token ring.Token
}

// keys returns the busiest partition keys of this node. Reports of other nodes have only tokens.
func (v *Ranges) keys() map[identity][]byte {
	out := map[identity][]byte{}
	for _, k := range v.loads.Meter.Snapshot().Keys {
		if k.Bytes != nil {
			out[identity{k.Table, k.Token}] = k.Bytes
		}
	}
	return out
}

// rangeLoad describes a range to operators.
func rangeLoad(t *ring.Topology, catalog *schema.Schema, c *load.Cluster, p *load.Physical,
	keys map[identity][]byte) control.RangeLoad {
	out := control.RangeLoad{Start: int64(p.Tokens.Start), End: int64(p.Tokens.End), Bytes: p.Bytes, Reads: p.Reads,
		Writes: p.Writes, Charge: p.Charge, ChargeSlow: p.SlowCharge, Busiest: t.NameOf(p.Busiest)}
	if c.Sum.Charge > 0 {
		out.Share = p.Charge / c.Sum.Charge
	}
	for _, id := range p.Nodes {
		out.Nodes = append(out.Nodes, t.NameOf(id))
	}
	table := catalog.TableByStorage(p.Hottest.Table)
	// The table may have been dropped.
	if p.Hottest == (load.HotKey{}) || table == nil {
		return out
	}
	out.Hottest = &control.HotKey{Keyspace: table.Keyspace, Table: table.Name, Token: int64(p.Hottest.Token),
		Share: p.Hottest.Share}
	if key, ok := keys[identity{p.Hottest.Table, p.Hottest.Token}]; ok {
		out.Hottest.Key = keyText(table, key)
	}
	return out
}

// Shown returns the loads of all ranges for system_views.ranges.
func (v *Ranges) Shown() (out []system.RangeLoad) {
	m, c := v.cluster.Metadata(), v.Combined()
	keys := v.keys()
	for i := range c.Ranges {
		r := rangeLoad(m.Topology, m.Schema, &c, &c.Ranges[i], keys)
		shown := system.RangeLoad{Tokens: c.Ranges[i].Tokens, Nodes: r.Nodes, Bytes: r.Bytes, Reads: r.Reads,
			Writes: r.Writes, Charge: r.Charge, ChargeSlow: r.ChargeSlow, Share: r.Share}
		if h := r.Hottest; h != nil {
			shown.HotKeyspace, shown.HotTable, shown.HotKey = h.Keyspace, h.Table, h.Key
			shown.HotToken, shown.HotShare = ring.Token(h.Token), h.Share
		}
		out = append(out, shown)
	}
	return out
}
