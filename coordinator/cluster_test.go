package coordinator_test

import (
	"container/heap"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/internal/env"
	"cqld/internal/testcluster"
	"cqld/internal/wire"
	"cqld/listing"
	"cqld/messaging"
	"cqld/paxos"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/types"
)

// cluster is a few nodes with real storage in memory, between which the script carries messages.
type cluster struct {
	t       testing.TB
	clock   *scriptClock
	nodes   []*node // nodes[i].id is i+1
	flight  []*letter
	cut     map[link]bool
	held    map[ring.NodeID]bool
	broken  map[ring.NodeID]error // what a node's replica answers with
	away    map[ring.NodeID]bool  // unreachable: requests fail at once
	schema  *schema.Schema
	table   *schema.Table
	counts  *schema.Table // counters
	options clusterOptions
	log     strings.Builder
	ops     int
	pending map[int]bool
}

type link struct{ from, to ring.NodeID }

// node is one of them.
type node struct {
	c        *cluster
	id       ring.NodeID
	engine   *storage.Engine
	services map[messaging.Verb]messaging.Service
	coord    *coordinator.Coordinator
	proposer *paxos.Proposer
	purge    *paxos.Purge
	parts    *parts
	hints    *hints.Hints
	batches  *batchlog.Log
	topology *ring.Topology
	life     *life
	down     map[ring.NodeID]bool // as this node sees it
	arriving bool                 // somebody does, and is not heard yet
	floor    int64                // of Paxos
	refusing error                // of writes by this node's storage; nil: it takes them
	failing  writeFault           // of the next write
}

// writeFault is what becomes of a write that fails after it began.
type writeFault int

const (
	writeKept writeFault = iota + 1 // it is on the disk all the same
	writeLost
)

// fail makes the next write fail that n.failing concerns. taken reports whether it did.
func (d disk) fail(mutations []*row.Mutation, done func(error), apply func([]*row.Mutation, bool, func(error)) error) (taken bool, err error) {
	fault := d.n.failing
	if fault == 0 {
		return false, nil
	}
	d.n.failing = 0
	failed := func(error) { done(errors.New("disk on fire")) }
	if fault == writeLost {
		failed(nil)
		return true, nil
	}
	return true, apply(mutations, true, failed)
}

// disk is a node's storage as its replica uses it. It refuses writes when the node's refusing is set, and while the node is
// broken.
type disk struct {
	*storage.Engine
	n *node
}

