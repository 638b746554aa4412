package cluster

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"net/netip"
	"slices"
	"sync/atomic"
	"time"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"go.etcd.io/raft/v3"

	"cqld/internal/env"
	"cqld/internal/uuid"
	"cqld/internal/wire"
	"cqld/messaging"
	"cqld/ring"
	"cqld/schema"
)

// Network is the transport as Cluster uses it: the cluster sets its peers.
type Network interface {
	messaging.Transport
	SetSelf(ring.NodeID)
	SetPeers(map[ring.NodeID]netip.AddrPort)
	// AskAddr sends a request to the node that listens at addr, member or not. reply may be called on any goroutine.
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
	// Self describes this node. Open sets Host and Disk.
	Self NodeSpec
	// Seeds are the addresses to which a node that is not a member sends its join requests. A node that is first in
	// the list, or has no list, creates a cluster if no other seed responds.
	Seeds []netip.AddrPort
	// LookUpSeeds, unless nil, replaces Seeds: it looks up the present addresses of the seeds and calls then once, on
	// any goroutine. It must not block.
	LookUpSeeds func(then func(SeedAddresses))
	// ReplicationFactor is the factor for which the search for tokens balances ownership.
	ReplicationFactor int
	// Base is the schema of a cluster that this node creates. Nil means no keyspaces.
	Base *schema.Schema
	// Changed is called by the loop after each change, in order. It must not block.
	Changed func(old, new *Metadata)
	// AliveChanged is called when this node's view of a peer changes. It must not block.
	AliveChanged func(id ring.NodeID, up bool)
	// Fatal is called when the metadata log has failed: this node must stop.
	Fatal func(error)
	// DeadAfter is how long a node is dead before the removal of another one no longer waits for the ranges of users
	// that it gains; zero means 30 s.
	DeadAfter time.Duration
	// Post, unless nil, runs the loop's events, one at a time and in order; then Run is not used. Simulations put
	// these events into their own queue.
	Post func(func())
}

// Cluster is one node's part of the replicated metadata: a Raft member and a failure detector.
type Cluster struct {
	opts     Options
	log      *raftLog
	identity identity
	detector *detector
	clocks   clockOffsets
	meta     atomic.Pointer[Metadata]
	lastRing atomic.Pointer[ring.Topology] // the last ring of a former member
	arrivals atomic.Pointer[arrivals]
	reports  reports
	events   chan func()
	stopped  chan struct{} // closed when Run returns

	// The following fields are used by the loop only.
	driver    *driver
	proposals map[CommandID]*proposal
	applied   map[ring.NodeID]uint64
	ticks     uint64
	step      uint64       // ticks of the last tick event
	ticked    atomic.Int64 // monotonic time (ns) of the last tick; also read by Idle
	// tick of the last Raft message, or of the last request for this node's membership
	heard         uint64
	pace          atomic.Uint64                  // ticks per timer event; also read by the timer
	newer         newerMembers                   // reported by other members
	inquiry       int                            // addresses that were asked about unknown peers
	joins         int                            // join requests being decided
	refusalLogged uint64                         // tick at which a refused Raft message was last logged
	seeds         []netip.AddrPort               // as they were last looked up; Options.Seeds without names
	moved         map[ring.NodeID]netip.AddrPort // addresses that members have and the metadata do not contain yet
	joining       *joining                       // nil if this node is a member, or has not started to join
	closed        atomic.Bool
	refused       atomic.Uint64 // Raft messages refused
	inquired      atomic.Int64  // monotonic time (ns) of the last request to members about an unknown peer

	confirmations confirmations
	deadSince     map[ring.NodeID]uint64 // ticks since which members are dead in this node's view
	majority      missingMajority
	steps         map[uint64]operationStep // what operations wait for, by id
	voters        atomic.Pointer[Voters]   // also read by Voters
	waits         atomic.Pointer[map[uint64]string]
}

// identity is what a node stores about itself from the first use of its disk.
type identity struct {
	Host ring.HostID
	Disk [16]byte
	Node ring.NodeID // zero until the node is admitted
	// Founder means that this node started to create the cluster, and must complete that after a crash.
	Founder bool
	// Peers are the members at the time of the admission. With them the node reaches the log while its own is empty.
	Peers map[ring.NodeID]netip.AddrPort
}

// tickEvery is the interval of Raft's ticks and of the checks of proposals.
const tickEvery = 50 * time.Millisecond

// ticksIdle is the number of ticks per timer event while nothing but heartbeats is due.
const ticksIdle = uint64(heartbeatEvery / tickEvery)

// eventsMax bounds the loop's queue: Raft tolerates lost messages, and proposals are rare.
const eventsMax = 4096

