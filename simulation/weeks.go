package simulation

import (
	"fmt"
	"runtime"
	"slices"
	"strings"
	"time"
)

// dayFaults is the length of a plan whose faults, stretched by soakTimeScale, fill a day: 28.8 s × 3,000 = 24 h.
const (
	soakTimeScale = 3000
	dayFaults     = 24 * time.Hour / soakTimeScale
)

// SoakOptions returns the options of a long run: few requests, faults of minutes and hours, tombstones that are purged
// after similar times, hints that expire, repairs that restore missed writes, and nodes that join, leave, move, die and
// are replaced. The interval of heartbeats is multiplied by 60 (Pace), because most events of an idle cluster are
// heartbeats.
func SoakOptions(seed uint64) Options {
	return Options{Seed: seed, Nodes: 4, Factor: 4, Tokens: 4, Clients: 4, Keys: 6, Turns: 1 << 40, Faults: dayFaults,
		TimeScale: soakTimeScale, Pace: 60, SpeculativeRetry: "99p",
		Workloads: []string{"isolation", "ties", "graves", "counter"},
		FaultKinds: strings.Fields("kill power-one power-all restart-storm pause isolate one-way halves clock-jump " +
			"slow-disk fsync-error disk-full flush wiped-disk join leave move removenode abort"),
	}
}

// Day contains the state at the end of a simulated day, when the cluster is healed and idle.
type Day struct {
	Failures        []string
	Nodes, Machines int
	// Acked is the number of acknowledged operations, and Events the number of events, both since the start of the
	// run.
	Acked  int
	Events int // in total
	// What is left over at the end of a day must not grow from day to day: goroutines, heap, disks, hints, events in
	// the queue, requests in progress, files.
	Goroutines                    int
	HeapBytes, DiskBytes          uint64
	Hints, Queued, Reading, Files int
	Stats                         stats
	Counted                       map[string]int
}

// String returns one line.
func (w Day) String() string {
	return fmt.Sprintf("%d of %d machines, %d acknowledged, %d events; left over: %d goroutines, heap %d KiB, disks "+
		"%d KiB in %d files, "+
		"%d hints, %d queued events, %d requests", w.Nodes, w.Machines, w.Acked, w.Events, w.Goroutines,
		w.HeapBytes>>10, w.DiskBytes>>10,
		w.Files, w.Hints, w.Queued, w.Reading)
}

// RunSoak runs one cluster for several days, while more returns true. At the end of each day, it heals the cluster and
// checks the results as Run does; then the next day begins. more gets the number of the day, from 1, and its state. A
// failed day is the last.
func RunSoak(o Options, more func(day int, w Day) bool) {
	c := NewCluster(o)
	for _, w := range c.workloads {
		w.start()
	}
	for day := 1; ; day++ {
		// Workloads continue with their histories: what was written on one day is checked on all later ones.
		c.day(day)
		report := c.remains()
		if len(c.failures) > 0 || !more(day, report) {
			break
		}
		for _, w := range c.workloads {
			w.start()
		}
	}
	// The result was checked day by day: the call only ends the processes.
	c.result()
}

// day runs one day. Faults that last longer than the day end with it (heal).
func (c *Cluster) day(number int) {
	// Wiped nodes were replaced on the day before, so that another node may lose its data now.
	c.healed, c.losing = false, false
	c.began = c.kernel.Now()
	o := c.options
	// Each day has its own plan.
	o.Seed += uint64(number) << 32
	c.nemesis.plan = plan(o)
	for i := range c.nemesis.plan {
		// A fault draws its random numbers by its number, so each day has its own.
		c.nemesis.plan[i].number += number * 1_000_000
	}
	c.nemesis.torment()
	c.kernel.RunUntil(c.began+c.scaled(c.options.Faults), func() bool { return false })
	c.heal()
	// The pauses of clients are scaled, too: a client may sleep for minutes before it finds the cluster healed.
	c.kernel.RunUntil(c.kernel.Now()+time.Hour, func() bool {
		return !slices.ContainsFunc(c.workloads, func(w workload) bool { return !w.idle() })
	})
	c.settle()
	for _, w := range c.workloads {
		w.readBack()
	}
	c.verify.converge()
	c.bury()
}

// bury removes machines that are permanently off, with their disks.
func (c *Cluster) bury() {
	c.nodes = slices.DeleteFunc(c.nodes, func(n *Node) bool {
		over := n.process == nil && (n.departed || n.dead)
		// Queued events may still refer to the machine, so its disk is released explicitly.
		if over {
			n.disk = nil
		}
		return over
	})
}

// remains returns the state of the idle cluster. It runs the garbage collector, so it takes real time.
func (c *Cluster) remains() Day {
	w := Day{Failures: c.failures, Nodes: len(c.present()), Machines: c.machines, Events: c.kernel.Count(),
		Counted: c.counted}
	for _, x := range c.workloads {
		_, acked := x.counts()
		w.Acked += acked
	}
	for _, n := range c.present() {
		if n.process == nil {
			continue
		}
		w.Stats.add(statsOf(n.process.parts))
		// Requests without a result after all clients have ended were forgotten by their coordinator.
		inFlight := n.process.coord.Load()
		w.Reading += int(inFlight.Reads + inFlight.Writes)
		for _, other := range c.present() {
			if other.process != nil {
				w.Hints += n.process.parts.Hints.Pending(other.process.Self())
			}
		}
		// The Raft log must be truncated, too, or it grows with each change of the ring.
		for _, dir := range []string{dataDir, raftDir} {
			names, err := n.disk.List(dir)
			if err != nil {
				c.fail("node %d cannot list its files: %v", n.id, err)
			}
			for _, name := range names {
				if info, err := n.disk.Stat(n.disk.PathJoin(dir, name)); err == nil {
					w.DiskBytes += uint64(info.Size())
					w.Files++
				}
			}
		}
	}
	// Growth of any of these values from day to day is a leak.
	w.Queued = c.kernel.Pending()
	// Only what is reachable counts.
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	w.HeapBytes, w.Goroutines = m.HeapAlloc, runtime.NumGoroutine()
	return w
}
