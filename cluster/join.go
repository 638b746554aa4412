package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// joinReply is the reply to a join request. It contains the data with which an admitted node participates, or the
// members that a refused node can ask next.
type joinReply struct {
	Node  ring.NodeID // zero means that the node is not admitted for now
	From  ring.NodeID `json:",omitempty"` // the member that replies
	Epoch uint64      // epoch of the metadata that Peers are from
	Peers map[ring.NodeID]netip.AddrPort
	// Why is the reason why the node is not admitted. Busy means that the same member should be asked again.
	Why  string `json:",omitempty"`
	Busy bool   `json:",omitempty"`
}

// decodeJoinReply decodes a reply. The error is a *messaging.RemoteError if the node was not admitted.
func decodeJoinReply(b []byte) (r joinReply, err error) {
	if err := json.Unmarshal(b, &r); err != nil {
		return joinReply{}, fmt.Errorf("cluster: malformed reply to a join request: %w", err)
	}
	if len(r.Peers) > newerMax {
		return joinReply{}, fmt.Errorf("cluster: a reply to a join request lists %d members", len(r.Peers))
	}
	if r.Node != 0 {
		return r, nil
	}
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

// numTokensMax is the maximum number of tokens that a node may request; package node checks it, too.
const numTokensMax = 1024

// Pauses of a node that waits for its admission, and the timeout of a seed's reply.
const (
	joinPause    = 50 * time.Millisecond
	busyPause    = time.Second
	confirmPause = 2 * time.Second // of an admitted node that receives nothing
	seedTimeout  = 5 * time.Second
	// decideTimeout bounds the decision about a join request; the answer must arrive within seedTimeout.
	decideTimeout = 4 * time.Second
)

// Join returns when this node is a member: immediately if it was one before, otherwise after it created a cluster or
// a seed admitted it. Run must be running. A member may still have to stream its data: see the operations of
// Metadata.Topology.
func (c *Cluster) Join(ctx context.Context) error {
	result := make(chan error, 1)
	if !c.post(func() { c.StartJoin(func(err error) { result <- err }) }) {
		return errQueueFull
	}
	select {
	case err := <-result:
		return err
	case <-c.stopped:
		return errStopped
	case <-ctx.Done():
		state := make(chan error, 1)
		if c.post(func() { state <- c.giveUp() }) {
			select {
			case err := <-state:
				return fmt.Errorf("%w: %w", err, ctx.Err())
			case <-c.stopped:
			}
		}
		return ctx.Err()
	}
}

// joining is the state of a node that joins the cluster.
type joining struct {
	c       *Cluster
	seeds   []netip.AddrPort // of this round, without this node
	next    int              // index of the next seed to ask
	members []netip.AddrPort // members listed in replies, without the seeds; asked if no seed admits this node
	epoch   uint64           // epoch of the metadata that members are from
	founder bool             // this node creates the cluster if no seed answers
	exists  bool             // a member has answered, so this node must not create a cluster
	waiting error            // the reason for waiting; reported if the time runs out
	// admitted means that only the metadata are missing.
	admitted bool
	done     func(error)
}

// StartJoin is Join without blocking. The loop calls it, and done.
func (c *Cluster) StartJoin(done func(error)) {
	j := &joining{c: c, done: done, waiting: fmt.Errorf("cluster: no seed of %v has answered yet", c.opts.Seeds)}
	c.joining = j
	j.later(joinLogDelay, j.logWaiting)
	if c.identity.Node == 0 {
		j.begin()
		return
	}
	if c.identity.Founder && c.log.memoryLastIndex() <= foundingEntries {
		j.establish() // it may have crashed while it created the cluster
		return
	}
	if err := c.process(); err != nil { // what is known to be committed
		j.end(err)
		return
	}
	if c.driver.onlyVoter() {
		_ = c.driver.node.Campaign() // refused only if it is already elected
	}
	c.askSeeds()
	j.confirm()
}

// How long a node waits for its admission before it logs that, and the interval of the log messages.
const (
	joinLogDelay    = time.Second
	joinLogInterval = 10 * time.Second
)

// logWaiting logs what the node is waiting for, repeatedly.
func (j *joining) logWaiting() {
	j.c.opts.Logger.Warn("not joined to the cluster yet", "cluster", j.c.opts.Name, "waiting", j.waiting)
	j.later(joinLogInterval, j.logWaiting)
}

// giveUp ends the attempt to join and returns what was missing.
func (c *Cluster) giveUp() error {
	j := c.joining
	if j == nil {
		return errors.New("cluster: joined too late")
	}
	c.joining = nil
	return j.waiting
}

// end reports the outcome, unless the attempt has been abandoned.
func (j *joining) end(err error) {
	if j.c.joining == j {
		j.c.joining = nil
		j.done(err)
	}
}

// over reports whether the attempt has been abandoned.
func (j *joining) over() bool { return j.c.joining != j }

// later continues after a pause.
func (j *joining) later(d time.Duration, f func()) {
	j.c.opts.Clock.After(d, func() {
		j.c.post(func() {
			if !j.over() {
				f()
			}
		})
	})
}

// ask sends a join request to the next seed, and after the seeds to the members listed in replies. After the last
// one, a founder creates the cluster, and other nodes start again.
func (j *joining) ask() {
	if j.over() {
		return
	}
	if all := slices.Concat(j.seeds, j.members); j.next < len(all) {
		addr := all[j.next]
		j.next++
		j.askAddr(addr, j.c.opts.Self, func(r joinReply, err error) {
			j.noteMembers(r)
			j.answered(addr, r, err)
		})
		return
	}
	if !j.founder {
		j.restart(joinPause)
		return
	}
	if err := j.c.become(1, nil, true); err != nil {
		j.end(err)
		return
	}
	j.establish()
}

// membersMax is the maximum number of members, other than seeds, that are asked between two attempts with the
// seeds.
const membersMax = 16

// noteMembers records some of the members that a reply lists: the seeds may leave the ring before they admit this
// node.
func (j *joining) noteMembers(r joinReply) {
	if len(r.Peers) == 0 {
		return
	}
	j.exists, j.founder = true, false
	if r.Epoch < j.epoch {
		return
	}
	j.epoch, j.members = r.Epoch, nil
	for _, id := range sortedIDs(r.Peers) {
		if a := r.Peers[id]; len(j.members) < membersMax && a.IsValid() && a != j.c.opts.Self.Internode &&
			!slices.Contains(j.seeds, a) {
			j.members = append(j.members, a)
		}
	}
}

func (j *joining) askAddr(addr netip.AddrPort, spec NodeSpec, then func(joinReply, error)) {
	j.c.ask(addr, spec, func(r joinReply, err error) {
		if !j.over() {
			then(r, err)
		}
	})
}

// ask sends the node at an address a join request for spec. The loop calls then, with an error if the node is not
// admitted.
func (c *Cluster) ask(addr netip.AddrPort, spec NodeSpec, then func(joinReply, error)) {
	request, err := json.Marshal(spec)
	if err != nil {
		c.post(func() { then(joinReply{}, err) })
		return
	}
	c.opts.Network.AskAddr(addr, messaging.VerbJoin, request, seedTimeout, func(b []byte, err error) {
		var r joinReply
		if err == nil {
			r, err = decodeJoinReply(b)
		}
		c.post(func() { then(r, err) })
	})
}

// answered handles the reply to a join request.
func (j *joining) answered(from netip.AddrPort, r joinReply, err error) {
	var remote *messaging.RemoteError
	switch {
	case errors.As(err, &remote) && remote.Code == refusedCode:
		j.end(&Refused{Reason: remote.Message})
	case errors.As(err, &remote) && remote.Code == busyCode:
		j.waiting = fmt.Errorf("cluster: waiting to be admitted: %s", remote.Message)
		j.restart(busyPause)
	case err != nil:
		j.c.opts.Logger.Debug("seed did not admit the node", "seed", from, "err", err)
		j.waiting = fmt.Errorf("cluster: not admitted by any of the seeds %v or the members that they listed; %v: %w",
			j.c.seeds, from, err)
		j.ask()
	default:
		if err := j.c.become(r.Node, r.Peers, false); err != nil {
			j.end(err)
			return
		}
		j.await()
	}
}

// await waits until this node has applied its own admission, which onMetadata detects. The admission may be undone
// before any part of the log has arrived. Then none ever will: Raft has dropped a node that it never heard from.
func (j *joining) await() {
	j.waiting, j.admitted = errors.New("cluster: admitted, but the metadata did not arrive"), true
	if j.onMetadata(); !j.over() {
		j.later(confirmPause, j.confirm)
	}
}

// onMetadata checks the metadata after a change.
func (j *joining) onMetadata() {
	c := j.c
	self := c.Self()
	if self == 0 || !j.admitted {
		return
	}
	n := c.Metadata().Topology.Node(self)
	if n == nil {
		return
	}
	if n.Internode == c.opts.Self.Internode && n.Native == c.opts.Self.Native {
		j.end(nil)
		return
	}
	c.joining = nil // onMetadata must not run again
	c.start(&command{Update: &updateCommand{c.opts.Self}}, func(err error) { j.done(err) })
}

// become makes this node member id.
func (c *Cluster) become(id ring.NodeID, peers map[ring.NodeID]netip.AddrPort, founder bool) error {
	c.identity.Node, c.identity.Peers, c.identity.Founder = id, peers, founder
	if err := c.saveIdentity(); err != nil {
		return err
	}
	c.opts.Network.SetSelf(id)
	c.detector.self.Store(uint64(id))
	c.opts.Network.SetPeers(peers)
	d, err := startRaft(c, id)
	if err == nil {
		c.driver = d
	}
	return err
}

// establish makes the founder the leader of its single-node cluster, and the cluster's first member.
func (j *joining) establish() {
	c := j.c
	// The first entries make this node a voter. They must be applied before it can be elected.
	if err := c.process(); err == nil {
		_ = c.driver.node.Campaign() // refused only if it is already elected
	}
	// Its own vote elects it. Earlier proposals would be dropped, and retried late.
	if err := c.process(); err != nil {
		j.end(err)
		return
	}
	a, b := c.randomUUID(), c.randomUUID()
	base := c.opts.Base
	if base == nil {
		base = schema.Own()
	}
	c.start(&command{Found: &foundCommand{Cluster: c.opts.Name, Secret: slices.Concat(a[:], b[:]),
		Schema: schema.Encode(base)}}, func(err error) {
		var refused *Refused
		if err != nil && !errors.As(err, &refused) { // refused because the cluster was created before a crash
			j.end(err)
			return
		}
		c.admit(c.opts.Self, func(err error) {
			if err != nil {
				j.end(err)
				return
			}
			j.await()
		})
	})
}

// confirm asks the other members whether this node is still a member: it may have been removed while it was down, and
// must not serve then. If no member responds, all of them may be starting, too.
func (j *joining) confirm() {
	j.waiting = errors.New("cluster: the metadata did not arrive")
	if reason, ok := j.c.Metadata().removed(j.c.identity.Host); ok {
		j.end(&Refused{Reason: reason})
		return
	}
	peers := j.c.peersOf(j.c.Metadata())
	var addrs []netip.AddrPort
	for _, id := range sortedIDs(peers) {
		if id != j.c.Self() {
			addrs = append(addrs, peers[id])
		}
	}
	open := len(addrs)
	if open == 0 {
		j.await()
		return
	}
	answered := false
	for _, a := range addrs {
		j.c.requestMembership(a, j.c.opts.Self, func(err error) {
			if j.over() {
				return
			}
			open--
			var refused *Refused
			if errors.As(err, &refused) {
				j.end(refused)
				return
			}
			if !answered && (err == nil || open == 0) {
				answered = true
				j.await()
			}
		})
	}
}

// admit proposes a node's membership until the outcome is known. The loop calls it, and done.
func (c *Cluster) admit(spec NodeSpec, done func(error)) (stop func()) {
	t := c.Metadata().Topology
	cmd := &admitCommand{Node: spec, Epoch: t.Epoch()}
	if spec.Replace == "" && len(spec.Tokens) > 0 {
		if err := checkTokens(t, spec.Tokens, 0); err != nil && c.Metadata().NodeByHost(spec.Host) == nil {
			done(err)
			return func() {}
		}
		cmd.Tokens = slices.Sorted(slices.Values(spec.Tokens))
	} else if spec.Replace == "" {
		cmd.Tokens = ring.Allocate(t, spec.Datacenter, spec.Rack, spec.NumTokens, c.opts.ReplicationFactor)
	} else if cmd.Replaced = findMember(t, spec.Replace); cmd.Replaced == 0 {
		done(&Refused{Reason: fmt.Sprintf("node %s, which is to be replaced, is not a member", spec.Replace)})
		return func() {}
	} else if c.Alive(cmd.Replaced) {
		done(&Refused{Reason: fmt.Sprintf("node %s is alive: decommission it instead of replacing it", spec.Replace)})
		return func() {}
	}
	stopped, stopNow := false, func() {}
	stopNow = c.start(&command{Admit: cmd}, func(err error) {
		var refused *Refused
		if errors.As(err, &refused) && refused.Reason == errStaleTopology.Reason && !stopped {
			stopNow = c.admit(spec, done)
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

// check refuses a malformed request, and one from another address than the one that it registers. Nodes connect from
// the address on which they listen.
func (s *NodeSpec) check(from netip.Addr) error {
	switch {
	case s.NumTokens < 1 || s.NumTokens > numTokensMax:
		return fmt.Errorf("num_tokens: %d is not between 1 and %d", s.NumTokens, numTokensMax)
	case len(s.Tokens) != 0 && len(s.Tokens) != s.NumTokens:
		return fmt.Errorf("initial_token has %d tokens, and num_tokens is %d", len(s.Tokens), s.NumTokens)
	case s.Host == ring.HostID{} || s.Disk == [16]byte{}:
		return errors.New("the join request has no host ID or no disk ID")
	case len(s.Datacenter) > nameMax || len(s.Rack) > nameMax || len(s.Replace) > nameMax:
		return fmt.Errorf("the names of data center, rack and replaced node must not be longer than %d bytes", nameMax)
	case !usable(s.Internode) || !usable(s.Native):
		return fmt.Errorf("listen_address %s or rpc_address %s is not reachable from other nodes", s.Internode,
			s.Native)
	case s.Internode.Addr().Unmap() != from.Unmap():
		return fmt.Errorf("listen_address %s differs from the address from which the node connects, %s",
			s.Internode.Addr(), from)
	}
	return nil
}

// usable reports whether other nodes can connect to an address.
func usable(a netip.AddrPort) bool {
	return a.IsValid() && !a.Addr().IsUnspecified() && !a.Addr().IsMulticast() && a.Port() != 0
}

// handleJoin admits a node that requests to join, or confirms that it is a member.
func (c *Cluster) handleJoin(from messaging.Sender, p []byte, respond messaging.Respond) {
	var spec NodeSpec
	if err := json.Unmarshal(p, &spec); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: "malformed join request"})
		return
	}
	if err := spec.check(from.Addr); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: err.Error()})
		return
	}
	if !c.post(func() { c.decideJoin(spec, respond) }) {
		respond(nil, errQueueFull)
	}
}