// Open loads the node's stored state. Run and Join make the node participate.
func Open(opts Options) (*Cluster, error) {
	c := &Cluster{opts: opts, events: make(chan func(), eventsMax), stopped: make(chan struct{}),
		seeds: opts.Seeds, proposals: map[CommandID]*proposal{}, applied: map[ring.NodeID]uint64{},
		moved:     map[ring.NodeID]netip.AddrPort{},
		deadSince: map[ring.NodeID]uint64{}, steps: map[uint64]operationStep{}}
	c.meta.Store(emptyMetadata())
	c.confirmations.incarnation = opts.Rand.Uint64()
	var err error
	if c.log, err = openRaftLog(opts.Dir, opts.FS, pebbleLogger{log: opts.Logger, fatal: opts.Fatal}); err != nil {
		return nil, err
	}
	if err := c.loadIdentity(); err != nil {
		c.log.close()
		return nil, err
	}
	c.opts.Self.Host, c.opts.Self.Disk = c.identity.Host, c.identity.Disk
	c.detector = newDetector(opts.Clock, c.aliveChanged)
	net := opts.Network
	messaging.Register(net, // all handlers post to the goroutine of Run
		messaging.Service{Verb: messaging.VerbRaft, Name: "raft", Any: c.receiveRaft},
		messaging.Service{Verb: messaging.VerbHeartbeat, Name: "heartbeat", Handler: c.handleHeartbeat},
		messaging.Service{Verb: messaging.VerbApplied, Name: "applied", Handler: c.handleApplied},
		messaging.Service{Verb: messaging.VerbJoin, Name: "join", Any: c.handleJoin},
	)
	if c.identity.Node != 0 {
		net.SetSelf(c.identity.Node)
		c.detector.self.Store(uint64(c.identity.Node))
		net.SetPeers(c.identity.Peers)
		if c.driver, err = startRaft(c, c.identity.Node); err != nil {
			c.log.close()
			return nil, err
		}
	}
	return c, nil
}

func (c *Cluster) loadIdentity() error {
	b, closer, err := c.log.db.Get(keyIdentity)
	if errors.Is(err, pebble.ErrNotFound) {
		c.identity = identity{Host: ring.HostID(c.randomUUID()), Disk: c.randomUUID()}
		return c.saveIdentity()
	}
	if err != nil {
		return fmt.Errorf("cluster: read identity: %w", err)
	}
	defer closer.Close()
	if err := json.Unmarshal(b, &c.identity); err != nil {
		return fmt.Errorf("cluster: read identity: %w", err)
	}
	return nil
}

func (c *Cluster) saveIdentity() error {
	b, err := json.Marshal(c.identity)
	if err != nil {
		return err
	}
	batch := c.log.db.NewBatch()
	defer batch.Close()
	if err := batch.Set(keyIdentity, b, nil); err != nil {
		return fmt.Errorf("cluster: save identity: %w", err)
	}
	if err := c.log.commit(batch); err != nil {
		return fmt.Errorf("cluster: save identity: %w", err)
	}
	return nil
}

// randomUUID returns a version 4 UUID.
func (c *Cluster) randomUUID() [16]byte { return uuid.Random(c.opts.Rand) }

// Metadata returns the newest metadata that this node has applied.
func (c *Cluster) Metadata() *Metadata { return c.meta.Load() }

// Self returns this node's id; zero before it is a member.
func (c *Cluster) Self() ring.NodeID { return ring.NodeID(c.detector.self.Load()) }

// HostID returns this node's host ID.
func (c *Cluster) HostID() ring.HostID { return c.identity.Host }

// DiskID returns the identity that this node's disk was given at its first use.
func (c *Cluster) DiskID() [16]byte { return c.identity.Disk }

// Alive returns whether this node considers a peer alive.
func (c *Cluster) Alive(id ring.NodeID) bool { return c.detector.Alive(id) }

// StreamChanged notifies the cluster that the transport's stream to a peer opened or ended. A peer whose stream
// opened receives a heartbeat immediately: until its first heartbeat a node counts as down, and the next regular one
// is up to heartbeatEvery away.
func (c *Cluster) StreamChanged(id ring.NodeID, up bool) {
	c.detector.connected(id, up)
	if up {
		c.post(func() { c.sendHeartbeat(id) })
	}
}

// Run executes the loop that owns Raft. It returns when ctx ends, or with the error that makes this node stop.
func (c *Cluster) Run(ctx context.Context) error {
	defer close(c.stopped)
	defer c.closed.Store(true)
	c.armTick()
	for {
		select {
		case <-ctx.Done():
			return nil
		case f := <-c.events:
			f()
		}
		for n := len(c.events); n > 0; n-- {
			(<-c.events)()
		}
		if err := c.process(); err != nil {
			return err
		}
	}
}

