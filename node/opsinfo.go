package node

import (
	"context"
	"runtime"
	"runtime/debug"
	"strings"
	"time"

	"cqld/node/control"
	"cqld/query/system"
)

func (n *Node) opInfo(context.Context, control.None, control.Report) (control.Info, error) {
	m := n.cluster.Metadata()
	i := control.Info{Release: system.ReleaseVersion, Version: control.Build(), Mode: n.mode(),
		NativeActive: n.servers.Accepting(), Uptime: time.Since(n.started),
		HeapLimit: memoryLimit(), Corrupt: []string{}}
	if self := m.Topology.Node(n.cluster.Self()); self != nil {
		i.Member = n.member(self)
		for _, t := range self.Tokens {
			i.ListOfTokens = append(i.ListOfTokens, int64(t))
		}
	}
	for _, node := range m.Topology.Nodes() {
		i.Hints += n.parts.Hints.Pending(node.ID)
	}
	i.Internode = n.internodeInfo()
	if v := n.cluster.Voters(); v != nil {
		i.Voters = control.Voters{Voters: len(v.IDs), Alive: len(v.IDs) - len(v.Down), Required: v.Required}
		if err := n.cluster.MajorityError(); err != nil {
			i.Voters.Missing = err.Error()
		}
	}
	load := n.load()
	i.Load = &load
	i.ClockAhead, i.ClockRefuses = n.cluster.ClockOffset()
	i.Memory = n.memoryUse()
	i.HeapUsed, i.Goroutines = i.Memory.Heap.Objects, runtime.NumGoroutine()
	if s := n.servers.CQL(); s != nil {
		i.Clients = s.Load().Connections
	}
	figures := n.engine.Metrics()
	i.DiskFull = figures.DiskFull
	if p := figures.Pebble; p != nil {
		i.CacheSize, i.CacheCapacity = p.BlockCache.Size, n.opts.CacheBytes
		i.CacheHits, i.CacheMisses = p.BlockCache.Hits, p.BlockCache.Misses
	}
	for _, c := range n.engine.Corruptions() {
		i.Corrupt = append(i.Corrupt, c.Path)
	}
	if u, err := n.opts.FS.GetDiskUsage(n.opts.DataDir); err == nil {
		i.DiskFree, i.DiskTotal = int64(u.AvailBytes), int64(u.TotalBytes)
	}
	return i, nil
}

// mode returns the node's state in the words of nodetool.
func (n *Node) mode() string {
	if n.servers.Drained() {
		return "DRAINED"
	}
	if self := n.cluster.Metadata().Topology.Node(n.cluster.Self()); self != nil {
		return strings.ToUpper(self.State.String())
	}
	return "STARTING"
}

// memoryLimit returns GOMEMLIMIT in bytes; 0 means no limit.
func memoryLimit() int64 {
	if l := debug.SetMemoryLimit(-1); l < 1<<62 {
		return l
	}
	return 0
}
