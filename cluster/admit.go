package cluster

import (
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"

	"cqld/cluster/metadata"
	"cqld/internal/invariant"
	"cqld/messaging"
	"cqld/ring"
)

// joinReply is the reply to a join request. An admitted node receives the data with which it starts; a refused node
// receives the members that it can ask next.
type joinReply struct {
	Node  ring.NodeID // zero means that the node is not admitted for now
	From  ring.NodeID `json:",omitempty"` // the member that replies
	Epoch uint64      // epoch of the metadata that Peers are from
	Peers map[ring.NodeID]netip.AddrPort
	// Recoveries are the recoveries of the cluster; only an admitted node gets them.
	Recoveries []metadata.Recovery `json:",omitempty"`
	// Why is the reason for the refusal. Busy means that the same member should be asked again.
	Why  string `json:",omitempty"`
	Busy bool   `json:",omitempty"`
}

// decodeJoinReply decodes a reply. The error is a *messaging.RemoteError if the node was not admitted.
func decodeJoinReply(b []byte) (r joinReply, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return joinReply{}, fmt.Errorf("cluster: malformed reply to a join request: %w", err)
	}
	// The sender may not be a member, so the length of its list is checked first.
	if len(r.Peers) > newerMax {
		return joinReply{}, fmt.Errorf("cluster: a reply to a join request lists %d members", len(r.Peers))
	}
	if r.Node != 0 {
		return r, nil
	}
	// Other refusals arrive as a RemoteError, too.
	remote := &messaging.RemoteError{Message: r.Why}
	if r.Busy {
		remote.Code = busyCode
	}
	return r, remote
}

// Codes of a messaging.RemoteError that contains a Refused: permanent, or until the operation in progress ends.
const (
	refusedCode = 1
	busyCode    = 2
)

// admissions decides on the join requests of other nodes. Only handle may be called outside the loop.
type admissions struct {
	opts      *Options
	loop      *loop
	view      *view
	addresses *addresses
	majority  *majority
	proposals *proposals
	deciding  int // join requests being decided
}

// admit proposes a node's membership until the outcome is known. The loop calls it, and done.
func (a *admissions) admit(spec metadata.NodeSpec, done func(error)) (stop func()) {
	t := a.view.metadata().Topology
	// The tokens were chosen for this topology. The command is refused if another change is applied first.
	cmd := &metadata.Admit{Node: spec, Epoch: t.Epoch()}
	if spec.Replace == "" && len(spec.Tokens) > 0 {
		err := metadata.CheckTokens(t, spec.Tokens, 0)
		// A member that repeats its request already owns its tokens.
		if err != nil && a.view.metadata().NodeByHost(spec.Host) == nil {
			done(err)
			return func() {}
		}
		// Metadata list tokens in order.
		cmd.Tokens = slices.Sorted(slices.Values(spec.Tokens))
	} else if spec.Replace == "" {
		cmd.Tokens = ring.Allocate(t, spec.Datacenter, spec.Rack, spec.NumTokens, a.opts.ReplicationFactor)
	} else if cmd.Replaced = findMember(t, spec.Replace); cmd.Replaced == 0 {
		done(&metadata.Refused{Reason: fmt.Sprintf("node %s, which is to be replaced, is not a member", spec.Replace)})
		return func() {}
	} else if a.view.alive(cmd.Replaced) {
		done(&metadata.Refused{Reason: fmt.Sprintf("node %s is alive: decommission it instead of replacing it",
			spec.Replace)})
		return func() {}
	}
	stopped, stopNow := false, func() {}
	stopNow = a.proposals.start(&metadata.Command{Admit: cmd}, func(err error) {
		var refused *metadata.Refused
		if errors.As(err, &refused) && refused.Reason == metadata.ErrStaleTopology.Reason && !stopped {
			// The ring changed before the command was applied, so tokens are chosen again.
			stopNow = a.admit(spec, done)
			return
		}
		done(err)
	})
	return func() {
		stopped = true
		stopNow()
	}
}

// findMember returns the member with a host ID, or with an internode address with or without port.
func findMember(t *ring.Topology, name string) ring.NodeID {
	for _, n := range t.Nodes() {
		// Operators may identify a dead node by any of these.
		if n.Host.String() == name || n.Internode.String() == name || n.Internode.Addr().String() == name {
			return n.ID
		}
	}
	return 0
}

// joinsMax bounds the join requests that a node decides concurrently. Each costs a search for tokens and a log entry.
const joinsMax = 16

// nameMax bounds the names of data centers and racks, and the name of the member to be replaced, in bytes.
const nameMax = 255

// checkSpec refuses a malformed request, and a request sent from an address other than the one that it registers. Nodes
// send from their listen address.
func checkSpec(s *metadata.NodeSpec, from netip.Addr) error {
	switch {
	case s.NumTokens < 1 || s.NumTokens > metadata.NumTokensMax:
		return fmt.Errorf("num_tokens: %d is not between 1 and %d", s.NumTokens, metadata.NumTokensMax)
	case len(s.Tokens) != 0 && len(s.Tokens) != s.NumTokens:
		return fmt.Errorf("initial_token has %d tokens, and num_tokens is %d", len(s.Tokens), s.NumTokens)
	case s.Host == ring.HostID{} || s.Disk == [16]byte{}:
		return errors.New("the join request has no host ID or no disk ID")
	case len(s.Datacenter) > nameMax || len(s.Rack) > nameMax || len(s.Replace) > nameMax:
		return fmt.Errorf("the names of data center, rack and replaced node must not be longer than %d bytes", nameMax)
	case !usable(s.Internode) || !usable(s.Native):
		return fmt.Errorf("listen_address %s or rpc_address %s is not reachable from other nodes", s.Internode,
			s.Native)
	// Otherwise a node could register another node's address and receive its messages.
	case s.Internode.Addr().Unmap() != from.Unmap():
		return fmt.Errorf("listen_address %s differs from the address from which the node connects, %s",
			s.Internode.Addr(), from)
	}
	return nil
}

