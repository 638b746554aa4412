// Package intake limits the memory of requests that are being received. It is separate from the memory of requests that
// are complete, so that slow or stalled clients do not affect other requests.
//
// A body gets memory for its full size or waits: bodies that each held a part could wait for each other forever. If
// memory is short, bodies that arrive too slowly are aborted, and waiting ones get their memory.
package intake

//	Admit ──▶ waiting ──▶ receiving ── Complete ──▶ executing ── End
//	           │ WaitMax     │ too slow, while others wait
//	           ▼             ▼
//	        ErrFull        abort, then End
import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// Limits bound an Intake. All four must be positive.
type Limits struct {
	// Bytes is the memory for all bodies together. A larger body is admitted when there is no other.
	Bytes int64
	// WaitMax is the maximum time that a body waits for memory.
	WaitMax time.Duration
	// Grace is the maximum pause of a body, and the time at its beginning when RateMin does not apply.
	Grace time.Duration
	// RateMin is the minimum rate, in bytes per second, at which a body must have arrived to be kept while others wait.
	RateMin int64
}

// DefaultLimits returns limits for bodies that take bytes together. Within 30 s, the maximum time of a body, the
// slowest one that is kept receives 15 MiB.
func DefaultLimits(bytes int64) Limits {
	return Limits{Bytes: bytes, WaitMax: 10 * time.Second, Grace: time.Second, RateMin: 512 << 10}
}

// ErrFull means that no memory became available in time. The client should try again later.
var ErrFull = errors.New("intake: no memory for the request")

// Intake is the memory budget. It is safe for concurrent use. Invariant: used is the sum of size over bodies, and over
// waiters whose admit is closed and which have not called admitted.
type Intake struct {
	limits Limits

	mu sync.Mutex
	// used is the memory of bodies, and of waiters that were admitted and have not noticed it yet, in bytes.
	used    int64
	bodies  map[*Body]struct{}
	waiting []*waiter // in order of arrival, bodies with first before others
	// aborted counts the bodies that were aborted since the start.
	aborted int64
}

// waiter is a body that waits for memory.
type waiter struct {
	size  int64
	first bool          // it is admitted before those without first
	admit chan struct{} // closed when the memory is reserved
}

// Body is a request that is being received. All fields but the first three are guarded by Intake.mu.
type Body struct {
	// in, size and abort do not change.
	in       *Intake
	size     int64
	abort    func()
	began    time.Time
	last     time.Time // when the latest bytes arrived
	received int64
	complete bool
	aborted  bool
}

// New returns an empty Intake.
func New(l Limits) *Intake { return &Intake{limits: l, bodies: map[*Body]struct{}{}} }

// Admit reserves size bytes and waits for them if necessary. With first, it is queued before all bodies without first.
// abort stops receiving this body because it has become too slow; another goroutine calls it, and End must follow.
// Admit fails with ErrFull after WaitMax, or when stop is closed.
func (in *Intake) Admit(size int64, first bool, abort func(), stop <-chan struct{}) (*Body, error) {
	in.mu.Lock()
	// A body must not overtake waiting ones, or large bodies would wait forever.
	if len(in.waiting) == 0 && in.fits(size) {
		b := in.take(size, abort)
		in.mu.Unlock()
		return b, nil
	}
	w := &waiter{size, first, make(chan struct{})}
	// place is the position in the queue: last, or after the last body with first.
	place := len(in.waiting)
	if first {
		if i := slices.IndexFunc(in.waiting, func(w *waiter) bool { return !w.first }); i >= 0 {
			place = i
		}
	}
	in.waiting = slices.Insert(in.waiting, place, w)
	// The new body may precede a larger one that does not fit, and fit itself.
	in.admitLocked()
	in.mu.Unlock()
	timeout := time.NewTimer(in.limits.WaitMax)
	defer timeout.Stop()
	// Each waiter checks for slow bodies, so no further goroutine is needed. It checks four times within Grace, the
	// time in which a body may become slow.
	look := time.NewTicker(max(in.limits.Grace/4, time.Millisecond))
	defer look.Stop()
	for {
		in.abortSlow()
		select {
		case <-w.admit:
			return in.admitted(size, abort), nil
		case <-look.C:
		case <-timeout.C:
			return in.giveUp(w, abort)
		case <-stop:
			return in.giveUp(w, abort)
		}
	}
}

