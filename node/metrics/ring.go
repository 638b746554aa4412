package metrics

import (
	"maps"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/jobs"
	"cqld/tlsconfig"
)

// ring collects the state of the cluster from the view of this node, and its storage and streams. One version of the
// metadata serves all figures, so that they fit together. The view may be wrong: an isolated node shows itself as the
// only live member, so alerts should compare several nodes.
func (c *Collector) ring(m sink) {
	meta, up := c.o.Instance.Cluster.Metadata(), 0
	// This node counts itself as alive.
	for _, node := range meta.Topology.Nodes() {
		if c.o.Instance.Cluster.Alive(node.ID) {
			up++
		}
	}
	m.gauge("ring_members", "Nodes of the ring.", int64(len(meta.Topology.Nodes())))
	m.gauge("ring_members_up", "Nodes that this node considers alive.", int64(up))
	m.gauge("metadata_epoch", "Version of the metadata that this node has applied.", int64(meta.Epoch))
	m.gauge("metadata_cluster_version", "Version of the formats and features that the cluster uses.",
		int64(meta.ClusterVersion))
	m.gauge("metadata_cluster_version_supported", "Newest cluster version that all nodes support: greater than the "+
		"present one while an upgrade can be finalized.", int64(meta.NextVersion()))
	// Zeros do not raise the alert, as they mean that the voters are unknown. Down lists the voters that this node
	// considers dead, so the difference is the number of live voters.
	voters, alive, required, missing := 0, 0, 0, int64(0) // until this node knows the voters
	if v := c.o.Instance.Cluster.Voters(); v != nil {
		voters, alive, required = len(v.IDs), len(v.IDs)-len(v.Down), v.Required
		if !v.Majority() {
			missing = 1
		}
	}
	m.gauge("metadata_voters", "Nodes that vote on the metadata.", int64(voters))
	m.gauge("metadata_voters_up", "Voters that this node considers alive.", int64(alive))
	m.gauge("metadata_voters_required", "Voters that a change of the metadata needs.", int64(required))
	m.gauge("metadata_majority_missing", "1 if too few voters are alive: no change of schema, roles or members "+
		"is possible.", missing)
	hints := 0
	for _, node := range meta.Topology.Nodes() {
		// Records are counted, not bytes.
		hints += c.o.Instance.Hints.Pending(node.ID)
	}
	m.counter("internode_refused", "Internode handshakes and messages refused because the sender is not a member or "+
		"they are malformed.",
		int64(c.o.Transport.Refused()+c.o.Instance.Cluster.Refused()))
	dropped := c.o.Instance.Drops.Stats()
	m.counter("ring_ranges_dropped", "Ranges of tables whose data was dropped because this node no longer holds them.",
		dropped.Ranges)
	m.counter("ring_dropped_bytes", "Estimated bytes on disk of the dropped ranges.", dropped.Bytes)
	m.gauge("hint_pending", "Records of hints for other nodes.", int64(hints))
	ahead, refuses := c.o.Instance.Cluster.ClockOffset()
	// A positive offset means that this node's clock is ahead.
	m.send(prometheus.GaugeValue, "node_clock_offset_seconds",
		"How far this node's clock is before those of most others.",
		ahead.Seconds(), nil, nil)
	serving := int64(0)
	// Either reason means that clients are refused.
	if c.o.Servers.Accepting() && !refuses {
		serving = 1
	}
	m.gauge("client_serving", "Whether CQL clients are served: 0 also while the clock differs too much.", serving)
	// A file system of a test may have no size.
	if u, err := c.o.Config.FS.GetDiskUsage(c.o.Config.DataDir); err == nil {
		m.gauge("node_disk_free_bytes", "Free space of the data directory's file system.", int64(u.AvailBytes))
		m.gauge("node_disk_size_bytes", "Size of the data directory's file system.", int64(u.TotalBytes))
	}
	encrypts := int64(0)
	if c.o.Config.AtRest.Used() && !c.o.Config.AtRest.Decrypt {
		encrypts = 1
	}
	m.gauge("node_encrypts_files", "Whether the node encrypts new files.", encrypts)
	// The figures are missing on a node without streams or repairs.
	if c.o.Instance.Streams != nil {
		streams := c.o.Instance.Streams.Stats()
		m.gauge("stream_active", "Ranges being streamed to this node.", int64(streams.Sessions))
		m.counter("stream_sent_bytes", "Bytes of ranges sent to other nodes.", streams.SentBytes)
	}
	c.repairs(m)
	if c.o.Instance.AutoRepair != nil {
		m.gauge("repair_tables_waiting", "Tables for which hints were lost and that are not repaired yet.",
			int64(len(c.o.Instance.AutoRepair.DirtyTables())))
	}
}