// usable reports whether other nodes can connect to an address.
func usable(addr netip.AddrPort) bool {
	// Loopback addresses are allowed, for rings on one machine.
	return addr.IsValid() && !addr.Addr().IsUnspecified() && !addr.Addr().IsMulticast() && addr.Port() != 0
}

// handle admits a node that requests to join, or confirms that it is a member.
func (a *admissions) handle(from messaging.Sender, p []byte, respond messaging.Respond) {
	var spec metadata.NodeSpec
	if err := json.Unmarshal(p, &spec); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: "malformed join request"})
		return
	}
	// Validated in the network's goroutine, so malformed requests do not cost the loop time.
	if err := checkSpec(&spec, from.Addr); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: err.Error()})
		return
	}
	if !a.loop.post(func() { a.decide(spec, respond) }) {
		respond(nil, errQueueFull)
	}
}

// decide replies to a well-formed join request with the id of a member, a refusal, or members to ask next. The loop
// calls it.
func (a *admissions) decide(spec metadata.NodeSpec, respond messaging.Respond) {
	m := a.view.metadata()
	if a.view.self() == 0 || m.Topology.Node(a.view.self()) == nil {
		a.notAdmitted(respond, false, "this node is not a member")
		return
	}
	// Permanent: the node must not return with data from before its removal.
	if reason, ok := m.RemovalReason(spec.Host); ok {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: reason})
		return
	}
	// Also applies to members: after a downgrade, a build may be unable to read the messages that would notify it.
	if err := m.CheckVersions(&spec); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: err.Error()})
		return
	}
	n := m.NodeByHost(spec.Host)
	if n != nil && n.DiskID == spec.Disk {
		// Recorded first, because a majority may need this node before its address can be registered.
		a.addresses.noteMoved(n.ID, spec.Internode)
	}
	if n != nil && n.DiskID == spec.Disk && n.Internode == spec.Internode && n.Native == spec.Native {
		a.welcome(spec.Host, respond) // it crashed before it received the reply; nothing is proposed
		return
	}
	// Other nodes wait for a majority, but a member at a new address may be needed to complete it.
	if err := a.majority.describe(a.majority.present()); err != nil && n == nil {
		a.notAdmitted(respond, true, "the seed answers, but "+err.Error())
		return
	}
	if a.deciding >= joinsMax {
		a.notAdmitted(respond, true, "too many nodes join at once")
		return
	}
	a.deciding++
	over := false
	release := func() {
		a.deciding--
		invariant.Check(a.deciding >= 0, "cluster: a join request is given back twice")
		over = true
	}
	// If the timeout has already responded, over makes done return without effect.
	stop := a.admit(spec, func(err error) {
		var refused *metadata.Refused
		switch {
		case over:
			return
		case errors.As(err, &refused) && refused.Busy:
			release()
			a.notAdmitted(respond, true, refused.Reason)
			return
		case errors.As(err, &refused):
			err = &messaging.RemoteError{Code: refusedCode, Message: refused.Reason}
		}
		release()
		if err != nil {
			respond(nil, err)
			return
		}
		a.welcome(spec.Host, respond)
	})
	// The node then asks another member, which may know a leader.
	a.opts.Clock.After(decideTimeout, func() {
		a.loop.post(func() {
			stop()
			if over {
				return
			}
			release()
			why := "the cluster did not decide in time: no majority of its voters confirmed the admission"
			if err := a.majority.describe(a.majority.present()); err != nil {
				why = "the seed answers, but " + err.Error()
			}
			a.notAdmitted(respond, false, why)
		})
	})
}

// notAdmitted responds to a node that is not admitted for now, with the members that it can ask. The response is not an
// error, because errors cannot list members.
func (a *admissions) notAdmitted(respond messaging.Respond, busy bool, why string) {
	m := a.view.metadata()
	b, err := json.Marshal(joinReply{From: a.view.self(), Epoch: m.Epoch, Peers: m.Peers(), Why: why, Busy: busy})
	respond(b, err)
}

// welcome responds to a member with its id. An abort or a removal may have undone the admission in the meantime.
func (a *admissions) welcome(host ring.HostID, respond messaging.Respond) {
	m := a.view.metadata()
	n := m.NodeByHost(host)
	if n == nil {
		if reason, ok := m.RemovalReason(host); ok {
			respond(nil, &messaging.RemoteError{Code: refusedCode, Message: reason})
			return
		}
		respond(nil, errors.New("the node was admitted, but is no longer a member"))
		return
	}
	b, err := json.Marshal(joinReply{Node: n.ID, From: a.view.self(), Epoch: m.Epoch, Peers: m.Peers(),
		Recoveries: m.Recoveries})
	respond(b, err)
}
