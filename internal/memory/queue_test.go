package memory

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
)

// crowd is a pool in which accounts wait without goroutines; the test inspects waiting.
type crowd struct {
	*Pool
	r       *rand.Rand
	running []*Account // in the order in which they were given memory
	waiting []*Account
}

// request opens an account that needs size bytes, and queues it if it must wait.
func (c *crowd) request(o Origin, size int64) *Account {
	a := new(Account)
	c.Open(a, o, nil)
	if a.TryGrow(size) {
		c.running = append(c.running, a)
		return a
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	if !c.enqueueLocked(a, size) {
		a.err = ErrExhausted
		return a
	}
	c.waiting = append(c.waiting, a)
	c.grantLocked()
	c.collect()
	return a
}

// collect moves the accounts that were given memory from waiting to running. It returns them.
func (c *crowd) collect() (given []*Account) {
	left := c.waiting[:0]
	for _, a := range c.waiting {
		switch {
		case a.waiting:
			left = append(left, a)
		case a.err == nil:
			c.running = append(c.running, a)
			given = append(given, a)
		}
	}
	c.waiting = left
	return given
}

// end ends the request that has run longest, and returns those that were given its memory.
func (c *crowd) end() []*Account {
	a := c.running[0]
	c.running = c.running[1:]
	a.Close()
	return c.collect()
}

func newCrowd(seed uint64, waiters int) *crowd {
	r := rand.New(rand.NewPCG(seed, 1))
	p, _ := testPool(Limits{Bytes: 8<<20 + r.Int64N(56<<20), Waiters: waiters})
	return &crowd{Pool: p, r: r}
}

// storms are the origins of 1,000 requests that wait. The second client has another role and address, unless they are
// common.
var storms = map[string]struct {
	storm  func(c *crowd, roles, addresses []*Owner, i int) Origin
	second func(roles, addresses []*Owner) Origin
}{
	"one role, many addresses": {
		func(_ *crowd, roles, addresses []*Owner, i int) Origin { return Origin{roles[0], addresses[i%500]} },
		func(roles, addresses []*Owner) Origin { return Origin{roles[500], addresses[500]} },
	},
	"one role, many addresses, one of them common": {
		func(_ *crowd, roles, addresses []*Owner, i int) Origin { return Origin{roles[0], addresses[i%500]} },
		func(roles, addresses []*Owner) Origin { return Origin{roles[500], addresses[0]} },
	},
	"many roles, one address": {
		func(_ *crowd, roles, addresses []*Owner, i int) Origin { return Origin{roles[i%500], addresses[0]} },
		func(roles, addresses []*Owner) Origin { return Origin{roles[500], addresses[500]} },
	},
	"one role and address, the address common": {
		func(_ *crowd, roles, addresses []*Owner, _ int) Origin { return Origin{roles[0], addresses[0]} },
		func(roles, addresses []*Owner) Origin { return Origin{roles[500], addresses[0]} },
	},
	"addresses without roles": {
		func(c *crowd, _, addresses []*Owner, _ int) Origin { return Origin{nil, addresses[c.r.IntN(3)]} },
		func(_, addresses []*Owner) Origin { return Origin{nil, addresses[500]} },
	},
}

// TestStormsDelayOthersByWhatRuns has 1,000 requests wait, of random sizes, and then some of a second client, which
// may have run requests before. At most two of the waiting requests, which have the privilege, are given memory
// before each of its requests, and each has memory when those that ran as it came have ended.
func TestStormsDelayOthersByWhatRuns(t *testing.T) {
	for name, s := range storms {
		t.Run(name, func(t *testing.T) {
			for seed := range uint64(5) {
				c := newCrowd(seed, 1<<20)
				roles, addresses := make([]*Owner, 501), make([]*Owner, 501)
				for i := range roles {
					roles[i], addresses[i] = &Owner{}, &Owner{}
				}
				size := func() int64 { return smallMax + 1 + c.r.Int64N(c.o.Reserve-smallMax)/(1+c.r.Int64N(64)) }
				for i := 0; len(c.waiting) < 1000; i++ {
					c.request(s.storm(c, roles, addresses, i), size())
				}
				for range c.r.IntN(300) {
					c.end()
				}
				for round := range 5 {
					if err := c.secondClient(s.second(roles, addresses), size()); err != nil {
						t.Fatalf("seed %d, request %d: %v", seed, round, err)
					}
				}
			}
		})
	}
}

// secondClient sends a request, ends others until it has memory, and ends it.
func (c *crowd) secondClient(o Origin, size int64) error {
	ran := len(c.running)
	a := c.request(o, size)
	storm := 0
	for ended := 0; a.waiting; ended++ {
		if ended > ran+1 {
			return fmt.Errorf("it waits after the end of the %d requests that ran", ran)
		}
		if given := len(c.end()); a.waiting { // requests that began at the same moment use the rest
			storm += given
		}
	}
	if storm > 2 {
		return fmt.Errorf("%d requests that had waited were served before it", storm)
	}
	for i, x := range c.running {
		if x == a {
			c.running = append(c.running[:i], c.running[i+1:]...)
			break
		}
	}
	a.Close()
	c.collect()
	return nil
}

// TestFullQueueAdmitsOthers makes one role fill the queue from many addresses. A request of another role replaces that
// role's last request; its own further requests do not.
func TestFullQueueAdmitsOthers(t *testing.T) {
	for name, s := range storms {
		t.Run(name, func(t *testing.T) {
			c := newCrowd(1, 200)
			roles, addresses := make([]*Owner, 501), make([]*Owner, 501)
			for i := range roles {
				roles[i], addresses[i] = &Owner{}, &Owner{}
			}
			var last *Account
			for i := 0; len(c.waiting) < 200; i++ {
				last = c.request(s.storm(c, roles, addresses, i), c.o.Reserve)
			}
			if name != "addresses without roles" { // three addresses have different numbers of requests
				if a := c.request(s.storm(c, roles, addresses, 0), c.o.Reserve); !errors.Is(a.err, ErrExhausted) {
					t.Fatal("a request of the storm took the place of another one")
				}
			}
			a := c.request(s.second(roles, addresses), c.o.Reserve)
			if a.err != nil {
				t.Fatal("the second client was refused")
			}
			if len(c.queue) != 200 || name != "addresses without roles" && !errors.Is(last.err, ErrExhausted) {
				t.Fatalf("%d requests wait, the last one of the storm: %v", len(c.queue), last.err)
			}
		})
	}
}

// TestOwnersAreForgotten shows that an owner exists as long as it is used.
func TestOwnersAreForgotten(t *testing.T) {
	p, _ := testPool(Limits{Bytes: 1 << 20})
	first, second := p.Role("a"), p.Role("a")
	if first != second || p.Role("") != nil || p.Role("b") == first {
		t.Fatal("roles have other owners")
	}
	p.Release(first)
	if p.Role("a") != first {
		t.Fatal("an owner in use was forgotten")
	}
	p.Release(first)
	p.Release(first)
	p.Release(nil)
	if len(p.owners.roles) != 1 {
		t.Fatalf("%d roles are left", len(p.owners.roles))
	}
}

// TestRoleOfAnAccount shows that a role which becomes known during a request has its memory until the reply waits.
func TestRoleOfAnAccount(t *testing.T) {
	p, _ := testPool(Limits{Bytes: 1 << 20})
	role, address := &Owner{}, &Owner{}
	var a Account
	p.Open(&a, Origin{Address: address}, nil)
	a.TryGrow(1000)
	a.SetRole(role)
	if a.TryGrow(1000); role.bytes() != 2000 || address.bytes() != 2000 {
		t.Fatal(role.bytes(), address.bytes())
	}
	h := a.Detach()
	if role.bytes() != 0 || address.bytes() != 2000 {
		t.Fatal(role.bytes(), address.bytes())
	}
	address.Hold(-h.Bytes())
	p.Return(h)
	a.Close()
	if role.bytes() != 0 || address.bytes() != 0 || p.Used() != 0 {
		t.Fatal(role.bytes(), address.bytes(), p.Used())
	}
}
