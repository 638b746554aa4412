package node

import (
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/internal/memory"
	"cqld/messaging"
	"cqld/node/config"
	"cqld/node/control"
	"cqld/rebalance"
)

// messagingLimits returns the bounds of the connections with other nodes: half of their part is for frames that are
// received, a quarter for requests that wait for a worker, and a quarter for what is queued for all peers.
func (n *Node) messagingLimits() messaging.Limits {
	l, part := messaging.DefaultLimits(), n.opts.Memory.Part[memory.Internode]
	l.ReceiveBytes = int(part / 2)
	l.WorkBytes = int(min(part/4, int64(l.WorkBytes)))
	l.QueuedTotal = int(part / 4)
	l.Workers = n.opts.Memory.Workers()
	return l
}

// newRequestMemory returns the memory that the requests of all protocols share, and the pages that are read for other
// nodes. The division has made it at most three quarters of the part for requests.
func newRequestMemory(o *config.Options) *memory.Pool {
	return memory.New(memory.Options{Limits: memory.Limits{Bytes: o.ClientLimits.BytesInFlight,
		Reserve: o.Memory.Reserve()}})
}

// streamLimits returns the bounds of streams. Blocks that wait take half of the part for background work at most.
func (n *Node) streamLimits() rebalance.Limits {
	return rebalance.Limits{BytesPerSecond: n.opts.StreamThroughput, TruncationWait: 2 * n.opts.TruncateTimeout,
		HeldMax: int(min(n.opts.Memory.BackgroundBlock()/rebalance.BlockBytes, rebalance.HeldMax))}
}

// memoryUse returns the parts of this node's memory with what they use. What no part counts of live memory is counted
// as base, and garbage and free space as the collector's, so that the parts add up to what the process has of the
// operating system.
func (n *Node) memoryUse() (m control.Memory) {
	d := &n.opts.Memory
	m.Limit, m.Source = d.Figure, d.Source
	counted := memory.Local().Count()
	m.Resident, m.Cgroup = counted.Resident, counted.Group
	heap := readHeap()
	m.Heap = heap
	used := n.measuredMemory()
	sum := int64(0)
	for _, bytes := range used {
		sum += bytes
	}
	used[memory.Base] = max(min(heap.Live, heap.Objects)-sum, 0) + heap.Stacks + heap.Metadata
	// Caches grow between collections: what they use may be more than was live.
	used[memory.Collector] = max(heap.Objects-max(min(heap.Live, heap.Objects), sum), 0) + heap.Unused + heap.Free
	used[memory.Kernel] = counted.File
	for part, bytes := range used {
		m.Parts = append(m.Parts, control.MemoryPart{Name: memory.Part(part).String(), Bound: d.Part[part],
			Used: bytes})
		m.Sum += bytes
	}
	return m
}

// measuredMemory returns what the parts with counters of their own use.
func (n *Node) measuredMemory() (used [memory.Parts]int64) {
	if p := n.engine.Metrics().Pebble; p != nil {
		used[memory.BlockCache] = p.BlockCache.Size
		used[memory.MemTables] = int64(p.MemTable.Size + p.MemTable.ZombieSize)
	}
	used[memory.Requests] = n.memory.Used()
	if s := n.servers.CQL(); s != nil {
		used[memory.Requests] += s.Receiving()
	}
	used[memory.Writes] = n.parts.Coordinator.Load().WriteBytes
	used[memory.Internode] = n.transport.Memory()
	used[memory.Background] = n.parts.Batches.Bytes()
	used[memory.Graphs] = n.instance.Values.GraphStats().Bytes
	used[memory.Functions] = n.functionStats().Memory.Used
	return used
}

// readHeap returns the memory of Go's runtime.
func readHeap() (h control.Heap) {
	const classes = "/memory/classes/"
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: classes + "heap/objects:bytes"},
		{Name: classes + "heap/unused:bytes"},
		{Name: classes + "heap/free:bytes"}, {Name: classes + "heap/stacks:bytes"}, {Name: classes + "os-stacks:bytes"},
		{Name: classes + "heap/released:bytes"}, {Name: classes + "total:bytes"}}
	metrics.Read(samples)
	v := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	h = control.Heap{Live: v(0), Objects: v(1), Unused: v(2), Free: v(3), Stacks: v(4) + v(5)}
	h.Metadata = v(7) - v(6) - h.Total()
	return h
}

// memory collects the parts of the node's memory.
func (c figuresCollector) memory(m metricSink) {
	use := c.n.memoryUse()
	for _, p := range use.Parts {
		m.send(prometheus.GaugeValue, "memory_part_bytes", "Memory that a part of the node uses.", float64(p.Used),
			[]string{"part"}, []string{p.Name})
		m.send(prometheus.GaugeValue, "memory_part_limit_bytes", "Bound of a part of the node's memory.",
			float64(p.Bound), []string{"part"}, []string{p.Name})
	}
	m.gauge("memory_limit_bytes", "Memory that the node may use.", use.Limit)
	m.gauge("memory_used_bytes", "Sum of the parts of the node's memory.", use.Sum)
	m.gauge("memory_resident_bytes", "Memory of the process as the kernel counts it; 0 if it is unknown.", use.Resident)
	m.gauge("memory_cgroup_bytes", "Memory of the process' cgroup with its page cache; 0 if it is unknown.", use.Cgroup)
}
