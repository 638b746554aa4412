package scenario

import (
	"fmt"
	"slices"
	"strings"
	"testing"

	"cqld/batchlog"
	"cqld/coordinator"
	"cqld/counters"
	"cqld/hints"
	"cqld/internal/testclock"
	"cqld/listing"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/search"
	"cqld/simulation/testcluster"
	"cqld/storage"
	"cqld/storage/index"
	"cqld/types"
)

// Options configures a Cluster. A scenario file sets them by its line `cluster`; tests in Go set them directly. The
// length of Datacenters is the number of nodes.
type Options struct {
	// Datacenters and Racks contain a name for each node. Nil Racks mean rack r1 for all.
	Datacenters []string
	Racks       []string
	// The first Owners nodes own tokens; the others have not joined yet. Owners is at most the number of nodes.
	Owners      int
	Replication ring.Replication
	// Table changes the options of the tables; nil means no change.
	Table func(*schema.Options)
	// Fields of these types bound the work of their packages; zero values are the defaults.
	Limits     coordinator.Limits
	HintLimits hints.Limits
	// NoHints makes nodes store no hints.
	NoHints       bool
	BatchLimits   batchlog.Limits
	CounterLimits counters.Limits
	ListingLimits listing.Limits
	SearchLimits  search.Limits
	// PageBytes bounds a page of storage; 0 means the default.
	PageBytes int
	// Store returns where a node stores hints and batches; nil means its engine. A test can make this store fail.
	Store func(*storage.Engine) hints.Store
}

// Cluster is a few nodes with real storage in memory, between which a test delivers messages. It is not safe for
// concurrent use. Unlike package simulation, nothing is drawn and nothing happens by itself: a test decides each
// message and each step of time, so it can state a history exactly.
type Cluster struct {
	// T fails when the storage of a node fails, except by a fault of the test.
	T testing.TB
	// Clock is the time of all nodes, and stands still unless a test advances it.
	Clock *testclock.Clock
	// The ID of Nodes[i] is i+1.
	Nodes []*Node
	// Flight is exported for tests that deliver, repeat or lose single messages.
	// Messages in Flight are in the order in which they were sent.
	Flight []*Letter
	// Cut contains the links that lose messages.
	Cut    map[Link]bool
	Schema *schema.Schema
	// Table and Counters do not change: no command changes the schema.
	// Table is ks.t, with text values, and Counters ks.n, with counters.
	Table    *schema.Table
	Counters *schema.Table // ks.n, with counters
	Options  Options

	// indexes are the definitions of the indexes of Table.
	indexes []index.Definition
	// held contains nodes to which messages wait.
	held map[ring.NodeID]bool
	// broken is the error of the replica of each node that has one.
	broken map[ring.NodeID]error
	// away contains nodes to which requests fail immediately.
	away map[ring.NodeID]bool
	// log has a line for everything that happened since the last Take; ops is the number of requests of clients so
	// far.
	log strings.Builder
	ops int
}

// Link is the direction of messages from one node to another. 2>3 in a scenario file is Link{2, 3}.
type Link struct{ From, To ring.NodeID }

// Letter is a message in flight. It contains a closure instead of bytes, because it may be delivered twice or never.
// deliver runs the handler of the receiver, in the goroutine of the test.
type Letter struct {
	Link
	// What is the verb and, for a reply, its outcome, as scenario files show it.
	What    string
	deliver func()
}

// New returns a Cluster whose nodes have started. The engines are closed when the test ends. Nothing has been sent when
// it returns.
func New(t testing.TB, o Options) *Cluster {
	c := &Cluster{
		T: t, Clock: &testclock.Clock{}, Cut: map[Link]bool{}, held: map[ring.NodeID]bool{},
		broken: map[ring.NodeID]error{}, away: map[ring.NodeID]bool{}, Options: o,
	}
	c.Schema = Catalog(t, o)
	c.Table, c.Counters = c.Schema.Table("ks", "t"), c.Schema.Table("ks", "n")
	// The definitions of indexes exist before the nodes, whose engines build the indexes when they open.
	c.define()
	for i := range o.Datacenters {
		c.Nodes = append(c.Nodes, c.newNode(ring.NodeID(i+1)))
	}
	t1 := c.Topology(1, o.Datacenters, o.Owners)
	for _, n := range c.Nodes {
		n.Ring = t1
		// Every node begins with the same topology, of epoch 1.
		n.Start()
	}
	return c
}

// Node returns a node by its ID.
func (c *Cluster) Node(id ring.NodeID) *Node { return c.Nodes[id-1] }

