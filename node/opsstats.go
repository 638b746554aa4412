package node

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"
	"time"

	"cqld/internal/histogram"
	"cqld/internal/wire"
	"cqld/node/control"
	"cqld/node/tablestats"
	"cqld/schema"
)

// tablesOf returns the tables that an operator names and that this node stores; it excludes virtual tables.
func (n *Node) tablesOf(a control.TablesArgs) ([]*schema.Table, error) {
	s := n.cluster.Metadata().Schema
	if a.Keyspace == "" {
		var all []*schema.Table
		for _, id := range s.StorageIDs() {
			if t := s.TableByStorage(id); !t.Virtual {
				all = append(all, t)
			}
		}
		slices.SortFunc(all, func(a, b *schema.Table) int {
			return cmp.Or(strings.Compare(a.Keyspace, b.Keyspace), strings.Compare(a.Name, b.Name))
		})
		return all, nil
	}
	k := s.Keyspace(a.Keyspace)
	if k == nil {
		return nil, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("Keyspace [%s] does not exist.", a.Keyspace)}
	}
	names := a.Tables
	if len(names) == 0 {
		names = k.TableNames()
	}
	var out []*schema.Table
	for _, name := range names {
		t := k.Table(name)
		if t == nil {
			return nil, noTable(a.Keyspace, name)
		}
		if !t.Virtual {
			out = append(out, t)
		} else if len(a.Tables) > 0 {
			return nil, &control.Error{Code: control.Invalid,
				Message: fmt.Sprintf("%s.%s is a virtual table: it has no data", a.Keyspace, name)}
		}
	}
	return out, nil
}

func (n *Node) opTableStats(_ context.Context, a control.TablesArgs, _ control.Report) (control.TableStats, error) {
	tables, err := n.tablesOf(a)
	if err != nil {
		return control.TableStats{}, err
	}
	out := control.TableStats{Tables: []control.TableStat{}}
	if p := n.engine.Metrics().Pebble; p != nil {
		out.MemTableSize, out.Flushes = int64(p.MemTable.Size), p.Flush.Count
	}
	for _, t := range tables {
		size, err := n.engine.TableSize(t.StorageID)
		if err != nil {
			return out, err
		}
		f := n.measured.Of(t.StorageID)
		partitions := n.estimates.Of(t)
		out.Tables = append(out.Tables, control.TableStat{Keyspace: t.Keyspace, Table: t.Name, Bytes: size.Bytes,
			Files:  size.Files,
			Levels: size.Levels, MaxBytes: size.MaxBytes, Partitions: partitions.All(),
			MeanPartition: partitions.MeanBytes, Reads: f.Read.Count() + f.Scan.Count(), Writes: f.Write.Count(),
			ReadLatency: cmp.Or(f.Read.Latency().Mean(), f.Scan.Latency().Mean())})
	}
	return out, nil
}

// oneTable returns the table of an operation.
func (n *Node) oneTable(a control.TableArgs) (*schema.Table, error) {
	tables, err := n.tablesOf(control.TablesArgs{Keyspace: a.Keyspace, Tables: []string{a.Table}})
	if err != nil {
		return nil, err
	}
	return tables[0], nil
}

func (n *Node) opHistograms(_ context.Context, a control.TableArgs, _ control.Report) (control.TableHistograms, error) {
	t, err := n.oneTable(a)
	if err != nil {
		return control.TableHistograms{}, err
	}
	return control.TableHistograms{TableArgs: a, Read: percentiles(n.measured.Of(t.StorageID).Read.Latency())}, nil
}

// sampleMax bounds how long toppartitions samples.
const sampleMax = 10 * time.Minute

func (n *Node) opTopPartitions(ctx context.Context, a control.TopArgs, report control.Report) (control.Top, error) {
	out := control.Top{TableArgs: a.TableArgs}
	t, err := n.oneTable(a.TableArgs)
	if err != nil {
		return out, err
	}
	if a.Duration <= 0 || a.Duration > sampleMax {
		return out, &control.Error{Code: control.Invalid,
			Message: fmt.Sprintf("the time must be more than 0 and at most %s", sampleMax)}
	}
	sample := n.measured.StartSample(t.StorageID)
	if sample == nil {
		return out, &control.Error{Code: control.Refused,
			Message: "another toppartitions is in progress: try again later"}
	}
	err = wait(ctx, a.Duration, report)
	n.measured.StopSample()
	if err != nil {
		return out, err
	}
	count := cmp.Or(a.Count, 10)
	out.Reads, out.Writes = topOf(t, &sample.Reads, count), topOf(t, &sample.Writes, count)
	return out, nil
}

