package sysviews

import (
	"context"
	"strconv"

	"cqld/cql"
	"cqld/node/admin"
	"cqld/node/control"
	"cqld/query/system"
	"cqld/schema"
)

// figures returns the measurements of this node for system_views. The functions are called for each read of a table, so
// each result is current. A part that is closed or has failed makes its table empty, and the statement does not fail.
// They may run concurrently, in the goroutines of requests.
func (v *views) figures() system.Figures {
	return system.Figures{Caches: v.caches, Hints: v.hints, Pools: v.pools, Queries: v.queries,
		Tables:   v.tables,
		Prepared: v.prepared, Statements: v.statements, Snapshots: v.o.Commands.Snapshots.Shown,
		DroppedBytes: v.droppedBytes}
}

// caches returns the block cache and the cache of rows, the only ones that system_views.caches lists.
func (v *views) caches() []system.Cache {
	figures := v.o.Instance.Engine.Metrics()
	p := figures.Pebble
	// The storage engine has failed.
	if p == nil {
		return nil
	}
	c, r := &p.BlockCache, &figures.Rows
	return []system.Cache{{Name: "blocks", Entries: c.Count, Bytes: c.Size, Max: v.o.Config.Memory.CacheBytes,
		Requests: c.Hits + c.Misses, Hits: c.Hits},
		{Name: "rows", Entries: r.Entries, Bytes: r.Bytes, Max: v.o.Config.Memory.RowCacheBytes,
			Requests: r.Hits + r.Misses, Hits: r.Hits}}
}

// hints returns the members for which hints are stored. Members without hints have no row.
func (v *views) hints() []system.PendingHints {
	var out []system.PendingHints
	// Hints for former members are not listed: they have no address.
	for _, m := range v.o.Instance.Cluster.Metadata().Topology.Nodes() {
		records := v.o.Instance.Hints.Pending(m.ID)
		if m.ID == v.o.Instance.Cluster.Self() || records == 0 {
			continue
		}
		out = append(out, system.PendingHints{Node: m, Address: m.Internode, Alive: v.o.Instance.Cluster.Alive(m.ID),
			Records: records})
	}
	return out
}

// pools returns the pools of `cqld ctl tpstats`, so that both show the same figures. Unlike Cassandra's thread_pools,
// the pools are bounds and counters: Go has no thread for each stage.
func (v *views) pools() []system.Pool {
	// The handler of the control port needs neither arguments nor a report here.
	pools, err := v.o.Commands.Activity.Pools(context.Background(), control.None{}, nil)
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

// tables returns size and latencies of each table that this node stores. Tables that were not used have no latencies.
// It costs a look at the files of each table. The error of a single table ends the list, because it means that the
// engine has stopped.
func (v *views) tables() []system.TableFigures {
	tables, err := v.o.Commands.Catalog.Tables(control.TablesArgs{})
	if err != nil {
		return nil
	}
	var out []system.TableFigures
	// One time for all tables, so that their rates are comparable.
	now := v.o.Clock.Monotonic()
	for _, t := range tables {
		size, err := v.o.Instance.Engine.TableSize(t.StorageID)
		if err != nil {
			return nil // the engine is closed or has failed
		}
		shown := system.TableFigures{Keyspace: t.Keyspace, Table: t.Name, Bytes: size.Bytes}
		// A table without requests since the start has no figures, and only its size is shown.
		if f := v.o.Tables.LookUp(t.StorageID); f != nil {
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

// droppedBytes returns the bytes of a dropped table on this node, or 0 if the engine is closed or has failed.
func (v *views) droppedBytes(id schema.StorageID) int64 {
	// The number identifies the rows, although no name does.
	size, err := v.o.Instance.Engine.TableSize(id)
	if err != nil {
		return 0
	}
	return size.Bytes
}

// prepared returns the prepared statements. Like statements it is first called by a request, so the processor exists.
// They are in no particular order.
func (v *views) prepared() []system.PreparedStatement {
	var out []system.PreparedStatement
	for _, p := range v.o.Processor().PreparedStatements() {
		out = append(out, system.PreparedStatement{ID: p.ID, Keyspace: p.Keyspace, Text: p.Text})
	}
	return out
}

// statements returns the counts of executed statements and batches since the node was started.
func (v *views) statements() system.StatementFigures {
	s := v.o.Processor().Stats()
	return system.StatementFigures{Regular: s.RegularExecuted, Prepared: s.PreparedExecuted,
		PreparedCached: s.Prepared, Evicted: s.Evicted,
		Logged: s.Batches[cql.BatchLogged], Unlogged: s.Batches[cql.BatchUnlogged],
		OfCounters: s.Batches[cql.BatchCounter]}
}

// queries returns the requests of CQL clients that this node is executing. It is first called by one of them, so the
// server exists. The thread id is the prefix and number that `cqld ctl killquery` accepts. Texts of statements may
// contain values, which is why the table needs the permission SELECT on system_views.
func (v *views) queries() []system.Query {
	s := v.o.Servers.CQL()
	if s == nil {
		return nil
	}
	// A request with a prepared statement has only its id. The map is made at the first such request.
	var texts map[[16]byte]string
	textOf := func(id [16]byte) string {
		if texts == nil {
			texts = map[[16]byte]string{}
			for _, p := range v.o.Processor().PreparedStatements() {
				texts[p.ID] = p.Text
			}
		}
		return texts[id]
	}
	var out []system.Query
	for _, q := range s.InProgress(textOf) {
		out = append(out, system.Query{ThreadID: admin.QueryPrefix + strconv.FormatUint(q.ID, 10), Queued: q.Queued,
			Running: q.Running, Task: q.Task})
	}
	return out
}
