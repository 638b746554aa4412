package intake

import (
	"errors"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"cqld/internal/await"
)

func quick(bytes int64) Limits {
	return Limits{Bytes: bytes, WaitMax: 5 * time.Second, Grace: 20 * time.Millisecond, RateMin: 1000}
}

func mustAdmit(t *testing.T, in *Intake, size int64, abort func()) *Body {
	t.Helper()
	b, err := in.Admit(size, false, abort, nil)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestStalledBodyIsAborted(t *testing.T) {
	synctest.Test(t, stalledBodyIsAborted) // time passes only while all goroutines wait
}

func stalledBodyIsAborted(t *testing.T) {
	in := New(quick(100))
	var stalled *Body
	aborted := make(chan struct{})
	stalled = mustAdmit(t, in, 60, func() { close(aborted); go stalled.End() })
	other := mustAdmit(t, in, 30, func() { t.Error("a body that makes progress was aborted") })
	var progress sync.WaitGroup
	defer progress.Wait()
	progress.Go(func() {
		for range 200 {
			other.Received(1000)
			time.Sleep(time.Millisecond)
		}
	})
	b := mustAdmit(t, in, 70, nil)
	<-aborted
	b.End()
	b.End()
	other.End()
	if used, n := in.Used(); used != 0 || n != 1 {
		t.Errorf("%d bytes are used, %d bodies were aborted", used, n)
	}
}

func TestNoAbortWithoutContention(t *testing.T) {
	synctest.Test(t, noAbortWithoutContention) // time passes only while all goroutines wait
}

func noAbortWithoutContention(t *testing.T) {
	in := New(quick(100))
	b := mustAdmit(t, in, 100, func() { t.Error("aborted") })
	time.Sleep(50 * time.Millisecond)
	b.End()
}

func TestWaitingEnds(t *testing.T) {
	l := quick(100)
	l.WaitMax, l.Grace = 20*time.Millisecond, time.Hour
	in := New(l)
	b := mustAdmit(t, in, 100, nil)
	if _, err := in.Admit(1, false, nil, nil); !errors.Is(err, ErrFull) {
		t.Errorf("after WaitMax: %v", err)
	}
	stop := make(chan struct{})
	close(stop)
	if _, err := in.Admit(1, false, nil, stop); !errors.Is(err, ErrFull) {
		t.Errorf("when it is stopped: %v", err)
	}
	b.End()
	mustAdmit(t, in, 1000, nil).End() // larger than the limit, but the only body
}

// For every order of events, memory in use never exceeds the limit, every Admit returns, and nothing is reserved at the
// end.
func TestNoMoreThanTheLimitIsUsed(t *testing.T) {
	const limit = 1000
	in := New(quick(limit))
	var used atomic.Int64
	var all sync.WaitGroup
	for i := range 64 {
		all.Go(func() {
			rng := rand.New(rand.NewPCG(uint64(i), 1))
			for range 30 {
				size := 1 + rng.Int64N(limit)
				var gone atomic.Bool
				b, err := in.Admit(size, i%2 == 0, func() { gone.Store(true) }, nil)
				if err != nil {
					continue
				}
				if n := used.Add(size); n > limit {
					t.Errorf("%d bytes are used", n)
				}
				for range rng.IntN(4) {
					if gone.Load() {
						break
					}
					time.Sleep(time.Duration(rng.IntN(2000)) * time.Microsecond)
					b.Received(int(size / 4))
				}
				used.Add(-size)
				b.End()
			}
		})
	}
	all.Wait()
	if n, _ := in.Used(); n != 0 || len(in.waiting) != 0 || len(in.bodies) != 0 {
		t.Errorf("%d bytes, %d waiting and %d bodies are left", n, len(in.waiting), len(in.bodies))
	}
}

func TestAdmissionOrder(t *testing.T) {
	l := quick(100)
	l.Grace = time.Hour
	in := New(l)
	b := mustAdmit(t, in, 100, nil)
	order := make(chan bool, 2)
	wait := func(first bool, waiting int) {
		go func() {
			b, err := in.Admit(100, first, nil, nil)
			if err != nil {
				t.Error(err)
			}
			order <- first
			b.End()
		}()
		await.Until(t, "the body waits", func() bool {
			in.mu.Lock()
			defer in.mu.Unlock()
			return len(in.waiting) >= waiting
		})
	}
	wait(false, 1)
	wait(true, 2)
	b.End()
	if !<-order || <-order {
		t.Error("admission out of order")
	}
}

// A body with first that precedes a waiting body is admitted at once if there is memory for it.
func TestFirstDoesNotWaitForALargerBody(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		in := New(quick(100))
		held := mustAdmit(t, in, 60, func() {})
		held.Complete()
		var waiting sync.WaitGroup
		waiting.Go(func() { mustAdmit(t, in, 50, func() {}).End() })
		synctest.Wait()
		began := time.Now()
		b, err := in.Admit(30, true, func() {}, nil)
		if err != nil || time.Since(began) > 0 {
			t.Errorf("admitted after %v: %v", time.Since(began), err)
		}
		b.End()
		held.End()
		waiting.Wait()
	})
}