// repairs collects the repairs that this node leads. Repairs of operators and repairs in the background are counted
// together. Followers count nothing, so the sum over all nodes counts each repair once.
func (c *Collector) repairs(m sink) {
	s := c.o.Instance.Repairer.Stats()
	m.gauge("repair_active", "Repairs in progress, each of a range of a table.", s.Running)
	for _, e := range []struct {
		result string
		count  int64
		// Results have series from the start.
	}{{"completed", s.Completed}, {"failed", s.Failed}, {"cancelled", s.Cancelled}} {
		m.send(prometheus.CounterValue, "repair_ended_total", "Repairs that have ended, each of a range of a table.",
			float64(e.count),
			[]string{"result"}, []string{e.result})
	}
	m.counter("repair_restricted", "Completed repairs of only some replicas; repair_ended_total has them, too.",
		s.Restricted)
	m.counter("repair_ranges", "Ranges with one replica set each that repairs compared.", s.Ranges)
	m.counter("repair_rows_sent", "Rows that repairs sent to replicas that lacked them.", s.Rows)
	m.counter("repair_scanned_bytes", "Bytes that replicas scanned for repairs.", s.Bytes)
}

// archive collects what was archived of the node's log. Without backup_log, there are no series.
func (c *Collector) archive(m sink) {
	s, kept, ok := c.o.Commands.Backups.Archived()
	if !ok {
		return
	}
	// The delay is of this node's clock: a store that does not answer makes it grow by a second each second, and alerts
	// need no other metric. Until the first round succeeds, the delay grows from the start of the process on.
	delay := time.Duration(c.o.Clock.Now().UnixMicro()-max(s.Until, s.Began)) * time.Microsecond
	m.send(prometheus.GaugeValue, "backup_log_delay_seconds",
		"Age of the moment until which the log of this node is archived.", max(delay, 0).Seconds(), nil, nil)
	// Near its bound, a gap is near, too.
	m.gauge("backup_log_kept_bytes", "Bytes of the log that are kept on disk until they are archived.", kept)
	m.counter("backup_log_bytes", "Bytes of the log that were archived, before compression.", s.Bytes)
	m.counter("backup_log_segments", "Segments of the log that were archived.", s.Segments)
	m.counter("backup_log_failures", "Attempts to archive the log that failed; they are repeated.", s.Failures)
	m.counter("backup_log_gaps", "Parts of the log that were deleted before they were archived.", s.Gaps)
}

