package jobs

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"
	"unicode/utf8"

	"cqld/internal/env"
)

// fixedClock is a clock that tests advance.
type fixedClock struct {
	mu  sync.Mutex
	now time.Duration
}

func (c *fixedClock) advance(d time.Duration) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.now += d
}

func (c *fixedClock) Monotonic() time.Duration {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.now
}

func (c *fixedClock) Now() time.Time                        { return time.Unix(1_000_000, 0).Add(c.Monotonic()) }
func (c *fixedClock) After(time.Duration, func()) env.Timer { panic("the registry sets no timer") }

// memoryStore is a LocalStore. A copy of its values is the state after a crash.
type memoryStore struct {
	mu     sync.Mutex
	values map[string]string
	writes int
	fail   error
}

func newStore() *memoryStore { return &memoryStore{values: map[string]string{}} }

func (s *memoryStore) SetLocal(key, value []byte, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.fail != nil {
		return s.fail
	}
	s.writes++
	s.values[string(key)] = string(value)
	return nil
}

func (s *memoryStore) DeleteLocal(key []byte, _ bool) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.values, string(key))
	return nil
}

func (s *memoryStore) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(s.crashed().values)) {
		if strings.HasPrefix(key, string(prefix)) {
			if err := f([]byte(key), []byte(s.values[key])); err != nil {
				return err
			}
		}
	}
	return nil
}

func (s *memoryStore) crashed() *memoryStore {
	s.mu.Lock()
	defer s.mu.Unlock()
	return &memoryStore{values: maps.Clone(s.values)}
}

