package node

import (
	"context"

	"cqld/cql"
	"cqld/node/control"
	"cqld/query/system"
)

// shownFigures returns the measurements of this node for system_views.
func (n *Node) shownFigures() system.Figures {
	return system.Figures{Caches: n.shownCaches, Hints: n.shownHints, Pools: n.shownPools, Queries: n.shownQueries,
		Tables:   n.shownTables,
		Prepared: n.shownPrepared, Statements: n.shownStatements, Snapshots: n.commands.Snapshots.Shown}
}

func (n *Node) shownCaches() []system.Cache {
	p := n.engine.Metrics().Pebble
	if p == nil {
		return nil
	}
	c := &p.BlockCache
	return []system.Cache{{Name: "blocks", Entries: c.Count, Bytes: c.Size, Max: n.opts.CacheBytes, Requests: c.Hits +
		c.Misses, Hits: c.Hits}}
}

func (n *Node) shownHints() []system.PendingHints {
	var out []system.PendingHints
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		records := n.parts.Hints.Pending(m.ID)
		if m.ID == n.cluster.Self() || records == 0 {
			continue
		}
		out = append(out, system.PendingHints{Node: m, Address: m.Internode, Alive: n.cluster.Alive(m.ID),
			Records: records})
	}
	return out
}

func (n *Node) shownPools() []system.Pool {
	pools, err := n.commands.Activity.Pools(context.Background(), control.None{}, nil)
	if err != nil {
		return nil
	}
	var out []system.Pool
	for _, p := range pools.Pools {
		out = append(out, system.Pool{Name: p.Name, Active: p.Active, ActiveMax: p.ActiveMax, Pending: p.Pending,
			Completed: p.Completed,
			Refused:   p.Refused})
	}
	return out
}

func (n *Node) shownTables() []system.TableFigures {
	tables, err := n.commands.Catalog.Tables(control.TablesArgs{})
	if err != nil {
		return nil
	}
	var out []system.TableFigures
	now := n.clock.Monotonic()
	for _, t := range tables {
		size, err := n.engine.TableSize(t.StorageID)
		if err != nil {
			return nil // the engine is closed or has failed
		}
		shown := system.TableFigures{Keyspace: t.Keyspace, Table: t.Name, Bytes: size.Bytes}
		if f := n.measured.LookUp(t.StorageID); f != nil {
			shown.CoordinatorRead, shown.CoordinatorScan = f.Coordinator.Read.Summary(now),
				f.Coordinator.Scan.Summary(now)
			shown.CoordinatorWrite = f.Coordinator.Write.Summary(now)
			shown.LocalRead, shown.LocalScan, shown.LocalWrite = f.Read.Summary(now), f.Scan.Summary(now),
				f.Write.Summary(now)
			shown.Rows, shown.Tombstones = f.Rows.Percentiles(), f.Tombstones.Percentiles()
		}
		out = append(out, shown)
	}
	return out
}

// shownPrepared returns the prepared statements. Like shownStatements it is first called by a request, so the processor
// exists.
func (n *Node) shownPrepared() []system.PreparedStatement {
	var out []system.PreparedStatement
	for _, p := range n.processor.PreparedStatements() {
		out = append(out, system.PreparedStatement{ID: p.ID, Keyspace: p.Keyspace, Text: p.Text})
	}
	return out
}

func (n *Node) shownStatements() system.StatementFigures {
	s := n.processor.Stats()
	return system.StatementFigures{Regular: s.RegularExecuted, Prepared: s.PreparedExecuted,
		PreparedCached: s.Prepared, Evicted: s.Evicted,
		Logged: s.Batches[cql.BatchLogged], Unlogged: s.Batches[cql.BatchUnlogged],
		OfCounters: s.Batches[cql.BatchCounter]}
}
