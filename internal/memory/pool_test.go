package memory

import (
	"context"
	"errors"
	"math/rand/v2"
	"runtime"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/testclock"
)

func testPool(l Limits) (*Pool, *testclock.Clock) {
	clock := new(testclock.Clock)
	return New(Options{Limits: l, Clock: clock}), clock
}

// TestProperty executes random requests concurrently. They hold memory while they wait for more, and some leave replies
// that their clients read later. All of them end, the pool never uses more than Bytes + Reserve, and everything is
// returned.
func TestProperty(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		l := Limits{Bytes: 1<<20 + r.Int64N(4<<20), Waiters: 1 << 20}
		l.Reserve = l.Bytes / (1 + r.Int64N(4))
		p, _ := testPool(l)
		owners := []*Owner{nil, {}, {}, {}}
		roles := []*Owner{nil, {}, {}}
		var all sync.WaitGroup
		var ended atomic.Int64
		const requests = 64
		for i := range requests {
			own := rand.New(rand.NewPCG(seed, uint64(i)))
			flow := new(Flow)
			all.Add(1)
			go func() {
				defer all.Done()
				var a Account
				for range 8 {
					p.Open(&a, Origin{roles[own.IntN(len(roles))], owners[own.IntN(len(owners))]}, flow)
					randomRequest(t, p, &a, own, l.Reserve)
					ended.Add(1)
				}
			}()
		}
		all.Wait()
		s := p.Stats()
		if s.Peak > l.Bytes+l.Reserve || s.Used != 0 || s.Waiting != 0 || s.Refused != 0 || ended.Load() != 8*requests {
			t.Fatalf("seed %d: limits %+v, stats %+v, %d ended", seed, l, s, ended.Load())
		}
		for _, o := range append(owners, roles...) {
			if o.bytes() != 0 {
				t.Fatalf("seed %d: an owner has %d bytes", seed, o.bytes())
			}
		}
	}
}

// TestSpareMemory checks that a small account keeps returned memory for its next Grow and its reply only, and that a
// large one does not keep any.
func TestSpareMemory(t *testing.T) {
	p, _ := testPool(Limits{Bytes: 1 << 20})
	role, address := new(Owner), new(Owner)
	var a Account
	p.Open(&a, Origin{role, address}, nil)
	check := func(what string, bytes, used, ofRole, ofAddress int64) {
		t.Helper()
		if a.Bytes() != bytes || p.Used() != used || role.bytes() != ofRole || address.bytes() != ofAddress {
			t.Errorf("%s: %d bytes, %d used, %d of the role, %d of the address", what, a.Bytes(), p.Used(),
				role.bytes(), address.bytes())
		}
	}
	grow := func(n int64) {
		t.Helper()
		if !a.TryGrow(n) {
			t.Errorf("no memory for %d bytes", n)
		}
	}
	grow(smallMax)
	a.Spare(smallMax - 100)
	check("kept", 100, smallMax, smallMax, smallMax)
	grow(1000)
	check("used again", 1100, smallMax, smallMax, smallMax)
	a.ReturnSpare()
	check("returned", 1100, 1100, 1100, 1100)
	a.Spare(1000)
	grow(smallMax)
	check("a larger account", smallMax+100, smallMax+100, smallMax+100, smallMax+100)
	a.Spare(smallMax)
	check("returned by a large account", 100, 100, 100, 100)
	reply := a.Detach()
	check("detached", 0, 100, 0, 100)
	p.Return(reply)
	address.Hold(-reply.Bytes())
	grow(5000)
	a.Spare(4000)
	reply = a.DetachOnly(a.Bytes())
	check("detached without the rest", 0, 1000, 0, 1000)
	p.Return(reply)
	address.Hold(-reply.Bytes())
	a.Close()
	check("closed", 0, 0, 0, 0)
}

// randomRequest grows and shrinks a within most bytes, and closes it.
func randomRequest(t *testing.T, p *Pool, a *Account, r *rand.Rand, most int64) {
	owner := a.origin.Address
	for range 1 + r.IntN(6) {
		n := r.Int64N(most / 2)
		if r.IntN(3) == 0 {
			n %= smallMax
		}
		switch {
		case r.IntN(4) == 0:
			a.Shrink(a.Bytes() / 2)
		case r.IntN(4) == 0:
			a.Spare(a.Bytes() / 2)
		case a.Bytes()+n <= most:
			if err := a.Grow(context.Background(), n); err != nil {
				t.Error(err)
			}
		}
		runtime.Gosched()
	}
	var reply Held
	switch r.IntN(4) {
	case 0:
		reply = a.Detach()
	case 1:
		reply = a.DetachOnly(a.Bytes() / 2)
	}
	a.Close()
	runtime.Gosched()
	owner.Hold(-reply.Bytes())
	p.Return(reply)
}