func (d disk) refused() error {
	if d.n.refusing == nil && d.n.c.broken[d.n.id] != nil {
		return storage.ErrDiskFull
	}
	return d.n.refusing
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

// Queue refuses as Apply does.
func (d disk) Queue(mutations []*row.Mutation, durable bool, done func(error)) error {
	if err := d.refused(); err != nil {
		return err
	}
	if taken, err := d.fail(mutations, done, d.Engine.Queue); taken {
		return err
	}
	return d.Engine.Queue(mutations, durable, done)
}

// life is one process of a node: what it waits for dies with it.
type life struct{ over bool }

// lifeClock calls back as long as the process lives.
type lifeClock struct {
	*scriptClock
	life *life
}

func (k lifeClock) After(d time.Duration, f func()) env.Timer {
	return k.scriptClock.After(d, func() {
		if !k.life.over {
			f()
		}
	})
}

func (n *node) Self() ring.NodeID                 { return n.id }
func (n *node) Schema() *schema.Schema            { return n.c.schema }
func (n *node) Topology() *ring.Topology          { return n.topology }
func (n *node) Alive(id ring.NodeID) bool         { return !n.down[id] }
func (n *node) PaxosFloor(schema.StorageID) int64 { return n.floor }
func (c *cluster) node(id ring.NodeID) *node      { return c.nodes[id-1] }

// letter is a message under way.
type letter struct {
	link
	what    string
	deliver func()
}

// scriptClock stands still until the script moves it.
type scriptClock struct {
	now    time.Duration
	timers timerHeap
	next   int
}

type scriptTimer struct {
	at      time.Duration
	order   int
	f       func()
	clock   *scriptClock
	stopped bool
}

type timerHeap []*scriptTimer

func (h timerHeap) Len() int { return len(h) }
func (h timerHeap) Less(i, k int) bool {
	return h[i].at < h[k].at || h[i].at == h[k].at && h[i].order < h[k].order
}
func (h timerHeap) Swap(i, k int) { h[i], h[k] = h[k], h[i] }
func (h *timerHeap) Push(x any)   { *h = append(*h, x.(*scriptTimer)) }
func (h *timerHeap) Pop() any {
	old := *h
	x := old[len(old)-1]
	*h = old[:len(old)-1]
	return x
}

func (k *scriptClock) Now() time.Time           { return time.Unix(1_000_000, 0).Add(k.now) }
func (k *scriptClock) Monotonic() time.Duration { return k.now }
func (k *scriptClock) After(d time.Duration, f func()) env.Timer {
	k.next++
	t := &scriptTimer{at: k.now + max(d, 0), order: k.next, f: f, clock: k}
	heap.Push(&k.timers, t)
	return t
}

func (t *scriptTimer) Stop() bool {
	was := t.stopped
	t.stopped = true
	return !was
}

// tick lets d pass; timers that are due call back in order.
func (k *scriptClock) tick(d time.Duration) {
	end := k.now + d
	for len(k.timers) > 0 && k.timers[0].at <= end {
		t := heap.Pop(&k.timers).(*scriptTimer)
		if t.stopped {
			continue
		}
		k.now, t.stopped = t.at, true
		t.f()
	}
	k.now = end
}

// clusterOptions is what a scenario's cluster line says.
type clusterOptions struct {
	datacenters   []string // of the nodes
	racks         []string // of the nodes; nil: all are in rack r1
	owners        int      // the first so many own tokens; the rest have joined nothing yet
	replication   ring.Replication
	table         func(*schema.Options)
	unsafe        coordinator.Unsafe
	unsafePaxos   paxos.Unsafe
	limits        coordinator.Limits
	hintLimits    hints.Limits
	noHints       bool
	batchLimits   batchlog.Limits
	batchUnsafe   batchlog.Unsafe
	counterLimits counters.Limits
	counterUnsafe counters.Unsafe
	listingLimits listing.Limits
	pageBytes     int
	store         func(*storage.Engine) hints.Store // what hints and batches are stored in; nil: the engine
}

func newCluster(t testing.TB, o clusterOptions) *cluster {
	c := &cluster{
		t: t, clock: &scriptClock{}, cut: map[link]bool{}, held: map[ring.NodeID]bool{},
		broken: map[ring.NodeID]error{}, away: map[ring.NodeID]bool{}, pending: map[int]bool{}, options: o,
	}
	c.schema, c.table = testSchema(t, o)
	c.counts = c.schema.Table("ks", "n")
	for i := range o.datacenters {
		n := &node{c: c, id: ring.NodeID(i + 1), services: map[messaging.Verb]messaging.Service{}, down: map[ring.NodeID]bool{}}
		c.nodes = append(c.nodes, n)
		options := storage.Options{
			Dir: "data", FS: vfs.NewMem(), Clock: c.clock, Inline: true, Sync: storage.SyncNone, PageBytes: o.pageBytes,
		}
		index.Maintain(&options, index.NewPartitions(func(id schema.StorageID) bool {
			table := c.schema.TableByStorage(id)
			return table != nil && table.OrderedPartitions()
		}))
		engine, err := storage.Open(options)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() {
			if err := engine.Close(); err != nil {
				t.Error(err)
			}
		})
		n.engine = engine
	}
	top := c.ring(1, o.datacenters, o.owners)
	for _, n := range c.nodes {
		n.topology = top
		n.start()
	}
	return c
}

