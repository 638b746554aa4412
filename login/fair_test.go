package login

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"sync"
	"testing"

	"cqld/internal/await"
	"cqld/internal/testclock"
	"cqld/server"
)

// queued is a hashers whose verifications run until next is called. It records their order.
type queued struct {
	*hashers
	t     *testing.T
	wg    sync.WaitGroup
	mu    sync.Mutex
	order []string
	gate  chan struct{}
	names map[string]byte
}

func newQueued(t *testing.T, l Limits) *queued {
	return &queued{hashers: newHashers(l.withDefaults(), new(testclock.Clock)), t: t, gate: make(chan struct{}),
		names: map[string]byte{}}
}

// start begins a verification. It returns when that runs, waits or is refused.
func (q *queued) start(role string, client int, cost int) (refused func() bool) {
	q.t.Helper()
	if _, ok := q.names[role]; !ok {
		q.names[role] = byte(len(q.names) + 1)
	}
	a := &applicant{role: digest{q.names[role]}, client: netip.AddrFrom4([4]byte{10, 0, byte(client >> 8),
		byte(client)}), rounds: roundsOf("", cost)}
	done := make(chan error, 1)
	before := q.counts()
	q.wg.Go(func() {
		done <- q.run(context.Background(), a, func() {
			q.mu.Lock()
			q.order = append(q.order, role)
			q.mu.Unlock()
			<-q.gate
		})
	})
	await.Until(q.t, "the verification runs, waits or is refused",
		func() bool { return q.counts() != before || len(done) > 0 })
	return func() bool {
		var overloaded *server.AuthenticationOverloaded
		select {
		case err := <-done:
			done <- err
			return errors.As(err, &overloaded)
		default:
			return false
		}
	}
}

// counts identifies the state of the queue.
func (q *queued) counts() string {
	q.hashers.mu.Lock()
	defer q.hashers.mu.Unlock()
	return fmt.Sprintf("%d %p", q.hashers.mu.running, q.hashers.mu.waiting) + fmt.Sprint(q.hashers.mu.waiting)
}

// next ends the verification that runs, and waits for the one after it.
func (q *queued) next() {
	q.t.Helper()
	q.mu.Lock()
	n := len(q.order)
	q.mu.Unlock()
	q.gate <- struct{}{}
	await.Until(q.t, "the next verification", func() bool {
		q.mu.Lock()
		defer q.mu.Unlock()
		return len(q.order) > n || q.waitingNow() == 0
	})
}

// runsAfter returns how many verifications run before the first one of a role.
func (q *queued) runsAfter(role string) int {
	q.t.Helper()
	for n := 0; n < 100; n++ {
		q.mu.Lock()
		last := q.order[len(q.order)-1]
		q.mu.Unlock()
		if last == role {
			return n
		}
		q.next()
	}
	q.t.Fatal(role + " never runs")
	return 0
}

func (q *queued) end() {
	close(q.gate)
	q.wg.Wait()
	if q.waitingNow() != 0 || q.hashers.mu.running != 0 {
		q.t.Errorf("%d wait, %d run", q.waitingNow(), q.hashers.mu.running)
	}
}

// TestStormsDoNotKeepOthersFromTheirFirstLogin fills the queue by one role from many addresses, by one address with
// many roles, and by a role with expensive hashes. Another role from another address is admitted to the full queue and
// is the next one to run.
func TestStormsDoNotKeepOthersFromTheirFirstLogin(t *testing.T) {
	for name, storm := range map[string]func(i int) (role string, client, cost int){
		"one role, many addresses": func(i int) (string, int, int) { return "storm", i, 10 },
		"expensive hashes":         func(i int) (string, int, int) { return "storm", i % 8, 14 },
		"one address, many roles":  func(i int) (string, int, int) { return fmt.Sprint("storm", i), 1, 10 },
		"a few of both":            func(i int) (string, int, int) { return fmt.Sprint("storm", i%3), i % 5, 12 },
	} {
		q := newQueued(t, Limits{HashersMax: 1, QueueMax: 8, QueuePerAddressMax: 4})
		for i := range 40 {
			q.start(storm(i))
		}
		refused := q.start("victim", 4000, 10)
		if n := q.runsAfter("victim"); n > 1 || refused() {
			t.Errorf("%s: %d verifications run before the victim's, refused %t", name, n, refused())
		}
		for i := range 3 { // the storm continues
			q.start(storm(100 + i))
			other := fmt.Sprint("other", i)
			q.start(other, 5000+i, 10)
			if n := q.runsAfter(other); n > 1 {
				t.Errorf("%s: %d verifications run before the one of %s", name, n, other)
			}
			q.next()
		}
		q.end()
	}
}

// TestEqualApplicantsRunInOrder checks that without a storm, verifications run in the order of their arrival.
func TestEqualApplicantsRunInOrder(t *testing.T) {
	q := newQueued(t, Limits{HashersMax: 1})
	for i := range 8 {
		q.start(fmt.Sprint(i), i, 10)
	}
	for range 7 {
		q.next()
	}
	if got := fmt.Sprint(q.order); got != "[0 1 2 3 4 5 6 7]" {
		t.Error(got)
	}
	q.end()
}

// TestWorkIsForgotten checks that the work of a role no longer counts after some time, and that the tables are bounded.
func TestWorkIsForgotten(t *testing.T) {
	clock := new(testclock.Clock)
	h := newHashers(Limits{HashersMax: 1, TrackedMax: 4}.withDefaults(), clock)
	a := &applicant{role: digest{1}, client: netip.MustParseAddr("10.0.0.1"), rounds: 1024}
	if err := h.run(t.Context(), a, func() {}); err != nil {
		t.Fatal(err)
	}
	if got := h.usedLocked(a); got != 2048 {
		t.Errorf("%v", got)
	}
	clock.Advance(2 * workHalfLife)
	if got := h.usedLocked(a); got != 512 {
		t.Errorf("%v", got)
	}
	for i := range 20 {
		other := &applicant{role: digest{2, byte(i)}, client: netip.AddrFrom4([4]byte{10, 0, 1, byte(i)}), rounds: 1}
		if err := h.run(t.Context(), other, func() {}); err != nil {
			t.Fatal(err)
		}
	}
	if n := len(h.mu.roles.entries) + len(h.mu.addresses.entries); n != 8 {
		t.Errorf("%d entries", n)
	}
}