func open(t testing.TB, clock env.Clock, store LocalStore, limits Limits) *Registry {
	t.Helper()
	r, err := Open(Options{Clock: clock, Store: store, Limits: limits, OnError: func(err error) { t.Error(err) }})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

func nothing(*Job) {}

func start(t testing.TB, r *Registry, work func(*Job)) *Job {
	t.Helper()
	j, err := r.Start(Spec{Kind: Repair, Target: "k.t", Unit: Ranges, Args: []byte("args"), Resumable: true}, work)
	if err != nil {
		t.Fatal(err)
	}
	return j
}

func state(t testing.TB, r *Registry, id string, want State) Snapshot {
	t.Helper()
	s, err := r.Get(id)
	if err != nil || s.State != want {
		t.Fatalf("job %s: %+v, %v; want %v", id, s, err, want)
	}
	return s
}

func TestJobOutcomeMatchesWork(t *testing.T) {
	r := open(t, &fixedClock{}, newStore(), Limits{})
	done, failed, cancelled, completed := start(t, r, nothing), start(t, r, nothing), start(t, r, nothing),
		start(t, r, nothing)
	done.End(nil)
	failed.End(errors.New("the disk is full"))
	stopped := 0
	cancelled.OnCancel(func() { stopped++ })
	completed.OnCancel(func() {})
	for _, j := range []*Job{cancelled, cancelled, completed} {
		if err := r.Cancel(j.ID()); err != nil {
			t.Fatal(err)
		}
	}
	state(t, r, cancelled.ID(), Running) // its work has not stopped yet
	cancelled.End(errors.New("context canceled"))
	completed.End(nil) // it completed before it noticed
	state(t, r, done.ID(), Done)
	if s := state(t, r, failed.ID(), Failed); s.Error != "the disk is full" {
		t.Errorf("the error is %q", s.Error)
	}
	state(t, r, cancelled.ID(), Cancelled)
	state(t, r, completed.ID(), Done)
	if stopped != 1 {
		t.Errorf("the work was stopped %d times", stopped)
	}
	done.End(errors.New("late"))
	done.Progress(1, 2, "late")
	if s := state(t, r, done.ID(), Done); s.Phase != "" {
		t.Errorf("a late report changed %+v", s)
	}
	for _, c := range []struct {
		id   string
		want error
	}{{"77", ErrUnknown}, {done.ID(), ErrEnded}} {
		if err := r.Cancel(c.id); !errors.Is(err, c.want) {
			t.Errorf("cancelling job %s: %v", c.id, err)
		}
	}
	if _, err := r.Resume(done.ID(), nothing); !errors.Is(err, ErrCompleted) {
		t.Errorf("resuming a job that is done: %v", err)
	}
}

func TestCancelledJobStopsWhenPossible(t *testing.T) {
	r := open(t, &fixedClock{}, nil, Limits{})
	j := start(t, r, nothing)
	if err := r.Cancel(j.ID()); !errors.Is(err, ErrNotCancellable) {
		t.Fatalf("a job without a way to stop it: %v", err)
	}
	j.OnCancel(func() {})
	if err := r.Cancel(j.ID()); err != nil {
		t.Fatal(err)
	}
	called := false
	j.OnCancel(func() { called = true }) // the next part of the work
	if !called {
		t.Error("the part that began after Cancel was not stopped")
	}
}

func TestJobsWaitForASlot(t *testing.T) {
	r := open(t, &fixedClock{}, newStore(), Limits{Running: 1, Queued: 2})
	var began []string
	work := func(j *Job) { began = append(began, j.ID()) }
	first, second, third := start(t, r, work), start(t, r, work), start(t, r, work)
	if _, err := r.Start(Spec{Kind: Repair}, work); !errors.Is(err, ErrTooMany) {
		t.Fatalf("a job beyond the bound: %v", err)
	}
	state(t, r, second.ID(), Queued)
	if err := r.Cancel(second.ID()); err != nil {
		t.Fatal(err)
	}
	state(t, r, second.ID(), Cancelled)
	first.End(nil)
	state(t, r, third.ID(), Running)
	third.End(nil)
	if !slices.Equal(began, []string{first.ID(), third.ID()}) {
		t.Errorf("the work of %v began", began)
	}
	if _, err := r.Resume(second.ID(), work); err != nil {
		t.Fatal(err)
	}
	if s := state(t, r, second.ID(), Running); s.Attempt != 2 {
		t.Errorf("attempt %d", s.Attempt)
	}
}

// TestQueuedJobsRunInSequence ends every work immediately: queued jobs must not nest on the stack out of order.
func TestQueuedJobsRunInSequence(t *testing.T) {
	r := open(t, &fixedClock{}, newStore(), Limits{Running: 1, Queued: 64})
	first := start(t, r, nothing)
	var order []string
	for range 50 {
		start(t, r, func(j *Job) { order = append(order, j.ID()); j.End(nil) })
	}
	first.End(nil)
	if len(order) != 50 || !slices.IsSortedFunc(order, func(a, b string) int { return len(a) - len(b) }) {
		t.Errorf("ran %v", order)
	}
}

func TestResumeContinuesAfterCrash(t *testing.T) {
	clock, store := &fixedClock{}, newStore()
	r := open(t, clock, store, Limits{})
	j, ended := start(t, r, nothing), start(t, r, nothing)
	ended.End(nil)
	j.Progress(3, 10, "k.t")
	j.SetCheckpoint([]byte("after range 3"))
	store = store.crashed()
	clock.advance(time.Hour)

	r = open(t, clock, store, Limits{})
	state(t, r, ended.ID(), Done)
	s := state(t, r, j.ID(), Interrupted)
	if s.Done != 3 || s.Total != 10 || string(s.Args) != "args" || s.Error == "" || s.Target != "k.t" ||
		s.Unit != Ranges {
		t.Errorf("after the crash: %+v", s)
	}
	if c, err := r.Wait(j.ID()); err != nil {
		t.Fatal(err)
	} else {
		<-c
	}
	again, err := r.Resume(j.ID(), nothing)
	if err != nil {
		t.Fatal(err)
	}
	if string(again.Checkpoint()) != "after range 3" || string(again.Args()) != "args" {
		t.Errorf("resumed with %q, %q", again.Checkpoint(), again.Args())
	}
	if _, err := r.Resume(j.ID(), nothing); !errors.Is(err, ErrStillRunning) {
		t.Errorf("resumed twice: %v", err)
	}
	again.Progress(3, 10, "k.t")
	clock.advance(4 * time.Second)
	again.Progress(5, 10, "k.t")
	if s = state(t, r, j.ID(), Running); s.Attempt != 2 || s.Left != 10*time.Second {
		t.Errorf("the estimate counts the first attempt: %+v", s)
	}
	if next := start(t, r, nothing); next.ID() == j.ID() || next.ID() == ended.ID() {
		t.Errorf("id %s is used again", next.ID())
	}
	r.Close()
	again.End(nil)
	if _, err := r.Start(Spec{Kind: Repair}, nothing); !errors.Is(err, ErrClosed) {
		t.Errorf("started after Close: %v", err)
	}
	r = open(t, clock, store.crashed(), Limits{})
	state(t, r, j.ID(), Interrupted)
}

func TestExternalJobsAreNotStored(t *testing.T) {
	store := newStore()
	r := open(t, &fixedClock{}, store, Limits{Running: 1, External: 1})
	start(t, r, nothing)
	spec := Spec{External: "ring-7", Kind: "join", Target: "127.0.0.4", Unit: Nodes, Resumable: true}
	j, err := r.Start(spec, nothing) // external jobs do not take the slot of the local job
	if err != nil {
		t.Fatal(err)
	}
	state(t, r, "ring-7", Running)
	for _, id := range []string{"ring-7", "ring-8"} {
		spec.External = id
		if _, err := r.Start(spec, nothing); err == nil {
			t.Errorf("%s was started", id)
		}
	}
	j.End(ErrCancelled)
	state(t, r, "ring-7", Cancelled)
	if _, err := r.Resume("ring-7", nothing); !errors.Is(err, ErrNotResumable) {
		t.Errorf("resumed: %v", err)
	}
	if _, err := open(t, &fixedClock{}, store.crashed(), Limits{}).Get("ring-7"); !errors.Is(err, ErrUnknown) {
		t.Errorf("it was stored: %v", err)
	}
	spec.External = "ring-7" // shown again
	if _, err := r.Start(spec, nothing); err != nil {
		t.Error(err)
	}
	if n := len(r.List()); n != 2 {
		t.Errorf("%d jobs", n)
	}
	// Ended external jobs do not replace local ones.
	r = open(t, &fixedClock{}, newStore(), Limits{Ended: 2})
	local := start(t, r, nothing)
	local.End(nil)
	for i := range 5 {
		spec.External = fmt.Sprint("ring-", i)
		j, err := r.Start(spec, nothing)
		if err != nil {
			t.Fatal(err)
		}
		j.End(nil)
	}
	state(t, r, local.ID(), Done)
	if n := len(r.List()); n != 3 {
		t.Errorf("%d jobs", n)
	}
}

// TestTextsAreCutBetweenCharacters ends a job with an error of characters of 1 to 4 bytes, at each offset. Operators
// see the same text before and after a restart, which reads it from JSON.
func TestTextsAreCutBetweenCharacters(t *testing.T) {
	for _, c := range []string{"a", "é", "€", "𝄞"} {
		for offset := range utf8.UTFMax {
			store := newStore()
			r := open(t, &fixedClock{}, store, Limits{})
			j := start(t, r, nothing)
			whole := strings.Repeat("x", offset) + strings.Repeat(c, textBytesMax+1)
			j.End(errors.New(whole))
			got := state(t, r, j.ID(), Failed).Error
			kept, cut := strings.CutSuffix(got, "…")
			if !cut || !utf8.ValidString(got) || !strings.HasPrefix(whole, kept) || len(kept) > textBytesMax ||
				len(kept) <= textBytesMax-len(c) {
				t.Errorf("%q after %d bytes: %d bytes are kept, which end in %q", c, offset, len(kept),
					got[len(got)-8:])
			}
			restarted := open(t, &fixedClock{}, store.crashed(), Limits{})
			if after := state(t, restarted, j.ID(), Failed).Error; after != got {
				t.Errorf("%q after %d bytes: a restart has changed the text to %q", c, offset, after[len(after)-8:])
			}
		}
	}
}

func TestProgressIsStoredSeldom(t *testing.T) {
	clock, store := &fixedClock{}, newStore()
	r := open(t, clock, store, Limits{StoreEvery: time.Second})
	j := start(t, r, nothing)
	before := store.writes
	for i := range 1000 {
		j.Progress(int64(i), 1000, "k.t")
		clock.advance(5 * time.Millisecond)
	}
	if n := store.writes - before; n < 4 || n > 5 {
		t.Errorf("%d records in 5 s", n)
	}
}

func TestJobsRunWithoutRecords(t *testing.T) {
	store := newStore()
	store.fail = errors.New("disk full")
	errs := 0
	r, err := Open(Options{Clock: &fixedClock{}, Store: store, OnError: func(error) { errs++ }})
	if err != nil {
		t.Fatal(err)
	}
	j := start(t, r, nothing)
	j.End(nil)
	state(t, r, j.ID(), Done)
	if errs != 2 {
		t.Errorf("%d errors reported", errs)
	}
}

func TestEstimatesFollowTheRate(t *testing.T) {
	for seed := range uint64(200) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		clock := &fixedClock{}
		r := open(t, clock, nil, Limits{})
		j := start(t, r, nothing)
		total, per := 1+rnd.Int64N(1000), time.Duration(1+rnd.Int64N(int64(time.Minute)))
		for done := int64(1); done <= total; done++ {
			clock.advance(per)
			j.Progress(done, total, "")
			s, _ := r.Get(j.ID())
			if want := time.Duration(total-done) * per; (s.Left - want).Abs() > time.Duration(total) {
				t.Fatalf("seed %d: %d of %d at %v each: %v left, want %v", seed, done, total, per, s.Left, want)
			}
			clock.advance(0)
		}
		clock.advance(time.Hour) // no progress
		if s, _ := r.Get(j.ID()); s.Left != 0 || s.Done != total {
			t.Fatalf("seed %d: %+v", seed, s)
		}
	}
}