// start runs a process on what the node's storage holds; the one before is over.
func (n *node) start() {
	if n.life != nil {
		n.life.over = true
	}
	n.life = &life{}
	o := n.c.options
	post := &postbox{n, n.life}
	local := replica.NewLocal(disk{n.engine, n}, n, func(t coordinator.Truncation, done func(error)) { n.coord.FollowTruncation(t, done) })
	replica.Serve(post, local)
	pages := listing.NewReplica(listing.ReplicaOptions{Local: local, View: n, Engine: n.engine})
	listing.Serve(post, pages)
	var store hints.Store = n.engine
	if o.store != nil {
		store = o.store(n.engine)
	}
	stamps := env.NewHLC(lifeClock{n.c.clock, n.life}, time.Minute)
	n.parts = newParts(partsOptions{Options: coordinator.Options{
		View: n, Replicas: replica.NewDirectory(local, post, n), Clock: lifeClock{n.c.clock, n.life},
		LocalDatacenter: o.datacenters[n.id-1], Unsafe: o.unsafe, Limits: o.limits, Stamps: stamps,
		Arriving: func() bool { return n.arriving },
	}, store: store, hints: hints.Options{Limits: o.hintLimits, Unsafe: hints.Unsafe{Disabled: o.noHints}},
		listing:  listing.Options{Limits: o.listingLimits, Replicas: listing.NewDirectory(pages, post, n)},
		batches:  batchlog.Options{Limits: o.batchLimits, Unsafe: o.batchUnsafe, Holders: batchlog.NewClient(post)},
		counters: counters.Options{Limits: o.counterLimits, Unsafe: o.counterUnsafe, Leaders: counters.NewClient(post)}})
	n.coord, n.hints, n.batches = n.parts.Coordinator, n.parts.hints, n.parts.batches
	n.parts.serve(post)
	n.startPaxos(local, post, stamps)
}

// startPaxos makes the proposer, and the acceptor whose state is with local.
func (n *node) startPaxos(local *replica.Local, post *postbox, stamps coordinator.Timestamps) {
	o := n.c.options
	acceptor := paxos.NewAcceptor(local, n, o.unsafePaxos)
	paxos.Serve(post, acceptor)
	n.purge = paxos.NewPurge(paxos.PurgeOptions{Acceptor: acceptor, Engine: n.engine, Transport: post, Clock: n.c.clock,
		Run: func(f func()) { f() }, Streaming: func(schema.StorageID) bool { return false }})
	n.proposer = paxos.NewProposer(paxos.Options{View: n, Acceptors: paxos.NewDirectory(acceptor, post, n), Coordinator: n.coord,
		Clock: lifeClock{n.c.clock, n.life}, Stamps: stamps, LocalDatacenter: o.datacenters[n.id-1], Unsafe: o.unsafePaxos})
	paxos.ServeTurns(post, n.proposer)
}

// read reads as a client of the node does.
func (n *node) read(req *coordinator.ReadRequest, done func(page []byte, err error)) {
	if req.Consistency.IsSerial() && req.Command.SinglePartition() {
		n.proposer.Read(req, done)
		return
	}
	n.coord.Read(req, done)
}

// ring is a topology in which the first owners nodes have four tokens each, evenly spread.
func (c *cluster) ring(epoch uint64, datacenters []string, owners int) *ring.Topology {
	var nodes []*ring.Node
	for i, dc := range datacenters {
		n := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: dc, Rack: "r1", State: ring.Normal}
		if racks := c.options.racks; racks != nil {
			n.Rack = racks[i]
		}
		if i < owners {
			for k := range 4 {
				step := (1 << 62) / uint64(owners)
				n.Tokens = append(n.Tokens, ring.MinToken+ring.Token(uint64(k)<<62+uint64(i+1)*step))
			}
		} else {
			n.State = ring.Joining
		}
		nodes = append(nodes, n)
	}
	return ring.NewTopology(epoch, nodes)
}

