package system

import (
	"net/netip"
	"time"

	"cqld/internal/histogram"
	"cqld/ring"
	"cqld/schema"
)

// Figures are the measurements of a node that system_views shows. A nil function means that its table is empty. The
// functions are called when a table is read and must be safe for concurrent use. cqld has no statistics for other
// columns of Cassandra's tables, which are null or 0. A function is not called for pages of other tables, so it may
// cost some work.
type Figures struct {
	Caches  func() []Cache
	Hints   func() []PendingHints
	Pools   func() []Pool
	Queries func() []Query
	Tables  func() []TableFigures
	// Prepared returns the prepared statements of this node, for system.prepared_statements.
	Prepared   func() []PreparedStatement
	Statements func() StatementFigures
	Snapshots  func() []Snapshot
	// DroppedBytes returns the bytes of a dropped table on this node.
	DroppedBytes func(id schema.StorageID) int64
}

// Cache is a cache in system_views.caches. Bytes and Max are bytes in use and capacity.
type Cache struct {
	Name                string
	Entries, Bytes, Max int64
	Requests, Hits      int64
}

// PendingHints are the hints for another node in system_views.pending_hints. Records are the mutations that wait.
// Address is where hints are sent.
type PendingHints struct {
	Node    *ring.Node
	Address netip.AddrPort
	Alive   bool
	Records int
}

// Pool is a bounded pool of requests in system_views.thread_pools. All numbers are current, except Completed and
// Refused, which are counted from the start of the node.
type Pool struct {
	Name                       string
	Active, ActiveMax, Pending int64
	Completed, Refused         int64
}

// Query is a request that is being executed, in system_views.queries. Queued is the time before the execution began,
// Running the time since.
type Query struct {
	ThreadID        string
	Queued, Running time.Duration
	Task            string
}

// TableFigures are the size of a table on this node and the statistics of its requests since the node started. Bytes
// are on disk. Latencies are of requests that this node coordinated, and of commands that it executed as a replica.
// Latencies are durations here and milliseconds in the tables.
type TableFigures struct {
	Keyspace, Table                                    string
	Bytes                                              int64
	CoordinatorRead, CoordinatorScan, CoordinatorWrite histogram.TimerSummary
	LocalRead, LocalScan, LocalWrite                   histogram.TimerSummary
	Rows, Tombstones                                   histogram.CountPercentiles // of each read and scan
}

// PreparedStatement is a statement that a client has prepared on this node. ID is the id that PREPARE returned.
type PreparedStatement struct {
	ID       [16]byte
	Keyspace string // empty means none
	Text     string
}

// StatementFigures count the statements that this node has executed, in system_views.cql_metrics and batch_metrics.
// They count since the node started, except PreparedCached, which is the current number.
type StatementFigures struct {
	Regular, Prepared            int64 // executed statements, without those of BATCH messages
	PreparedCached, Evicted      int64
	Logged, Unlogged, OfCounters histogram.CountPercentiles // partitions of batches
}

// Snapshot is a table of a snapshot, in system_views.snapshots. A zero Created is unknown.
type Snapshot struct {
	Name, Keyspace, Table string
	Created               time.Time
}

