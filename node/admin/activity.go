package admin

import (
	"cmp"
	"context"
	"fmt"
	"slices"
	"strings"

	"cqld/coordinator"
	"cqld/node/assembly"
	"cqld/node/clients"
	"cqld/node/control"
)

// Activity shows what this node is doing: its pools, its storage, its streams and hints. It only reads: nothing here
// changes the node. All figures are of this node and since its start. They come from atomic counters, so a command
// costs the requests nothing.
type Activity struct {
	instance *assembly.Instance
	members  members // for the names of peers
	servers  *clients.Servers
	indexes  *Indexes // for the builds that compactions show
	status   *Status
}

// Pools shows active, waiting and refused requests by pool. The names are the names of nodetool tpstats where it has
// one. Pools without ActiveMax are counters. Active and Pending are current values, Completed and Refused only rise.
// Bytes count like requests in the pools whose name says so.
func (a *Activity) Pools(context.Context, control.None, control.Report) (control.Pools, error) {
	var out control.Pools
	// The server is nil while it is closed.
	if s := a.servers.CQL(); s != nil {
		// One snapshot, so that the figures fit together. Requests of Azure Tables have no pool here: HTTP connections
		// are bounded, and each executes one request at a time.
		l := s.Load()
		out.Pools = append(out.Pools,
			control.Pool{Name: "Native-Transport-Requests", Active: int64(l.Active), ActiveMax: int64(l.ActiveMax),
				Pending:   int64(l.Queued),
				Completed: l.Completed, Refused: l.Refused},
			control.Pool{Name: "Native-Transport-Connections", Active: int64(l.Connections),
				ActiveMax: int64(l.ConnectionsMax)},
			control.Pool{Name: "Native-Transport-Bytes", Active: l.Bytes, ActiveMax: l.BytesMax})
	}
	// Requests of both protocols are coordinated in the same pools.
	f, stats, m := a.instance.Coordinator.Load(), a.CoordinatorStats(), a.instance.Engine.Metrics()
	stored, hinted := a.instance.Hints.Load(), a.instance.Hints.Stats()
	out.Pools = append(out.Pools,
		control.Pool{Name: "CoordinatorWrites", Active: f.Writes, ActiveMax: f.WritesMax},
		control.Pool{Name: "CoordinatorWriteBytes", Active: f.WriteBytes, ActiveMax: f.WriteBytesMax},
		control.Pool{Name: "CoordinatorReads", Active: f.Reads, ActiveMax: f.ReadsMax},
		control.Pool{Name: "ReadStage", Completed: m.Reads},
		control.Pool{Name: "MutationStage", Completed: m.Writes, Refused: m.Refused},
		control.Pool{Name: "CommitLogSync", Completed: m.Syncs},
		control.Pool{Name: "HintBytes", Active: stored.Bytes, ActiveMax: stored.BytesMax})
	// Pebble is nil after the storage engine has failed.
	if p := m.Pebble; p != nil {
		out.Pools = append(out.Pools,
			control.Pool{Name: "CompactionExecutor", Active: p.Compact.NumInProgress, Completed: p.Compact.Count},
			control.Pool{Name: "MemtableFlushWriter", Active: p.Flush.NumInProgress, Completed: p.Flush.Count})
	}
	// The names are fixed, because nodetool shows them.
	for _, d := range []struct {
		kind  string
		count uint64
	}{{"WRITE_TIMEOUT", stats.WriteTimeouts}, {"READ_TIMEOUT", stats.ReadTimeouts}, {"UNAVAILABLE", stats.Unavailable},
		{"OVERLOADED", stats.Overloaded}, {"REPLANNED", stats.Replans}, {"SPECULATED", stats.Speculated},
		// The list is longer than Cassandra's: a replanned or speculated request was not dropped, but took longer.
		{"SHORT_READ", stats.ShortReads}, {"HINT_LOST", hinted.Lost}, {"HINT_EXPIRED", hinted.Expired}} {
		out.Dropped = append(out.Dropped, control.Dropped{Kind: d.kind, Count: int64(d.count)})
	}
	return out, nil
}