// TestRandomHistories calls a registry at random, with crashes, and checks its invariants after each step.
func TestRandomHistories(t *testing.T) {
	for seed := range uint64(300) {
		h := &history{t: t, rnd: rand.New(rand.NewPCG(seed, 2)), clock: &fixedClock{}, store: newStore(),
			last: map[string]Snapshot{}}
		h.limits = Limits{Running: 1 + h.rnd.IntN(3), Queued: 1 + h.rnd.IntN(3), Ended: 1 + h.rnd.IntN(5),
			StoreEvery: time.Second}
		h.reopen()
		for step := range 150 {
			h.step()
			h.check(fmt.Sprintf("seed %d, step %d", seed, step))
		}
	}
}

type history struct {
	t      *testing.T
	rnd    *rand.Rand
	clock  *fixedClock
	store  *memoryStore
	limits Limits
	r      *Registry
	jobs   []*Job
	last   map[string]Snapshot
	ids    []string // of local jobs, in the order of Start
}

func (h *history) reopen() {
	h.store = h.store.crashed()
	h.r = open(h.t, h.clock, h.store, h.limits)
}

func (h *history) work(j *Job) {
	if h.rnd.IntN(4) > 0 {
		j.OnCancel(func() {
			if h.rnd.IntN(2) == 0 {
				j.End(errors.New("stopped"))
			}
		})
	}
	if h.rnd.IntN(10) == 0 {
		j.End(nil)
	}
}

