package cluster

import (
	"context"
	"errors"
	"fmt"
	"net/netip"
	"slices"
	"time"

	"cqld/cluster/metadata"
	"cqld/internal/uuid"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// Pauses of a node that waits for its admission, and the timeout for a seed's reply.
const (
	joinPause    = 50 * time.Millisecond
	busyPause    = time.Second
	confirmPause = 2 * time.Second // of an admitted node that receives no log entries
	seedTimeout  = 5 * time.Second
	// decideTimeout bounds the decision on a join request. The response must arrive within seedTimeout.
	decideTimeout = 4 * time.Second
)

// Join returns when this node is a member: immediately if it was one before, otherwise after it has created a cluster
// or has been admitted. Run must be running. A new member may still be streaming its data: see the operations of
// Metadata.Topology.
func (c *Cluster) Join(ctx context.Context) error {
	// Buffered, so the loop can respond after the caller has given up.
	result := make(chan error, 1)
	if !c.loop.post(func() { c.StartJoin(func(err error) { result <- err }) }) {
		return errQueueFull
	}
	select {
	case err := <-result:
		return err
	case <-c.loop.stopped:
		return errStopped
	case <-ctx.Done():
		state := make(chan error, 1)
		// The loop owns the attempt, so it must stop it.
		if c.loop.post(func() { state <- c.giveUp() }) {
			select {
			case err := <-state:
				return fmt.Errorf("%w: %w", err, ctx.Err())
			case <-c.loop.stopped:
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
	founder bool             // this node creates the cluster if no seed responds
	exists  bool             // a member has responded, so this node must not create a cluster
	waiting error            // what the node is waiting for; reported on a timeout
	// admitted means that the node only waits for the metadata.
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
	// A longer log contains the completed creation.
	if c.identity.Founder && c.log.LastIndex() <= foundingEntries {
		j.establish() // it may have crashed while it created the cluster
		return
	}
	if err := c.driver.run(); err != nil { // apply what is known to be committed
		j.end(err)
		return
	}
	// Campaign without waiting for the election timeout, because no other node can win.
	if c.driver.onlyVoter() {
		_ = c.driver.node.Campaign() // refused only if it is already elected
	}
	c.membership.askSeeds()
	// The metadata on disk may be older than this node's removal.
	j.confirm()
}

// How long a node waits for its admission before it logs what it is waiting for, and the interval of the log messages.
const (
	joinLogDelay    = time.Second
	joinLogInterval = 10 * time.Second
)

// logWaiting repeatedly logs what the node is waiting for.
func (j *joining) logWaiting() {
	j.c.opts.Logger.Warn("not joined to the cluster yet", "cluster", j.c.opts.Name, "waiting", j.waiting)
	j.later(joinLogInterval, j.logWaiting)
}

// giveUp ends the attempt to join and returns what the node was waiting for.
func (c *Cluster) giveUp() error {
	j := c.joining
	if j == nil {
		return errors.New("cluster: joined too late")
	}
	// From here on over returns true, and pending callbacks have no effect.
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

// later calls f after a pause, unless the attempt has ended.
func (j *joining) later(d time.Duration, f func()) {
	j.c.opts.Clock.After(d, func() {
		j.c.loop.post(func() {
			// The attempt may have ended during the pause.
			if !j.over() {
				f()
			}
		})
	})
}

// lookupPause is the pause between two rounds of join requests if names have to be looked up for each.
const lookupPause = time.Second

// use sets the seeds for the next round of join requests.
func (j *joining) use(s SeedAddresses) {
	j.next, j.seeds = 0, nil
	for _, a := range s.Addrs {
		// A node is often in its own list of seeds.
		if a != j.c.opts.Self.Internode {
			j.seeds = append(j.seeds, a)
		}
	}
	// Once a member has responded, creating a second cluster must be ruled out.
	j.founder = s.First && !j.exists
	if s.Missing != nil {
		j.waiting = fmt.Errorf("cluster: some seeds were not found: %w", s.Missing)
	}
}

// restart begins the next round after a pause.
func (j *joining) restart(pause time.Duration) {
	if j.c.opts.LookUpSeeds != nil {
		pause = max(pause, lookupPause)
	}
	j.later(pause, j.begin)
}

// begin starts a round of join requests. It looks up the seeds again, because addresses may have changed.
func (j *joining) begin() {
	j.c.membership.lookUpSeeds(func(s SeedAddresses) {
		if !j.over() {
			// j.members stay: they are asked after the seeds.
			j.use(s)
			j.ask()
		}
	})
}

// ask sends a join request to the next seed and, after all seeds, to the members listed in replies. After the last one,
// a founder creates the cluster; other nodes start over.
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
	// No seed responded, and this node is the first seed.
	if err := j.c.become(1, nil, nil, true); err != nil {
		j.end(err)
		return
	}
	j.establish()
}

// membersMax is the maximum number of members, other than seeds, that are asked between two attempts with the
// seeds.
const membersMax = 16

// noteMembers records some of the members that a reply lists, because the seeds may leave the ring before they admit
// this node.
func (j *joining) noteMembers(r joinReply) {
	if len(r.Peers) == 0 {
		return
	}
	j.exists, j.founder = true, false
	// An older list would overwrite newer addresses.
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

// askAddr sends a join request to an address. then is not called once the attempt has ended.
func (j *joining) askAddr(addr netip.AddrPort, spec metadata.NodeSpec, then func(joinReply, error)) {
	j.c.membership.ask(addr, spec, func(r joinReply, err error) {
		if !j.over() {
			then(r, err)
		}
	})
}

// answered handles the response to a join request.
func (j *joining) answered(from netip.AddrPort, r joinReply, err error) {
	var remote *messaging.RemoteError
	switch {
	case errors.As(err, &remote) && remote.Code == refusedCode:
		// Permanent: every other seed would respond the same.
		j.end(&metadata.Refused{Reason: remote.Message})
	case errors.As(err, &remote) && remote.Code == busyCode:
		j.waiting = fmt.Errorf("cluster: waiting to be admitted: %s", remote.Message)
		// Restart the whole round, because another member may respond sooner.
		j.restart(busyPause)
	case err != nil:
		j.c.opts.Logger.Debug("seed did not admit the node", "seed", from, "err", err)
		j.waiting = fmt.Errorf("cluster: not admitted by any of the seeds %v or the members that they listed; %v: %w",
			j.c.membership.seeds, from, err)
		j.ask()
	default:
		// From now on, this node keeps its id, even after a crash.
		if err := j.c.become(r.Node, r.Peers, r.Recoveries, false); err != nil {
			j.end(err)
			return
		}
		j.await()
	}
}

// await waits until onMetadata sees this node's own admission. The admission may be undone before any part of the log
// arrives. Then the log never arrives, because Raft removes a node from which it never received a message.
func (j *joining) await() {
	j.waiting, j.admitted = errors.New("cluster: admitted, but the metadata did not arrive"), true
	if j.onMetadata(); !j.over() {
		j.later(confirmPause, j.confirm)
	}
}

// onMetadata checks whether changed metadata contain this node.
func (j *joining) onMetadata() {
	c := j.c
	self := c.Self()
	if self == 0 || !j.admitted {
		return
	}
	n := c.Metadata().Topology.Node(self)
	// The admission has not been applied yet.
	if n == nil {
		return
	}
	if n.Internode == c.opts.Self.Internode && n.Native == c.opts.Self.Native && !c.upgrade.mustRecord(n) {
		c.upgrade.record(n)
		j.end(nil)
		return
	}
	c.joining = nil // onMetadata must not run again
	// Its address or build may have changed since the admission; other nodes must learn that before it serves.
	c.proposals.start(&metadata.Command{Update: &metadata.Update{Node: c.opts.Self}}, func(err error) { j.done(err) })
}

// become makes this node member id of the cluster with the given recoveries.
func (c *Cluster) become(id ring.NodeID, peers map[ring.NodeID]netip.AddrPort, recoveries []metadata.Recovery,
	founder bool) error {
	c.identity.Node, c.identity.Peers, c.identity.Founder = id, peers, founder
	c.identity.Recoveries = recoveries
	// Saved before this node sends messages under its id: after a crash it must not join as another member.
	if err := c.identity.Save(c.log); err != nil {
		return err
	}
	c.participate(id, peers)
	return c.driver.start(id, founder)
}

// establish makes the founder the leader of a single-node cluster and its first member.
func (j *joining) establish() {
	c := j.c
	// The first entries make this node a voter, and must be applied before it can be elected.
	if err := c.driver.run(); err == nil {
		_ = c.driver.node.Campaign() // refused only if it is already elected
	}
	// This node's own vote elects it. Proposals before the election would be dropped, and retried late.
	if err := c.driver.run(); err != nil {
		j.end(err)
		return
	}
	a, b := uuid.Random(c.opts.Rand), uuid.Random(c.opts.Rand)
	base := c.opts.Base
	if base == nil {
		// The keyspaces that every cluster has.
		base = schema.Own()
	}
	c.proposals.start(&metadata.Command{Found: &metadata.Found{Cluster: c.opts.Name, Secret: slices.Concat(a[:], b[:]),
		Schema: schema.Encode(base), Version: c.opts.Versions.Max}}, func(err error) {
		var refused *metadata.Refused
		if err != nil && !errors.As(err, &refused) { // refused if the cluster was already created before a crash
			j.end(err)
			return
		}
		c.admissions.admit(c.opts.Self, func(err error) {
			if err != nil {
				j.end(err)
				return
			}
			j.await()
		})
	})
}

// confirm asks the other members whether this node is still a member: if it was removed while it was down, it must not
// serve. If no member responds, all of them may be starting as well.
func (j *joining) confirm() {
	j.waiting = errors.New("cluster: the metadata did not arrive")
	// The log on this node's own disk may already contain the removal.
	if reason, ok := j.c.Metadata().RemovalReason(j.c.identity.Host); ok {
		j.end(&metadata.Refused{Reason: reason})
		return
	}
	peers := j.c.addresses.peers()
	var addrs []netip.AddrPort
	for _, id := range sortedIDs(peers) {
		if id != j.c.Self() {
			addrs = append(addrs, peers[id])
		}
	}
	open := len(addrs)
	// A single member has no other member to ask.
	if open == 0 {
		j.await()
		return
	}
	answered := false
	for _, a := range addrs {
		j.c.membership.request(a, func(err error) {
			if j.over() {
				return
			}
			open--
			var refused *metadata.Refused
			if errors.As(err, &refused) {
				// One response suffices, because removals are committed and final.
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

// foundingEntries is the maximum length of a log while the creation of the cluster may be incomplete: the first voter,
// the leader's first entry, and the Found command.
const foundingEntries = 3