// Compactions shows the state of the storage engine, and the builds of indexes. An engine that has failed reports no
// metrics, and the error says so.
func (a *Activity) Compactions(context.Context, control.None, control.Report) (control.Compactions, error) {
	m := a.instance.Engine.Metrics()
	p := m.Pebble
	// A failed engine has no state to show.
	if p == nil {
		return control.Compactions{}, &control.Error{Code: control.Failed, Message: "the storage engine has failed"}
	}
	out := control.Compactions{InProgress: p.Compact.NumInProgress, InProgressBytes: p.Compact.InProgressBytes,
		Debt: int64(p.Compact.EstimatedDebt), Completed: p.Compact.Count, Cancelled: p.Compact.CancelledCount,
		Failed:  p.Compact.FailedCount,
		Flushes: p.Flush.Count, Stalls: m.Stalls, Pauses: m.Pauses, SlowSyncs: m.SlowSyncs,
		LongestPauseMillis: m.LongestPause.Milliseconds(), LongestSyncMillis: m.LongestSync.Milliseconds(),
		MemTables: p.MemTable.Count, MemTableBytes: int64(p.MemTable.Size),
		LogBytes: int64(p.WAL.Size), Swept: m.Swept, Purged: m.Purged, Builds: a.indexes.running()}
	// The levels are from 0; files of level 0 overlap. Pebble has 7 levels; the sublevels of level 0 are how many files
	// a read of one key may have to look at there.
	for i, l := range p.Levels {
		out.BytesCompacted += int64(l.TableBytesCompacted)
		out.Levels = append(out.Levels, control.Level{Level: i, Files: l.TablesCount, Bytes: int64(l.TablesSize),
			Score:     l.Score,
			Sublevels: int(l.Sublevels)})
	}
	return out, nil
}

// Net shows streams, hints and read repairs. Peers are the members for which hints are stored. The counts are this
// coordinator's since its start. Mismatches counts reads whose digests differed, Repairs those after which a replica
// got mutations.
func (a *Activity) Net(context.Context, control.None, control.Report) (control.Net, error) {
	s, h, f := a.instance.Coordinator.Stats(), a.instance.Hints.Stats(), a.instance.Hints.Load()
	return control.Net{Mode: a.status.mode(), Streams: a.netStreams(),
		ReadRepair: control.ReadRepairs{Mismatches: int64(s.DigestMismatches), Repairs: int64(s.ReadRepairs)},
		Hints: control.HintCounts{Stored: int64(h.Stored), Replayed: int64(h.Replayed), Expired: int64(h.Expired),
			Lost: int64(h.Lost)},
		Peers: a.pendingHints(), HintBytes: f.Bytes, HintBytesMax: f.BytesMax}, nil
}

// pendingHints returns the hints that are stored for other members. The list contains every member but this one, also
// members without hints.
func (a *Activity) pendingHints() []control.PeerHints {
	out := []control.PeerHints{}
	for _, m := range a.instance.Cluster.Metadata().Topology.Nodes() {
		// This node has no hints for itself.
		if m.ID != a.instance.Cluster.Self() {
			out = append(out, control.PeerHints{Member: a.members.one(m), Records: a.instance.Hints.Pending(m.ID)})
		}
	}
	return out
}

// PendingHints shows the hints that are stored for other members. The list is the same as in Net, without the streams.
func (a *Activity) PendingHints(context.Context, control.None, control.Report) (control.PendingHints, error) {
	return control.PendingHints{Peers: a.pendingHints()}, nil
}

// netStreams returns the streams to and from this node in the form of the control protocol. It contains what this node
// receives and what it sends, sorted by peer. An entry is one range of one table. The two lists are read one after the
// other, so a stream that ends in between may be missing from both.
func (a *Activity) netStreams() []control.Stream {
	out := []control.Stream{}
	// Received streams, with their progress in bytes.
	for _, p := range a.instance.Streams.Sessions() {
		s := control.Stream{What: fmt.Sprintf("%s, %v: %s", a.instance.Cluster.Metadata().Schema.NameOf(p.Table),
			p.Range, p.State),
			Done: p.Bytes, Total: p.Total}
		// A source that has left the ring has no address any longer.
		if m := a.instance.Cluster.Metadata().Topology.Node(p.Source); m != nil {
			s.Peer = m.Internode.Addr().String()
		}
		out = append(out, s)
	}
	topology := a.instance.Cluster.Metadata().Topology
	for x, sent := range a.instance.Streams.Sent() {
		out = append(out, control.Stream{Peer: topology.NameOf(x.Peer), Sending: true, Done: sent.Bytes,
			Total: sent.Total,
			What:  fmt.Sprintf("%s, %v", a.instance.Cluster.Metadata().Schema.NameOf(x.Table), x.Range)})
	}
	// The order does not depend on the order of the sessions.
	slices.SortFunc(out, func(a, b control.Stream) int {
		return cmp.Or(strings.Compare(a.Peer, b.Peer), strings.Compare(a.What, b.What))
	})
	return out
}

// CoordinatorStats returns the counts of requests of all kinds: the proposer counts conditional changes, because they
// wait there.
func (a *Activity) CoordinatorStats() coordinator.Stats {
	s, p := a.instance.Coordinator.Stats(), a.instance.Proposer.Stats()
	// Every other figure of the coordinator belongs to its own requests.
	s.WriteTimeouts += p.WriteTimeouts
	s.Unavailable += p.Unavailable
	s.Overloaded += p.Overloaded
	s.Replans += p.Replans
	return s
}