func (h *history) step() {
	h.clock.advance(time.Duration(h.rnd.Int64N(int64(time.Second))))
	any := func() *Job {
		if len(h.jobs) == 0 {
			return start(h.t, open(h.t, h.clock, nil, Limits{}), nothing) // of another registry
		}
		return h.jobs[h.rnd.IntN(len(h.jobs))]
	}
	switch k := h.rnd.IntN(20); {
	case k < 6:
		if j, err := h.r.Start(Spec{Kind: Repair, Unit: Ranges, Resumable: h.rnd.IntN(3) > 0}, h.work); err == nil {
			h.jobs, h.ids = append(h.jobs, j), append(h.ids, j.ID())
		}
	case k < 10:
		any().Progress(h.rnd.Int64N(12), h.rnd.Int64N(12), "phase")
	case k < 13:
		var err error
		if h.rnd.IntN(2) == 0 {
			err = errors.New("failed")
		}
		any().End(err)
	case k < 15:
		_ = h.r.Cancel(any().ID())
	case k < 18:
		if j, err := h.r.Resume(any().ID(), h.work); err == nil {
			h.jobs = append(h.jobs, j)
		}
	case k < 19:
		h.reopen()
	default:
		h.r.Close()
		h.reopen()
	}
}

func (h *history) check(at string) {
	h.t.Helper()
	running, queued, ended := 0, 0, 0
	for _, s := range h.r.List() {
		switch {
		case s.State == Running:
			running++
		case s.State == Queued:
			queued++
		default:
			ended++
		}
		old, known := h.last[s.ID]
		if known && (s.Attempt < old.Attempt || s.Attempt == old.Attempt && s.State < old.State) {
			h.t.Fatalf("%s: job %s went from %v of attempt %d to %v of attempt %d", at, s.ID, old.State, old.Attempt,
				s.State, s.Attempt)
		}
		if known && s.Attempt == old.Attempt && old.State.Ended() && s.State != old.State {
			h.t.Fatalf("%s: job %s ended twice: %v, %v", at, s.ID, old.State, s.State)
		}
		if s.Done < 0 || s.Total > 0 && s.Done > s.Total || s.Left < 0 || s.State.Ended() == s.Ended.IsZero() &&
			s.State != Interrupted {
			h.t.Fatalf("%s: %+v", at, s)
		}
		h.last[s.ID] = s
	}
	if running > h.limits.Running || queued > h.limits.Queued || ended > h.limits.Ended || queued > 0 &&
		running < h.limits.Running {
		h.t.Fatalf("%s: %d running, %d queued, %d ended of %+v", at, running, queued, ended, h.limits)
	}
	if n := len(h.store.values); n != running+queued+ended {
		h.t.Fatalf("%s: %d records of %d jobs", at, n, running+queued+ended)
	}
	if ids := slices.Compact(slices.Sorted(slices.Values(h.ids))); len(ids) != len(h.ids) {
		h.t.Fatalf("%s: an id is used again: %v", at, h.ids)
	}
}

