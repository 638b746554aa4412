package node

import (
	"fmt"
	"net/http"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"cqld/internal/histogram"
	"cqld/paxos"
	"cqld/request"
)

// metricsPage serves the metrics of the node to Prometheus.
func (n *Node) metricsPage() http.Handler {
	r := prometheus.NewRegistry()
	r.MustRegister(collectors.NewGoCollector(), collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}),
		figuresCollector{n})
	return promhttp.HandlerFor(r, promhttp.HandlerOpts{})
}

// figuresCollector reads the counters of the parts of a node when Prometheus collects.
type figuresCollector struct{ n *Node }

// Describe implements prometheus.Collector. Without descriptions, the registry checks the collected metrics.
func (figuresCollector) Describe(chan<- *prometheus.Desc) {}

// Collect implements prometheus.Collector.
func (c figuresCollector) Collect(out chan<- prometheus.Metric) {
	m := metricSink{out}
	c.ring(m)
	c.requests(m)
	c.coordinatorRequests(m, "cql", c.n.executors.cql)
	c.coordinatorRequests(m, "tables", c.n.executors.tables)
	c.answered(m)
	c.logins(m)
	c.storage(m)
	c.memory(m)
	c.functions(m)
	c.vectors(m)
	c.tables(m)
	c.jobs(m)
	c.builds(m)
	c.panics(m)
	c.audit(m)
	c.limits(m)
	c.encryption(m)
	c.traces(m)
}

// metricSink converts numbers to metrics.
type metricSink struct{ out chan<- prometheus.Metric }

func (m metricSink) send(kind prometheus.ValueType, name, help string, v float64, labels, values []string) {
	m.out <- prometheus.MustNewConstMetric(prometheus.NewDesc("cqld_"+name, help, labels, nil), kind, v, values...)
}

func (m metricSink) gauge(name, help string, v int64) {
	m.send(prometheus.GaugeValue, name, help, float64(v), nil, nil)
}

func (m metricSink) counter(name, help string, v int64) {
	m.send(prometheus.CounterValue, name+"_total", help, float64(v), nil, nil)
}

// histogram emits a histogram of seconds in powers of two, from 65 µs to 17 s.
func (m metricSink) histogram(name, help string, h *histogram.Histogram, labels, values []string) {
	buckets, count, sum := h.Octaves(16, 34)
	m.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("cqld_"+name, help, labels, nil), count,
		sum.Seconds(), buckets, values...)
}

// scaled emits the histogram of requests of which only a sample was measured. All requests are counted, as if those not
// measured had the same latencies.
func (m metricSink) scaled(name, help string, t *request.KindStats, labels, values []string) {
	buckets, measured, sum := t.Latency.Octaves(16, 34)
	count := max(uint64(t.Count.Load()), measured)
	seconds := sum.Seconds()
	if measured > 0 {
		factor := float64(count) / float64(measured)
		seconds *= factor
		for le, n := range buckets {
			buckets[le] = uint64(float64(n) * factor)
		}
	}
	m.out <- prometheus.MustNewConstHistogram(prometheus.NewDesc("cqld_"+name, help, labels, nil), count, seconds,
		buckets, values...)
}

