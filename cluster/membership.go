package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"cqld/cluster/metadata"
	"cqld/messaging"
	"cqld/ring"
)

// silentTicks is how long a member receives no Raft messages before it asks whether it is still a member. Raft notifies
// a departing member, but not forever: a member that was paused or disconnected at that time never learns of its
// removal. It is many times the election timeout.
const silentTicks = uint64(5 * time.Second / tickEvery)

// inquireEvery is the minimum interval between inquiries about unknown peers, and inquiries is the number of members
// asked each time.
const (
	inquireEvery = 500 * time.Millisecond
	inquiries    = 3
)

// membership asks other nodes whether this node is a member, and learns from their replies where members are.
type membership struct {
	opts      *Options
	loop      *loop
	view      *view
	driver    *driver
	addresses *addresses

	seeds    []netip.AddrPort // as they were last looked up; Options.Seeds without names
	inquiry  int              // position in the sorted addresses at which the next inquiry starts
	inquired atomic.Int64     // monotonic time (ns) of the last request to members about an unknown peer
}

// SeedAddresses are the seeds of a node as Options.LookUpSeeds found them.
type SeedAddresses struct {
	Addrs []netip.AddrPort
	// First means that this node is the first seed, and that no lookup of a seed failed: the node may create a cluster.
	// A name that does not exist does not count as a failure, because the other nodes may not exist yet.
	First bool
	// Missing describes the seeds without an address; nil means that all have one.
	Missing error
}

// lookUpSeeds calls then with the current addresses of the seeds. If no names have to be looked up, it calls then
// immediately; otherwise the loop calls it.
func (b *membership) lookUpSeeds(then func(SeedAddresses)) {
	if b.opts.LookUpSeeds == nil {
		seeds := b.opts.Seeds
		then(SeedAddresses{Addrs: seeds, First: len(seeds) == 0 || seeds[0] == b.opts.Self.Internode})
		return
	}
	b.opts.LookUpSeeds(func(s SeedAddresses) {
		b.loop.post(func() {
			// Kept for inquire, which must not wait for a lookup.
			b.seeds = s.Addrs
			then(s)
		})
	})
}

// ask sends the node at an address a join request for spec. The loop calls then, with an error if the node is not
// admitted.
func (b *membership) ask(addr netip.AddrPort, spec metadata.NodeSpec, then func(joinReply, error)) {
	request, err := json.Marshal(spec)
	if err != nil {
		b.loop.post(func() { then(joinReply{}, err) })
		return
	}
	b.opts.Network.AskAddr(addr, messaging.VerbJoin, request, seedTimeout, func(p []byte, err error) {
		var r joinReply
		if err == nil {
			r, err = decodeJoinReply(p)
		}
		// If the queue is full, the reply is dropped, like a lost message.
		b.loop.post(func() { then(r, err) })
	})
}

// request asks the node at an address whether this node is, or can become, a member. The loop calls then, with a
// *metadata.Refused if it cannot.
func (b *membership) request(addr netip.AddrPort, then func(error)) {
	spec := b.opts.Self
	spec.Replace = "" // its first start is complete, and the replaced node may no longer exist
	b.ask(addr, spec, func(r joinReply, err error) {
		// The member that replies is at this address, even if another one is registered.
		b.addresses.noteMoved(r.From, addr)
		if err == nil {
			b.addresses.noteMembers(r)
		}
		var remote *messaging.RemoteError
		if errors.As(err, &remote) && remote.Code == refusedCode {
			err = &metadata.Refused{Reason: remote.Message}
		}
		then(err)
	})
}

// breakSilence asks the other members about this node's membership after a long silence. If this node is no longer a
// member, that is fatal: after a restart it is refused. The loop calls it unless this node is joining.
func (b *membership) breakSilence() {
	if !b.driver.started() || b.loop.ticks-b.driver.heard < silentTicks {
		return
	}
	// Reset, so the next inquiry follows another whole silence.
	b.driver.heard = b.loop.ticks
	if !b.view.admitted() {
		return // this node knows that it has left
	}
	peers := b.view.metadata().Peers()
	delete(peers, b.view.self())
	b.confirm(inOrder(peers))
	b.askSeeds()
}

