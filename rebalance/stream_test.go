package rebalance

import (
	"bytes"
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"
	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/testclock"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/storage"
)

// TestStreamScenarios executes the scenarios in testdata/stream: node 1 streams from node 2. A command's output
// contains all events. Messages are delivered only by commands, and timers fire only in tick:
//
//	start rows=100 [block=1000] [file=4000] [rate=…] [timeout=10s]
//	pull session=s [epoch=5]      cancel session=s      forget session=s
//	deliver [n=1] [damage]        drop [n=1]            both at the head of the queue; n=all
//	write node=2 k v              write a row, as a client's mutation would
//	epoch node=2 6                a node receives a topology
//	leaves                        node 1 learns that node 2 has left the ring
//	crash node=1                  a power cut and a restart
//	tick 1s                       status      compare
func TestStreamScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata/stream", func(t *testing.T, path string) {
		w := &streamWorld{t: t}
		defer w.close()
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			w.log.Reset()
			w.run(d)
			fmt.Fprintf(&w.log, "queue: %d\n", len(w.queue))
			return w.log.String()
		})
	})
}

// streamWorld contains two nodes, the messages between them, and a clock.
type streamWorld struct {
	t      *testing.T
	log    strings.Builder
	clock  testclock.Clock
	queue  []worldMessage
	nodes  map[ring.NodeID]*worldNode
	limits Limits
	table  *schema.Table
}

type worldMessage struct {
	name string
	size int
	// arrive is called with whether a byte is damaged in transit.
	arrive func(damage bool)
}

// worldNode is one node and its current process.
type worldNode struct {
	w        *streamWorld
	id       ring.NodeID
	disk     *vfs.MemFS
	engine   *storage.Engine
	view     *view
	streams  *Streams
	local    *replica.Local
	services map[messaging.Verb]messaging.Service
	life     int
}

func (n *worldNode) Send(ring.NodeID, messaging.Verb, []byte) {}
func (n *worldNode) Handle(s messaging.Service)               { n.services[s.Verb] = s }
func (n *worldNode) Run(_ int, f func()) error {
	f()
	return nil
}

func (n *worldNode) Request(to ring.NodeID, v messaging.Verb, payload []byte, timeout time.Duration,
	reply messaging.Reply) {
	w, life := n.w, n.life
	answered := false
	answer := func(payload []byte, err error) {
		if !answered && n.life == life {
			answered = true
			reply(payload, err)
		}
	}
	w.clock.After(timeout, func() { answer(nil, messaging.ErrTimeout) })
	payload = bytes.Clone(payload)
	w.carry(fmt.Sprintf("%d>%d request", n.id, to), len(payload), func(bool) {
		source := w.nodes[to]
		sourceLife := source.life
		source.services[v].Handler(n.id, payload, func(payload []byte, err error) {
			if source.life != sourceLife {
				return
			}
			payload = bytes.Clone(payload)
			w.carry(fmt.Sprintf("%d>%d reply", to, n.id), len(payload), func(damage bool) {
				if damage {
					payload[len(payload)/2] ^= 1
				}
				answer(payload, err)
			})
		})
	})
}

func (w *streamWorld) carry(name string, size int, arrive func(bool)) {
	w.queue = append(w.queue, worldMessage{name, size, arrive})
}

// boot starts a node with the contents of its disk.
func (n *worldNode) boot() {
	var err error
	n.life++
	n.services = map[messaging.Verb]messaging.Service{}
	n.engine, err = storage.Open(storage.Options{Dir: "data", FS: n.disk, Clock: &n.w.clock, Inline: true})
	if err != nil {
		n.w.t.Fatal(err)
	}
	n.local = replica.NewLocal(n.engine, n.view, nil)
	n.streams = NewStreams(StreamOptions{View: n.view, Local: n.local, Engine: n.engine, Transport: n,
		Clock: &n.w.clock, Changed: ignoreChanges,
		Run: func(f func()) { f() }, Limits: n.w.limits})
}

func (w *streamWorld) run(d *datadriven.TestData) {
	switch d.Cmd {
	case "start":
		w.start(d)
	case "pull":
		w.pull(d)
	case "cancel":
		w.nodes[1].streams.Cancel(argument(d, "session", ""))
	case "forget":
		w.check(w.nodes[1].streams.Forget(argument(d, "session", "")))
	case "deliver", "drop":
		w.deliver(d)
	case "write":
		n := w.nodes[ring.NodeID(integer(d, "node", 0))]
		var err error
		w.check(n.engine.Apply([]*row.Mutation{w.mutation(d.CmdArgs[1].Key, d.CmdArgs[2].Key, 2)}, true,
			func(e error) { err = e }))
		w.check(err)
	case "epoch":
		w.topology(w.nodes[ring.NodeID(integer(d, "node", 0))], d.CmdArgs[1].Key)
	case "leaves":
		w.nodes[1].view.topology = ring.NewTopology(uint64(integer(d, "epoch", 6)),
			[]*ring.Node{{ID: 1, Datacenter: "dc1"}})
	case "crash":
		w.crash(ring.NodeID(integer(d, "node", 0)))
	case "tick":
		w.tick(d)
	case "status":
		pulls := w.nodes[1].streams.Sessions()
		for _, p := range pulls {
			fmt.Fprintf(&w.log, "%s: %s, %d bytes, %v\n", p.ID, p.State, p.Bytes, p.Err)
		}
		sent := w.nodes[2].streams.Stats().SentBytes
		fmt.Fprintf(&w.log, "node 2 sent %d bytes\n", sent)
	case "compare":
		w.compare()
	default:
		w.t.Fatalf("no command %q", d.Cmd)
	}
}

