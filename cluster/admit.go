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

// joinReply is the reply to a join request. It contains the data with which an admitted node participates, or the
// members that a refused node can ask next.
type joinReply struct {
	Node  ring.NodeID // zero means that the node is not admitted for now
	From  ring.NodeID `json:",omitempty"` // the member that replies
	Epoch uint64      // epoch of the metadata that Peers are from
	Peers map[ring.NodeID]netip.AddrPort
	// Recoveries are the recoveries of the cluster; only an admitted node gets them.
	Recoveries []metadata.Recovery `json:",omitempty"`
	// Why is the reason why the node is not admitted. Busy means that the same member should be asked again.
	Why  string `json:",omitempty"`
	Busy bool   `json:",omitempty"`
}

// decodeJoinReply decodes a reply. The error is a *messaging.RemoteError if the node was not admitted.
func decodeJoinReply(b []byte) (r joinReply, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return joinReply{}, fmt.Errorf("cluster: malformed reply to a join request: %w", err)
	}
	// The sender need not be a member, so its list is bounded before it is used.
	if len(r.Peers) > newerMax {
		return joinReply{}, fmt.Errorf("cluster: a reply to a join request lists %d members", len(r.Peers))
	}
	if r.Node != 0 {
		return r, nil
	}
	// The form in which other refusals arrive.
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

// admissions decides about the join requests of other nodes. The loop calls everything except handle.
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
	// The tokens were chosen for this topology; the command is refused if another one was applied first.
	cmd := &metadata.Admit{Node: spec, Epoch: t.Epoch()}
	if spec.Replace == "" && len(spec.Tokens) > 0 {
		err := metadata.CheckTokens(t, spec.Tokens, 0)
		// A member that repeats its request owns its tokens already.
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
			// Another change of the ring came first: the tokens are chosen again.
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

// findMember returns the member with a host ID or an internode address, with or without the port.
func findMember(t *ring.Topology, name string) ring.NodeID {
	for _, n := range t.Nodes() {
		// An operator may know a dead node by any of these.
		if n.Host.String() == name || n.Internode.String() == name || n.Internode.Addr().String() == name {
			return n.ID
		}
	}
	return 0
}

// joinsMax bounds the join requests that a node decides at the same time. Each costs a search for tokens and a log
// entry.
const joinsMax = 16

// nameMax bounds the names of a data center and of a rack, and the name of the member to be replaced, in bytes.
const nameMax = 255

// checkSpec refuses a malformed request, and one from another address than the one that it registers. Nodes connect
// from the address on which they listen.
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
	// Otherwise a node could register the address of another one and take its messages.
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
	// In the network's goroutine: malformed requests cost the loop nothing.
	if err := checkSpec(&spec, from.Addr); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: err.Error()})
		return
	}
	if !a.loop.post(func() { a.decide(spec, respond) }) {
		respond(nil, errQueueFull)
	}
}

// decide replies to a well-formed join request: with the id of a member, with a refusal, or with members to ask next.
// The loop calls it.
func (a *admissions) decide(spec metadata.NodeSpec, respond messaging.Respond) {
	m := a.view.metadata()
	if a.view.self() == 0 || m.Topology.Node(a.view.self()) == nil {
		a.notAdmitted(respond, false, "this node is not a member")
		return
	}
	// For ever: the node must not return with data from before its removal.
	if reason, ok := m.RemovalReason(spec.Host); ok {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: reason})
		return
	}
	// Also a member: a build that went back too late cannot read the messages that would say so.
	if err := m.CheckVersions(&spec); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: err.Error()})
		return
	}
	n := m.NodeByHost(spec.Host)
	if n != nil && n.DiskID == spec.Disk {
		// At once: a majority may need this node before it can register the address.
		a.addresses.noteMoved(n.ID, spec.Internode)
	}
	if n != nil && n.DiskID == spec.Disk && n.Internode == spec.Internode && n.Native == spec.Native {
		a.welcome(spec.Host, respond) // it crashed before it received the reply; nothing needs to be committed
		return
	}
	// A member that has moved may complete the majority, so only others have to wait for one.
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
	// done may come after the timeout has answered; over then ignores it.
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
	// The node asks another member then, which may know a leader.
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

// notAdmitted replies to a node that is not admitted for now, with the members that it can ask. The reply is no error,
// because errors contain no members.
func (a *admissions) notAdmitted(respond messaging.Respond, busy bool, why string) {
	m := a.view.metadata()
	b, err := json.Marshal(joinReply{From: a.view.self(), Epoch: m.Epoch, Peers: m.Peers(), Why: why, Busy: busy})
	respond(b, err)
}

// welcome replies to a member with its id. The admission may have been undone meanwhile by an abort or a removal.
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
