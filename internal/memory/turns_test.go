package memory

import (
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"

	"cqld/internal/env"
)

// signaled is a waiter without a goroutine; the test inspects given.
type signaled struct{ given bool }

func (s *signaled) Wait()   {}
func (s *signaled) Signal() { s.given = true }

// computation is a Turn that a test executes step by step.
type computation struct {
	Turn
	signaled
	passed map[*Owner]int // turns that were given to each owner since it began to wait
	before int            // computations of its owner that waited before it
}

// turnOrder executes random steps of computations without goroutines, and checks the statements of turns.
type turnOrder struct {
	t       *testing.T
	r       *rand.Rand
	s       turns
	bound   int
	owners  []*Owner
	running []*computation
	waiting []*computation
}

func (o *turnOrder) begin() {
	c := &computation{}
	c.owner, c.waiter = o.owners[o.r.IntN(len(o.owners))], &c.signaled
	o.queued(c, o.s.takeLocked(&c.Turn))
}

// queued records whether a computation has a turn, or waits.
func (o *turnOrder) queued(c *computation, now bool) {
	if now {
		o.running = append(o.running, c)
		return
	}
	c.given, c.passed, c.before = false, map[*Owner]int{}, 0
	for _, w := range o.waiting {
		if w.owner == c.owner {
			c.before++
		}
	}
	o.waiting = append(o.waiting, c)
}

// step begins a computation, or has one that runs end or offer its turn.
func (o *turnOrder) step() {
	if n := len(o.running); n > 0 && o.r.IntN(3) > 0 {
		i := o.r.IntN(n)
		c := o.running[i]
		o.running = append(o.running[:i:i], o.running[i+1:]...)
		if o.r.IntN(2) == 0 {
			o.s.passLocked()
			o.collect()
			return
		}
		now := o.s.offerLocked(&c.Turn)
		o.collect()
		o.queued(c, now)
		return
	}
	o.begin()
}

// collect moves the computation that was given a turn to running, and checks that no other one should have had it.
func (o *turnOrder) collect() {
	left := o.waiting[:0]
	var given *computation
	for _, c := range o.waiting {
		if c.given {
			if given != nil {
				o.t.Fatal("one turn was given to two computations")
			}
			given = c
			continue
		}
		left = append(left, c)
	}
	o.waiting = left
	if given == nil {
		return
	}
	for _, c := range o.waiting {
		c.passed[given.owner]++
	}
	for owner, n := range given.passed {
		if most := given.before + 1; n > most || owner == given.owner && n > given.before {
			o.t.Fatalf("a computation with %d of its owner before it waited for %d of another one", given.before, n)
		}
	}
	o.running = append(o.running, given)
}

// TestOwnersHaveTurnsAlike starts, pauses and ends computations of several owners at random. It checks three rules:
// the number of turns never exceeds the bound; no computation waits while a turn is free; owners are served in turn, so
// between two computations of one owner, every other owner gets at most one turn.
func TestOwnersHaveTurnsAlike(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 25))
		o := &turnOrder{t: t, r: r, bound: 1 + r.IntN(6), owners: make([]*Owner, 1+r.IntN(6))}
		for i := range o.owners[1:] { // one owner is nil
			o.owners[i+1] = &Owner{}
		}
		o.s.free = o.bound
		for range 400 {
			o.step()
			if len(o.running)+o.s.free != o.bound || len(o.waiting) > 0 && o.s.free > 0 {
				t.Fatalf("seed %d: %d turns, %d free of %d, %d wait", seed, len(o.running), o.s.free, o.bound,
					len(o.waiting))
			}
		}
		for len(o.running) > 0 {
			o.running = o.running[1:]
			o.s.passLocked()
			o.collect()
		}
		if len(o.waiting) > 0 || o.s.free != o.bound || len(o.s.queue) > 0 || len(o.s.order) > 0 {
			t.Fatalf("seed %d: %d wait without end", seed, len(o.waiting))
		}
	}
}

// TestStormHasNoEffectOnAnotherOwner has 1,000 computations of one owner wait. Another owner's next computation is the
// next.
func TestStormHasNoEffectOnAnotherOwner(t *testing.T) {
	var s turns
	s.free = 2
	storm, other := &Owner{}, &Owner{}
	for range 1002 {
		c := &computation{}
		c.owner, c.waiter = storm, &c.signaled
		s.takeLocked(&c.Turn)
	}
	for range 10 {
		c := &computation{}
		c.owner, c.waiter = other, &c.signaled
		s.takeLocked(&c.Turn)
		s.passLocked()
		if s.passLocked(); !c.given {
			t.Fatal("two turns were given to the owner with 1,000 computations")
		}
	}
}

// TestShortComputationsNeedNoTurn executes one short computation beside long ones that have all turns, and then a long
// one of several requests, which wait for memory meanwhile.
func TestShortComputationsNeedNoTurn(t *testing.T) {
	p := New(Options{Limits: Limits{Bytes: 1 << 20, Turns: 1}})
	var long, short Turn
	p.Turn(&long, nil)
	long.Work(turnFree + 1)
	p.Turn(&short, nil)
	short.Work(turnFree - workEach)
	short.Rest()
	if p.turns.free != 0 || p.turns.waits != 0 {
		t.Fatalf("%d turns are free, %d computations have waited", p.turns.free, p.turns.waits)
	}
	long.Rest()
	long.Work(1) // it stays long
	if p.turns.free != 0 {
		t.Fatal("a long computation has no turn after a rest")
	}
	long.Rest()
}

// TestComputationsEnd executes requests that need turns and memory, which they hold while they wait for the other. All
// end, at most the bound compute at a time, and nothing is held afterwards.
func TestComputationsEnd(t *testing.T) {
	const bound, requests, steps = 2, 32, 50
	p := New(Options{Limits: Limits{Bytes: 1 << 20, Turns: bound}, NewWaiter: env.NewChannelWaiter})
	owners := []*Owner{nil, {}, {}, {}}
	var computing, most atomic.Int32
	var all sync.WaitGroup
	for i := range requests {
		all.Go(func() {
			r := rand.New(rand.NewPCG(uint64(i), 26))
			for range steps {
				var a Account
				p.Open(&a, Origin{Role: owners[i%len(owners)]}, nil)
				for range 1 + r.IntN(3) {
					if a.Grow(t.Context(), 1+r.Int64N(160<<10)) != nil {
						break
					}
					a.Work(turnFree + r.IntN(2*turnBytes))
					a.Work(1)
					if n := computing.Add(1); n > most.Load() {
						most.Store(n)
					}
					runtime.Gosched()
					computing.Add(-1)
				}
				a.Close()
			}
		})
	}
	all.Wait()
	if most.Load() > bound || p.turns.free != bound || p.Used() != 0 || len(p.turns.queue) > 0 {
		t.Errorf("%d computed at a time, %d turns are free of %d, %d bytes are held", most.Load(), p.turns.free, bound,
			p.Used())
	}
	if p.turns.waits == 0 {
		t.Error("no computation has waited")
	}
}
