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
)

// joinReply is what an admitted node needs to take part.
type joinReply struct {
	Node  ring.NodeID
	Peers map[ring.NodeID]netip.AddrPort
}

// refusedCode is the code of a messaging.RemoteError that carries a Refused.
const refusedCode = 1

// numTokensMax is how many tokens a node may ask for, as its options say, too.
const numTokensMax = 1024

// Pauses of a node that waits to be admitted, and how long a seed may take to answer.
const (
	joinPause   = 50 * time.Millisecond
	seedTimeout = 5 * time.Second
)

// Join returns when this node is a member: at once when it was one before, else after it founded
// a cluster or was admitted by a seed. Run must be running.
func (c *Cluster) Join(ctx context.Context) error {
	if c.identity.Node != 0 {
		return c.rejoin(ctx)
	}
	seeds := slices.DeleteFunc(slices.Clone(c.opts.Seeds), func(a netip.AddrPort) bool { return a == c.opts.Self.Internode })
	founder := len(c.opts.Seeds) == 0 || c.opts.Seeds[0] == c.opts.Self.Internode
	for {
		admitted, err := c.askSeeds(ctx, seeds)
		if err != nil {
			return err
		}
		if admitted {
			return c.await(ctx)
		}
		if founder {
			if err := c.become(ctx, 1, nil, true); err != nil {
				return err
			}
			return c.establish(ctx)
		}
		if err := c.pause(ctx, joinPause); err != nil {
			return fmt.Errorf("cluster: no seed of %v could be reached: %w", c.opts.Seeds, err)
		}
	}
}

// askSeeds asks one seed after the other for admission.
func (c *Cluster) askSeeds(ctx context.Context, seeds []netip.AddrPort) (bool, error) {
	request, err := json.Marshal(c.opts.Self)
	if err != nil {
		return false, err
	}
	for _, seed := range seeds {
		ask, cancel := context.WithTimeout(ctx, seedTimeout)
		b, err := c.opts.Network.RequestAddr(ask, seed, messaging.VerbJoin, request)
		cancel()
		var remote *messaging.RemoteError
		if errors.As(err, &remote) && remote.Code == refusedCode {
			return false, &Refused{remote.Message}
		}
		if err != nil {
			c.opts.Logger.Debug("seed did not admit this node", "seed", seed, "err", err)
			continue
		}
		var r joinReply
		if err := json.Unmarshal(b, &r); err != nil {
			return false, fmt.Errorf("cluster: malformed answer of seed %s: %w", seed, err)
		}
		return true, c.become(ctx, r.Node, r.Peers, false)
	}
	return false, nil
}

// become makes this node member id.
func (c *Cluster) become(ctx context.Context, id ring.NodeID, peers map[ring.NodeID]netip.AddrPort, founder bool) error {
	c.identity.Node, c.identity.Peers, c.identity.Founder = id, peers, founder
	if err := c.saveIdentity(); err != nil {
		return err
	}
	started := make(chan error, 1)
	posted := c.post(func() {
		c.opts.Network.SetSelf(id)
		c.detector.self.Store(uint64(id))
		c.opts.Network.SetPeers(peers)
		d, err := startRaft(c, id)
		if err == nil {
			c.driver = d
		}
		started <- err
	})
	if !posted {
		return errQueueFull
	}
	select {
	case err := <-started:
		return err
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		return errStopped
	}
}

// establish makes the founder the leader of its cluster of one, and the cluster's first member.
func (c *Cluster) establish(ctx context.Context) error {
	secret := make(chan []byte, 1)
	posted := c.post(func() {
		// The first entries make this node a voter; they must be applied before it can be elected.
		if err := c.driver.process(); err == nil {
			_ = c.driver.node.Campaign() // refused only when it is elected already
		}
		a, b := c.randomUUID(), c.randomUUID()
		secret <- slices.Concat(a[:], b[:])
	})
	if !posted {
		return errQueueFull
	}
	cmd := &command{Found: &foundCommand{Cluster: c.opts.Name}}
	select {
	case cmd.Found.Secret = <-secret:
	case <-ctx.Done():
		return ctx.Err()
	case <-c.stopped:
		return errStopped
	}
	var refused *Refused
	if err := c.proposeNew(ctx, cmd); err != nil && !errors.As(err, &refused) { // refused: founded before a crash
		return err
	}
	return c.admit(ctx, c.opts.Self)
}

