package admin

import (
	"context"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"
	"time"

	"cqld/clusterversion"
	"cqld/internal/release"
	"cqld/messaging"
	"cqld/node/assembly"
	"cqld/node/certificates"
	"cqld/node/clients"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/query/system"
)

// Status shows the state of this node. It reads the state of this node and of no other.
type Status struct {
	config       *config.Options
	instance     *assembly.Instance
	members      members
	peers        *Peers
	servers      *clients.Servers
	certificates *certificates.Set
	transport    *messaging.StreamTransport
	memory       func() control.Memory // the parts of the node's memory and what they use
	encryption   *Encryption
	started      time.Time // when the node was started, for its uptime
}

// Info shows the node with its load, memory, clients and disk. A node that is joining has no entry in the topology yet.
// All sizes are in bytes. The figures are read one after the other, not at one moment.
func (st *Status) Info(context.Context, control.None, control.Report) (control.Info, error) {
	m := st.instance.Cluster.Metadata()
	i := control.Info{Release: system.ReleaseVersion, Version: release.Build(), Mode: st.mode(),
		NativeActive: st.servers.Accepting(), Uptime: time.Since(st.started),
		HeapLimit: memoryLimit(), Corrupt: []string{}}
	supported := clusterversion.Supported()
	i.ClusterVersion, i.OldestVersion, i.NewestVersion = int(m.ClusterVersion), int(supported.Min), int(supported.Max)
	// The member of this node is missing until it has joined.
	if self := m.Topology.Node(st.instance.Cluster.Self()); self != nil {
		i.Member = st.members.one(self)
		for _, t := range self.Tokens {
			i.ListOfTokens = append(i.ListOfTokens, int64(t))
		}
	}
	for _, node := range m.Topology.Nodes() {
		i.Hints += st.instance.Hints.Pending(node.ID)
	}
	i.Internode = st.Internode()
	// Voters are unknown until this node has received them.
	if v := st.instance.Cluster.Voters(); v != nil {
		i.Voters = control.Voters{Voters: len(v.IDs), Alive: len(v.IDs) - len(v.Down), Required: v.Required}
		if err := st.instance.Cluster.MajorityError(); err != nil {
			i.Voters.Missing = err.Error()
		}
	}
	load := st.peers.Load()
	// A pointer, because a load of zero is not the same as an unknown one.
	i.Load = &load
	i.ClockAhead, i.ClockRefuses = st.instance.Cluster.ClockOffset()
	i.Memory = st.memory()
	i.HeapUsed, i.Goroutines = i.Memory.Heap.Objects, runtime.NumGoroutine()
	if s := st.servers.CQL(); s != nil {
		i.Clients = s.Load().Connections
	}
	// The engine's metrics are one snapshot.
	figures := st.instance.Engine.Metrics()
	i.DiskFull = figures.DiskFull
	// A failed engine reports no cache.
	if p := figures.Pebble; p != nil {
		i.CacheSize, i.CacheCapacity = p.BlockCache.Size, st.config.Memory.CacheBytes
		i.CacheHits, i.CacheMisses = p.BlockCache.Hits, p.BlockCache.Misses
		i.RowCacheSize, i.RowCacheCapacity = figures.Rows.Bytes, st.config.Memory.RowCacheBytes
		i.RowCacheHits, i.RowCacheMisses = figures.Rows.Hits, figures.Rows.Misses
	}
	// The paths of corrupt files, which a repair removes.
	for _, c := range st.instance.Engine.Corruptions() {
		if !slices.Contains(i.Corrupt, c.Path) {
			i.Corrupt = append(i.Corrupt, c.Path)
		}
	}
	// The figures of the node are worth more than an error about one file.
	if keys, err := st.encryption.Uses(); err == nil {
		i.Keys = keys
	}
	// A file system of a test may have no usage.
	if u, err := st.config.FS.GetDiskUsage(st.config.DataDir); err == nil {
		i.DiskFree, i.DiskTotal = int64(u.AvailBytes), int64(u.TotalBytes)
	}
	return i, nil
}

// mode returns the node's state in the words of nodetool. A drained node is a member that serves no clients.
func (st *Status) mode() string {
	if st.servers.Drained() {
		return "DRAINED"
	}
	if self := st.instance.Cluster.Metadata().Topology.Node(st.instance.Cluster.Self()); self != nil {
		return strings.ToUpper(self.State.String())
	}
	// A node without an entry is starting or joining.
	return "STARTING"
}

// memoryLimit returns GOMEMLIMIT in bytes; 0 means no limit. The runtime has no bound if the environment has none. The
// runtime represents "no limit" by math.MaxInt64.
func memoryLimit() int64 {
	if l := debug.SetMemoryLimit(-1); l < 1<<62 {
		return l
	}
	return 0
}

// Internode returns the state of the connections with other nodes. The certificate is one of this node; its expiry is
// the important date.
func (st *Status) Internode() control.Internode {
	c := st.transport.Connections()
	i := control.Internode{Encryption: st.config.Encryption.Internode.String(), From: c.FromEncrypted + c.FromPlain,
		FromEncrypted: c.FromEncrypted,
		To:            c.ToEncrypted + c.ToPlain, ToEncrypted: c.ToEncrypted}
	if s := st.certificates.Nodes; s != nil {
		i.Certificate = s.Expiry().UTC().Format(time.RFC3339)
	}
	return i
}