// crash cuts a node's power, and restarts it.
func (w *streamWorld) crash(id ring.NodeID) {
	n := w.nodes[id]
	crashed := n.disk.CrashClone(vfs.CrashCloneCfg{})
	w.check(n.engine.Close())
	n.disk = crashed
	n.boot()
}

func (w *streamWorld) check(err error) {
	if err != nil {
		fmt.Fprintf(&w.log, "error: %v\n", err)
	}
}

func argument(d *datadriven.TestData, name, otherwise string) string {
	for _, a := range d.CmdArgs {
		if a.Key == name && len(a.Vals) == 1 {
			return a.Vals[0]
		}
	}
	return otherwise
}

func integer(d *datadriven.TestData, name string, otherwise int) int {
	n, err := strconv.Atoi(argument(d, name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

func (w *streamWorld) start(d *datadriven.TestData) {
	timeout, err := time.ParseDuration(argument(d, "timeout", "10s"))
	w.check(err)
	w.limits = Limits{BlockBytes: integer(d, "block", 1000), FileBytes: int64(integer(d, "file", 4000)),
		BytesPerSecond: int64(integer(d, "rate", 0)), Timeout: timeout}
	w.nodes = map[ring.NodeID]*worldNode{}
	catalog, table := testCatalog(w.t)
	w.table = table
	for id := ring.NodeID(1); id <= 2; id++ {
		n := &worldNode{w: w, id: id, disk: vfs.NewCrashableMem(), view: &view{self: id, schema: catalog}}
		w.nodes[id] = n
		w.topology(n, "5")
		n.boot()
	}
	for i := range integer(d, "rows", 0) {
		w.check(w.nodes[2].engine.Apply([]*row.Mutation{w.mutation(fmt.Sprint("key", i%10), fmt.Sprintf("row%04d", i),
			1)}, true, w.check))
	}
}

func (w *streamWorld) topology(n *worldNode, epoch string) {
	e, err := strconv.ParseUint(epoch, 10, 64)
	w.check(err)
	n.view.topology = ring.NewTopology(e, []*ring.Node{{ID: 1, Datacenter: "dc1"}, {ID: 2, Datacenter: "dc1"}})
}

func (w *streamWorld) mutation(key, clustering string, timestamp int64) *row.Mutation {
	m := new(row.Mutation)
	m.Reset(w.table.StorageID, row.NewPartitionKey([]byte(key)))
	r := row.NewRow()
	r.Clustering = []byte(clustering)
	r.Liveness.Timestamp = timestamp
	r.Cells = []row.Cell{{Column: 1, Timestamp: timestamp, Value: []byte("some value")}}
	m.AddRow(r)
	return m
}

func (w *streamWorld) pull(d *datadriven.TestData) {
	session := argument(d, "session", "")
	w.nodes[1].streams.Start(Session{
		ID: session, Epoch: uint64(integer(d, "epoch", 5)), Table: w.table.StorageID, Range: ring.FullRange(),
		Source: 2,
	}, func(bytes int64) {
		fmt.Fprintf(&w.log, "%s: %d bytes\n", session, bytes)
	}, func(err error) {
		var failed *SessionError
		if errors.As(err, &failed) {
			err = failed.Err
		}
		fmt.Fprintf(&w.log, "%s: done, %v\n", session, err)
	})
}

func (w *streamWorld) deliver(d *datadriven.TestData) {
	for n := 0; len(w.queue) > 0 && (argument(d, "n", "1") == "all" || n < integer(d, "n", 1)); n++ {
		m := w.queue[0]
		w.queue = slices.Delete(w.queue, 0, 1)
		if d.Cmd == "drop" {
			fmt.Fprintf(&w.log, "%s is lost\n", m.name)
			continue
		}
		fmt.Fprintf(&w.log, "%s, %d bytes\n", m.name, m.size)
		m.arrive(d.HasArg("damage"))
	}
}

func (w *streamWorld) tick(d *datadriven.TestData) {
	step, err := time.ParseDuration(d.CmdArgs[0].Key)
	w.check(err)
	w.clock.Advance(step)
}

// compare reads all data of both nodes.
func (w *streamWorld) compare() {
	var pages [2][]byte
	rows := [2]int{}
	for i := range pages {
		page, err := w.nodes[ring.NodeID(i+1)].engine.Read(nil, &row.ReadCommand{Table: w.table.StorageID,
			Range: row.KeyRange{Tokens: ring.FullRange()}, Slices: []row.Slice{row.AllRows()}})
		w.check(err)
		pages[i] = page
		var p row.PageReader
		p.Reset(page)
		for p.NextPartition() {
			for r := row.NewRow(); p.NextRow(r); {
				rows[i]++
			}
		}
	}
	fmt.Fprintf(&w.log, "rows %v, equal %v\n", rows, bytes.Equal(pages[0], pages[1]))
}

func (w *streamWorld) close() {
	for _, n := range w.nodes {
		n.streams.Close()
		if err := n.engine.Close(); err != nil {
			w.t.Error(err)
		}
	}
}
