package login

import (
	"context"
	"errors"
	"math"
	"net/netip"
	"slices"
	"sync"
	"time"

	"golang.org/x/crypto/bcrypt"

	"cqld/internal/env"
	"cqld/server"
)

// hashers bounds the verifications that run and wait, and shares them fairly between roles and addresses: the next
// verification to run is the one whose role and address demand the least work, including their recent work. A role
// with an expensive hash, an address that tries many roles, and a role that is tried from many addresses therefore
// delay others only by running verifications, not by waiting ones. Each verification runs in the goroutine of its
// connection. The lock is never held during bcrypt.
type hashers struct {
	limits Limits
	clock  env.Clock

	mu struct {
		sync.Mutex
		running   int
		waiting   []*applicant // in the order of arrival
		roles     *table[digest, work]
		addresses *table[netip.Addr, work]
	}
}

// applicant is a verification that waits. refused and ready are written under the lock of hashers; refused may be read
// after ready is closed.
type applicant struct {
	role   digest
	client netip.Addr
	rounds float64       // rounds of bcrypt: 2^cost
	ready  chan struct{} // closed when it may run or is rejected
	// refused means that another one has displaced it from the queue.
	refused bool
}

// work is the recent work for a role or an address: rounds of bcrypt, with exponential decay (workHalfLife).
type work struct {
	rounds float64
	at     time.Duration
}

// The result is in the unit of rounds.
func (w work) now(now time.Duration) float64 {
	return w.rounds * math.Exp2(-float64(now-w.at)/float64(workHalfLife))
}

func newHashers(l Limits, clock env.Clock) *hashers {
	h := &hashers{limits: l, clock: clock}
	h.mu.roles, h.mu.addresses = newTable[digest, work](l.TrackedMax), newTable[netip.Addr, work](l.TrackedMax)
	return h
}

func (h *hashers) waitingNow() int64 {
	h.mu.Lock()
	defer h.mu.Unlock()
	return int64(len(h.mu.waiting))
}

// errOverloaded is the error while too many verifications wait.
func errOverloaded() error {
	return &server.AuthenticationOverloaded{Message: "Too many clients wait for authentication on this node; try " +
		"again later"}
}

// run waits for the turn of a and calls f. It returns *server.AuthenticationOverloaded if too many verifications
// wait, or if ctx ends first. f runs at most once, in this goroutine.
func (h *hashers) run(ctx context.Context, a *applicant, f func()) error {
	a.ready = make(chan struct{})
	if !h.apply(a) {
		return errOverloaded()
	}
	select {
	case <-a.ready:
	case <-ctx.Done():
		if h.withdraw(a) {
			return late(ctx)
		}
	}
	if a.refused {
		return errOverloaded()
	}
	defer h.release()
	if ctx.Err() != nil {
		return late(ctx)
	}
	f()
	return nil
}

// late returns the error for a wait that ctx has ended: this node is overloaded if the time for the handshake was too
// short.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errOverloaded()
	}
	return ctx.Err()
}

// apply starts a or adds it to the queue. It returns false if neither is possible. A newcomer with less demand
// displaces the most demanding one in a full queue, so a flood cannot keep others out.
func (h *hashers) apply(a *applicant) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.mu.running < h.limits.HashersMax {
		h.admitLocked(a)
		return true
	}
	own := 0
	for _, o := range h.mu.waiting {
		if o.client == a.client {
			own++
		}
	}
	if own >= h.limits.QueuePerAddressMax || len(h.mu.waiting) >= h.limits.QueueMax && !h.displaceLocked(a) {
		return false
	}
	h.mu.waiting = append(h.mu.waiting, a)
	return true
}

// displaceLocked removes the waiting verification whose role and address demand the most work, if they demand more
// than the role and address of a.
func (h *hashers) displaceLocked(a *applicant) bool {
	all := append(slices.Clone(h.mu.waiting), a)
	most, worst := h.demandLocked(a, all), -1
	for i, o := range h.mu.waiting {
		if d := h.demandLocked(o, all); d > most || worst >= 0 && d == most { // the last one of several
			most, worst = d, i
		}
	}
	if worst < 0 {
		return false
	}
	o := h.mu.waiting[worst]
	h.mu.waiting = slices.Delete(h.mu.waiting, worst, worst+1)
	o.refused = true
	close(o.ready)
	return true
}