// Replay applies the committed entries that this node has stored. It is called before requests are admitted, so that
// none is evaluated with a topology older than one on which this node has acted.
func (c *Cluster) Replay() error { return c.process() }

// Begin replaces Run for an owner that set Options.Post: events are posted from now on until Close.
func (c *Cluster) Begin() { c.armTick() }

// process performs the actions that Raft requires after the last events.
func (c *Cluster) process() error {
	if c.driver == nil {
		return nil
	}
	if f := c.log.failed.Load(); f != nil {
		return *f // Fatal was called; what Raft wants to send may not be on disk
	}
	err := c.driver.process()
	if err != nil {
		c.log.failed.CompareAndSwap(nil, &err)
		c.opts.Fatal(err)
	}
	return err
}

// Close closes the log. Run must have returned.
func (c *Cluster) Close() error {
	c.closed.Store(true)
	return c.log.close()
}

// post queues an event for the loop. It returns false if the queue is full.
func (c *Cluster) post(f func()) bool {
	if c.opts.Post != nil {
		c.opts.Post(func() {
			if !c.closed.Load() {
				f()
				_ = c.process() // Fatal was called
			}
		})
		return true
	}
	select {
	case c.events <- f:
		return true
	default:
		return false
	}
}

func (c *Cluster) armTick() {
	ticks := max(c.pace.Load(), 1)
	c.opts.Clock.After(time.Duration(ticks)*tickEvery, func() {
		if !c.closed.Load() {
			c.post(func() { c.tick(ticks) })
			c.armTick()
		}
	})
}

// tick advances the time by the given number of ticks.
func (c *Cluster) tick(ticks uint64) {
	c.ticks, c.step = c.ticks+ticks, ticks
	c.noteStall(ticks)
	for range ticks * c.raftPace() {
		c.driver.node.Tick()
	}
	c.pace.Store(1)
	if c.idle() {
		c.pace.Store(ticksIdle)
	}
	if c.due(ticksIdle) {
		c.sendHeartbeats()
	}
	c.detector.evaluate()
	c.checkClocks()
	c.retryProposals()
	c.askConfirmation()
	if c.ticks%advanceEvery == 0 {
		c.noteDead()
		c.noteVoters()
		c.noteWaits()
	}
	c.advanceOperations()
	c.breakSilence()
}

// raftPace returns how many of Raft's ticks one tick is: none before Raft is started, and two while this node considers
// the leader down, so that the others elect a new one in half of the usual time.
func (c *Cluster) raftPace() uint64 {
	if c.driver == nil {
		return 0
	}
	if lead := c.driver.node.BasicStatus().Lead; lead != raft.None && !c.Alive(ring.NodeID(lead)) {
		return 2
	}
	return 1
}

// due reports whether a multiple of every ticks was reached by the last tick event.
func (c *Cluster) due(every uint64) bool { return c.ticks/every != (c.ticks-c.step)/every }

// idle reports whether nothing but heartbeats is due: Raft has a leader that is alive, and no proposal, confirmation,
// join, operation of the ring or change of the voters is in progress.
func (c *Cluster) idle() bool {
	if c.driver == nil || c.driver.reconfigured != 0 && c.ticks-c.driver.reconfigured <= 2*retryTicks ||
		c.joining != nil || c.joins > 0 || len(c.proposals) > 0 || len(c.newer.addrs) > 0 ||
		len(c.confirmations.waiting) > 0 || len(c.Metadata().Topology.Operations()) > 0 {
		return false
	}
	lead := c.driver.node.BasicStatus().Lead
	return lead != raft.None && c.Alive(ring.NodeID(lead))
}

// sendHeartbeats sends every peer a heartbeat with the index up to which this node has applied the log.
func (c *Cluster) sendHeartbeats() {
	if c.admitted() {
		c.broadcast(messaging.VerbHeartbeat, c.appendHeartbeat(nil))
	}
}

// sendHeartbeat sends a heartbeat to one peer. The loop calls it.
func (c *Cluster) sendHeartbeat(id ring.NodeID) {
	if c.admitted() {
		c.opts.Network.Send(id, messaging.VerbHeartbeat, c.appendHeartbeat(nil))
	}
}

// admitted reports whether this node has applied its own admission to the ring. A joining node applies the log from its
// beginning. Before its own admission it does not know all members and tables, and refuses requests that involve them.
// It sends no heartbeat until then, because a heartbeat would make the other nodes count it as a live replica.
func (c *Cluster) admitted() bool {
	return c.driver != nil && c.Metadata().Topology.Node(c.Self()) != nil
}

// appendHeartbeat appends the payload of a heartbeat with the current time.
func (c *Cluster) appendHeartbeat(b []byte) []byte {
	b = wire.AppendUint64(b, c.driver.applied)
	return c.appendVersion(wire.AppendInt64(b, c.opts.Clock.Now().UnixMicro()))
}