func testSchema(t testing.TB, o clusterOptions) (*schema.Schema, *schema.Table) {
	text := types.Native(types.Text)
	options := schema.DefaultOptions()
	options.SpeculativeRetry = "NEVER"
	if o.table != nil {
		o.table(&options)
	}
	s := testcluster.Catalog(t,
		&schema.CreateKeyspace{Keyspace: "ks", Replication: o.replication, DurableWrites: true},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: options, Columns: testcluster.Columns(text)},
		&schema.CreateTable{Keyspace: "ks", Table: "n", ID: schema.UUID{2}, Options: options, Columns: testcluster.Columns(types.Native(types.Counter))},
		&schema.CreateTable{Keyspace: "ks", Table: "o", ID: schema.UUID{3}, Options: options, Columns: []schema.ColumnSpec{
			{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
			{Name: "RowKey", Kind: schema.Clustering, Type: text},
			{Name: "s", Kind: schema.Static, Type: text},
		}})
	return s, s.Table("ks", "t")
}

// postbox is a node's messaging.Transport.
type postbox struct {
	n    *node
	life *life
}

var verbNames = map[messaging.Verb]string{
	messaging.VerbMutation: "mutation", messaging.VerbRead: "read", messaging.VerbDigest: "digest",
	messaging.VerbCounter: "counter", messaging.VerbBatchStore: "store", messaging.VerbBatchRemove: "remove",
	messaging.VerbReadRepair: "repair", messaging.VerbHint: "hint", messaging.VerbTruncate: "truncate",
	messaging.VerbPartitions:   "list",
	messaging.VerbPaxosPrepare: "prepare", messaging.VerbPaxosAccept: "accept", messaging.VerbPaxosCommit: "commit",
	messaging.VerbTurn: "turn", messaging.VerbPass: "pass", messaging.VerbNewest: "newest",
}

func (p *postbox) Handle(s messaging.Service) { p.n.services[s.Verb] = s }

// Run implements messaging.Transport: these clusters have no goroutines.
func (p *postbox) Run(_ int, f func()) error {
	f()
	return nil
}

func (p *postbox) Send(to ring.NodeID, verb messaging.Verb, payload []byte) {
	payload = slices.Clone(payload)
	p.n.c.post(link{p.n.id, to}, verbNames[verb], func() {
		p.n.c.node(to).services[verb].Handler(p.n.id, payload, func([]byte, error) {})
	})
}

func (p *postbox) Request(to ring.NodeID, verb messaging.Verb, payload []byte, timeout time.Duration, reply messaging.Reply) {
	c, from := p.n.c, p.n.id
	if c.away[to] {
		c.printf("%d>%d %s unreachable", from, to, verbNames[verb])
		reply(nil, messaging.ErrUnreachable)
		return
	}
	answered := false
	timer := c.clock.After(timeout, func() {
		if !answered && !p.life.over {
			answered = true
			reply(nil, messaging.ErrTimeout)
		}
	})
	back := func(payload []byte, err error) {
		payload = slices.Clone(payload)
		c.post(link{to, from}, verbNames[verb]+" "+outcome(verb, payload, err), func() {
			if !answered && !p.life.over {
				answered = true
				timer.Stop()
				reply(payload, err)
			}
		})
	}
	payload = slices.Clone(payload)
	c.post(link{from, to}, verbNames[verb], func() {
		if err := c.broken[to]; err != nil {
			back(nil, err)
			return
		}
		c.node(to).services[verb].Handler(from, payload, back)
	})
}

func (c *cluster) post(l link, what string, deliver func()) {
	if c.cut[l] {
		c.printf("%d>%d %s lost", l.from, l.to, what)
		return
	}
	c.flight = append(c.flight, &letter{l, what, deliver})
}

func outcome(verb messaging.Verb, payload []byte, err error) string {
	switch {
	case err != nil:
		return "failed: " + err.Error()
	case verb == messaging.VerbRead:
		return "page " + rowsOf(payload)
	case verb == messaging.VerbNewest:
		c := wire.NewCursor(payload)
		if n := c.Int64(); n != row.NoTimestamp {
			return strconv.FormatInt(n, 10)
		}
		return "none"
	}
	return "ok"
}