// wait waits, and reports the time elapsed.
func wait(ctx context.Context, d time.Duration, report control.Report) error {
	every := time.NewTicker(max(d/100, 10*time.Millisecond))
	defer every.Stop()
	begin := time.Now()
	for {
		passed := time.Since(begin)
		if passed >= d {
			return nil
		}
		report(control.Progress{What: "sampling (ms)", Done: passed.Milliseconds(), Total: d.Milliseconds()})
		select {
		case <-ctx.Done():
			return ctx.Err()
		case <-every.C:
		}
	}
}

func topOf(t *schema.Table, keys *tablestats.TopKeys, count int) []control.TopPartition {
	out := []control.TopPartition{}
	for _, k := range keys.Top(count) {
		out = append(out, control.TopPartition{Key: keyText(t, []byte(k.Key)), Count: k.Count, Error: k.Error})
	}
	return out
}

// keyText returns a partition key in the format that parseKey reads.
func keyText(t *schema.Table, key []byte) string {
	if len(t.PartitionKey) == 1 {
		return string(t.PartitionKey[0].Type.AppendText(nil, key))
	}
	var parts []string
	c := wire.NewCursor(key)
	for _, column := range t.PartitionKey {
		v := c.Take(int(c.Uint16()))
		c.Skip(1)
		text := string(column.Type.AppendText(nil, v))
		parts = append(parts, strings.NewReplacer(`\`, `\\`, ":", `\:`).Replace(text))
	}
	if c.Err() != nil {
		return fmt.Sprintf("0x%x", key)
	}
	return strings.Join(parts, ":")
}

func (n *Node) opPools(context.Context, control.None, control.Report) (control.Pools, error) {
	var out control.Pools
	if s := n.servers.CQL(); s != nil {
		l := s.Load()
		out.Pools = append(out.Pools,
			control.Pool{Name: "Native-Transport-Requests", Active: int64(l.Active), ActiveMax: int64(l.ActiveMax),
				Pending:   int64(l.Queued),
				Completed: l.Completed, Refused: l.Refused},
			control.Pool{Name: "Native-Transport-Connections", Active: int64(l.Connections),
				ActiveMax: int64(l.ConnectionsMax)},
			control.Pool{Name: "Native-Transport-Bytes", Active: l.Bytes, ActiveMax: l.BytesMax})
	}
	f, stats, m := n.coordinator.Load(), n.coordinatorStats(), n.engine.Metrics()
	stored, hinted := n.parts.Hints.Load(), n.parts.Hints.Stats()
	out.Pools = append(out.Pools,
		control.Pool{Name: "CoordinatorWrites", Active: f.Writes, ActiveMax: f.WritesMax},
		control.Pool{Name: "CoordinatorWriteBytes", Active: f.WriteBytes, ActiveMax: f.WriteBytesMax},
		control.Pool{Name: "CoordinatorReads", Active: f.Reads, ActiveMax: f.ReadsMax},
		control.Pool{Name: "ReadStage", Completed: m.Reads},
		control.Pool{Name: "MutationStage", Completed: m.Writes, Refused: m.Refused},
		control.Pool{Name: "CommitLogSync", Completed: m.Syncs},
		control.Pool{Name: "HintBytes", Active: stored.Bytes, ActiveMax: stored.BytesMax})
	if p := m.Pebble; p != nil {
		out.Pools = append(out.Pools,
			control.Pool{Name: "CompactionExecutor", Active: p.Compact.NumInProgress, Completed: p.Compact.Count},
			control.Pool{Name: "MemtableFlushWriter", Active: p.Flush.NumInProgress, Completed: p.Flush.Count})
	}
	for _, d := range []struct {
		kind  string
		count uint64
	}{{"WRITE_TIMEOUT", stats.WriteTimeouts}, {"READ_TIMEOUT", stats.ReadTimeouts}, {"UNAVAILABLE", stats.Unavailable},
		{"OVERLOADED", stats.Overloaded}, {"REPLANNED", stats.Replans}, {"SPECULATED", stats.Speculated},
		{"SHORT_READ", stats.ShortReads}, {"HINT_LOST", hinted.Lost}, {"HINT_EXPIRED", hinted.Expired}} {
		out.Dropped = append(out.Dropped, control.Dropped{Kind: d.kind, Count: int64(d.count)})
	}
	return out, nil
}

func (n *Node) opCompactions(context.Context, control.None, control.Report) (control.Compactions, error) {
	m := n.engine.Metrics()
	p := m.Pebble
	if p == nil {
		return control.Compactions{}, &control.Error{Code: control.Failed, Message: "the storage engine has failed"}
	}
	out := control.Compactions{InProgress: p.Compact.NumInProgress, InProgressBytes: p.Compact.InProgressBytes,
		Debt: int64(p.Compact.EstimatedDebt), Completed: p.Compact.Count, Cancelled: p.Compact.CancelledCount,
		Failed:  p.Compact.FailedCount,
		Flushes: p.Flush.Count, Stalls: m.Stalls, Pauses: m.Pauses, SlowSyncs: m.SlowSyncs,
		LongestPauseMillis: m.LongestPause.Milliseconds(), LongestSyncMillis: m.LongestSync.Milliseconds(),
		MemTables: p.MemTable.Count, MemTableBytes: int64(p.MemTable.Size),
		LogBytes: int64(p.WAL.Size), Swept: m.Swept, Purged: m.Purged, Builds: n.runningBuilds()}
	for i, l := range p.Levels {
		out.BytesCompacted += int64(l.TableBytesCompacted)
		out.Levels = append(out.Levels, control.Level{Level: i, Files: l.TablesCount, Bytes: int64(l.TablesSize),
			Score:     l.Score,
			Sublevels: int(l.Sublevels)})
	}
	return out, nil
}

func (n *Node) opNet(context.Context, control.None, control.Report) (control.Net, error) {
	s, h, f := n.coordinator.Stats(), n.parts.Hints.Stats(), n.parts.Hints.Load()
	return control.Net{Mode: n.mode(), Streams: n.netStreams(),
		ReadRepair: control.ReadRepairs{Mismatches: int64(s.DigestMismatches), Repairs: int64(s.ReadRepairs)},
		Hints: control.HintCounts{Stored: int64(h.Stored), Replayed: int64(h.Replayed), Expired: int64(h.Expired),
			Lost: int64(h.Lost)},
		Peers: n.pendingHints(), HintBytes: f.Bytes, HintBytesMax: f.BytesMax}, nil
}

// pendingHints returns the hints that are stored for other members.
func (n *Node) pendingHints() []control.PeerHints {
	out := []control.PeerHints{}
	for _, m := range n.cluster.Metadata().Topology.Nodes() {
		if m.ID != n.cluster.Self() {
			out = append(out, control.PeerHints{Member: n.member(m), Records: n.parts.Hints.Pending(m.ID)})
		}
	}
	return out
}

func (n *Node) opPendingHints(context.Context, control.None, control.Report) (control.PendingHints, error) {
	return control.PendingHints{Peers: n.pendingHints()}, nil
}

func (n *Node) opClients(context.Context, control.None, control.Report) (control.Clients, error) {
	out := control.Clients{Clients: []control.Connection{}}
	s := n.servers.CQL()
	if s == nil {
		return out, nil
	}
	for _, c := range s.Clients() {
		out.Clients = append(out.Clients, control.Connection{Address: c.Address.String(), Stage: c.Stage,
			User:     cmp.Or(c.User, "anonymous"),
			Keyspace: c.Keyspace, Version: c.ProtocolVersion,
			Driver:   strings.TrimSpace(c.DriverName + " " + c.DriverVersion),
			Requests: c.Requests, TLS: c.TLS})
	}
	slices.SortFunc(out.Clients, func(a, b control.Connection) int { return strings.Compare(a.Address, b.Address) })
	return out, nil
}

// percentiles summarizes a histogram for an operator.
func percentiles(h *histogram.Histogram) control.Percentiles {
	p := h.Percentiles()
	return control.Percentiles{Count: p.Count, P50: p.P50, P75: p.P75, P95: p.P95, P98: p.P98, P99: p.P99, Min: p.Min,
		Max: p.Max}
}
