package ctl

import (
	"fmt"
	"io"
	"math"
	"slices"
	"strings"
	"time"

	"cqld/node/control"
)

// tableStatsCommand takes keyspaces and tables in one list, as nodetool does.
type tableStatsCommand struct {
	Names []string `arg:"" optional:"" help:"KEYSPACE or KEYSPACE.TABLE; default: all tables."`
}

// Run prints the statistics of tables. For an unknown name, the node returns an error, and nothing is printed.
func (c *tableStatsCommand) Run(s *session) error {
	if len(c.Names) == 0 {
		return ask(s, control.StatsOfTables, control.TablesArgs{}, showTableStats)
	}
	// One request for each name; the results are printed together.
	var all control.TableStats
	for _, name := range c.Names {
		// A name without a dot is a keyspace.
		keyspace, table, _ := strings.Cut(name, ".")
		a := control.TablesArgs{Keyspace: keyspace}
		if table != "" {
			a.Tables = []string{table}
		}
		got, err := fetch(s, control.StatsOfTables, a)
		if err != nil {
			return err
		}
		// These two describe the whole node, so the last response counts.
		all.MemTableSize, all.Flushes = got.MemTableSize, got.Flushes
		all.Tables = append(all.Tables, got.Tables...)
		all.Dropped = append(all.Dropped, got.Dropped...)
	}
	return show(s, all, showTableStats)
}

// showTableStats prints the tables by keyspace, like nodetool tablestats.
func showTableStats(w io.Writer, st control.TableStats) error {
	p := &printer{w: w}
	p.line("Total number of tables: %d\n----------------", len(st.Tables))
	names, by := groups(st.Tables, func(t control.TableStat) string { return t.Keyspace })
	for _, ks := range names {
		// Sums of the printed tables, which may not be all of the keyspace.
		var reads, writes int64
		for _, t := range by[ks] {
			reads, writes = reads+t.Reads, writes+t.Writes
		}
		p.line("Keyspace: %s\n\tRead Count: %d\n\tWrite Count: %d", ks, reads, writes)
		for _, t := range by[ks] {
			showTable(p, t)
		}
		p.line("----------------")
	}
	showDropped(p, st.Dropped)
	// Tables share memtables, so there are no figures per table.
	p.line("Memtables of all tables: %s, flushed %d times", size(st.MemTableSize), st.Flushes)
	return p.err
}

// showDropped prints the space that dropped tables use, and when they expire. It prints nothing if there are none.
func showDropped(p *printer, tables []control.DroppedStat) {
	if len(tables) == 0 {
		return
	}
	// The sum is the space that purging all of them would free on this node.
	var bytes int64
	for _, t := range tables {
		bytes += t.Bytes
	}
	p.line("Dropped tables that can be restored: %d, with %s\n----------------", len(tables), size(bytes))
	for _, t := range tables {
		if t.KeyspaceID != 0 {
			p.line("Keyspace: %s (dropped, id %d)", t.Keyspace, t.KeyspaceID)
		} else {
			p.line("Keyspace: %s", t.Keyspace)
		}
		p.line("\t\tTable: %s (id %s)\n\t\tSpace used (live): %d", t.Table, t.ID, t.Bytes)
		p.line("\t\tDropped: %s\n\t\tExpires: %s", t.Dropped.UTC().Format(time.RFC3339),
			t.Until.UTC().Format(time.RFC3339))
	}
	p.line("----------------")
}

// showTable prints a table's fields under nodetool's names.
func showTable(p *printer, t control.TableStat) {
	field := func(name, format string, args ...any) { p.line("\t\t%s: %s", name, fmt.Sprintf(format, args...)) }
	field("Table", "%s", t.Table)
	field("SSTable count", "%d", t.Files)
	// The index of a number is the level.
	var levels []string
	for _, n := range t.Levels {
		levels = append(levels, fmt.Sprint(n))
	}
	field("SSTables in each level", "[%s]", strings.Join(levels, ", "))
	field("Max SSTable size", "%s", size(t.MaxBytes))
	field("Space used (live)", "%d", t.Bytes)
	field("Number of partitions (estimate)", "%d", t.Partitions)
	field("Compacted partition mean bytes", "%d", t.MeanPartition)
	field("Local read count", "%d", t.Reads)
	field("Local read latency", "%s ms", milliseconds(t.ReadLatency))
	field("Local write count", "%d", t.Writes)
	p.line("")
}