func (c *Cluster) decideJoin(spec NodeSpec, respond messaging.Respond) {
	m := c.Metadata()
	if c.Self() == 0 || m.Topology.Node(c.Self()) == nil {
		c.notAdmitted(respond, false, "this node is not a member")
		return
	}
	if reason, ok := m.removed(spec.Host); ok {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: reason})
		return
	}
	n := m.NodeByHost(spec.Host)
	if n != nil && n.DiskID == spec.Disk {
		c.noteMoved(n.ID, spec.Internode)
	}
	if n != nil && n.DiskID == spec.Disk && n.Internode == spec.Internode && n.Native == spec.Native {
		c.welcome(spec.Host, respond) // it crashed before it received the reply; nothing needs to be committed
		return
	}
	if err := c.majorityError(); err != nil && n == nil { // a member that has moved may complete the majority
		c.notAdmitted(respond, true, "the seed answers, but "+err.Error())
		return
	}
	if c.joins >= joinsMax {
		c.notAdmitted(respond, true, "too many nodes join at once")
		return
	}
	c.joins++
	over := false
	stop := c.admit(spec, func(err error) {
		var refused *Refused
		switch {
		case over:
			return
		case errors.As(err, &refused) && refused.Busy:
			over = true
			c.joins--
			c.notAdmitted(respond, true, refused.Reason)
			return
		case errors.As(err, &refused):
			err = &messaging.RemoteError{Code: refusedCode, Message: refused.Reason}
		}
		over = true
		c.joins--
		if err != nil {
			respond(nil, err)
			return
		}
		c.welcome(spec.Host, respond)
	})
	c.opts.Clock.After(decideTimeout, func() {
		c.post(func() {
			stop()
			if over {
				return
			}
			over = true
			c.joins--
			why := "the cluster did not decide in time: no majority of its voters confirmed the admission"
			if err := c.majorityError(); err != nil {
				why = "the seed answers, but " + err.Error()
			}
			c.notAdmitted(respond, false, why)
		})
	})
}

// notAdmitted replies to a node that is not admitted for now, with the members that it can ask.
func (c *Cluster) notAdmitted(respond messaging.Respond, busy bool, why string) {
	m := c.Metadata()
	b, err := json.Marshal(joinReply{From: c.Self(), Epoch: m.Epoch, Peers: m.peers(), Why: why, Busy: busy})
	respond(b, err)
}

// welcome replies to a member with its id. The admission may have been undone meanwhile by an abort or a removal.
func (c *Cluster) welcome(host ring.HostID, respond messaging.Respond) {
	m := c.Metadata()
	n := m.NodeByHost(host)
	if n == nil {
		if reason, ok := m.removed(host); ok {
			respond(nil, &messaging.RemoteError{Code: refusedCode, Message: reason})
			return
		}
		respond(nil, errors.New("the node was admitted, but is no longer a member"))
		return
	}
	b, err := json.Marshal(joinReply{Node: n.ID, From: c.Self(), Epoch: m.Epoch, Peers: m.peers()})
	respond(b, err)
}

// foundingEntries is the maximum length of a log while the creation of the cluster may be incomplete: the first
// voter, a leader's first entry, and the foundCommand.
const foundingEntries = 3