// figureRows adds the rows of a table of Figures. The name of the table decides; a table whose function is missing has
// no rows. Each page calls the function again, so pages of one result may be of different moments.
func (s *Source) figureRows(b *builder) {
	f := &s.o.Figures
	switch {
	case b.table.Name == "caches" && f.Caches != nil:
		for _, c := range f.Caches() {
			row := values{"name": text(c.Name), "capacity_bytes": bigint(c.Max),
				"entry_count": integer(int32(c.Entries)),
				"hit_count":   bigint(c.Hits), "request_count": bigint(c.Requests), "size_bytes": bigint(c.Bytes)}
			// Without requests there is no ratio.
			if c.Requests > 0 {
				row["hit_ratio"] = double(float64(c.Hits) / float64(c.Requests))
			}
			b.add(row)
		}
	case b.table.Name == "pending_hints" && f.Hints != nil:
		for _, h := range f.Hints() {
			// Liveness as this node sees it.
			status := "DOWN"
			if h.Alive {
				status = "UP"
			}
			b.add(values{"host_id": uuid(h.Node.Host), "address": inet(h.Address.Addr()),
				"port": integer(int32(h.Address.Port())),
				"dc":   text(h.Node.Datacenter), "rack": text(h.Node.Rack), "status": text(status),
				// Hints are records here and not files; the column has Cassandra's name.
				"files": integer(int32(h.Records))})
		}
	case b.table.Name == "thread_pools" && f.Pools != nil:
		for _, p := range f.Pools() {
			b.add(values{"name": text(p.Name), "active_tasks": integer(int32(p.Active)),
				"active_tasks_limit": integer(int32(p.ActiveMax)),
				// Requests over the limit are refused and not blocked, so the current number is always 0.
				"blocked_tasks": bigint(0), "blocked_tasks_all_time": bigint(p.Refused),
				"completed_tasks": bigint(p.Completed),
				"pending_tasks":   integer(int32(p.Pending))})
		}
	case b.table.Name == "queries" && f.Queries != nil:
		for _, q := range f.Queries() {
			b.add(values{"thread_id": text(q.ThreadID), "queued_micros": bigint(q.Queued.Microseconds()),
				"running_micros": bigint(q.Running.Microseconds()),
				"task":           text(q.Task)})
		}
	case b.table.Name == "cql_metrics" && f.Statements != nil:
		statementRows(b, f.Statements())
	case b.table.Name == "batch_metrics" && f.Statements != nil:
		batchRows(b, f.Statements())
	// Snapshots do not end by themselves here, so none is ephemeral.
	case b.table.Name == "snapshots" && f.Snapshots != nil:
		for _, x := range f.Snapshots() {
			b.add(values{"name": text(x.Name), "keyspace_name": text(x.Keyspace), "table_name": text(x.Table),
				"created_at": timestampOrNull(x.Created),
				"ephemeral":  boolean(false)})
		}
	// All nodes have the same rows, apart from the sizes.
	case b.table.Name == "dropped_tables":
		s.droppedTables(b)
	case b.table.Name == "dropped_keyspaces":
		s.droppedKeyspaces(b)
	// The remaining tables have a row for each table.
	case f.Tables != nil:
		s.tableRows(b, f.Tables())
	}
}

// droppedTables adds the rows of dropped_tables. Sizes are null where they are unknown, as in other tables.
func (s *Source) droppedTables(b *builder) {
	for _, t := range s.o.View.Schema().Retained() {
		// A table of a dropped keyspace can only be restored with its keyspace.
		if schema.IsHidden(t.Keyspace) {
			continue
		}
		row := values{"keyspace_name": text(t.Keyspace), "table_name": text(t.Name), "id": uuid(t.ID),
			"dropped_at":       timestampOrNull(time.Unix(t.Retention.Dropped, 0)),
			"restorable_until": timestampOrNull(time.Unix(t.Retention.Until, 0)), "reason": text("drop")}
		if t.Retention.Truncated != (schema.UUID{}) {
			row["reason"] = text("truncate")
		}
		if f := &s.o.Figures; f.DroppedBytes != nil {
			row["size_on_disk"] = bigint(f.DroppedBytes(t.StorageID))
		}
		b.add(row)
	}
}

// droppedKeyspaces adds the rows of dropped_keyspaces.
func (s *Source) droppedKeyspaces(b *builder) {
	for _, k := range s.o.View.Schema().DroppedKeyspaces() {
		// StoredTables includes the tables that were dropped before the keyspace.
		tables := k.StoredTables()
		row := values{"keyspace_name": text(k.Dropped.Name), "id": bigint(int64(k.Dropped.Number)),
			"tables":           integer(int32(len(tables))),
			"dropped_at":       timestampOrNull(time.Unix(k.Dropped.Retention.Dropped, 0)),
			"restorable_until": timestampOrNull(time.Unix(k.Dropped.Until, 0))}
		// The sum of all tables. Views take no space: their rows are computed.
		if f := &s.o.Figures; f.DroppedBytes != nil {
			var bytes int64
			for _, t := range tables {
				bytes += f.DroppedBytes(t.StorageID)
			}
			row["size_on_disk"] = bigint(bytes)
		}
		b.add(row)
	}
}

