package query

import (
	"sync"
	"time"

	"cqld/internal/env"
)

// measureEvery is how often a Budget measures what is stored. In between it counts what it has admitted.
const traceMeasureEvery = 10 * time.Second

// TraceBudget bounds the disk space of the traces on a node. It refuses new traces while those that are stored take as
// much as they may; stored ones expire after a day. Traces are spread over the ring like other rows, so that the share
// of this node, which Size measures, stands for the size on the others. Traces in memtables are not in Size until these
// are flushed, so that the space may exceed the bound by the size of the memtables. It is safe for concurrent use. Size
// and Clock must be set, and the fields must not be changed after the first use.
type TraceBudget struct {
	Max   int64                         // bytes; nothing is stored if it is not positive
	Size  func() (bytes int64, ok bool) // of the stored traces on this node; it may read the disk
	Clock env.Clock

	mu struct {
		sync.Mutex
		// One goroutine measures at a time; others continue with the previous number.
		measuring bool
		measured  bool
		at        time.Duration // when the last measurement began
		stored    int64
		admitted  int64 // bytes since then
		refused   int64 // traces
	}
}

// Admit reports whether a trace of some bytes may be stored, and counts it. It may block while this goroutine measures.
func (b *TraceBudget) Admit(bytes int) bool {
	b.measure()
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.mu.stored+b.mu.admitted+int64(bytes) > b.Max {
		b.mu.refused++
		return false
	}
	b.mu.admitted += int64(bytes)
	return true
}

// measure measures what is stored, unless that was done a short time ago or is being done. Size is called without the
// mutex, since it may read the disk.
func (b *TraceBudget) measure() {
	now := b.Clock.Monotonic()
	b.mu.Lock()
	due := !b.mu.measuring && (!b.mu.measured || now-b.mu.at >= traceMeasureEvery)
	before := b.mu.admitted
	b.mu.measuring = b.mu.measuring || due
	b.mu.Unlock()
	if !due {
		return
	}
	bytes, ok := b.Size()
	b.mu.Lock()
	defer b.mu.Unlock()
	b.mu.measuring = false
	// After a failure, the next call measures again.
	if ok {
		b.mu.measured, b.mu.at, b.mu.stored = true, now, bytes
		// Traces admitted before the measurement are part of it; later ones are not.
		b.mu.admitted -= before
	}
}

// Stats returns the bytes that were stored at the last measurement, and the traces that were not stored.
func (b *TraceBudget) Stats() (stored, refused int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.stored, b.mu.refused
}