// milliseconds formats a duration like tablestats: NaN without a measurement.
func milliseconds(d time.Duration) string {
	if d == 0 {
		return "NaN"
	}
	return fmt.Sprintf("%.3f", float64(d)/1e6)
}

// tableHistogramsCommand names one table. Only reads have a histogram.
type tableHistogramsCommand struct {
	Keyspace string `arg:"" help:"The keyspace."`
	Table    string `arg:"" help:"The table."`
}

// Run prints a table's latency histograms.
func (c *tableHistogramsCommand) Run(s *session) error {
	return ask(s, control.HistogramsOf, control.TableArgs{Keyspace: c.Keyspace, Table: c.Table}, showHistograms)
}

// showHistograms prints percentiles of reads in microseconds.
func showHistograms(w io.Writer, h control.TableHistograms) error {
	p := &printer{w: w}
	p.line("%s/%s histograms", h.Keyspace, h.Table)
	t := newTable("Percentile", "Read Latency (micros)").alignRight(1)
	for _, r := range []struct {
		name string
		d    time.Duration
	}{{"50%", h.Read.P50}, {"75%", h.Read.P75}, {"95%", h.Read.P95}, {"98%", h.Read.P98}, {"99%", h.Read.P99},
		{"Min", h.Read.Min}, {"Max", h.Read.Max}} {
		t.row(r.name, fmt.Sprintf("%.2f", float64(r.d)/1e3))
	}
	p.table(t)
	// Percentiles are computed from the sample.
	p.line("%d reads sampled (one of eight)", h.Read.Count)
	return p.err
}

// topPartitionsCommand samples for a duration that the node limits.
type topPartitionsCommand struct {
	Keyspace string `arg:"" help:"The keyspace."`
	Table    string `arg:"" help:"The table."`
	Duration int64  `arg:"" help:"Sampling time in milliseconds."`
	Count    int    `short:"k" default:"10" help:"Number of partitions to show."`
}

// Run samples requests and prints the partitions with the most.
func (c *topPartitionsCommand) Run(s *session) error {
	// Clamped, because an overflow could yield a duration that the node accepts. The node refuses both clamped values.
	const longest = math.MaxInt64 / int64(time.Millisecond)
	duration := time.Duration(min(max(c.Duration, 0), longest)) * time.Millisecond
	return ask(s, control.TopPartitions, control.TopArgs{TableArgs: control.TableArgs{Keyspace: c.Keyspace,
		Table: c.Table},
		Duration: duration, Count: c.Count}, showTop)
}

// showTop prints the partitions with the most reads, and with the most writes. "+/-" bounds the error of a count.
func showTop(w io.Writer, top control.Top) error {
	p := &printer{w: w}
	for _, part := range []struct {
		what string
		all  []control.TopPartition
	}{{"reads", top.Reads}, {"writes", top.Writes}} {
		p.line("Frequency of %s by partition:", part.what)
		if len(part.all) == 0 {
			p.line("   Nothing recorded during sampling period...\n")
			continue
		}
		t := newTable("   Table", "Partition", "Count", "+/-").alignRight(2, 3)
		for _, k := range part.all {
			t.row("   "+top.Keyspace+"."+top.Table, k.Key, fmt.Sprint(k.Count), fmt.Sprint(k.Error))
		}
		p.table(t)
		p.line("")
	}
	return p.err
}

// poolStatsCommand prints the pools of one node.
type poolStatsCommand struct{}

// Run prints the active, queued and rejected requests per pool.
func (c *poolStatsCommand) Run(s *session) error {
	return ask(s, control.StatsOfPools, control.None{}, showPools)
}