// admit proposes a node's membership until it was decided.
func (c *Cluster) admit(ctx context.Context, spec NodeSpec) error {
	for {
		t := c.Metadata().Topology
		err := c.proposeNew(ctx, &command{Admit: &admitCommand{Node: spec, Epoch: t.Epoch(),
			Tokens: ring.Allocate(t, spec.Datacenter, spec.Rack, spec.NumTokens, c.opts.ReplicationFactor)}})
		var refused *Refused
		if errors.As(err, &refused) && refused.Reason == errStaleTopology.Reason {
			continue
		}
		return err
	}
}

// handleJoin admits a node that asks this one.
func (c *Cluster) handleJoin(_ ring.NodeID, p []byte, respond messaging.Respond) {
	var spec NodeSpec
	if err := json.Unmarshal(p, &spec); err != nil {
		respond(nil, &messaging.RemoteError{Code: refusedCode, Message: "malformed request to join"})
		return
	}
	if spec.NumTokens < 1 || spec.NumTokens > numTokensMax {
		respond(nil, &messaging.RemoteError{Code: refusedCode,
			Message: fmt.Sprintf("num_tokens: %d is not between 1 and %d", spec.NumTokens, numTokensMax)})
		return
	}
	if c.Self() == 0 || c.Metadata().Topology.Node(c.Self()) == nil {
		respond(nil, errors.New("this node is no member yet"))
		return
	}
	if n := c.Metadata().NodeByHost(spec.Host); n != nil && n.DiskID == spec.Disk && n.Internode == spec.Internode && n.Native == spec.Native {
		c.welcome(spec.Host, respond) // it crashed before it heard: nothing is left to agree on
		return
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	timer := c.opts.Clock.After(seedTimeout, cancel)
	defer timer.Stop()
	if err := c.admit(ctx, spec); err != nil {
		var refused *Refused
		if errors.As(err, &refused) {
			err = &messaging.RemoteError{Code: refusedCode, Message: refused.Reason}
		}
		respond(nil, err)
		return
	}
	c.welcome(spec.Host, respond)
}

// welcome tells a member who it is.
func (c *Cluster) welcome(host ring.HostID, respond messaging.Respond) {
	m := c.Metadata()
	b, err := json.Marshal(joinReply{Node: m.NodeByHost(host).ID, Peers: m.peers()})
	respond(b, err)
}

// await returns when this node has applied its own admission.
func (c *Cluster) await(ctx context.Context) error {
	for c.Metadata().Topology.Node(c.Self()) == nil {
		if err := c.pause(ctx, 5*time.Millisecond); err != nil {
			return fmt.Errorf("cluster: admitted, but the metadata did not arrive: %w", err)
		}
	}
	return nil
}

// rejoin brings a member back; its addresses may have changed.
func (c *Cluster) rejoin(ctx context.Context) error {
	if c.identity.Founder && c.log.memoryLastIndex() <= foundingEntries {
		return c.establish(ctx) // it may have crashed on the way
	}
	c.post(func() {
		if c.driver.onlyVoter() {
			_ = c.driver.node.Campaign() // refused only when it is elected already
		}
	})
	if err := c.await(ctx); err != nil {
		return err
	}
	n := c.Metadata().Topology.Node(c.Self())
	if n.Internode == c.opts.Self.Internode && n.Native == c.opts.Self.Native {
		return nil
	}
	return c.proposeNew(ctx, &command{Update: &updateCommand{c.opts.Self}})
}

// foundingEntries is how long the log is while founding may not have finished: the first voter, a
// leader's first entry and the founding itself.
const foundingEntries = 3

func (c *Cluster) pause(ctx context.Context, d time.Duration) error {
	done := make(chan struct{})
	t := c.opts.Clock.After(d, func() { close(done) })
	defer t.Stop()
	select {
	case <-done:
		return nil
	case <-ctx.Done():
		return ctx.Err()
	}
}