func (c *Cluster) broadcast(verb messaging.Verb, payload []byte) {
	self := c.Self()
	for _, n := range c.Metadata().Topology.Nodes() {
		if n.ID != self {
			c.opts.Network.Send(n.ID, verb, payload)
		}
	}
}

func (c *Cluster) handleHeartbeat(from ring.NodeID, p []byte, _ messaging.Respond) {
	if from == 0 {
		return // not a member yet
	}
	c.detector.heartbeat(from)
	cur := wire.NewCursor(p)
	index := cur.Uint64()
	if theirs := cur.Int64(); cur.Err() == nil {
		c.clocks.note(from, theirs, c.opts.Clock.Now().UnixMicro())
	}
	c.noteReport(from, index, &cur)
}

func (c *Cluster) handleApplied(from ring.NodeID, p []byte, _ messaging.Respond) {
	cur := wire.NewCursor(p)
	c.noteReport(from, cur.Uint64(), &cur)
}

// noteReport records up to which index a peer has applied the log. rest contains its schema version, if the peer
// reports it.
func (c *Cluster) noteReport(from ring.NodeID, index uint64, rest *wire.Cursor) {
	if rest.Err() != nil || !c.reports.note(from, index, takeVersion(rest)) {
		return
	}
	if !c.post(func() {
		if index > c.applied[from] {
			c.applied[from] = index
			c.checkProposals()
		}
	}) {
		c.reports.forget(from) // the next heartbeat repeats it
	}
}

// noteApplied reports to the peers how far this node has applied the log.
func (c *Cluster) noteApplied(index uint64) {
	c.applied[c.Self()] = index
	c.broadcast(messaging.VerbApplied, c.appendVersion(wire.AppendUint64(nil, index)))
	c.checkProposals()
}

func (c *Cluster) aliveChanged(id ring.NodeID, up bool) {
	state := "down"
	if up {
		state = "up"
		c.arrived(id)
	}
	if n := c.Metadata().Topology.Node(id); n != nil { // nil means that it has left
		c.opts.Logger.Info("node is "+state, "node", n.Internode, "host_id", n.Host)
	}
	if c.opts.AliveChanged != nil {
		c.opts.AliveChanged(id, up)
	}
	c.post(c.checkProposals)
}

// publish makes m visible to readers.
func (c *Cluster) publish(m *Metadata) {
	c.keepRing(c.Metadata().Topology, m.Topology)
	if before := c.Metadata().Topology; before != m.Topology {
		c.expect(before, m.Topology)
	}
	old := c.meta.Swap(m)
	if m.Epoch >= c.newer.epoch {
		c.newer = newerMembers{}
	}
	if old.Topology != m.Topology {
		c.forgetMoved(old.Topology, m.Topology)
		c.opts.Network.SetPeers(c.peersOf(m))
		for _, n := range old.Topology.Nodes() {
			if m.Topology.Node(n.ID) == nil && m.removedAt(n.ID) == 0 {
				c.detector.forget(n.ID)
			}
		}
	}
	if c.opts.Changed != nil && (old.Epoch != m.Epoch) {
		c.opts.Changed(old, m)
	}
	if c.joining != nil {
		if self := c.Self(); old.Topology.Node(self) == nil && m.Topology.Node(self) != nil {
			c.sendHeartbeats() // requests wait for the first heartbeat of a new member
		}
		c.joining.onMetadata()
	}
}

// addFormer adds the former members that Raft must still notify of their removal, unless another node has their
// address by now.
func (c *Cluster) addFormer(m *Metadata, peers map[ring.NodeID]netip.AddrPort) {
	if c.driver == nil || c.driver.conf == nil {
		return
	}
	taken := slices.Collect(maps.Values(peers))
	for _, r := range m.Removed {
		conf, id := c.driver.conf, uint64(r.Node)
		in := slices.Contains(conf.GetVoters(), id) || slices.Contains(conf.GetLearners(), id) ||
			slices.Contains(conf.GetVotersOutgoing(), id)
		if in && r.Node != c.Self() && !slices.Contains(taken, r.Addr) {
			peers[r.Node] = r.Addr
		}
	}
}

// peersOf returns the members of m. While this node replays the log up to its own admission, peersOf also keeps the
// members at the admission, so that their streams are not closed and reopened.
func (c *Cluster) peersOf(m *Metadata) map[ring.NodeID]netip.AddrPort {
	peers := m.peers()
	if m.Topology.Node(c.Self()) == nil {
		for id, addr := range c.identity.Peers {
			if _, ok := peers[id]; !ok {
				peers[id] = addr
			}
		}
	}
	c.addFormer(m, peers)
	c.addNewer(m, peers)
	c.addMoved(peers)
	return peers
}