// Topology returns a topology in which the first owners nodes have four tokens each, evenly distributed. Tokens are a
// function of the position and of owners alone, so the same keys have the same replicas in all scenarios of a shape.
func (c *Cluster) Topology(epoch uint64, datacenters []string, owners int) *ring.Topology {
	var nodes []*ring.Node
	for i, dc := range datacenters {
		n := &ring.Node{ID: ring.NodeID(i + 1), Datacenter: dc, Rack: "r1", State: ring.Normal}
		if racks := c.Options.Racks; racks != nil {
			n.Rack = racks[i]
		}
		if i < owners {
			for k := range 4 {
				// The ring has four quarters. Every owner has one token in each. Replicas of neighboring
				// ranges differ.
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

// Catalog returns a schema with the tables ks.t (texts), ks.n (counters) and ks.o (with a partition index). All three
// tables have the columns k, c, s (static) and v, except ks.o, whose columns are named as in Azure Tables. It is
// exported for tests that need the tables without nodes.
func Catalog(t testing.TB, o Options) *schema.Schema {
	text := types.Native(types.Text)
	options := schema.DefaultOptions()
	// Speculative reads would depend on measured latencies. Scenarios that test them set the option.
	options.SpeculativeRetry = "NEVER"
	if o.Table != nil {
		o.Table(&options)
	}
	return testcluster.Catalog(t,
		&schema.CreateKeyspace{Keyspace: "ks", Replication: o.Replication, DurableWrites: true},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: options,
			Columns: testcluster.Columns(text)},
		&schema.CreateTable{Keyspace: "ks", Table: "n", ID: schema.UUID{2}, Options: options,
			Columns: testcluster.Columns(types.Native(types.Counter))},
		&schema.CreateTable{Keyspace: "ks", Table: "o", ID: schema.UUID{3}, Options: options,
			Columns: []schema.ColumnSpec{
				{Name: "PartitionKey", Kind: schema.PartitionKey, Type: text},
				{Name: "RowKey", Kind: schema.Clustering, Type: text},
				{Name: "s", Kind: schema.Static, Type: text},
			}})
}

// AddRow adds a row of table t to a mutation. ts is in microseconds, and is the timestamp of the row marker and of the
// cell. m must be of the table.
func AddRow(m *row.Mutation, table *schema.Table, clustering, value string, ts int64) {
	r := row.NewRow()
	r.Clustering = []byte(clustering)
	r.Liveness.Timestamp = ts
	r.Cells = append(r.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: ts, Value: []byte(value)})
	m.AddRow(r)
}

// post sends a message.
func (c *Cluster) post(l Link, what string, deliver func()) {
	// A message that is lost shows in the output, so that a scenario cannot mistake it for one that was never sent.
	if c.Cut[l] {
		c.printf("%d>%d %s lost", l.From, l.To, what)
		return
	}
	c.Flight = append(c.Flight, &Letter{l, what, deliver})
}

// Deliver delivers at most n messages of the links that only accepts, in the order in which they were sent. A nil only
// accepts all links. It returns early if no message can be delivered. Messages to a node that is held are left out, not
// lost. A message that its receiver answers is followed by the answer in Flight, which this call may deliver too.
func (c *Cluster) Deliver(n int, only func(Link) bool) {
	// The list is searched again for each message, because delivering one may send others.
	for range n {
		i := slices.IndexFunc(c.Flight, func(l *Letter) bool { return !c.held[l.To] && (only == nil || only(l.Link)) })
		if i < 0 {
			return
		}
		l := c.Flight[i]
		c.Flight = slices.Delete(c.Flight, i, i+1)
		// The line comes before the effects of the message.
		c.printf("%d>%d %s", l.From, l.To, l.What)
		l.deliver()
	}
}

// printf adds a line to the log.
func (c *Cluster) printf(format string, args ...any) { fmt.Fprintf(&c.log, format+"\n", args...) }

// printCounts adds the counts that are not zero to the log, each name with a prefix. For example {Reads:2 Hints:0}
// prints "Reads:2" after the prefix.
func (c *Cluster) printCounts(prefix string, counts any) {
	// The fields of the struct are its printed form, Name:value, so new counts need no code here.
	for _, f := range strings.Fields(strings.Trim(fmt.Sprintf("%+v", counts), "{}")) {
		if !strings.HasSuffix(f, ":0") {
			c.printf("%s%s", prefix, f)
		}
	}
}

// Take returns the log since the last call, or "ok" if nothing happened. It is the output of a command in a scenario
// file.
func (c *Cluster) Take() string {
	s := c.log.String()
	c.log.Reset()
	// The output of a command in a scenario file must not be empty.
	if s == "" {
		return "ok\n"
	}
	return s
}