func (c figuresCollector) ring(m metricSink) {
	s := c.n.Status()
	m.gauge("members", "Nodes of the ring.", int64(s.Members))
	m.gauge("members_up", "Nodes that this node considers alive.", int64(s.Up))
	m.gauge("epoch", "Version of the metadata that this node has applied.", int64(s.Epoch))
	if v := c.n.cluster.Voters(); v != nil {
		m.gauge("metadata_voters", "Nodes that vote on the metadata.", int64(len(v.IDs)))
		m.gauge("metadata_voters_up", "Voters that this node considers alive.", int64(len(v.IDs)-len(v.Down)))
		m.gauge("metadata_voters_required", "Voters that a change of the metadata needs.", int64(v.Required))
		missing := int64(0)
		if !v.Majority() {
			missing = 1
		}
		m.gauge("metadata_majority_missing", "1 if too few voters are alive: no change of schema, roles or members "+
			"is possible.", missing)
	}
	hints := 0
	for _, node := range c.n.cluster.Metadata().Topology.Nodes() {
		hints += c.n.parts.Hints.Pending(node.ID)
	}
	m.counter("internode_refused", "Internode handshakes and messages refused because the sender is not a member or "+
		"they are malformed.",
		int64(c.n.transport.Refused()+c.n.cluster.Refused()))
	dropped := c.n.parts.Drops.Stats()
	m.counter("ranges_dropped", "Ranges of tables whose data was dropped because this node no longer holds them.",
		dropped.Ranges)
	m.counter("range_bytes_dropped", "Estimated bytes on disk of the dropped ranges.", dropped.Bytes)
	m.gauge("hints_pending", "Records of hints for other nodes.", int64(hints))
	ahead, refuses := c.n.cluster.ClockOffset()
	m.send(prometheus.GaugeValue, "clock_offset_seconds", "How far this node's clock is before those of most others.",
		ahead.Seconds(), nil, nil)
	serving := int64(0)
	if c.n.servers.Accepting() && !refuses {
		serving = 1
	}
	m.gauge("serving", "Whether CQL clients are served: 0 also while the clock differs too much.", serving)
	if u, err := c.n.opts.FS.GetDiskUsage(c.n.opts.DataDir); err == nil {
		m.gauge("disk_free_bytes", "Free space of the data directory's file system.", int64(u.AvailBytes))
		m.gauge("disk_total_bytes", "Size of the data directory's file system.", int64(u.TotalBytes))
	}
	if c.n.parts.Streams != nil {
		streams := c.n.parts.Streams.Stats()
		m.gauge("streams_active", "Ranges being streamed to this node.", int64(streams.Sessions))
		m.counter("streams_sent_bytes", "Bytes of ranges sent to other nodes.", streams.SentBytes)
	}
	c.repairs(m)
	if c.n.parts.AutoRepair != nil {
		m.gauge("tables_waiting_for_repair", "Tables for which hints were lost and that are not repaired yet.",
			int64(len(c.n.parts.AutoRepair.DirtyTables())))
	}
}

// repairs collects the repairs that this node leads: those of operators and those in the background.
func (c figuresCollector) repairs(m metricSink) {
	s := c.n.parts.Repairer.Stats()
	m.gauge("repairs_active", "Repairs in progress, each of a range of a table.", s.Running)
	for _, e := range []struct {
		result string
		count  int64
	}{{"completed", s.Completed}, {"failed", s.Failed}, {"cancelled", s.Cancelled}} {
		m.send(prometheus.CounterValue, "repairs_total", "Repairs that have ended, each of a range of a table.",
			float64(e.count),
			[]string{"result"}, []string{e.result})
	}
	m.counter("repairs_restricted", "Completed repairs of only some replicas; repairs_total has them, too.",
		s.Restricted)
	m.counter("repair_ranges", "Ranges with one replica set each that repairs compared.", s.Ranges)
	m.counter("repair_rows_sent", "Rows that repairs sent to replicas that lacked them.", s.Rows)
	m.counter("repair_scanned_bytes", "Bytes that replicas scanned for repairs.", s.Bytes)
}

// jobs collects the jobs that operators see: repairs, rebuilds, cleanups, compactions and ring operations.
func (c figuresCollector) jobs(m metricSink) {
	for outcome, count := range c.n.commands.Jobs.Ended() {
		m.send(prometheus.CounterValue, "jobs_total", "Attempts of jobs that have ended.", float64(count),
			[]string{"kind", "state"}, []string{string(outcome.Kind), outcome.State.String()})
	}
	active := map[[2]string]int{}
	labels := []string{"id", "kind", "unit"}
	for _, s := range c.n.commands.Jobs.All() {
		if s.State.Ended() {
			continue
		}
		active[[2]string{string(s.Kind), s.State.String()}]++
		values := []string{s.ID, string(s.Kind), string(s.Unit)}
		m.send(prometheus.GaugeValue, "job_progress", "How much of a running or queued job is done, in its unit.",
			float64(s.Done), labels, values)
		m.send(prometheus.GaugeValue, "job_total", "The extent of a running or queued job, in its unit; 0 while it "+
			"is unknown.", float64(s.Total), labels, values)
	}
	for key, count := range active {
		m.send(prometheus.GaugeValue, "jobs_active", "Jobs that are queued or running.", float64(count),
			[]string{"kind", "state"}, key[:])
	}
}

