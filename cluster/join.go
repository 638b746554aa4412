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

// joinReply answers a request to join. An admitted node takes part by it; another one learns whom else to ask.
type joinReply struct {
	Node  ring.NodeID // zero: the node is not admitted for now
	Epoch uint64      // of the metadata that Peers are from
	Peers map[ring.NodeID]netip.AddrPort
	// Why says why the node is not admitted. Busy says that the same node should be asked again.
	Why  string `json:",omitempty"`
	Busy bool   `json:",omitempty"`
}

// decodeJoinReply returns the answer in b. The error is a *messaging.RemoteError when the node was not admitted.
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

// Codes of a messaging.RemoteError that carries a Refused: for good, or until what is under way ends.
const (
	refusedCode = 1
	busyCode    = 2
)

// numTokensMax is how many tokens a node may ask for, as its options say, too.
const numTokensMax = 1024

// Pauses of a node that waits to be admitted, and how long a seed may take to answer.
const (
	joinPause    = 50 * time.Millisecond
	busyPause    = time.Second
	confirmPause = 2 * time.Second // of one that was admitted, and hears nothing
	seedTimeout  = 5 * time.Second
)

// Join returns when this node is a member: at once when it was one before, else after it founded
// a cluster or was admitted by a seed. Run must be running. A member may still have to fetch its
// data: see Metadata.Topology's operations.
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

// joining is a node's way into the cluster, as far as it is.
type joining struct {
	c       *Cluster
	seeds   []netip.AddrPort // all but this node
	next    int              // the seed to ask
	members []netip.AddrPort // that answers named, without the seeds: asked when no seed admits this node
	epoch   uint64           // of the metadata that members are from
	founder bool
	waiting error // what is missing, for when there is no more time
	// admitted says that only the metadata is waited for.
	admitted bool
	done     func(error)
}

// StartJoin is Join for callers that do not wait. It is called by the loop, and so is done.
func (c *Cluster) StartJoin(done func(error)) {
	seeds := slices.DeleteFunc(slices.Clone(c.opts.Seeds), func(a netip.AddrPort) bool { return a == c.opts.Self.Internode })
	j := &joining{c: c, seeds: seeds, done: done,
		founder: len(c.opts.Seeds) == 0 || c.opts.Seeds[0] == c.opts.Self.Internode,
		waiting: fmt.Errorf("cluster: no seed of %v could be reached", c.opts.Seeds)}
	c.joining = j
	j.later(joinTold, j.tell)
	if c.identity.Node == 0 {
		j.ask()
		return
	}
	if c.identity.Founder && c.log.memoryLastIndex() <= foundingEntries {
		j.establish() // it may have crashed on the way
		return
	}
	if err := c.process(); err != nil { // what is known to be agreed on
		j.end(err)
		return
	}
	if c.driver.onlyVoter() {
		_ = c.driver.node.Campaign() // refused only when it is elected already
	}
	j.confirm()
}

// When, and then how often, the log says what a node waits for that cannot join.
const (
	joinTold      = time.Second
	joinToldEvery = 10 * time.Second
)

// tell says what is waited for, again and again.
func (j *joining) tell() {
	j.c.opts.Logger.Warn("not joined to the cluster yet", "cluster", j.c.opts.Name, "waiting", j.waiting)
	j.later(joinToldEvery, j.tell)
}

// giveUp ends the attempt to join; it says what was missing.
func (c *Cluster) giveUp() error {
	j := c.joining
	if j == nil {
		return errors.New("cluster: joined too late")
	}
	c.joining = nil
	return j.waiting
}

// end tells the outcome, unless nobody waits for it any more.
func (j *joining) end(err error) {
	if j.c.joining == j {
		j.c.joining = nil
		j.done(err)
	}
}

// over says whether nobody waits any more.
func (j *joining) over() bool { return j.c.joining != j }

// later goes on after a pause.
func (j *joining) later(d time.Duration, f func()) {
	j.c.opts.Clock.After(d, func() {
		j.c.post(func() {
			if !j.over() {
				f()
			}
		})
	})
}

// ask asks the next seed for admission, and the members that answers named after the seeds. After the last one a founder
// founds, and others begin again.
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
	j.next = 0
	if !j.founder {
		j.later(joinPause, j.ask)
		return
	}
	if err := j.c.become(1, nil, true); err != nil {
		j.end(err)
		return
	}
	j.establish()
}

// membersAsked is how many members that are not seeds are asked between two attempts with the seeds.
const membersAsked = 16

