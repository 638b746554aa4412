package scenario

import (
	"errors"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/internal/testclock"
	"cqld/listing"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/paxos/acceptor"
	"cqld/paxos/contention"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/storage"
	"cqld/storage/failure"
	"cqld/storage/index"
)

// Node is a node of a Cluster. Parts, Proposer and the acceptor belong to its current process; the Engine outlives it.
// It implements coordinator.View, with Ring and Down as the test set them. It is used by the goroutine of the test.
type Node struct {
	*Parts
	ID     ring.NodeID
	Engine *storage.Engine
	// Values are the indexes of the node's rows, which outlive its processes, too.
	Values   *index.Values
	Proposer *paxos.Proposer
	// Ring is the topology that this node knows.
	Ring *ring.Topology
	// Down contains the nodes that this node considers down.
	Down map[ring.NodeID]bool
	// Failing is the fault of the next write; zero means that it does not fail.
	Failing WriteFault
	// Ahead is how far the wall clock of the node is ahead of the time.
	Ahead time.Duration

	c *Cluster
	// services are the handlers of the present process; Start replaces all of them.
	services map[messaging.Verb]messaging.Service
	purge    *acceptor.Purge
	process  *process
	// awaiting means that a node has joined the ring and has not sent a heartbeat yet (AwaitingFirstHeartbeat).
	awaiting bool
	// lowBound is in microseconds since the epoch, like ballots.
	lowBound int64 // View.PaxosFloor
	// refusing is the error of writes to storage; nil means that they succeed.
	refusing error
}

// WriteFault is the effect of a write that fails after it began.
type WriteFault int

// The faults.
const (
	// WriteKept is a write that is on the disk although its caller receives an error.
	WriteKept WriteFault = iota + 1
	// WriteLost is a write that left nothing on the disk.
	WriteLost
)

// process is one process of a node. Its timers and pending requests end with it.
type process struct{ ended bool }

// processClock runs the timers of a process. Now has the node's offset; Monotonic is the cluster's, which all nodes
// share. A process that ended therefore changes nothing, although its timers remain in the clock.
type processClock struct {
	*testclock.Clock
	node    *Node
	process *process
}

// Now implements env.Clock.
func (k processClock) Now() time.Time { return k.Clock.Now().Add(k.node.Ahead) }

// After implements env.Clock.
func (k processClock) After(d time.Duration, f func()) env.Timer {
	return k.Clock.After(d, func() {
		if !k.process.ended {
			f()
		}
	})
}

// Self implements coordinator.View.
func (n *Node) Self() ring.NodeID { return n.ID }

// Schema implements coordinator.View.
func (n *Node) Schema() *schema.Schema { return n.c.Schema }

// Topology implements coordinator.View.
func (n *Node) Topology() *ring.Topology { return n.Ring }

// Alive implements coordinator.View.
func (n *Node) Alive(id ring.NodeID) bool { return !n.Down[id] }

// PaxosFloor implements coordinator.View. All tables have the same floor here.
func (n *Node) PaxosFloor(schema.StorageID) int64 { return n.lowBound }

// newNode returns a node with empty storage. Inline means that the engine calls back before its methods return.
func (c *Cluster) newNode(id ring.NodeID) *Node {
	n := &Node{c: c, ID: id, services: map[messaging.Verb]messaging.Service{}, Down: map[ring.NodeID]bool{}}
	options := storage.Options{
		// Storage survives restarts because the engine stays open, so syncs would prove nothing.
		Dir: "data", FS: vfs.NewMem(), Clock: c.Clock, Inline: true, Sync: storage.SyncNone,
		PageBytes: c.Options.PageBytes,
	}
	index.Maintain(&options, index.NewPartitions(func(id schema.StorageID) bool {
		table := c.Schema.TableByStorage(id)
		return table != nil && table.OrderedPartitions()
	}))
	// Both kinds of indexes are maintained by the engine, in the batch of each write.
	n.keepValues(&options)
	engine, err := storage.Open(options)
	if err != nil {
		c.T.Fatal(err)
	}
	c.T.Cleanup(func() {
		if err := engine.Close(); err != nil {
			c.T.Error(err)
		}
	})
	n.Engine = engine
	n.buildValues()
	return n
}

