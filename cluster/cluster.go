package cluster

import (
	"context"
	"log/slog"
	"net/netip"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/cluster/identity"
	"cqld/cluster/liveness"
	"cqld/cluster/metadata"
	"cqld/cluster/raftlog"
	"cqld/cluster/voters"
	"cqld/clusterversion"
	"cqld/internal/env"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// Network is the transport. The cluster sets its peers.
type Network interface {
	messaging.Transport
	// SetLineage is called before SetSelf. Nodes with different lineages refuse each other's connections.
	SetLineage(messaging.Lineage)
	SetSelf(ring.NodeID)
	SetPeers(map[ring.NodeID]netip.AddrPort)
	// AskAddr sends a request to the node that listens at addr, whether or not it is a member. reply may be called on
	// any goroutine.
	AskAddr(addr netip.AddrPort, verb messaging.Verb, payload []byte, timeout time.Duration, reply messaging.Reply)
}

// Options configure a Cluster.
type Options struct {
	Name    string
	Dir     string
	FS      vfs.FS
	Network Network
	Clock   env.Clock
	Rand    env.Rand
	Logger  *slog.Logger
	// Self describes this node. Open sets Host, Disk and Versions.
	Self metadata.NodeSpec
	// Versions are the cluster versions that this node supports. Zero means those of this build. Simulations of
	// mixed-version clusters set others.
	Versions clusterversion.Range
	// Seeds are the addresses to which a node that is not a member sends its join requests. A node that is first in
	// the list, or has no list, creates a cluster if no other seed responds.
	Seeds []netip.AddrPort
	// LookUpSeeds, unless nil, replaces Seeds: it looks up the current addresses of the seeds and calls then once, on
	// any goroutine. It must not block.
	LookUpSeeds func(then func(SeedAddresses))
	// ReplicationFactor is the factor for which token allocation balances ownership.
	ReplicationFactor int
	// Base is the schema of a cluster that this node creates. Nil means no keyspaces.
	Base *schema.Schema
	// Changed is called by the loop after each change, in order. It must not block.
	Changed func(old, new *metadata.Metadata)
	// AliveChanged is called when this node's view of a peer changes. It must not block.
	AliveChanged func(id ring.NodeID, up bool)
	// Fatal is called when the metadata log has failed: this node must stop.
	Fatal func(error)
	// DeadAfter is how long a node must be dead before the removal of another node stops waiting for it, although it
	// gains ranges of user keyspaces. Zero means 30 s.
	DeadAfter time.Duration
	// Load, unless nil, exchanges the load of the nodes in heartbeats.
	Load LoadExchange
	// Post, unless nil, runs the loop's events, one at a time and in order; then Run is not used. Simulations put
	// these events into their own queue.
	Post func(func())
}

// LoadExchange exchanges reports of the nodes' load, which heartbeats carry. The cluster does not interpret them.
// Methods must not block. *assembly.Loads implements it.
type LoadExchange interface {
	// Beat is called by the loop for each heartbeat to all peers. It returns a report to send with it, or nil if none
	// is due.
	Beat() []byte
	// Last returns the last report, for a peer that has just been connected; nil means that there is none.
	Last() []byte
	// Receive is called on goroutines of the network. The report belongs to the caller.
	Receive(from ring.NodeID, report []byte)
}

// Cluster is one node's part of the replicated metadata: a Raft member and a failure detector. It assembles the parts
// of this package, and stops them.
type Cluster struct {
	opts     Options
	log      *raftlog.Log
	identity identity.Identity

	loop          *loop
	view          *view
	driver        *driver
	electorate    *electorate
	majority      *majority
	progress      *progress
	proposals     *proposals
	confirmations *confirmations
	addresses     *addresses
	membership    *membership
	admissions    *admissions
	operations    *Operations
	upgrade       *Upgrade
	arrivals      *liveness.Arrivals
	dead          *liveness.Dead
	joining       *joining // nil if this node is a member, or has not started to join; only the loop uses it
}

// Open loads the node's stored state. Run and Join make the node participate.
func Open(opts Options) (*Cluster, error) {
	incarnation := opts.Rand.Uint64()
	if opts.Versions == (clusterversion.Range{}) {
		opts.Versions = clusterversion.Supported()
	}
	opts.Self.Versions = opts.Versions
	log, err := raftlog.Open(opts.Dir, opts.FS, opts.Logger, opts.Fatal)
	if err != nil {
		return nil, err
	}
	c := &Cluster{opts: opts, log: log}
	if c.identity, err = identity.Load(log, opts.Rand); err != nil {
		log.Close()
		return nil, err
	}
	c.opts.Self.Host, c.opts.Self.Disk = c.identity.Host, c.identity.Disk
	c.assemble(incarnation)
	messaging.Register(opts.Network, // all handlers post to the goroutine of Run
		messaging.Service{Verb: messaging.VerbRaft, Name: "raft", Any: c.driver.receive},
		messaging.Service{Verb: messaging.VerbHeartbeat, Name: "heartbeat", Handler: c.progress.handleHeartbeat},
		messaging.Service{Verb: messaging.VerbApplied, Name: "applied", Handler: c.progress.handleApplied},
		messaging.Service{Verb: messaging.VerbJoin, Name: "join", Any: c.admissions.handle},
	)
	if c.identity.Node != 0 {
		c.participate(c.identity.Node, c.identity.Peers)
		if err := c.driver.start(c.identity.Node, c.identity.Founder); err != nil {
			log.Close()
			return nil, err
		}
	}
	return c, nil
}

// assemble creates the parts of the cluster and connects them. incarnation is random: it identifies this process in
// requests for confirmations.
func (c *Cluster) assemble(incarnation uint64) {
	o := &c.opts
	c.loop = newLoop(o)
	c.view = &view{detector: liveness.NewDetector(o.Clock, c.aliveChanged)}
	c.view.meta.Store(metadata.Empty())
	c.arrivals, c.dead = liveness.NewArrivals(o.Clock, c.loop.post, c.view.alive), new(liveness.Dead)
	c.driver = &driver{opts: o, loop: c.loop, view: c.view, log: c.log}
	c.progress = &progress{opts: o, loop: c.loop, view: c.view, driver: c.driver, applied: map[ring.NodeID]uint64{}}
	c.electorate = &electorate{opts: o, loop: c.loop, view: c.view, driver: c.driver, dead: c.dead,
		progress: c.progress}
	c.majority = &majority{opts: o, loop: c.loop, view: c.view, driver: c.driver}
	c.proposals = &proposals{opts: o, loop: c.loop, driver: c.driver, progress: c.progress, majority: c.majority,
		open: map[metadata.CommandID]*proposal{}}
	c.confirmations = &confirmations{loop: c.loop, view: c.view, driver: c.driver, incarnation: incarnation}
	c.addresses = &addresses{opts: o, view: c.view, driver: c.driver, admission: c.identity.Peers,
		moved: map[ring.NodeID]netip.AddrPort{}}
	c.membership = &membership{opts: o, loop: c.loop, view: c.view, driver: c.driver, addresses: c.addresses,
		seeds: o.Seeds}
	c.admissions = &admissions{opts: o, loop: c.loop, view: c.view, addresses: c.addresses, majority: c.majority,
		proposals: c.proposals}
	c.operations = &Operations{opts: o, loop: c.loop, view: c.view, driver: c.driver, proposals: c.proposals,
		progress: c.progress, majority: c.majority, dead: c.dead, steps: map[uint64]operationStep{}}
	c.upgrade = &Upgrade{opts: o, view: c.view, progress: c.progress, proposals: c.proposals}
	// The parts refer to each other only through these functions.
	c.loop.process, c.loop.tick = c.driver.run, c.tick
	c.progress.changed = c.proposals.complete
	c.driver.then = consequences{
		publish:    c.publish,
		resolve:    c.proposals.resolve,
		installed:  c.proposals.resolveRecent,
		applied:    c.progress.note,
		readStates: c.confirmations.note,
		adopted:    c.adopted,
		processed:  c.processed,
		unknown:    c.membership.noteUnknownPeer,
	}
}

// participate sets this node's member id in the network and in its own view.
func (c *Cluster) participate(id ring.NodeID, peers map[ring.NodeID]netip.AddrPort) {
	// The lineage comes first: nothing may be sent under the identity of another cluster, or under node id zero.
	c.opts.Network.SetLineage(lineage(c.identity.Recoveries))
	c.opts.Network.SetSelf(id)
	c.view.detector.SetSelf(id)
	c.addresses.admission = peers
	c.opts.Network.SetPeers(peers)
}

// Metadata returns the newest metadata that this node has applied.
func (c *Cluster) Metadata() *metadata.Metadata { return c.view.metadata() }

// Self returns this node's id; zero before it is a member.
func (c *Cluster) Self() ring.NodeID { return c.view.self() }

// HostID returns this node's host ID.
func (c *Cluster) HostID() ring.HostID { return c.identity.Host }

// DiskID returns the identity that this node's disk was given at its first use.
func (c *Cluster) DiskID() [16]byte { return c.identity.Disk }

// Alive returns whether this node considers a peer alive.
func (c *Cluster) Alive(id ring.NodeID) bool { return c.view.alive(id) }

// Operations returns the operations that change the ring.
func (c *Cluster) Operations() *Operations { return c.operations }

// LastRing returns the newest topology that contains this node: for a former member, the one before its departure;
// before this node is a member, the current one. After decommissioning, clients of this node therefore keep seeing the
// last topology that contained it.
func (c *Cluster) LastRing() *ring.Topology { return c.view.lastRing() }

// AwaitDeparture returns when every live node has applied that this node is no longer a member, and this node is no
// voter of the metadata. A voter that stopped would be missed: of two voters, both are needed to exclude one.
func (c *Cluster) AwaitDeparture(ctx context.Context) error {
	return c.membership.awaitDeparture(ctx, func() bool { return !c.Voters().Has(c.Self()) })
}

// SchemaVersion returns the schema version that a member last reported. If the member has not reported one, or its
// connection has ended, it returns this node's version. It is safe for concurrent use.
func (c *Cluster) SchemaVersion(id ring.NodeID) schema.UUID { return c.progress.schemaVersion(id) }

// Voters returns the voters at the last check; nil before this node is a member. It is safe for concurrent use.
func (c *Cluster) Voters() *voters.View { return c.majority.shown.Load() }

// MajorityError describes a missing majority of the voters for an operator. Nil means that a majority is alive, or that
// this node is not a member yet. It is safe for concurrent use.
func (c *Cluster) MajorityError() error { return c.majority.describe(c.Voters()) }

// ClockOffset returns how far this node's clock is ahead of most others, and whether the difference is too large to
// serve clients: its writes could lose against earlier writes, or could never be overwritten.
func (c *Cluster) ClockOffset() (ahead time.Duration, tooFar bool) { return c.progress.clocks.Offset() }

// Refused returns the number of Raft messages of members that this process has refused. It is safe for concurrent
// use.
func (c *Cluster) Refused() uint64 { return c.driver.refused.Load() }

// Idle returns the time since the loop handled the last tick, or zero if it has not handled any. It is safe for
// concurrent use.
func (c *Cluster) Idle() time.Duration { return c.loop.idle() }

// AwaitingFirstHeartbeat reports whether a node joined less than two seconds ago, and this node has not received its
// first heartbeat, or received it within the last 100 ms. It is safe for concurrent use.
func (c *Cluster) AwaitingFirstHeartbeat() bool { return c.arrivals.Awaiting(c.Metadata().Topology) }

// StreamChanged notifies the cluster that the transport's stream to a peer opened or ended. A peer whose stream
// opened receives a heartbeat immediately: until its first heartbeat a node counts as down, and the next regular one
// is up to liveness.HeartbeatEvery away.
func (c *Cluster) StreamChanged(id ring.NodeID, up bool) {
	c.view.detector.Connected(id, up)
	if up {
		// If the queue is full, the heartbeat is dropped; the next regular one follows.
		c.loop.post(func() { c.progress.sendHeartbeat(id) })
	}
}

// Run executes the loop that owns Raft. It returns when ctx ends, or with the error that makes this node stop.
func (c *Cluster) Run(ctx context.Context) error { return c.loop.run(ctx) }

// Replay applies the committed entries in this node's log. It must be called before requests are admitted, so that none
// is evaluated with an older topology than one on which this node has already acted.
func (c *Cluster) Replay() error { return c.driver.run() }

// Begin replaces Run if Options.Post is set: events are posted from now on until Close.
func (c *Cluster) Begin() { c.loop.armTick() }

// Close closes the log. Run must have returned.
func (c *Cluster) Close() error {
	c.loop.closed.Store(true)
	return c.log.Close()
}

// tick runs periodic work after time has advanced.
func (c *Cluster) tick() {
	c.driver.tick(c.loop.step)
	// Every tick, until idle finds that only heartbeats are due.
	c.loop.pace.Store(1)
	if c.idle() {
		c.loop.pace.Store(ticksIdle)
	}
	if c.loop.due(ticksIdle) {
		c.progress.sendHeartbeats()
	}
	c.view.detector.Evaluate()
	c.progress.checkClocks()
	// Called after Raft's tick, which may have elected a leader.
	c.proposals.retry()
	c.confirmations.ask()
	if c.loop.ticks%advanceEvery == 0 {
		c.dead.Note(c.Metadata().Topology, c.Alive, c.loop.ticks)
		c.majority.note()
		c.operations.noteWaits()
	}
	c.operations.advance()
	// A joining node confirms its membership itself (joining.confirm).
	if c.joining == nil {
		c.membership.breakSilence()
	}
}

// idle reports whether only heartbeats are due: Raft has a live leader, and no proposal, confirmation, join, ring
// operation or change of voters is in progress.
func (c *Cluster) idle() bool {
	if !c.driver.started() || c.electorate.pending() || c.joining != nil || c.admissions.deciding > 0 ||
		len(c.proposals.open) > 0 || len(c.addresses.newer.addrs) > 0 || len(c.confirmations.waiting) > 0 ||
		len(c.Metadata().Topology.Operations()) > 0 {
		return false
	}
	lead := c.driver.leader()
	return lead != 0 && c.Alive(lead)
}

// The detector calls aliveChanged, on any goroutine.
func (c *Cluster) aliveChanged(id ring.NodeID, up bool) {
	state := "down"
	if up {
		state = "up"
		// Resumes requests that wait for a new member's first heartbeat.
		c.arrivals.Arrived(id)
	}
	if n := c.Metadata().Topology.Node(id); n != nil { // nil means that the node has left
		c.opts.Logger.Info("node is "+state, "node", n.Internode, "host_id", n.Host)
	}
	if c.opts.AliveChanged != nil {
		c.opts.AliveChanged(id, up)
	}
	c.loop.post(c.proposals.complete) // proposals do not wait for dead nodes
}

// publish makes m visible to readers, and updates everything that depends on it.
func (c *Cluster) publish(m *metadata.Metadata) {
	if before := c.Metadata().Topology; before != m.Topology {
		// Registered before readers see the new member, so that requests that do not include it wait.
		c.arrivals.Expect(before, m.Topology, c.Self())
	}
	// Readers see m from here on.
	old := c.view.swap(m)
	c.upgrade.note(old, m)
	c.addresses.follow(old, m)
	for _, n := range old.Topology.Nodes() {
		// Raft still has to notify a removed member, so the detector keeps it until then.
		if m.Topology.Node(n.ID) == nil && m.RemovedAt(n.ID) == 0 {
			c.view.detector.Forget(n.ID)
		}
	}
	// Called last, because the callback may read any part of this package.
	if c.opts.Changed != nil && old.Epoch != m.Epoch {
		c.opts.Changed(old, m)
	}
	if c.joining != nil {
		if self := c.Self(); old.Topology.Node(self) == nil && m.Topology.Node(self) != nil {
			c.progress.sendHeartbeats() // requests wait for the first heartbeat of a new member
		}
		c.joining.onMetadata()
	}
}

// adopted is called after Raft's membership has changed. A former member that is no longer in it needs no stream.
func (c *Cluster) adopted() {
	// The next change may be proposed.
	c.electorate.reconfigured = 0
	if len(c.Metadata().Removed) > 0 {
		c.addresses.connect()
	}
}

// processed is called when Raft has no more work ready.
func (c *Cluster) processed() {
	c.confirmations.end()
	c.electorate.reconfigure()
}