func TestAccountBound(t *testing.T) {
	p, _ := testPool(Limits{Bytes: 1 << 20, Reserve: 1 << 19})
	var a Account
	p.Open(&a, Origin{}, nil)
	var large *TooLarge
	if err := a.Grow(context.Background(), 1<<19+1); !errors.As(err, &large) || large.Max != 1<<19 {
		t.Fatal(err)
	}
	if err := a.Grow(context.Background(), 1<<19); err != nil || p.Used() != 1<<19 {
		t.Fatal(err, p.Used())
	}
	a.Close()
	if p.Used() != 0 {
		t.Fatal(p.Used())
	}
}

// awaitWaiting returns when n accounts wait, and have set their timers.
func awaitWaiting(p *Pool, n int) {
	for p.Stats().Waiting != n {
		runtime.Gosched()
	}
	p.Wake()
}

// TestPatience checks that a wait ends with ErrExhausted, that small requests do not wait for large ones, and that the
// pool looks for clients that do not read.
func TestPatience(t *testing.T) {
	p, clock := testPool(Limits{Bytes: 8 << 20, Reserve: 4 << 20, WaitMax: time.Second})
	looks := 0
	p.OnShortage(func() { looks++ })
	reply, ok := p.Reserve(7 << 20)
	if _, more := p.Reserve(smallMax + 1); !ok || more {
		t.Fatal("the bound of large requests is not 7 MiB")
	}
	// The first account that waits has the privilege.
	var a, b, small Account
	p.Open(&a, Origin{}, nil)
	if err := a.Grow(context.Background(), 1<<20); err != nil {
		t.Fatal(err)
	}
	result := make(chan error)
	p.Open(&b, Origin{}, nil)
	go func() { result <- b.Grow(context.Background(), 1<<20) }()
	awaitWaiting(p, 1)
	p.Open(&small, Origin{}, nil)
	if !small.TryGrow(smallMax) || small.TryGrow(1) {
		t.Fatal("a small request waits, or a large one does not")
	}
	for range 4 {
		clock.Advance(lookEvery)
	}
	if err := <-result; !errors.Is(err, ErrExhausted) || looks != 3 || p.Stats().Refused != 1 {
		t.Fatal(err, looks, p.Stats())
	}
	ctx, cancel := context.WithCancel(context.Background())
	go func() { result <- b.Grow(ctx, 1<<20) }()
	awaitWaiting(p, 1)
	cancel()
	if err := <-result; !errors.Is(err, context.Canceled) {
		t.Fatal(err)
	}
	a.Close()
	small.Close()
	if p.Return(reply); p.Used() != 0 {
		t.Fatal(p.Stats())
	}
}

// TestFairness shows that the owner with less memory is first, and that a connection whose client does not read waits.
func TestFairness(t *testing.T) {
	p, _ := testPool(Limits{Bytes: 16 << 20, Reserve: 8 << 20})
	greedy, modest := &Owner{}, &Owner{}
	var held [3]Account
	for i := range held {
		p.Open(&held[i], Origin{Address: greedy}, nil)
		if err := held[i].Grow(context.Background(), 4<<20); err != nil {
			t.Fatal(err)
		}
	}
	var first, second, third, privileged Account
	p.Open(&privileged, Origin{Address: greedy}, nil)
	if err := privileged.Grow(context.Background(), 4<<20); err != nil {
		t.Fatal(err)
	}
	flow := new(Flow)
	flow.Stop(true)
	p.Open(&first, Origin{}, flow)
	p.Open(&second, Origin{Address: greedy}, nil)
	p.Open(&third, Origin{Address: modest}, nil)
	order := make(chan string, 3)
	wait := func(name string, a *Account, waiting int) {
		go func() {
			if err := a.Grow(context.Background(), 2<<20); err != nil {
				t.Error(err)
			}
			order <- name
		}()
		awaitWaiting(p, waiting)
	}
	wait("stopped", &first, 1)
	wait("greedy", &second, 2)
	wait("modest", &third, 3)
	for i, want := range []string{"modest", "greedy", "stopped"} {
		if i == 2 {
			flow.Stop(false)
			p.Wake()
		}
		held[i].Close()
		if got := <-order; got != want {
			t.Fatalf("%d: %s is first, want %s", i, got, want)
		}
	}
}