// preparedRows adds the rows of system.prepared_statements. Secrets have been removed from the texts.
func (s *Source) preparedRows(b *builder) {
	if s.o.Figures.Prepared == nil {
		return
	}
	for _, p := range s.o.Figures.Prepared() {
		row := values{"prepared_id": p.ID[:], "query_string": text(p.Text)}
		// The keyspace in use when the statement was prepared.
		if p.Keyspace != "" {
			row["logged_keyspace"] = text(p.Keyspace)
		}
		b.add(row)
	}
}

// statementRows adds the rows of cql_metrics: one for each number. The rows are made in the random order of the map;
// yield sorts them.
func statementRows(b *builder, f StatementFigures) {
	// The ratio is 0 before the first statement.
	ratio := 0.0
	if all := f.Prepared + f.Regular; all > 0 {
		ratio = float64(f.Prepared) / float64(all)
	}
	for name, v := range map[string]float64{"prepared_statements_count": float64(f.PreparedCached),
		"prepared_statements_evicted":  float64(f.Evicted),
		"prepared_statements_executed": float64(f.Prepared), "prepared_statements_ratio": ratio,
		"regular_statements_executed": float64(f.Regular)} {
		b.add(values{"name": text(name), "value": double(v)})
	}
}

// batchRows adds the rows of batch_metrics, one for each kind of batch.
func batchRows(b *builder, f StatementFigures) {
	for name, p := range map[string]*histogram.CountPercentiles{"logged": &f.Logged, "unlogged": &f.Unlogged,
		"counter": &f.OfCounters} {
		b.add(values{"name": text("partitions_per_" + name + "_batch"), "max": bigint(p.Most),
			"p50th": double(float64(p.P50)),
			"p99th": double(float64(p.P99)), "p999th": double(float64(p.P999))})
	}
}

const mebibyte = 1 << 20

// tableRows adds a row for each table of the node. The name of the virtual table selects the figures, and the partition
// key is the keyspace and the table, as in Cassandra.
func (s *Source) tableRows(b *builder, tables []TableFigures) {
	for i := range tables {
		t := &tables[i]
		// Names that are not among the cases have only their key columns.
		row := values{}
		switch b.table.Name {
		case "disk_usage":
			// Rounded up, so that a table with data never shows 0.
			row["mebibytes"] = bigint((t.Bytes + mebibyte - 1) / mebibyte)
		case "coordinator_read_latency":
			row = latencies(&t.CoordinatorRead)
		case "coordinator_scan_latency":
			row = latencies(&t.CoordinatorScan)
		case "coordinator_write_latency":
			row = latencies(&t.CoordinatorWrite)
		case "local_read_latency":
			row = latencies(&t.LocalRead)
		case "local_scan_latency":
			row = latencies(&t.LocalScan)
		case "local_write_latency":
			row = latencies(&t.LocalWrite)
		case "rows_per_read":
			row = numbers(&t.Rows)
		case "tombstones_per_read":
			row = numbers(&t.Tombstones)
		}
		row["keyspace_name"], row["table_name"] = text(t.Keyspace), text(t.Table)
		b.add(row)
	}
}

// latencies returns the columns of a table of latencies. Times are in milliseconds, with a fraction.
func latencies(s *histogram.TimerSummary) values {
	milliseconds := func(d time.Duration) []byte { return double(float64(d) / float64(time.Millisecond)) }
	return values{"count": bigint(s.Count), "max_ms": milliseconds(s.Latency.Max),
		"p50th_ms": milliseconds(s.Latency.P50),
		"p99th_ms": milliseconds(s.Latency.P99), "per_second": double(s.PerSecond)}
}

// numbers returns the columns of a table of numbers per read. The percentiles are estimates of a histogram.
func numbers(p *histogram.CountPercentiles) values {
	return values{"count": bigint(p.Count), "max": double(float64(p.Most)), "p50th": double(float64(p.P50)),
		"p99th": double(float64(p.P99))}
}