// builds collects the builds of indexes.
func (c figuresCollector) builds(m metricSink) {
	s := c.n.parts.Builder.Stats()
	m.gauge("indexes_unbuilt", "Indexes, also of materialized views, that this node has not built yet.",
		int64(len(c.n.commands.Peers.OwnUnbuilt())))
	m.counter("indexes_built", "Builds of indexes that are complete.", s.Built)
	m.counter("index_build_rows", "Rows that builds of indexes have read.", s.Rows)
	m.counter("index_build_bytes", "Bytes of rows that builds of indexes have read.", s.Bytes)
}

func (c figuresCollector) requests(m metricSink) {
	if s := c.n.servers.CQL(); s != nil {
		l := s.Load()
		m.gauge("client_connections", "CQL connections.", int64(l.Connections))
		m.gauge("client_requests_active", "Requests being executed.", int64(l.Active))
		m.gauge("client_requests_queued", "Requests waiting to be executed.", int64(l.Queued))
		m.gauge("client_bytes", "Bytes of requests in memory and of replies not sent yet.", l.Bytes)
		m.counter("client_requests", "Requests executed.", l.Completed)
		m.counter("client_requests_refused", "Requests refused because too many waited.", l.Refused)
		m.counter("client_requests_killed", "Requests that an operator has ended.", s.Killed())
		for code, count := range s.Errors() {
			m.send(prometheus.CounterValue, "client_errors_total",
				"Errors that CQL clients were answered, by the protocol's code.", float64(count),
				[]string{"code"}, []string{fmt.Sprintf("0x%04X", uint32(code))})
		}
	}
	s, l, p := c.n.commands.Activity.CoordinatorStats(), c.n.parts.Coordinator.Load(), c.n.parts.Proposer.Stats()
	h, b, listed := c.n.parts.Hints.Stats(), c.n.parts.Batches.Stats(), c.n.parts.Lister.Stats()
	found := c.n.parts.Searcher.Stats()
	m.gauge("coordinator_writes_active", "Writes that wait for replicas.", l.Writes)
	m.gauge("coordinator_reads_active", "Reads that wait for replicas.", l.Reads)
	for _, e := range []struct {
		event string
		count uint64
	}{{"write_timeout", s.WriteTimeouts}, {"read_timeout", s.ReadTimeouts}, {"unavailable", s.Unavailable},
		{"overloaded", s.Overloaded},
		{"digest_mismatch", s.DigestMismatches}, {"read_repair", s.ReadRepairs}, {"short_read", s.ShortReads},
		{"speculated", s.Speculated},
		{"replanned", s.Replans}, {"restamped", s.Restamped}, {"hint_stored", h.Stored}, {"hint_replayed", h.Replayed},
		{"hint_expired", h.Expired},
		{"hint_lost", h.Lost}, {"batch_stored", b.Stored}, {"batch_replayed", b.Replayed},
		{"listing_ordered", listed.Ordered}, {"listing_scan", listed.Scans}, {"listing_page", listed.Pages},
		{"listing_key", listed.Keys},
		{"listing_key_scanned", listed.Scanned}, {"search", found.Searches}, {"search_page", found.Pages},
		{"search_row", found.Rows}, {"search_settled", found.Settled},
		{"search_read", found.Reads}, {"search_stale", found.Stale}, {"search_scanned", found.Scanned},
		{"cas_contention", p.Contentions},
		{"cas_finished_of_another", p.Finished}, {"cas_round", p.Rounds}, {"cas_shared_round", p.Shared},
		{"cas_without_prepare", p.Unprepared}, {"cas_alone", p.Alone}, {"cas_turn", p.Turns},
		{"cas_looked_up", p.LookedUp}, {"cas_unknown", p.Unknown}, {"cas_missing_commit", p.CommitsSent},
		{"cas_read_again", p.Rereads}, {"cas_arbiter_failed", p.ArbitersFailed}} {
		m.send(prometheus.CounterValue, "coordinator_events_total",
			"What happened to requests that this node coordinated.", float64(e.count),
			[]string{"event"}, []string{e.event})
	}
	for stage := paxos.StageNone + 1; stage < paxos.Stages; stage++ {
		m.send(prometheus.CounterValue, "coordinator_cas_stage_seconds_total",
			"Time that rounds of conditional changes spent in each stage.",
			p.Times[stage].Seconds(), []string{"stage"}, []string{stage.String()})
	}
	for cause := paxos.CauseNone + 1; cause < paxos.Causes; cause++ {
		m.send(prometheus.CounterValue, "coordinator_cas_failures_total",
			"Conditional changes and serial reads that failed, by cause.",
			float64(p.Failures[cause]), []string{"cause"}, []string{cause.String()})
	}
}

