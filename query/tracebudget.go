package query

import (
	"sync"
	"time"

	"cqld/internal/env"
)

// traceMeasureEvery is the interval between measurements of the stored traces. In between, a TraceBudget counts the
// bytes that it admits.
const traceMeasureEvery = 10 * time.Second

// TraceBudget bounds the disk space of the traces on a node. It rejects new traces while the stored traces take Max
// bytes; stored traces expire after a day. Traces are spread over the ring like other rows, so the size on this node,
// which Size measures, approximates the size on the others. Size does not include memtables, so the traces may exceed
// the bound by the size of the memtables. It is safe for concurrent use. Size and Clock must be set, and the fields
// must not be changed after the first use.
type TraceBudget struct {
	Max   int64                         // in bytes; zero or less stores no traces
	Size  func() (bytes int64, ok bool) // size of the traces stored on this node; may read the disk
	Clock env.Clock

	mu struct {
		sync.Mutex
		// One goroutine measures at a time; others continue with the previous number.
		measuring bool
		measured  bool
		at        time.Duration // start of the last measurement
		stored    int64
		admitted  int64 // bytes admitted since then
		refused   int64 // number of rejected traces
	}
}

// Admit reports whether a trace with the given number of bytes may be stored, and counts the bytes. It may measure
// the stored traces first, which blocks the caller.
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

// measure measures the stored traces, unless the last measurement is recent or still running. It calls Size without
// the mutex, because Size may read the disk.
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
		// The measurement includes traces admitted before it, but not later ones.
		b.mu.admitted -= before
	}
}

// Stats returns the bytes that were stored at the last measurement, and the number of traces that were rejected.
func (b *TraceBudget) Stats() (stored, refused int64) {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.mu.stored, b.mu.refused
}