// askSeeds asks the seeds about this node's membership if their addresses are looked up by name: all members may have
// changed their addresses.
func (b *membership) askSeeds() {
	if b.opts.LookUpSeeds == nil {
		return
	}
	b.lookUpSeeds(func(s SeedAddresses) {
		b.confirm(slices.DeleteFunc(slices.Clone(s.Addrs),
			func(a netip.AddrPort) bool { return a == b.opts.Self.Internode }))
	})
}

// confirm asks the nodes at addrs whether this node is still a member. If it is not, that is fatal.
func (b *membership) confirm(addrs []netip.AddrPort) {
	for _, a := range addrs {
		b.request(a, func(err error) {
			var refused *metadata.Refused
			if errors.As(err, &refused) {
				// A former member that continued to serve would acknowledge writes that no other node reads.
				b.opts.Fatal(refused)
			}
		})
	}
}

// noteUnknownPeer is called when a node that is not a known member sends a Raft message. It is safe for concurrent use.
func (b *membership) noteUnknownPeer(s messaging.Sender) {
	now := int64(b.opts.Clock.Monotonic())
	last := b.inquired.Load()
	// Any process can send messages, so inquiries are rate limited.
	if s.Node == 0 || s.Node == b.view.self() || last != 0 && now-last < int64(inquireEvery) ||
		// Of concurrent messages, one triggers the inquiry.
		!b.inquired.CompareAndSwap(last, max(now, 1)) {
		return
	}
	b.loop.post(b.inquire)
}

// inquire asks some of the known members and seeds for the list of members.
func (b *membership) inquire() {
	if !b.driver.started() {
		return
	}
	addrs := slices.Concat(b.seeds, inOrder(b.addresses.peers()))
	// Sorted, so successive inquiries cycle through all addresses.
	slices.SortFunc(addrs, netip.AddrPort.Compare)
	addrs = slices.DeleteFunc(slices.Compact(addrs), func(a netip.AddrPort) bool { return a == b.opts.Self.Internode })
	for i := range min(inquiries, len(addrs)) {
		b.request(addrs[(b.inquiry+i)%len(addrs)], func(error) {})
	}
	b.inquiry += inquiries // the next inquiry continues after these
}

// awaitDeparture returns when every live node has applied that this node is no longer a member, and relieved returns
// true. Nodes that have applied it no longer send heartbeats to this node, so nodes that do not respond are considered
// dead after the usual time.
func (b *membership) awaitDeparture(ctx context.Context, relieved func() bool) error {
	for unaware := b.view.metadata().Peers(); ; {
		knows := make(chan ring.NodeID, len(unaware))
		for _, id := range sortedIDs(unaware) {
			addr := unaware[id]
			if id == b.view.self() || !b.view.alive(id) {
				// A dead node applies the departure when it restarts, before it serves.
				delete(unaware, id)
				continue
			}
			b.request(addr, func(err error) {
				var refused *metadata.Refused
				if !errors.As(err, &refused) {
					// Ask again in the next round.
					id = 0
				}
				knows <- id
			})
		}
		for range len(unaware) {
			select {
			case id := <-knows:
				delete(unaware, id)
			case <-ctx.Done():
				return ctx.Err()
			case <-b.loop.stopped:
				return errStopped
			}
		}
		if len(unaware) == 0 && relieved() {
			return nil
		}
		if err := b.loop.pause(ctx, joinPause); err != nil {
			return err
		}
	}
}

// inOrder returns the addresses of peers, sorted by id.
func inOrder(peers map[ring.NodeID]netip.AddrPort) (addrs []netip.AddrPort) {
	// The order decides which peer a simulated node asks first.
	for _, id := range sortedIDs(peers) {
		addrs = append(addrs, peers[id])
	}
	return addrs
}

// sortedIDs returns the ids of peers, ascending. The order of the map would make simulations unrepeatable.
func sortedIDs(peers map[ring.NodeID]netip.AddrPort) []ring.NodeID {
	ids := make([]ring.NodeID, 0, len(peers))
	for id := range peers {
		ids = append(ids, id)
	}
	slices.Sort(ids)
	return ids
}
