package login

import (
	"context"
	"errors"
	"net/netip"
	"sync"
	"sync/atomic"

	"golang.org/x/crypto/bcrypt"

	"cqld/server"
)

// hashers bounds the verifications that run and wait. Each runs in the goroutine of its connection.
type hashers struct {
	slots      chan struct{} // one for each verification that runs
	queueMax   int
	perAddress int
	waiting    atomic.Int64

	mu        sync.Mutex
	addresses map[netip.Addr]int // waiting verifications of each address
}

func newHashers(l Limits) *hashers {
	return &hashers{slots: make(chan struct{}, l.HashersMax), queueMax: l.QueueMax, perAddress: l.QueuePerAddressMax,
		addresses: map[netip.Addr]int{}}
}

func (h *hashers) waitingNow() int64 { return h.waiting.Load() }

// errOverloaded refuses a client while too many others wait.
func errOverloaded() error {
	return &server.AuthenticationOverloaded{Message: "Too many clients wait for authentication on this node; try again later"}
}

// run calls f when a slot is free. It returns *server.AuthenticationOverloaded if too many wait, and if ctx ends
// first. Waiting calls run in the order in which they came.
func (h *hashers) run(ctx context.Context, client netip.Addr, f func()) error {
	select {
	case h.slots <- struct{}{}:
	default:
		if !h.enqueue(client) {
			return errOverloaded()
		}
		err := h.wait(ctx)
		h.dequeue(client)
		if err != nil {
			return err
		}
	}
	defer func() { <-h.slots }()
	if ctx.Err() != nil {
		return late(ctx)
	}
	f()
	return nil
}

func (h *hashers) wait(ctx context.Context) error {
	select {
	case h.slots <- struct{}{}:
		return nil
	case <-ctx.Done():
		return late(ctx)
	}
}

// late returns the error for a wait that ctx has ended: this node is overloaded if the time for the handshake was too short.
func late(ctx context.Context) error {
	if errors.Is(ctx.Err(), context.DeadlineExceeded) {
		return errOverloaded()
	}
	return ctx.Err()
}

func (h *hashers) enqueue(client netip.Addr) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	if int(h.waiting.Load()) >= h.queueMax || h.addresses[client] >= h.perAddress {
		return false
	}
	h.waiting.Add(1)
	h.addresses[client]++
	return true
}

func (h *hashers) dequeue(client netip.Addr) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.waiting.Add(-1)
	if h.addresses[client]--; h.addresses[client] == 0 {
		delete(h.addresses, client)
	}
}

// verify compares a password with a bcrypt hash. A failure always takes the time of a hash with the given cost, unless the
// hash itself has a larger one. "" is a hash that no password has.
func verify(compare comparison, hash string, password []byte, cost int) bool {
	if hash == "" {
		_ = compare(dummy(cost), password) // differs
		return false
	}
	if compare([]byte(hash), password) == nil {
		return true
	}
	// Of 2^cost rounds, 2^own are done. The sum of 2^own, 2^(own+1), …, 2^(cost-1) is the rest.
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

// dummy returns a well-formed hash of that cost that no password is known to have.
func dummy(cost int) []byte {
	hash := []byte("$2a$00$......................abcdefghijklmnopqrstuvwxyzABCDE")
	hash[4], hash[5] = byte('0'+cost/10), byte('0'+cost%10)
	return hash
}

// usable reports whether a hash is well-formed and not more expensive than allowed.
func usable(hash string, costMax int) bool {
	c, err := bcrypt.Cost([]byte(hash))
	return err == nil && c <= costMax
}