// coordinatorRequests collects the requests that an Executor sent to the coordinator.
func (c figuresCollector) coordinatorRequests(m metricSink, protocol string, e *request.Executor) {
	f := e.Stats()
	for k := range request.Kinds {
		labels, values := []string{"protocol", "kind"}, []string{protocol, k.String()}
		t := &f.Kinds[k]
		m.send(prometheus.CounterValue, "coordinator_requests_total", "Requests that this node coordinated.",
			float64(t.Count.Load()), labels, values)
		m.scaled("coordinator_request_seconds", "Duration of requests. One in eight reads and writes is measured, "+
			"and counts for eight.",
			t, labels, values)
	}
	for _, r := range []struct {
		result string
		count  int64
	}{{"applied", f.Applied.Load()}, {"not_applied", f.NotApplied.Load()}, {"failed", f.Failed.Load()}} {
		m.send(prometheus.CounterValue, "coordinator_cas_total", "Conditional changes by what became of them.",
			float64(r.count),
			[]string{"protocol", "result"}, []string{protocol, r.result})
	}
}

// answered collects the requests of clients of the Tables server.
func (c figuresCollector) answered(m metricSink) {
	for o := range tablesOperations {
		f := &c.n.answered.operations[o]
		for digit := range f.statuses {
			if n := f.statuses[digit].Load(); n > 0 {
				m.send(prometheus.CounterValue, "tables_requests_total", "Requests that the Tables server answered.",
					float64(n),
					[]string{"operation", "status"}, []string{o.String(), fmt.Sprintf("%dxx", digit)})
			}
		}
		m.histogram("tables_request_seconds", "Duration of Azure Tables requests.", &f.latency, []string{"operation"},
			[]string{o.String()})
	}
}

func (c figuresCollector) storage(m metricSink) {
	s := c.n.engine.Metrics()
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
	full := int64(0)
	if s.DiskFull {
		full = 1
	}
	m.gauge("storage_disk_full", "1 while writes are refused for lack of space.", full)
	if p := s.Pebble; p != nil {
		m.gauge("storage_bytes", "Bytes on disk.", int64(p.DiskSpaceUsage()))
		m.gauge("storage_memtable_bytes", "Bytes of memtables.", int64(p.MemTable.Size))
		m.gauge("storage_compaction_debt_bytes", "Estimated bytes to be compacted.", int64(p.Compact.EstimatedDebt))
		m.counter("storage_compactions", "Compactions.", p.Compact.Count)
		m.counter("storage_flushes", "Flushes of memtables.", p.Flush.Count)
		m.counter("storage_cache_hits", "Blocks found in the cache.", p.BlockCache.Hits)
		m.counter("storage_cache_misses", "Blocks read from disk.", p.BlockCache.Misses)
	}
}

// vectors collects the graphs of indexes of vectors.
func (c figuresCollector) vectors(m metricSink) {
	s := c.n.instance.Values.GraphStats()
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

func (c figuresCollector) tables(m metricSink) {
	s := c.n.cluster.Metadata().Schema
	for id, f := range c.n.measured.Statistics() {
		t := s.TableByStorage(id)
		if t == nil {
			continue
		}
		labels, values := []string{"keyspace", "table"}, []string{t.Keyspace, t.Name}
		m.send(prometheus.CounterValue, "table_reads_total", "Reads of a table on this replica.",
			float64(f.Read.Count()+f.Scan.Count()), labels, values)
		m.send(prometheus.CounterValue, "table_writes_total", "Mutations of a table on this replica.",
			float64(f.Write.Count()), labels, values)
	}
}
