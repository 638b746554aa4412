// Package intake is the memory of requests that are being received. It is apart from the memory of requests that are
// complete, so that clients which send slowly, or stop, take nothing from others.
//
// A body gets the memory for all of it or waits: bodies that hold parts would wait for each other. When there is too
// little, bodies that arrive too slowly are aborted, and those that wait get theirs.
package intake

import (
	"cmp"
	"errors"
	"slices"
	"sync"
	"time"
)

// Limits bound an Intake.
type Limits struct {
	// Bytes is the memory of all bodies together. A body that is larger gets it when it is alone.
	Bytes int64
	// Patience is how long a body waits for memory.
	Patience time.Duration
	// Grace is how long a body may be silent, and for how long RateMin does not count.
	Grace time.Duration
	// RateMin is how many bytes a second a body must have been arriving with to be kept while others wait.
	RateMin int64
}

// DefaultLimits bound bodies that take bytes together. Within 30 s, which a body may take at most, the slowest that is
// kept has 15 MiB.
func DefaultLimits(bytes int64) Limits {
	return Limits{Bytes: bytes, Patience: 10 * time.Second, Grace: time.Second, RateMin: 512 << 10}
}

// ErrFull says that there was no memory in time.
var ErrFull = errors.New("intake: no memory for the request")

// Intake is the memory. It is safe for concurrent use.
type Intake struct {
	limits Limits

	mu      sync.Mutex
	used    int64
	bodies  map[*Body]struct{}
	waiting []*waiter // the first comes first
	aborted int64
}

type waiter struct {
	size  int64
	first bool          // it goes before those that are not
	admit chan struct{} // closed when the memory is taken
}

// Body is a request that is being received.
type Body struct {
	in       *Intake
	size     int64
	abort    func()
	began    time.Time
	last     time.Time // of the latest bytes
	received int64
	complete bool
	aborted  bool
}

// New makes an empty Intake.
func New(l Limits) *Intake { return &Intake{limits: l, bodies: map[*Body]struct{}{}} }

// Admit takes size bytes, waiting for others if it must; with first it waits only for others that go first, too. abort ends
// the receiving of this body, from another goroutine, when it has become too slow; End must follow. It fails with ErrFull
// after Patience, or when stop is closed.
func (in *Intake) Admit(size int64, first bool, abort func(), stop <-chan struct{}) (*Body, error) {
	in.mu.Lock()
	if len(in.waiting) == 0 && in.fits(size) {
		b := in.take(size, abort)
		in.mu.Unlock()
		return b, nil
	}
	w := &waiter{size, first, make(chan struct{})}
	place := len(in.waiting)
	if first {
		if i := slices.IndexFunc(in.waiting, func(w *waiter) bool { return !w.first }); i >= 0 {
			place = i
		}
	}
	in.waiting = slices.Insert(in.waiting, place, w)
	in.mu.Unlock()
	patience := time.NewTimer(in.limits.Patience)
	defer patience.Stop()
	look := time.NewTicker(max(in.limits.Grace/4, time.Millisecond))
	defer look.Stop()
	for {
		in.abortSlow()
		select {
		case <-w.admit:
			return in.admitted(size, abort), nil
		case <-look.C:
		case <-patience.C:
			return in.giveUp(w, abort)
		case <-stop:
			return in.giveUp(w, abort)
		}
	}
}

// giveUp ends the waiting, unless the memory has come in the same moment.
func (in *Intake) giveUp(w *waiter, abort func()) (*Body, error) {
	in.mu.Lock()
	if i := slices.Index(in.waiting, w); i >= 0 {
		in.waiting = slices.Delete(in.waiting, i, i+1)
		in.admitLocked() // those behind it may be smaller
		in.mu.Unlock()
		return nil, ErrFull
	}
	in.mu.Unlock()
	return in.admitted(w.size, abort), nil
}

// admitted makes a body of memory that is taken already.
func (in *Intake) admitted(size int64, abort func()) *Body {
	in.mu.Lock()
	defer in.mu.Unlock()
	in.used -= size
	return in.take(size, abort)
}

func (in *Intake) fits(size int64) bool { return in.used+size <= in.limits.Bytes || in.used == 0 }

func (in *Intake) take(size int64, abort func()) *Body {
	now := time.Now()
	b := &Body{in: in, size: size, abort: abort, began: now, last: now}
	in.used += size
	in.bodies[b] = struct{}{}
	return b
}

// admitLocked lets in those that wait, in their order, as far as there is memory.
func (in *Intake) admitLocked() {
	for len(in.waiting) > 0 && in.fits(in.waiting[0].size) {
		w := in.waiting[0]
		in.waiting = in.waiting[1:]
		in.used += w.size
		close(w.admit)
	}
}

// abortSlow ends as many bodies that arrive too slowly as there must be less for the first that waits, the largest first.
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
			need -= b.size // its memory is on its way
		case b.slow(now, &in.limits):
			slow = append(slow, b)
		}
	}
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
		b.abort()
	}
}

// slow says whether the body arrives too slowly.
func (b *Body) slow(now time.Time, l *Limits) bool {
	age := now.Sub(b.began)
	return !b.complete && age > l.Grace && (now.Sub(b.last) > l.Grace || float64(b.received) < float64(l.RateMin)*age.Seconds())
}

// Received notes that n bytes have arrived.
func (b *Body) Received(n int) {
	b.in.mu.Lock()
	b.received += int64(n)
	b.last = time.Now()
	b.in.mu.Unlock()
}

// Complete says that all has arrived: the body keeps its memory until End, and is not aborted any more.
func (b *Body) Complete() {
	b.in.mu.Lock()
	b.complete = true
	b.in.mu.Unlock()
}

// End gives the memory back: the body is not needed any more, or was given up. A nil Body, and one that has ended, does nothing.
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

// Used is the memory taken at this moment, and how many bodies were aborted so far.
func (in *Intake) Used() (bytes, aborted int64) {
	in.mu.Lock()
	defer in.mu.Unlock()
	return in.used, in.aborted
}
