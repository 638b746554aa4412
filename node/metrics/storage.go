package metrics

import "github.com/prometheus/client_golang/prometheus"

// storage collects the counters of the storage engine. They concern the engine of this node as a replica, whichever
// node coordinates a request. Reads and writes of other coordinators are included. A read command is one page, so one
// statement may be several.
func (c *Collector) storage(m sink) {
	s := c.o.Instance.Engine.Metrics()
	m.counter("storage_reads", "Read commands.", s.Reads)
	m.counter("storage_writes", "Mutations.", s.Writes)
	m.counter("storage_writes_refused", "Mutations refused because the disk is full or too many bytes are waiting.",
		s.Refused)
	m.counter("storage_syncs", "Commits that waited for the disk.", s.Syncs)
	m.counter("storage_stalls", "Times that the storage engine stalled writes.", s.Stalls)
	for cause, n := range s.PausesByCause {
		m.send(prometheus.CounterValue, "storage_commit_pauses_total",
			"Commits that took 0.1 s or longer without the fsync of the log.", float64(n), []string{"cause"},
			[]string{cause})
	}
	m.counter("storage_slow_syncs", "Commits that waited 0.1 s or longer for the fsync of the log.", s.SlowSyncs)
	m.counter("storage_entries_read", "Entries scanned by reads.", s.Looked)
	m.counter("storage_seeks", "Searches for a key in the database by reads.", s.Seeks)
	m.counter("storage_reads_canceled", "Reads that ended early because their client no longer waited.", s.Canceled)
	m.counter("storage_purged", "Entries removed by the purger.", s.Purged)
	m.gauge("storage_corrupt_files", "Corrupt files found.", s.Corruptions)
	// Prometheus has no truth values.
	full := int64(0)
	if s.DiskFull {
		full = 1
	}
	m.gauge("storage_disk_full", "1 while writes are refused for lack of space.", full)
	// A failed engine has no metrics of Pebble.
	if p := s.Pebble; p != nil {
		m.gauge("storage_bytes", "Bytes on disk.", int64(p.DiskSpaceUsage()))
		m.gauge("storage_memtable_bytes", "Bytes of memtables.", int64(p.MemTable.Size))
		m.gauge("storage_compaction_debt_bytes", "Estimated bytes to be compacted.", int64(p.Compact.EstimatedDebt))
		m.counter("storage_compactions", "Compactions.", p.Compact.Count)
		m.counter("storage_flushes", "Flushes of memtables.", p.Flush.Count)
		m.counter("storage_cache_hits", "Blocks found in the cache.", p.BlockCache.Hits)
		m.counter("storage_cache_misses", "Blocks read from disk.", p.BlockCache.Misses)
	}
	m.gauge("storage_row_cache_bytes", "Bytes of the cache of rows.", s.Rows.Bytes)
	m.gauge("storage_row_cache_entries", "Rows, headers and absent keys in the cache of rows.", s.Rows.Entries)
	m.counter("storage_row_cache_hits", "Searches that found an entry in the cache of rows.", s.Rows.Hits)
	m.counter("storage_row_cache_misses", "Searches that found none.", s.Rows.Misses)
	m.counter("storage_row_cache_removed", "Entries that a write removed from the cache of rows.", s.Rows.Removed)
}

// vectors collects the graphs of indexes of vectors. They are zero without an index of vectors. Searches are counted by
// the way they found their results: in a graph, or by reading all entries. filling graphs answer no searches yet;
// too_large ones exceed the memory bound, and their index is searched by its entries.
func (c *Collector) vectors(m sink) {
	s := c.o.Instance.Values.GraphStats()
	// Every state has a series, with 0 if no graph is in it.
	for _, g := range []struct {
		state string
		count int
	}{{"ready", s.Ready}, {"filling", s.Filling}, {"too_large", s.Full}} {
		m.send(prometheus.GaugeValue, "vector_graphs", "Graphs of indexes of vectors.", float64(g.count),
			[]string{"state"}, []string{g.state})
	}
	m.gauge("vector_graph_vectors", "Vectors in graphs.", s.Vectors)
	m.gauge("vector_graph_bytes", "Estimated memory of graphs of vectors.", s.Bytes)
	m.gauge("vector_graph_pending", "Vectors that are not in a graph yet.", s.Pending)
	for _, by := range []struct {
		way   string
		count uint64
	}{{"graph", s.Searches}, {"entries", s.Scans}} {
		m.send(prometheus.CounterValue, "vector_searches_total",
			"Steps of searches for the nearest vectors on this replica.", float64(by.count),
			[]string{"by"}, []string{by.way})
	}
	m.send(prometheus.CounterValue, "vector_graph_visited_total", "Vectors that searches of graphs compared.",
		float64(s.Visited), nil, nil)
}

// tables collects the reads and writes of each table of this node. The number of series grows with the number of
// tables. Only tables with storage on this node are listed, and virtual ones are not. Dropped tables lose their series,
// and a table that is created again with the same name has another storage id and begins at 0.
func (c *Collector) tables(m sink) {
	s := c.o.Instance.Cluster.Metadata().Schema
	m.gauge("table_dropped", "Dropped tables that can be restored.", int64(len(s.Retained())))
	m.gauge("table_dropped_keyspaces", "Dropped keyspaces that can be restored.", int64(len(s.DroppedKeyspaces())))
	for _, id := range s.StorageIDs() {
		t := s.TableByStorage(id)
		// A table that has no storage, or that was dropped: its name may be in use.
		if t == nil || t.Virtual || t.Retention != nil {
			continue
		}
		var reads, writes int64
		// A table that was not used yet has zeros.
		if f := c.o.Tables.LookUp(id); f != nil {
			reads, writes = f.Read.Count()+f.Scan.Count(), f.Write.Count()
		}
		labels, values := []string{"keyspace", "table"}, []string{t.Keyspace, t.Name}
		m.send(prometheus.CounterValue, "table_reads_total", "Reads of a table on this replica.", float64(reads),
			labels,
			values)
		m.send(prometheus.CounterValue, "table_writes_total", "Mutations of a table on this replica.", float64(writes),
			labels, values)
	}
}