// showPools prints the pools and the numbers of dropped messages. Completed and Refused are counted from the start of
// the node.
func showPools(w io.Writer, st control.Pools) error {
	p := &printer{w: w}
	t := newTable("Pool Name", "Active", "Limit", "Pending", "Completed", "Refused").alignRight(1, 2, 3, 4, 5)
	for _, pool := range st.Pools {
		// A pool without a limit only counts requests.
		limit := "-"
		if pool.ActiveMax > 0 {
			limit = fmt.Sprint(pool.ActiveMax)
		}
		t.row(pool.Name, fmt.Sprint(pool.Active), limit, fmt.Sprint(pool.Pending), fmt.Sprint(pool.Completed),
			fmt.Sprint(pool.Refused))
	}
	p.table(t)
	p.line("")
	// As in nodetool tpstats, the second table follows after an empty line.
	t = newTable("Message type", "Dropped").alignRight(1)
	for _, d := range st.Dropped {
		t.row(d.Kind, fmt.Sprint(d.Count))
	}
	p.table(t)
	return p.err
}

// compactionStatsCommand prints one node's storage statistics, for all tables together.
type compactionStatsCommand struct{}

// Run prints the statistics of compactions, flushes and levels.
func (c *compactionStatsCommand) Run(s *session) error {
	return ask(s, control.CompactionStats, control.None{}, showCompactions)
}

// showCompactions prints Pebble's state, index builds, and levels.
func showCompactions(w io.Writer, st control.Compactions) error {
	p := &printer{w: w}
	field := func(name, format string, args ...any) { p.line("%-24s %s", name, fmt.Sprintf(format, args...)) }
	field("compactions in progress", "%d (%s)", st.InProgress, size(st.InProgressBytes))
	field("pending (estimate)", "%s", size(st.Debt))
	field("compactions completed", "%d", st.Completed)
	field("data compacted", "%s", size(st.BytesCompacted))
	field("compactions cancelled", "%d", st.Cancelled)
	field("compactions failed", "%d", st.Failed)
	field("flushes", "%d", st.Flushes)
	field("write stalls", "%d", st.Stalls)
	field("write pauses", "%d (longest %d ms)", st.Pauses, st.LongestPauseMillis)
	field("slow syncs", "%d (longest %d ms)", st.SlowSyncs, st.LongestSyncMillis)
	field("memtables", "%d (%s)", st.MemTables, size(st.MemTableBytes))
	field("commit log", "%s", size(st.LogBytes))
	field("purger", "%d entries scanned, %d purged", st.Swept, st.Purged)
	p.line("")
	printBuilds(p, st.Builds)
	// Level 0 has sublevels, because its files overlap. A score of 1 or more makes the level a candidate for
	// compaction.
	t := newTable("Level", "SSTables", "Size", "Score", "Sublevels").alignRight(1, 3, 4)
	for _, l := range st.Levels {
		t.row(fmt.Sprintf("L%d", l.Level), fmt.Sprint(l.Files), size(l.Bytes), fmt.Sprintf("%.2f", l.Score),
			fmt.Sprint(l.Sublevels))
	}
	p.table(t)
	return p.err
}

// netStatsCommand prints what one node sends and receives.
type netStatsCommand struct{}

// Run prints the traffic between nodes.
func (c *netStatsCommand) Run(s *session) error {
	return ask(s, control.NetStats, control.None{}, showNet)
}

// showNet prints streams, read repairs and hints, in nodetool's words where they exist.
func showNet(w io.Writer, st control.Net) error {
	p := &printer{w: w}
	p.line("Mode: %s", st.Mode)
	printStreams(p, st.Streams)
	p.line("Read Repair Statistics:\nMismatch (Blocking): %d\nRepaired: %d", st.ReadRepair.Mismatches,
		st.ReadRepair.Repairs)
	// Lost hints require a repair, so they are shown with the others.
	h := st.Hints
	p.line("Hint Statistics:\nStored: %d\nReplayed: %d\nExpired: %d\nLost: %d\nKept: %s of %s", h.Stored, h.Replayed,
		h.Expired, h.Lost,
		size(st.HintBytes), size(st.HintBytesMax))
	p.table(hintTable(st.Peers))
	return p.err
}