// noteMembers remembers some of the members that an answer names: the seeds may leave the ring before they admit this node.
func (j *joining) noteMembers(r joinReply) {
	if len(r.Peers) == 0 {
		return
	}
	j.founder = false // there is a cluster
	if r.Epoch < j.epoch {
		return
	}
	j.epoch, j.members = r.Epoch, nil
	for _, id := range sortedIDs(r.Peers) {
		if a := r.Peers[id]; len(j.members) < membersAsked && a.IsValid() && a != j.c.opts.Self.Internode && !slices.Contains(j.seeds, a) {
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

// ask asks the node at an address to let in the one that spec tells of; then is called by the loop, with an
// error when the node is not admitted.
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

// answered is the event of an answer to the request to join.
func (j *joining) answered(from netip.AddrPort, r joinReply, err error) {
	var remote *messaging.RemoteError
	switch {
	case errors.As(err, &remote) && remote.Code == refusedCode:
		j.end(&Refused{Reason: remote.Message})
	case errors.As(err, &remote) && remote.Code == busyCode:
		j.waiting = fmt.Errorf("cluster: waiting to be admitted: %s", remote.Message)
		j.next = 0
		j.later(busyPause, j.ask)
	case err != nil:
		j.c.opts.Logger.Debug("seed did not admit the node", "seed", from, "err", err)
		j.waiting = fmt.Errorf("cluster: not admitted by any of the seeds %v or the members that they listed; %v: %w", j.c.opts.Seeds, from, err)
		j.ask()
	default:
		if err := j.c.become(r.Node, r.Peers, false); err != nil {
			j.end(err)
			return
		}
		j.await()
	}
}

// await waits until this node has applied its own admission; look ends it. The admission may be undone
// before any of the log has come, and then none ever does: Raft has dropped a node that was never heard.
func (j *joining) await() {
	j.waiting, j.admitted = errors.New("cluster: admitted, but the metadata did not arrive"), true
	if j.look(); !j.over() {
		j.later(confirmPause, j.confirm)
	}
}

// look is called when the metadata changed.
func (j *joining) look() {
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
	c.joining = nil // look must not come again
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

// establish makes the founder the leader of its cluster of one, and the cluster's first member.
func (j *joining) establish() {
	c := j.c
	// The first entries make this node a voter; they must be applied before it can be elected.
	if err := c.process(); err == nil {
		_ = c.driver.node.Campaign() // refused only when it is elected already
	}
	// Its own vote elects it; what is proposed before is dropped, and would be tried again late.
	if err := c.process(); err != nil {
		j.end(err)
		return
	}
	a, b := c.randomUUID(), c.randomUUID()
	base := c.opts.Base
	if base == nil {
		base = schema.Own()
	}
	c.start(&command{Found: &foundCommand{Cluster: c.opts.Name, Secret: slices.Concat(a[:], b[:]), Schema: schema.Encode(base)}}, func(err error) {
		var refused *Refused
		if err != nil && !errors.As(err, &refused) { // refused: founded before a crash
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

// confirm asks the other members whether this node still is one: it may have been removed while it was
// down, and must not serve then. When nobody answers, all of them may be starting, too.
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
		j.c.askMembership(a, j.c.opts.Self, func(err error) {
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

// admit proposes a node's membership until it was decided. It is called by the loop, and so is done.
func (c *Cluster) admit(spec NodeSpec, done func(error)) (stop func()) {
	t := c.Metadata().Topology
	cmd := &admitCommand{Node: spec, Epoch: t.Epoch()}
	if spec.Replace == "" {
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

// findMember finds a member by its host id or its internode address, with or without the port.
func findMember(t *ring.Topology, name string) ring.NodeID {
	for _, n := range t.Nodes() {
		if n.Host.String() == name || n.Internode.String() == name || n.Internode.Addr().String() == name {
			return n.ID
		}
	}
	return 0
}

// joinsMax is how many requests to join a node decides on at once. Each costs a search for tokens and an entry of the log.
const joinsMax = 16

// nameMax bounds the names of a data center and of a rack (bytes), and of the member to be replaced.
const nameMax = 255

// check refuses a node whose request is malformed, or which is not at the address that it claims. Nodes connect from the
// address that they listen on.
func (s *NodeSpec) check(from netip.Addr) error {
	switch {
	case s.NumTokens < 1 || s.NumTokens > numTokensMax:
		return fmt.Errorf("num_tokens: %d is not between 1 and %d", s.NumTokens, numTokensMax)
	case s.Host == ring.HostID{} || s.Disk == [16]byte{}:
		return errors.New("the join request has no host ID or no disk ID")
	case len(s.Datacenter) > nameMax || len(s.Rack) > nameMax || len(s.Replace) > nameMax:
		return fmt.Errorf("the names of data center, rack and replaced node must not be longer than %d bytes", nameMax)
	case !usable(s.Internode) || !usable(s.Native):
		return fmt.Errorf("listen_address %s or rpc_address %s is not reachable from other nodes", s.Internode, s.Native)
	case s.Internode.Addr().Unmap() != from.Unmap():
		return fmt.Errorf("listen_address %s differs from the address from which the node connects, %s", s.Internode.Addr(), from)
	}
	return nil
}

// usable reports whether others can connect to an address.
func usable(a netip.AddrPort) bool {
	return a.IsValid() && !a.Addr().IsUnspecified() && !a.Addr().IsMulticast() && a.Port() != 0
}

// handleJoin admits a node that asks this one, or tells a member that it is one.
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
	if n := m.NodeByHost(spec.Host); n != nil && n.DiskID == spec.Disk && n.Internode == spec.Internode && n.Native == spec.Native {
		c.welcome(spec.Host, respond) // it crashed before it heard: nothing is left to agree on
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
	c.opts.Clock.After(seedTimeout, func() {
		c.post(func() {
			stop()
			if !over {
				over = true
				c.joins--
				c.notAdmitted(respond, false, "the cluster did not decide in time")
			}
		})
	})
}

// notAdmitted answers a node that is not admitted for now, and names the members that it can ask.
func (c *Cluster) notAdmitted(respond messaging.Respond, busy bool, why string) {
	m := c.Metadata()
	b, err := json.Marshal(joinReply{Epoch: m.Epoch, Peers: m.peers(), Why: why, Busy: busy})
	respond(b, err)
}

// welcome tells a member who it is. What admitted it may be undone by now: an operator aborts, or removes.
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
	b, err := json.Marshal(joinReply{Node: n.ID, Epoch: m.Epoch, Peers: m.peers()})
	respond(b, err)
}

// foundingEntries is how long the log is while founding may not have finished: the first voter, a
// leader's first entry and the founding itself.
const foundingEntries = 3
