package messaging

import (
	"net/netip"
	"time"

	"cqld/ring"
)

// Bindings decides which node a peer may act as: node N is bound to the IP address that the metadata register for it,
// and a peer that connects from another address is not N, whatever id it sends. The zero value binds no node.
// Bindings is not safe for concurrent use.
//
// A former member stays bound for formerGrace after it has left the ring: it serves its clients until every member
// knows that it has left, and its requests must not fail until then.
type Bindings struct {
	members map[ring.NodeID]netip.Addr
	// addrs is derived from members, for Known.
	addrs  map[netip.Addr]bool // of members
	former map[ring.NodeID]formerMember
}

// formerMember is a node that has left the ring and stays bound until a time of the monotonic clock.
type formerMember struct {
	addr  netip.Addr
	until time.Duration
}

// Set replaces the members at time now of the monotonic clock. It returns true when a node has become a former member.
// It keeps no reference to members. Ports do not matter: outgoing connections have any.
func (b *Bindings) Set(members map[ring.NodeID]netip.AddrPort, now time.Duration) (left bool) {
	next := make(map[ring.NodeID]netip.Addr, len(members))
	addrs := make(map[netip.Addr]bool, len(members))
	for id, a := range members {
		next[id] = a.Addr().Unmap()
		addrs[next[id]] = true
	}
	former := map[ring.NodeID]formerMember{}
	// Expired former members are removed here, so the map stays small.
	for id, f := range b.former {
		if _, member := next[id]; !member && f.until > now {
			former[id] = f
		}
	}
	// A member with a new address is no former member: it is bound to the new one only.
	for id, addr := range b.members {
		if _, member := next[id]; !member {
			former[id] = formerMember{addr, now + formerGrace}
			left = true
		}
	}
	b.members, b.addrs, b.former = next, addrs, former
	return left
}

// Known reports whether a member is registered at addr.
func (b *Bindings) Known(addr netip.Addr) bool { return b.addrs[addr.Unmap()] }

// Bound reports whether a peer that connects from addr may act as node id at time now of the monotonic clock.
func (b *Bindings) Bound(id ring.NodeID, addr netip.Addr, now time.Duration) bool {
	// The IPv4-in-IPv6 form is the same address.
	addr = addr.Unmap()
	// A current member is never bound to an address that it had before.
	if a, ok := b.members[id]; ok {
		return a == addr
	}
	f, ok := b.former[id]
	return ok && f.addr == addr && now < f.until
}