// usedLocked returns the recent work for the role and the address of a.
func (h *hashers) usedLocked(a *applicant) float64 {
	now := h.clock.Monotonic()
	role, _ := h.mu.roles.get(a.role)
	client, _ := h.mu.addresses.get(a.client)
	return role.now(now) + client.now(now)
}

// demandLocked returns the sum of usedLocked and the waiting work in all for the role and the address of a. all
// includes a itself.
func (h *hashers) demandLocked(a *applicant, all []*applicant) float64 {
	sum := h.usedLocked(a)
	for _, o := range all {
		if o.role == a.role {
			sum += o.rounds
		}
		if o.client == a.client {
			sum += o.rounds
		}
	}
	return sum
}

// admitLocked starts a and counts its work.
func (h *hashers) admitLocked(a *applicant) {
	h.mu.running++
	now := h.clock.Monotonic()
	role, _ := h.mu.roles.get(a.role)
	h.mu.roles.put(a.role, work{role.now(now) + a.rounds, now})
	client, _ := h.mu.addresses.get(a.client)
	h.mu.addresses.put(a.client, work{client.now(now) + a.rounds, now})
	close(a.ready)
}

// withdraw removes a from the queue. It returns false if it may run already, or is refused.
func (h *hashers) withdraw(a *applicant) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	i := slices.Index(h.mu.waiting, a)
	if i < 0 {
		return false
	}
	h.mu.waiting = slices.Delete(h.mu.waiting, i, i+1)
	return true
}

// release ends a verification and starts the next one: the first one whose role and address demand the least work. It
// compares all pairs of waiting verifications; at most 32² comparisons are negligible beside milliseconds of bcrypt.
func (h *hashers) release() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.mu.running--
	if len(h.mu.waiting) == 0 {
		return
	}
	next, least := 0, math.Inf(1)
	for i, a := range h.mu.waiting {
		if d := h.demandLocked(a, h.mu.waiting); d < least {
			next, least = i, d
		}
	}
	a := h.mu.waiting[next]
	h.mu.waiting = slices.Delete(h.mu.waiting, next, next+1)
	h.admitLocked(a)
}

// roundsOf returns the rounds of bcrypt that a verification of a hash takes, with the given cost at least: a failure
// takes as long. A hash that cannot be parsed counts with the given cost, as its dummy does.
func roundsOf(hash string, cost int) float64 {
	if own, err := bcrypt.Cost([]byte(hash)); err == nil {
		cost = max(cost, own)
	}
	return math.Exp2(float64(cost))
}

// verify compares a password with a bcrypt hash. A failure always takes the time of a hash with the given cost,
// unless the hash itself has a larger one. No password matches the hash "". Without the additional comparisons, a
// fast failure would show that a role has an old, cheaper hash and so exists.
func verify(compare comparison, hash string, password []byte, cost int) bool {
	if hash == "" {
		_ = compare(dummy(cost), password) // differs
		return false
	}
	if compare([]byte(hash), password) == nil {
		return true
	}
	// 2^own of 2^cost rounds are done. The rest is the sum of 2^own, 2^(own+1), …, 2^(cost-1).
	own, err := bcrypt.Cost([]byte(hash))
	if err != nil {
		return false // usable has excluded it
	}
	for ; own < cost; own++ {
		_ = compare(dummy(own), password)
	}
	return false
}

// comparison is bcrypt.CompareHashAndPassword, or a replacement in tests.
type comparison func(hash, password []byte) error

// dummy returns a well-formed hash of the given cost. No password with this hash is known.
func dummy(cost int) []byte {
	hash := []byte("$2a$00$......................abcdefghijklmnopqrstuvwxyzABCDE")
	hash[4], hash[5] = byte('0'+cost/10), byte('0'+cost%10)
	return hash
}

// usable reports whether a hash is well-formed and not more expensive than allowed. A cost of 31 would occupy a core
// for hours; hashes come from statements with HASHED PASSWORD.
func usable(hash string, costMax int) bool {
	c, err := bcrypt.Cost([]byte(hash))
	return err == nil && c <= costMax
}