// printStreams prints the streams of each peer, with their number and total size. The total of a stream is estimated
// from its size on disk at the start, and unknown if the data is only in memory.
func printStreams(p *printer, streams []control.Stream) {
	if len(streams) == 0 {
		p.line("Not sending any streams.")
	}
	// A session is all streams with one peer in one direction.
	type session struct {
		peer    string
		sending bool
	}
	sessions := map[session][]control.Stream{}
	var order []session
	for _, m := range streams {
		// Sessions keep the node's order, by first occurrence.
		s := session{m.Peer, m.Sending}
		if sessions[s] == nil {
			order = append(order, s)
		}
		sessions[s] = append(sessions[s], m)
	}
	for _, s := range order {
		sum := int64(0)
		for _, m := range sessions[s] {
			sum += m.Done
		}
		// The words are nodetool netstats'. The unit here is a range instead of a file.
		if s.sending {
			p.line("Sending to %s: %d ranges, %s sent", s.peer, len(sessions[s]), size(sum))
		} else {
			p.line("Receiving from %s: %d ranges, %s received", s.peer, len(sessions[s]), size(sum))
		}
		for _, m := range sessions[s] {
			// A total of 0 means unknown.
			progress := size(m.Done)
			if m.Total > 0 {
				progress += " of " + size(m.Total)
			}
			p.line("    %s: %s", m.What, progress)
		}
	}
}

// hintTable returns the table of hints by member.
func hintTable(peers []control.PeerHints) *table {
	t := newTable("Address", "Host ID", "Rack", "DC", "Status", "Hints").alignRight(5)
	for _, peer := range peers {
		t.row(host(peer.Address), peer.HostID, peer.Rack, peer.Datacenter, strings.ToUpper(upDown(peer.Up)),
			fmt.Sprint(peer.Records))
	}
	return t
}

// pendingHintsCommand prints the hints that one node stores for others.
type pendingHintsCommand struct{}

// Run prints the hints that are pending for other nodes.
func (c *pendingHintsCommand) Run(s *session) error {
	return ask(s, control.PendingHintsOf, control.None{}, func(w io.Writer, h control.PendingHints) error {
		// nodetool lists only nodes with hints; netstats shows all.
		h.Peers = slices.DeleteFunc(h.Peers, func(p control.PeerHints) bool { return p.Records == 0 })
		if len(h.Peers) == 0 {
			_, err := fmt.Fprintln(w, "This node does not have hints for other endpoints")
			return err
		}
		return hintTable(h.Peers).print(w)
	})
}

// clientStatsCommand prints the CQL connections of one node.
type clientStatsCommand struct{}

// Run prints the CQL connections.
func (c *clientStatsCommand) Run(s *session) error {
	return ask(s, control.ClientStats, control.None{}, showClients)
}

// showClients prints a line for each connection.
func showClients(w io.Writer, st control.Clients) error {
	p := &printer{w: w}
	t := newTable("Address", "SSL", "Version", "User", "Keyspace", "Requests", "Driver", "Stage").alignRight(5)
	for _, c := range st.Clients {
		t.row(c.Address, fmt.Sprint(c.TLS), fmt.Sprint(c.Version), c.User, c.Keyspace, fmt.Sprint(c.Requests),
			c.Driver, c.Stage)
	}
	p.table(t)
	p.line("\nTotal connected clients: %d", len(st.Clients))
	return p.err
}

// killQueryCommand takes the identifier shown in system_views.queries. nodetool has no such command.
type killQueryCommand struct {
	ID string `arg:"" help:"thread_id of the query in system_views.queries, or the number at its end."`
}

// Run ends a request of a CQL client.
func (c *killQueryCommand) Run(s *session) error {
	return ask(s, control.KillQuery, control.QueryArgs{ID: c.ID}, quiet)
}
