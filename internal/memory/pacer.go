package memory

import (
	"runtime"
	"runtime/debug"
	"runtime/metrics"
	"sync"
)

// Pacer keeps the garbage between two collections at a number of bytes, whatever the size of the live heap. The cache
// of blocks is part of that heap: with a constant GOGC=400, a cache of 256 MiB made the heap grow to 1.3 GiB before
// each collection. The garbage never exceeds the live heap if that is larger than garbageMin, so that a node with
// little data and much memory stays small.
//
// After each collection, the Pacer computes GOGC from the live heap that the collection has found. The runtime's memory
// limit is above the bounds of all parts and the garbage together, so it rarely has an effect: a heap whose live part
// is at the limit would be collected all the time.
type Pacer struct {
	// Bytes of garbage between two collections, at most.
	allowance int64
	percent   func(int) int // debug.SetGCPercent
	live      func() int64

	// set is the value of GOGC that was set last.
	mu     sync.Mutex
	set    int
	former int // before Start
	closed bool
}

// Percent of the live heap, and bytes.
const (
	// percentMin bounds how often a heap that exceeds all bounds is collected: each eighth of it.
	percentMin = 12
	// percentMax is the pace of a small heap: until the first collection, its growth is unknown.
	percentMax = 400
	// garbageMin is the garbage up to which a heap may have more garbage than live memory. A node of 1 GiB collects
	// each 112 MiB, which costs a few percent of its CPU time, so that a larger node needs no more garbage for a live
	// heap as small.
	garbageMin = 128 * mib
	// percentStep is the relative change, in percent, from which the pace is set: setting it stops the program for some
	// 50 µs.
	percentStep = 5
	// allocatorDivisor is the part of Collector for free space of the allocator.
	allocatorDivisor = 3
)

// NewPacer returns a Pacer for a division. It does nothing before Start.
func NewPacer(d *Division) *Pacer {
	return &Pacer{allowance: d.Part[Collector] - d.Part[Collector]/allocatorDivisor, percent: debug.SetGCPercent,
		live: liveHeap}
}

// liveHeap returns the bytes that the last collection has marked, plus the bytes of stacks and global variables, which
// the runtime adds to the base of GOGC. The figure comes from the last collection, so it does not change between
// collections.
func liveHeap() (bytes int64) {
	// Reading metrics does not stop the program, unlike runtime.ReadMemStats.
	samples := []metrics.Sample{{Name: "/gc/heap/live:bytes"}, {Name: "/gc/scan/stack:bytes"},
		{Name: "/gc/scan/globals:bytes"}}
	metrics.Read(samples)
	for _, s := range samples {
		bytes += int64(s.Value.Uint64())
	}
	return bytes
}

// sentinel is an object without references, so each collection frees one. The pointer keeps it out of the allocator for
// tiny objects, which frees several together. Its size of 40 bytes is arbitrary.
type sentinel struct {
	_ *sentinel
	_ [4]uint64
}

// Start sets the pace, and again after each collection until Close. It must be called once.
func (p *Pacer) Start() {
	p.mu.Lock()
	p.set = p.next()
	p.former = p.percent(p.set)
	p.mu.Unlock()
	p.watch()
}

// watch makes the runtime call collected after the next collection. The cleanup of an object runs once, after a
// collection has found it unreachable.
func (p *Pacer) watch() { runtime.AddCleanup(new(sentinel), (*Pacer).collected, p) }

// collected adapts the pace to the live heap. The runtime calls it after a collection, so an idle node does no work for
// it. It runs in the goroutine of the runtime's cleanups, so it must be short.
func (p *Pacer) collected() {
	p.mu.Lock()
	defer p.mu.Unlock()
	// Without another watch: no later collection calls back.
	if p.closed {
		return
	}
	// A small change is not worth the pause.
	if next := p.next(); abs(next-p.set)*100 >= p.set*percentStep {
		p.set = next
		p.percent(next)
	}
	p.watch()
}

// next returns the pace for the current live heap. GOGC = 100 · garbage / live, within percentMin and percentMax.
func (p *Pacer) next() int {
	live := max(p.live(), 1)
	garbage := min(p.allowance, max(garbageMin, live))
	return int(min(max(100*garbage/live, percentMin), percentMax))
}

// abs returns the absolute value.
func abs(n int) int { return max(n, -n) }

// Close restores the former pace. A cleanup that is pending finds closed and ends the chain.
func (p *Pacer) Close() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if !p.closed {
		p.closed = true
		p.percent(p.former)
	}
}