// deliver carries letters in the order in which they were posted, at most n, until none may be
// delivered.
func (c *cluster) deliver(n int, only func(link) bool) {
	for range n {
		i := slices.IndexFunc(c.flight, func(l *letter) bool { return !c.held[l.to] && (only == nil || only(l.link)) })
		if i < 0 {
			return
		}
		l := c.flight[i]
		c.flight = slices.Delete(c.flight, i, i+1)
		c.printf("%d>%d %s", l.from, l.to, l.what)
		l.deliver()
	}
}

func (c *cluster) printf(format string, args ...any) { fmt.Fprintf(&c.log, format+"\n", args...) }

// take returns and empties the log.
func (c *cluster) take() string {
	s := c.log.String()
	c.log.Reset()
	if s == "" {
		return "ok\n"
	}
	return s
}

// rowsOf shows a page: key{s=static del range row=value …}.
func rowsOf(page []byte) string {
	var b strings.Builder
	var r row.PageReader
	r.Reset(page)
	for r.NextPartition() {
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		fmt.Fprintf(&b, "%s{", r.Key.Bytes)
		var parts []string
		if r.Header.Deletion.Present() {
			parts = append(parts, fmt.Sprintf("deleted@%d", r.Header.Deletion.Timestamp))
		}
		for _, cell := range r.Header.Cells {
			parts = append(parts, "s"+cellText(&cell))
		}
		for _, t := range r.RangeTombstones {
			parts = append(parts, fmt.Sprintf("[%s,%s)deleted@%d", t.Start, strings.TrimSuffix(string(t.End), "\xff"), t.Deletion.Timestamp))
		}
		var x row.Row
		for r.NextRow(&x) {
			s := string(x.Clustering)
			if x.Deletion.Present() {
				s += fmt.Sprintf(" deleted@%d", x.Deletion.Timestamp)
			}
			for _, cell := range x.Cells {
				s += cellText(&cell)
			}
			parts = append(parts, s)
		}
		b.WriteString(strings.Join(parts, " ") + "}")
	}
	if err := r.Err(); err != nil {
		return err.Error()
	}
	if b.Len() == 0 {
		b.WriteString("nothing")
	}
	if r.More() {
		b.WriteString(" more")
	}
	return b.String()
}

func cellText(c *row.Cell) string {
	if c.Tombstone {
		return fmt.Sprintf("=deleted@%d", c.Timestamp)
	}
	return fmt.Sprintf("=%s@%d", c.Value, c.Timestamp)
}

// errorText shows what a driver would be told.
func errorText(err error) string {
	var unavailable *coordinator.Unavailable
	var wt *coordinator.WriteTimeout
	var rt *coordinator.ReadTimeout
	var wf *coordinator.WriteFailure
	var rf *coordinator.ReadFailure
	switch {
	case err == nil:
		return "ok"
	case casErrorText(err) != "":
		return casErrorText(err)
	case errors.As(err, &unavailable):
		return fmt.Sprintf("Unavailable %s required=%d alive=%d", unavailable.Consistency, unavailable.Required, unavailable.Alive)
	case errors.As(err, &wt):
		return fmt.Sprintf("WriteTimeout %s received=%d blockFor=%d %s", wt.Consistency, wt.Received, wt.BlockFor, wt.Type)
	case errors.As(err, &rt):
		return fmt.Sprintf("ReadTimeout %s received=%d blockFor=%d data=%t", rt.Consistency, rt.Received, rt.BlockFor, rt.DataPresent)
	case errors.As(err, &wf):
		return fmt.Sprintf("WriteFailure %s received=%d blockFor=%d failures=%v %s", wf.Consistency, wf.Received, wf.BlockFor, wf.Failures, wf.Type)
	case errors.As(err, &rf):
		return fmt.Sprintf("ReadFailure %s received=%d blockFor=%d failures=%v data=%t", rf.Consistency, rf.Received, rf.BlockFor, rf.Failures, rf.DataPresent)
	}
	return "error: " + err.Error()
}