// Start ends the process of the node, if there is one, and starts a new one on the same storage. The order of the parts
// is package assembly's, without the parts that change the ring. Hints and batches that the storage has are read again
// by the new process.
func (n *Node) Start() {
	if n.process != nil {
		// Timers and replies of the former process find this and do nothing.
		n.process.ended = true
	}
	n.process = &process{}
	o := n.c.Options
	post := &postbox{n, n.process}
	clock := processClock{n.c.Clock, n, n.process}
	// n.Parts is created below, so the callback refers to n and not to its present coordinator.
	local := replica.NewLocal(disk{n.Engine, n}, n, func(t coordinator.Truncation,
		done func(error)) {
		n.FollowTruncation(t, done)
	})
	replica.Serve(post, local)
	pages := listing.NewReplica(listing.ReplicaOptions{Local: local, View: n, Engine: n.Engine})
	listing.Serve(post, pages)
	found := search.NewReplica(search.ReplicaOptions{Local: local, View: n, Engine: n.Values})
	search.Serve(post, found)
	var store hints.Store = n.Engine
	if o.Store != nil {
		store = o.Store(n.Engine)
	}
	// One clock for the timestamps of writes and for ballots, as in a running node.
	stamps := env.NewHLC(clock, time.Minute)
	n.Parts = NewParts(PartsOptions{
		Coordinator: coordinator.Options{View: n, Replicas: replica.NewDirectory(local, post, n), Clock: clock,
			LocalDatacenter: o.Datacenters[n.ID-1], Limits: o.Limits, Stamps: stamps,
			AwaitingFirstHeartbeat: func() bool { return n.awaiting }},
		Store:    store,
		Hints:    hints.Options{Limits: o.HintLimits},
		NoHints:  o.NoHints,
		Batches:  batchlog.Options{Limits: o.BatchLimits, Holders: batchlog.NewClient(post)},
		Counters: counters.Options{Limits: o.CounterLimits, Leaders: counters.NewClient(post)},
		Listing:  listing.Options{Limits: o.ListingLimits, Replicas: listing.NewDirectory(pages, post, n)},
		Search: search.Options{Limits: o.SearchLimits,
			Replicas:    search.NewDirectory(found, post, n),
			Definitions: n.c.definitions},
	})
	n.Serve(post)
	n.startPaxos(local, post, stamps)
}

// startPaxos creates the acceptor, whose state is in the storage of local, and the proposer.
func (n *Node) startPaxos(local *replica.Local, post *postbox, stamps coordinator.Timestamps) {
	o := n.c.Options
	voter := acceptor.New(local, n)
	acceptor.Serve(post, voter)
	n.purge = acceptor.NewPurge(acceptor.PurgeOptions{Acceptor: voter, Engine: n.Engine, Transport: post,
		// Without goroutines, a step of a purge has ended when its call returns.
		Clock: n.c.Clock, Run: func(f func()) { f() }, Streaming: func(schema.StorageID) bool { return false }})
	n.Proposer = paxos.NewProposer(paxos.Options{View: n, Acceptors: acceptor.NewDirectory(voter, post, n),
		Arbiters:    contention.NewClient(post),
		Coordinator: n.Coordinator,
		Clock:       processClock{n.c.Clock, n, n.process}, Stamps: stamps, LocalDatacenter: o.Datacenters[n.ID-1]})
	contention.Serve(post, n.Proposer.Arbiter())
}

// read executes a read like the Executor of a client: a serial read uses Paxos.
func (n *Node) read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	if req.Consistency.IsSerial() && req.Command.SinglePartition() {
		n.Proposer.Read(req, done)
		return
	}
	n.Read(req, done)
}

// disk is the storage of a node for its replica. It refuses writes if the node's refusing is set, and while the node is
// broken. Reads always succeed: scenarios with unreadable data change storage itself. Hints and batches are written to
// the engine without it.
type disk struct {
	*storage.Engine
	n *Node
}

// refused returns the error with which a write is refused before it begins, or nil.
func (d disk) refused() error {
	if d.n.refusing == nil && d.n.c.broken[d.n.ID] != nil {
		return failure.ErrDiskFull
	}
	return d.n.refusing
}

// fail makes the write fail if Node.Failing is set. taken reports whether it did. err is the error of apply, which is
// nil for a write that is lost.
func (d disk) fail(mutations []*row.Mutation, done func(error),
	apply func([]*row.Mutation, bool, func(error)) error) (taken bool, err error) {
	fault := d.n.Failing
	if fault == 0 {
		return false, nil
	}
	// The fault is for one write.
	d.n.Failing = 0
	failed := func(error) { done(errors.New("injected disk error")) }
	if fault == WriteLost {
		failed(nil)
		return true, nil
	}
	// The write is executed, and its caller receives an error all the same.
	return true, apply(mutations, true, failed)
}

// Apply implements replica.Engine.
func (d disk) Apply(mutations []*row.Mutation, durable bool, done func(error)) error {
	if err := d.refused(); err != nil {
		return err
	}
	if taken, err := d.fail(mutations, done, d.Engine.Apply); taken {
		return err
	}
	return d.Engine.Apply(mutations, durable, done)
}

// Queue refuses writes like Apply.
func (d disk) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	if err := d.refused(); err != nil {
		return err
	}
	if taken, err := d.fail(mutations, done, d.Engine.Queue); taken {
		return err
	}
	return d.Engine.Queue(mutations, durable, done)
}