func TestConcurrentUse(t *testing.T) {
	clock, store := &fixedClock{}, newStore()
	r := open(t, clock, store, Limits{Running: 2, Queued: 1000, StoreEvery: 1})
	var group sync.WaitGroup
	for range 8 {
		group.Go(func() {
			for range 50 {
				j, err := r.Start(Spec{Kind: Repair, Resumable: true}, func(j *Job) {
					group.Go(func() { j.Progress(1, 2, ""); clock.advance(1); j.Progress(2, 2, ""); j.End(nil) })
				})
				if err != nil {
					t.Error(err)
					return
				}
				_ = r.Cancel(j.ID())
				r.List()
				<-j.Ended()
			}
		})
	}
	group.Wait()
	for _, s := range open(t, clock, store.crashed(), Limits{}).List() {
		if now, _ := r.Get(s.ID); now.State != s.State {
			t.Errorf("job %s is %v and stored as %v", s.ID, now.State, s.State)
		}
	}
}

func FuzzRecord(f *testing.F) {
	clock, store := &fixedClock{}, newStore()
	j := start(f, open(f, clock, store, Limits{}), nothing)
	j.SetCheckpoint([]byte("checkpoint"))
	for key, value := range store.values {
		f.Add([]byte(key), []byte(value))
	}
	f.Fuzz(func(t *testing.T, key, value []byte) {
		e, err := decodeRecord(key, value)
		if err != nil {
			return
		}
		b, err := e.encode()
		if err != nil {
			t.Fatal(err)
		}
		again, err := decodeRecord(recordKey(e.number), b)
		if err != nil || again.s.State != e.s.State || again.s.ID != e.s.ID || !again.s.State.Ended() {
			t.Fatalf("%+v became %+v, %v", e.s, again, err)
		}
	})
}
