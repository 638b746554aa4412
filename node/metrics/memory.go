package metrics

import (
	"runtime/metrics"

	"github.com/prometheus/client_golang/prometheus"

	"cqld/internal/memory"
	"cqld/node/control"
)

// MemoryUse returns the parts of this node's memory with what they use. What no part counts of live memory is counted
// as base, and garbage and free space as the collector's, so that the parts add up to what the process has of the
// operating system. Sizes are in bytes. It is also the answer to `cqld ctl info`, so both show the same figures. Used
// may exceed Bound: the bounds are targets from which the limits of the parts were derived, and the collector of
// garbage has no exact bound. It costs some microseconds and may run concurrently.
func (c *Collector) MemoryUse() (m control.Memory) {
	// The figures are read one after the other, so the sum may differ by what changes meanwhile.
	d := &c.o.Config.Memory.Division
	m.Limit, m.Source = d.Figure, d.Source
	counted := memory.Local().Count()
	// Both are 0 on systems without /proc.
	m.Resident, m.Cgroup = counted.Resident, counted.Group
	heap := readHeap()
	m.Heap = heap
	// Parts with a counter come first; the others are computed from what remains. The array has an element for each
	// part of the division.
	used := c.measuredMemory()
	sum := int64(0)
	for _, bytes := range used {
		sum += bytes
	}
	// What is live and counted by no part is the base of the node. Caches may have grown since, so it is never
	// negative.
	used[memory.Base] = max(min(heap.Live, heap.Objects)-sum, 0) + heap.Stacks + heap.Metadata
	// Caches grow between collections: what they use may be more than was live.
	used[memory.Collector] = max(heap.Objects-max(min(heap.Live, heap.Objects), sum), 0) + heap.Unused + heap.Free
	// Pages of files that the kernel counts for the cgroup; it can take them back, so they are not a part of what can
	// run out.
	used[memory.Kernel] = counted.File
	for part, bytes := range used {
		m.Parts = append(m.Parts, control.MemoryPart{Name: memory.Part(part).String(), Bound: d.Part[part],
			Used: bytes})
		m.Sum += bytes
	}
	return m
}

// measuredMemory returns what the parts with counters of their own use. A part without a counter stays 0. The parts
// Base, Collector and Kernel stay 0 here.
func (c *Collector) measuredMemory() (used [memory.Parts]int64) {
	// A failed engine has no metrics, and its memory is not counted.
	figures := c.o.Instance.Engine.Metrics()
	used[memory.RowCache] = figures.Rows.Bytes
	if p := figures.Pebble; p != nil {
		used[memory.BlockCache] = p.BlockCache.Size
		// Zombies are memtables that are flushed and still read.
		used[memory.MemTables] = int64(p.MemTable.Size + p.MemTable.ZombieSize)
	}
	used[memory.Requests] = c.o.Memory.Used()
	// Requests that are being received are not in the pool yet.
	if s := c.o.Servers.CQL(); s != nil {
		used[memory.Requests] += s.Receiving()
	}
	// Mutations that wait for replicas, counted by the coordinator and not by the pool of writes that wait for the
	// disk.
	used[memory.Writes] = c.o.Instance.Coordinator.Load().WriteBytes
	used[memory.Internode] = c.o.Transport.Memory()
	used[memory.Background] = c.o.Instance.Batches.Bytes()
	used[memory.Backups] = c.o.Commands.Backups.Memory()
	used[memory.Graphs] = c.o.Instance.Values.GraphStats().Bytes
	used[memory.Functions] = c.o.Functions().Memory.Used
	return used
}

// readHeap returns the memory of Go's runtime. The names are from package runtime/metrics; the order is the order of v.
// It does not stop the world, unlike runtime.ReadMemStats. All values are uint64 of bytes; a name that the runtime did
// not know would panic at Uint64, at the first scrape.
func readHeap() (h control.Heap) {
	const classes = "/memory/classes/"
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: classes + "heap/objects:bytes"},
		{Name: classes + "heap/unused:bytes"},
		{Name: classes + "heap/free:bytes"}, {Name: classes + "heap/stacks:bytes"}, {Name: classes + "os-stacks:bytes"},
		{Name: classes + "heap/released:bytes"}, {Name: classes + "total:bytes"}}
	metrics.Read(samples)
	v := func(i int) int64 { return int64(samples[i].Value.Uint64()) }
	h = control.Heap{Live: v(0), Objects: v(1), Unused: v(2), Free: v(3), Stacks: v(4) + v(5)}
	// Metadata is the rest of what the runtime has not returned to the system. Released memory belongs to the operating
	// system again.
	h.Metadata = v(7) - v(6) - h.Total()
	return h
}

// memory collects the parts of the node's memory. Bounds are the parts of the division, which do not change.
func (c *Collector) memory(m sink) {
	use := c.MemoryUse()
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
