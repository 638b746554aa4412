package memory

import (
	"net/netip"
	"sync"
	"sync/atomic"
)

// Owner is a role or an address. While memory is short, the owner that has least of it is served first. A nil Owner
// holds nothing. Each request has two owners: its role and its address.
type Owner struct {
	held atomic.Int64
	turn int64 // Pool.turn when an account was given memory for which it had waited; guarded by Pool.mu

	// The following fields belong to owners.mu. They are the key by which Release finds the entry.
	role    string
	address netip.Addr // valid for an address
	users   int
}

// bytes returns the bytes that are reserved for the owner, including those that Spare keeps.
func (o *Owner) bytes() int64 {
	if o == nil {
		return 0
	}
	return o.held.Load()
}

// lastTurn returns when an account of the owner last stopped waiting, as a number of Pool.turn. Pool.mu is held. 0
// means never, which is the earliest.
func (o *Owner) lastTurn() int64 {
	if o == nil {
		return 0
	}
	return o.turn
}

// Hold counts n bytes, which may be negative, that were reserved for the owner without an account. It is not bounded:
// the caller has reserved the bytes in the pool.
func (o *Owner) Hold(n int64) {
	if o != nil && n != 0 {
		o.held.Add(n)
	}
}

// Origin is where a request comes from. Role has what requests use until they end; Address has their unread replies,
// too. Both may be nil. It is a value: copies refer to the same owners.
type Origin struct{ Role, Address *Owner }

// hold counts n bytes for the role and the address.
func (o Origin) hold(n int64) {
	o.Role.Hold(n)
	o.Address.Hold(n)
}

// rank is a figure of the role and of the address, the larger one first. A request of one role from many addresses, or
// of many roles from one address, has the figure of what is common; of two requests with that in common, the other
// figure decides. For example, a role with 10 MiB at an address with 30 MiB has the rank (30, 10).
type rank struct{ larger, smaller int64 }

// rankOf returns the rank of two figures in either order.
func rankOf(x, y int64) rank { return rank{max(x, y), min(x, y)} }

// rankHeld orders by memory, and rankTurn by the time since the last turn. Pool.mu is held for rankTurn.
func (o Origin) rankHeld() rank { return rankOf(o.Role.bytes(), o.Address.bytes()) }

func (o Origin) rankTurn() rank { return rankOf(o.Role.lastTurn(), o.Address.lastTurn()) }

// less compares the larger figures, and then the smaller ones.
func (r rank) less(o rank) bool {
	return r.larger < o.larger || r.larger == o.larger && r.smaller < o.smaller
}

// owners contains the owners in use. Their number is bounded by the open connections, and each connection uses one role
// and one address.
type owners struct {
	mu        sync.Mutex
	roles     map[string]*Owner
	addresses map[netip.Addr]*Owner
}

// Role returns the owner for a role, which the caller releases. Without a name, it returns nil. The same name returns
// the same owner while it has users.
func (p *Pool) Role(name string) *Owner {
	if p == nil || name == "" {
		return nil
	}
	p.owners.mu.Lock()
	defer p.owners.mu.Unlock()
	return use(&p.owners.roles, name, func() *Owner { return &Owner{role: name} })
}

// Address returns the owner for an address, which the caller releases. It returns nil if the address is not valid. An
// IPv4 address and its mapped IPv6 address are two owners.
func (p *Pool) Address(a netip.Addr) *Owner {
	if p == nil || !a.IsValid() {
		return nil
	}
	p.owners.mu.Lock()
	defer p.owners.mu.Unlock()
	return use(&p.owners.addresses, a, func() *Owner { return &Owner{address: a} })
}

// use returns the owner of a key with one more user. mu of owners is held.
func use[K comparable](all *map[K]*Owner, key K, create func() *Owner) *Owner {
	if *all == nil {
		*all = map[K]*Owner{}
	}
	o := (*all)[key]
	if o == nil {
		o = create()
		(*all)[key] = o
	}
	o.users++
	return o
}

// Release ends a use of an owner. What it still holds may be returned later. An owner without users that is requested
// again is a new one, with nothing held.
func (p *Pool) Release(o *Owner) {
	if o == nil {
		return
	}
	p.owners.mu.Lock()
	defer p.owners.mu.Unlock()
	// The entry is deleted with its last user, so the size of the maps follows the number of clients.
	if o.users--; o.users > 0 {
		return
	}
	if o.address.IsValid() {
		delete(p.owners.addresses, o.address)
	} else {
		delete(p.owners.roles, o.role)
	}
}