// jobs collects the jobs that operators see: repairs, rebuilds, cleanups, compactions and ring operations. Every kind
// and state has a series, so that an alert can compare with 0. Two series describe each job that has not ended, so
// their number is bounded by the registry's bound on jobs. kind and state come from package jobs. The id of a job is a
// label, which is acceptable for a bounded number of series that end with their jobs.
func (c *Collector) jobs(m sink) {
	ended, active := map[jobs.Outcome]int64{}, map[[2]string]int{}
	maps.Copy(ended, c.o.Commands.Jobs.Ended())
	// An ended state is counted, and an active one measured.
	for _, kind := range jobs.Kinds() {
		for state := jobs.Queued; state <= jobs.Interrupted; state++ {
			if !state.Ended() {
				active[[2]string{string(kind), state.String()}] = 0
			} else {
				ended[jobs.Outcome{Kind: kind, State: state}] += 0
			}
		}
	}
	for outcome, count := range ended {
		m.send(prometheus.CounterValue, "job_ended_total", "Attempts of jobs that have ended.", float64(count),
			[]string{"kind", "state"}, []string{string(outcome.Kind), outcome.State.String()})
	}
	// Series of a job disappear when it has ended.
	labels := []string{"id", "kind", "unit"}
	// Jobs of earlier processes count: the registry keeps them.
	var backedUp time.Time
	// All measures ring operations before it returns them.
	for _, s := range c.o.Commands.Jobs.All() {
		if s.Kind == jobs.Backup && s.State == jobs.Done && s.Ended.After(backedUp) {
			backedUp = s.Ended
		}
		if s.State.Ended() {
			continue
		}
		active[[2]string{string(s.Kind), s.State.String()}]++
		values := []string{s.ID, string(s.Kind), string(s.Unit)}
		m.send(prometheus.GaugeValue, "job_progress", "How much of a running or queued job is done, in its unit.",
			float64(s.Done), labels, values)
		m.send(prometheus.GaugeValue, "job_extent", "The extent of a running or queued job, in its unit; 0 while it "+
			"is unknown.", float64(s.Total), labels, values)
	}
	// Without a backup, there is no series: an alert on its absence is for the whole cluster.
	if !backedUp.IsZero() {
		m.send(prometheus.GaugeValue, "job_backup_completed_timestamp_seconds",
			"When the last backup that this node has led was completed.", float64(backedUp.Unix()), nil, nil)
	}
	// Only the node that executes the schedules has series.
	for _, s := range c.o.Commands.Backups.Scheduler.Overview() {
		labels, values := []string{"schedule"}, []string{s.Name}
		m.send(prometheus.GaugeValue, "job_backup_schedule_age_seconds",
			"Age of the last good backup of a schedule, or of the schedule, on the node that executes schedules.",
			c.o.Clock.Now().Sub(s.Last).Seconds(), labels, values)
		m.send(prometheus.GaugeValue, "job_backup_schedule_interval_seconds",
			"Interval of a schedule of backups, on the node that executes schedules.", s.Every.Seconds(), labels,
			values)
	}
	for key, count := range active {
		m.send(prometheus.GaugeValue, "job_active", "Jobs that are queued or running.", float64(count),
			[]string{"kind", "state"}, key[:])
	}
}

// builds collects the builds of indexes. A node builds its own indexes; others may be built elsewhere. Views are built
// like indexes and counted with them. index_unbuilt is of this node; an index answers queries when no node that is
// needed has it in its list.
func (c *Collector) builds(m sink) {
	s := c.o.Instance.Builder.Stats()
	m.gauge("index_unbuilt", "Indexes, also of materialized views, that this node has not built yet.",
		int64(len(c.o.Commands.Peers.OwnUnbuilt())))
	m.counter("index_built", "Builds of indexes that are complete.", s.Built)
	m.counter("index_build_rows", "Rows that builds of indexes have read.", s.Rows)
	m.counter("index_build_bytes", "Bytes of rows that builds of indexes have read.", s.Bytes)
}

// internode collects the connections with other nodes. The direction is from if the other node has opened the
// connection. Reasons of TLS failures are tlsconfig's; further reasons of the transport's maps appear when they occur.
func (c *Collector) internode(m sink) {
	n := c.o.Transport.Connections()
	for _, e := range []struct {
		direction, encrypted string
		count                int
	}{{"from", "true", n.FromEncrypted}, {"from", "false", n.FromPlain}, {"to", "true", n.ToEncrypted},
		{"to", "false", n.ToPlain}} {
		m.send(prometheus.GaugeValue, "internode_connections",
			"Connections with other nodes, by the direction in which they were opened.", float64(e.count),
			[]string{"direction", "encrypted"}, []string{e.direction, e.encrypted})
	}
	const help = "Connections with other nodes that failed because of TLS, or the lack of it, by the direction and " +
		"the reason."
	// Refusals are of connections to this node, failures of connections that it opened.
	for direction, counted := range map[string]map[string]uint64{"from": c.o.Transport.Refusals(),
		"to": c.o.Transport.Failures()} {
		// A copy, because the transport's map must not get further keys.
		reasons := map[string]uint64{}
		maps.Copy(reasons, counted)
		// Known reasons have series from the start, in both directions.
		for _, reason := range tlsconfig.Reasons() {
			reasons[string(reason)] += 0
		}
		for reason, count := range reasons {
			m.send(prometheus.CounterValue, "internode_handshake_failures_total", help, float64(count),
				[]string{"direction", "reason"}, []string{direction, reason})
		}
	}
}