// giveUp ends the wait, unless the memory was reserved at the same moment.
func (in *Intake) giveUp(w *waiter, abort func()) (*Body, error) {
	in.mu.Lock()
	if i := slices.Index(in.waiting, w); i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
		in.admitLocked() // those after it may be smaller and fit
		in.mu.Unlock()
		return nil, ErrFull
	}
	in.mu.Unlock()
	return in.admitted(w.size, abort), nil
}

// admitted returns the body whose memory is already reserved. The reservation is moved from used to the body in one
// step under the lock, so no other body can take it.
func (in *Intake) admitted(size int64, abort func()) *Body {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.used -= size
	return in.take(size, abort)
}

// fits reports whether there is memory for a body. One that exceeds the bound alone is admitted alone.
func (in *Intake) fits(size int64) bool { return in.used+size <= in.limits.Bytes || in.used == 0 }

// take reserves the memory of a body, whose time begins now. mu is held.
func (in *Intake) take(size int64, abort func()) *Body {
	now := time.Now()
	b := &Body{in: in, size: size, abort: abort, began: now, last: now}
	in.used += size
	in.bodies[b] = struct{}{}
	return b
}

// admitLocked admits waiting bodies in their order, as long as there is memory. It stops at the first that does not
// fit, even if a later one would: otherwise large bodies would starve. mu is held.
func (in *Intake) admitLocked() {
	for len(in.waiting) > 0 && in.fits(in.waiting[0].size) {
		w := in.waiting[0]
		in.waiting = in.waiting[1:]
		in.used += w.size
		close(w.admit)
	}
}

// abortSlow aborts bodies that arrive too slowly, the largest first, until there is enough memory for the first that
// waits. A body that is aborted holds its memory until End.
func (in *Intake) abortSlow() {
	in.mu.Lock()
	var slow []*Body
	need := int64(0)
	if len(in.waiting) > 0 {
		need = in.used + in.waiting[0].size - in.limits.Bytes
	}
	now := time.Now()
	for b := range in.bodies {
		switch {
		case b.aborted:
			need -= b.size // its memory is about to be released
		case b.slow(now, &in.limits):
			slow = append(slow, b)
		}
	}
	// Aborting the largest bodies first aborts the fewest.
	slices.SortFunc(slow, func(a, b *Body) int { return cmp.Compare(b.size, a.size) })
	ended := slow[:0]
	for _, b := range slow {
		if need <= 0 {
			break
		}
		b.aborted = true
		in.aborted++
		need -= b.size
		ended = append(ended, b)
	}
	in.mu.Unlock()
	for _, b := range ended {
		// abort is called without the lock, because it may call End.
		b.abort()
	}
}

// slow reports whether the body arrives too slowly. The rate is measured over its whole time, not over the latest
// second, so short pauses of a fast body are harmless.
func (b *Body) slow(now time.Time, l *Limits) bool {
	age := now.Sub(b.began)
	return !b.complete && age > l.Grace && (now.Sub(b.last) > l.Grace ||
		float64(b.received) < float64(l.RateMin)*age.Seconds())
}

// Received records that n bytes have arrived. The caller reports bytes as they arrive, at least once in each Grace.
func (b *Body) Received(n int) {
	b.in.mu.Lock()
	b.received += int64(n)
	b.last = time.Now()
	b.in.mu.Unlock()
}

// Complete marks the body as fully received: it keeps its memory until End, and is no longer aborted. It does nothing
// if b is nil.
func (b *Body) Complete() {
	if b == nil {
		return
	}
	b.in.mu.Lock()
	b.complete = true
	b.in.mu.Unlock()
}

// End releases the memory when the body is no longer needed or was aborted. It does nothing if b is nil or has ended. A
// waiting body that fits now is admitted.
func (b *Body) End() {
	if b == nil {
		return
	}
	in := b.in
	in.mu.Lock()
	defer in.mu.Unlock()
	if _, there := in.bodies[b]; !there {
		return
	}
	delete(in.bodies, b)
	in.used -= b.size
	in.admitLocked()
}

// Used returns the reserved memory, and how many bodies were aborted so far. Both are for metrics.
func (in *Intake) Used() (bytes, aborted int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.used, in.aborted
}
