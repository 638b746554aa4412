package coordinator_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator"
	"cqld/messaging"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// TestScenarios plays the stories in testdata. A command's answer is everything that happened; a
// line "1>2 …" is a message that arrived, and messages move only when told to:
//
//	cluster nodes=4 rf=4 | dcs=(a,a,b) factors=(a=2,b=1) [racks=(r1,r1,r2)] [owners=3] [speculative_retry=…] [read_repair=NONE] [write_ordering=quorum] [unsafe=…]
//	write|delete|static|insert … [at=1] [cl=QUORUM] [timeout=2s]     requests, of coordinator at
//	read k [limit= per= reversed from= to= v=] | scan | batch | truncate
//	apply node=2 …                                                   changes one replica only
//	deliver [1>2 2<>3] [n=1], drop, cut, heal, hold, release, tick   the network and time
//	down, up, away, back, break [disk=full|readonly|kept|lost], mend           nodes
//	count k a=1 static=1 | logged                                    additions to counters; a logged batch
//	twice, restart                                                   deliver a message again; a new process
//	cas k a=x if=y|none [local] [contention=1s], paxos k            a conditional change, the acceptors' states
//	floor 5 [node=(1,2)] | forget [look] | settle k                  raises the floor to a ballot's time; a purge's steps
//	handover 3                                                       a node that leaves gives away the batches that it keeps
//	counters, batches                                                looks at shards, and at what holders hold
//	pages, hints, stats, replicas, ring                              looks
func TestScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &scenario{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				s.start(d)
				return "ok\n"
			}
			f := commands[d.Cmd]
			if f == nil {
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			f(s, d)
			return s.c.take()
		})
	})
}

type scenario struct {
	t *testing.T
	c *cluster
	o clusterOptions
}

// commands is read only.
var commands = map[string]func(*scenario, *datadriven.TestData){
	"write": (*scenario).write, "delete": (*scenario).write, "static": (*scenario).write, "batch": (*scenario).batch,
	"apply": (*scenario).apply, "read": (*scenario).read, "scan": (*scenario).read, "truncate": (*scenario).truncate,
	"deliver": (*scenario).deliver, "drop": (*scenario).drop, "cut": (*scenario).cut, "heal": (*scenario).heal,
	"hold": (*scenario).hold, "release": (*scenario).hold, "tick": (*scenario).tick,
	"down": (*scenario).live, "up": (*scenario).live, "away": (*scenario).reach, "back": (*scenario).reach,
	"expects": (*scenario).expects, "nobody": (*scenario).expects,
	"break": (*scenario).breaks, "mend": (*scenario).breaks,
	"count": (*scenario).count, "logged": (*scenario).logged, "twice": (*scenario).twice, "restart": (*scenario).restart,
	"counters": (*scenario).counters, "batches": (*scenario).batches, "handover": (*scenario).handover,
	"have": (*scenario).have, "gone": (*scenario).have, "list": (*scenario).list,
	"cas": (*scenario).cas, "paxos": (*scenario).paxos,
	"floor": (*scenario).floor, "forget": (*scenario).forget, "settle": (*scenario).settle,
	"pages": (*scenario).pages, "hints": (*scenario).hints, "stats": (*scenario).stats,
	"replicas": (*scenario).replicas, "ring": (*scenario).ring,
}

func text(d *datadriven.TestData, name, otherwise string) string {
	if d.HasArg(name) {
		d.ScanArgs(scanner{}, name, &otherwise)
	}
	return otherwise
}

// scanner lets ScanArgs fail loudly.
type scanner struct{ testing.TB }

func (scanner) Helper()                           {}
func (scanner) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (scanner) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (scanner) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

func number(d *datadriven.TestData, name string, otherwise int) int {
	n, err := strconv.Atoi(text(d, name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

func duration(d *datadriven.TestData, name, otherwise string) time.Duration {
	v, err := time.ParseDuration(text(d, name, otherwise))
	if err != nil {
		panic(err)
	}
	return v
}

// list are the values of an argument, or the keys of the line when there is no such argument.
func list(d *datadriven.TestData, name string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals
		}
	}
	return nil
}

// words are the arguments without a value.
func words(d *datadriven.TestData) (out []string) {
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			out = append(out, a.Key)
		}
	}
	return out
}

func (s *scenario) start(d *datadriven.TestData) {
	o := clusterOptions{datacenters: list(d, "dcs"), racks: list(d, "racks")}
	if o.datacenters == nil {
		for range number(d, "nodes", 4) {
			o.datacenters = append(o.datacenters, "dc1")
		}
	}
	o.owners = number(d, "owners", len(o.datacenters))
	o.replication = ring.Replication{Class: ring.Simple, Factor: number(d, "rf", min(4, len(o.datacenters)))}
	if factors := list(d, "factors"); factors != nil {
		var all []ring.DatacenterFactor
		for _, f := range factors {
			name, n, _ := strings.Cut(f, ":")
			factor, err := strconv.Atoi(n)
			if err != nil {
				s.t.Fatal(err)
			}
			all = append(all, ring.DatacenterFactor{Datacenter: name, Factor: factor})
		}
		o.replication = ring.NewNetworkTopology(all...)
	}
	o.table = func(t *schema.Options) {
		t.SpeculativeRetry = strings.Join(strings.Fields(text(d, "speculative_retry", "NEVER")), "")
		t.ReadRepair = text(d, "read_repair", "BLOCKING")
		t.GCGraceSeconds = int32(number(d, "gc_grace", 864000))
		t.WriteOrdering = text(d, "write_ordering", "")
	}
	switch text(d, "unsafe", "") {
	case "":
	case "NoReadRepair":
		o.unsafe.NoReadRepair = true
	case "NoShortRead":
		o.unsafe.NoShortRead = true
	case "NoHints":
		o.noHints = true
	case "NoBatchlog":
		o.batchUnsafe.Disabled = true
	case "HintsSecure":
		o.batchUnsafe.HintsSecure = true
	case "CounterNotIdempotent":
		o.counterUnsafe.NotIdempotent = true
	case "ReadOneSide":
		o.unsafe.ReadOneSide = true
	case "NoWriteOrder":
		o.unsafe.NoWriteOrder = true
	case "FilterVersions":
		o.unsafe.FilterVersions = true
	case "NoReplan":
		o.unsafe.NoReplan = true
	case "NoLookup":
		o.unsafePaxos.NoLookup = true
	case "NoRepair":
		o.unsafePaxos.NoRepair = true
	default:
		s.t.Fatalf("no safeguard %q", text(d, "unsafe", ""))
	}
	o.hintLimits.BytesPerNode = int64(number(d, "hint_bytes", 0))
	o.batchLimits.Bytes = int64(number(d, "batch_bytes", 0))
	o.counterLimits.Names = number(d, "names", 0)
	o.limits.WritesInFlight = int64(number(d, "writes", 0))
	o.limits.ReadsInFlight = int64(number(d, "reads", 0))
	o.limits.ResultBytes = number(d, "result_bytes", 0)
	o.listingLimits.Bytes = o.limits.ResultBytes
	o.pageBytes = number(d, "page_bytes", 0)
	s.o = o
	s.c = newCluster(s.t, o)
}

var levels = []ring.Consistency{ring.Any, ring.One, ring.Two, ring.Three, ring.Quorum, ring.All, ring.LocalQuorum,
	ring.EachQuorum, ring.Serial, ring.LocalSerial, ring.LocalOne, ring.NodeLocal}

func (s *scenario) level(d *datadriven.TestData) ring.Consistency {
	name := text(d, "cl", "QUORUM")
	for _, l := range levels {
		if l.String() == name {
			return l
		}
	}
	s.t.Fatalf("no level %q", name)
	return 0
}

// mutation is what a line like "k1 a=x b=y ts=10" says; of delete, "k1 a ts=10", "k1 from=a to=c",
// or "k1" alone; of static, "k1 x".
func (s *scenario) mutation(d *datadriven.TestData, kind string) *row.Mutation {
	m := &row.Mutation{}
	bare := words(d)
	m.Reset(s.c.table.StorageID, row.NewPartitionKey([]byte(bare[0])))
	ts := s.stamp(d)
	deletion := row.Deletion{Timestamp: ts, LocalTime: s.c.clock.Now().Unix()}
	r := row.NewRow()
	switch {
	case kind == "static":
		r.Cells = append(r.Cells, row.Cell{Column: s.c.table.Column("s").ID, Timestamp: ts, Value: []byte(bare[1])})
		m.AddHeader(r)
	case kind == "delete" && d.HasArg("from"):
		m.AddRangeTombstone(row.RangeTombstone{
			Start: []byte(text(d, "from", "")), End: row.After([]byte(text(d, "to", "z"))), Deletion: deletion,
		})
	case kind == "delete" && len(bare) == 1:
		r.Deletion = deletion
		m.AddHeader(r)
	case kind == "delete":
		for _, c := range bare[1:] {
			r.Reset()
			r.Clustering, r.Deletion = []byte(c), deletion
			m.AddRow(r)
		}
	default:
		for _, a := range d.CmdArgs {
			if len(a.Vals) != 1 || len(a.Key) != 1 {
				continue
			}
			addRow(m, s.c.table, a.Key, a.Vals[0], ts)
		}
	}
	return m
}

// stamp is the timestamp that a line gives, or the server would.
func (s *scenario) stamp(d *datadriven.TestData) int64 {
	return int64(number(d, "ts", int(s.c.clock.now/time.Microsecond)+1))
}

func addRow(m *row.Mutation, table *schema.Table, clustering, value string, ts int64) {
	r := row.NewRow()
	r.Clustering = []byte(clustering)
	r.Liveness.Timestamp = ts
	r.Cells = append(r.Cells, row.Cell{Column: table.Column("v").ID, Timestamp: ts, Value: []byte(value)})
	m.AddRow(r)
}

// begin numbers a request; the result is logged when it comes.
func (s *scenario) begin(what string) (done func(result string)) {
	c := s.c
	c.ops++
	n := c.ops
	called := false
	return func(result string) {
		if called {
			c.printf("%s %d: ANSWERED TWICE", what, n)
		}
		called = true
		c.printf("%s %d: %s", what, n, result)
	}
}

func (s *scenario) submit(d *datadriven.TestData, mutations []*row.Mutation, kind coordinator.WriteType) {
	done := s.begin("write")
	at := s.c.node(ring.NodeID(number(d, "at", 1)))
	at.coord.Write(&coordinator.WriteRequest{
		Mutations: mutations, Consistency: s.level(d), Type: kind, Timeout: duration(d, "timeout", "2s"),
		Ordered: s.c.table.Options.WriteOrdering != "", Stamp: s.stamp(d),
	}, func(err error) { done(errorText(err)) })
}

func (s *scenario) write(d *datadriven.TestData) {
	s.submit(d, []*row.Mutation{s.mutation(d, d.Cmd)}, coordinator.WriteSimple)
}

// batch takes lines "k1 a x".
func (s *scenario) batch(d *datadriven.TestData) {
	s.submit(d, s.lines(d), coordinator.WriteUnloggedBatch)
}

func (s *scenario) lines(d *datadriven.TestData) (all []*row.Mutation) {
	for line := range strings.Lines(d.Input) {
		f := strings.Fields(line)
		m := &row.Mutation{}
		m.Reset(s.c.table.StorageID, row.NewPartitionKey([]byte(f[0])))
		addRow(m, s.c.table, f[1], f[2], int64(number(d, "ts", 1)))
		all = append(all, m)
	}
	return all
}

// apply changes the replicas named by node= directly.
func (s *scenario) apply(d *datadriven.TestData) {
	for _, id := range list(d, "node") {
		n, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		kind := "write"
		for _, k := range []string{"delete", "static"} {
			if d.HasArg(k) {
				kind = k
				d.CmdArgs = without(d.CmdArgs, k)
			}
		}
		m := s.mutation(d, kind)
		check := func(err error) {
			if err != nil {
				s.t.Fatal(err)
			}
		}
		check(s.c.node(ring.NodeID(n)).engine.Apply([]*row.Mutation{m}, true, check))
		if kind != "write" {
			d.CmdArgs = append(d.CmdArgs, datadriven.CmdArg{Key: kind})
		}
	}
}

func without(args []datadriven.CmdArg, key string) (out []datadriven.CmdArg) {
	for _, a := range args {
		if a.Key != key {
			out = append(out, a)
		}
	}
	return out
}

func (s *scenario) command(d *datadriven.TestData) *row.ReadCommand {
	cmd := &row.ReadCommand{
		Table: s.c.table.StorageID, Slices: []row.Slice{row.AllRows()}, Reversed: d.HasArg("reversed"), StaticCounts: true,
		Limits: row.Limits{Rows: uint32(number(d, "limit", 0)), PerPartition: uint32(number(d, "per", 0))},
		Now:    s.c.clock.Now().Unix(),
	}
	if d.HasArg("from") {
		cmd.StaticCounts = false
		cmd.Slices = []row.Slice{{Start: []byte(text(d, "from", "")), End: row.After([]byte(text(d, "to", "z")))}}
	}
	if d.HasArg("v") { // WHERE v = … ALLOW FILTERING
		v := s.c.table.Column("v")
		cmd.StaticCounts, cmd.Filter = false, &row.Filter{PartitionKey: 1}
		cmd.Filter.Add(row.Condition{Kind: v.Kind, Column: v.ID, Operator: row.FilterEqual, Type: v.Type, Values: [][]byte{[]byte(text(d, "v", ""))}})
	}
	if d.Cmd == "scan" {
		cmd.Range.Tokens = ring.FullRange()
		if after := text(d, "after", ""); after != "" {
			k := row.NewPartitionKey([]byte(after))
			cmd.Range.After = &k
		}
	} else {
		cmd.Key = row.NewPartitionKey([]byte(words(d)[0]))
	}
	return cmd
}

func (s *scenario) read(d *datadriven.TestData) {
	done := s.begin(d.Cmd)
	at := s.c.node(ring.NodeID(number(d, "at", 1)))
	at.read(&coordinator.ReadRequest{
		Command: s.command(d), Consistency: s.level(d), Timeout: duration(d, "timeout", "5s"),
	}, func(page []byte, err error) {
		if err != nil {
			done(errorText(err))
			return
		}
		done(rowsOf(page))
	})
}

func (s *scenario) truncate(d *datadriven.TestData) {
	done := s.begin("truncate")
	s.c.node(ring.NodeID(number(d, "at", 1))).coord.Truncate(s.c.table, duration(d, "timeout", "60s"),
		func(err error) { done(errorText(err)) })
}

func (s *scenario) deliver(d *datadriven.TestData) {
	links := parseLinks(d)
	s.c.deliver(number(d, "n", 1_000_000), func(l link) bool {
		if len(links) == 0 {
			return true
		}
		return links[l]
	})
}

// parseLinks reads words like 2>3, and 2<>3 for both ways.
func parseLinks(d *datadriven.TestData) map[link]bool {
	links := map[link]bool{}
	for _, w := range words(d) {
		a, b, both := strings.Cut(w, "<>")
		if !both {
			a, b, _ = strings.Cut(w, ">")
		}
		from, err1 := strconv.Atoi(a)
		to, err2 := strconv.Atoi(b)
		if err := errors.Join(err1, err2); err != nil {
			panic(err)
		}
		links[link{ring.NodeID(from), ring.NodeID(to)}] = true
		if both {
			links[link{ring.NodeID(to), ring.NodeID(from)}] = true
		}
	}
	return links
}

// drop loses what is under way on the links.
func (s *scenario) drop(d *datadriven.TestData) {
	links := parseLinks(d)
	var kept []*letter
	for _, l := range s.c.flight {
		if links[l.link] {
			s.c.printf("%d>%d %s lost", l.from, l.to, l.what)
			continue
		}
		kept = append(kept, l)
	}
	s.c.flight = kept
}

func (s *scenario) cut(d *datadriven.TestData) {
	for l := range parseLinks(d) {
		s.c.cut[l] = true
	}
}

func (s *scenario) heal(*datadriven.TestData) { clear(s.c.cut) }

func nodes(d *datadriven.TestData) (ids []ring.NodeID) {
	for _, w := range words(d) {
		n, err := strconv.Atoi(w)
		if err != nil {
			panic(err)
		}
		ids = append(ids, ring.NodeID(n))
	}
	return ids
}

func (s *scenario) hold(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.held[id] = d.Cmd == "hold"
	}
}

func (s *scenario) tick(d *datadriven.TestData) {
	v, err := time.ParseDuration(words(d)[0])
	if err != nil {
		s.t.Fatal(err)
	}
	s.c.clock.tick(v)
}

// live sets what all other nodes think of the nodes.
func (s *scenario) live(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		for _, n := range s.c.nodes {
			if n.id == id {
				continue
			}
			n.down[id] = d.Cmd == "down"
			if d.Cmd == "up" {
				n.hints.NodeUp(id)
			}
		}
	}
}

// expects makes nodes think that one arrives, whom they have not heard yet; nobody ends that.
func (s *scenario) expects(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.node(id).arriving = d.Cmd == "expects"
	}
}

func (s *scenario) reach(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.away[id] = d.Cmd == "away"
	}
}

func (s *scenario) breaks(d *datadriven.TestData) {
	for _, id := range nodes(d) {
		s.c.broken[id], s.c.node(id).refusing = nil, nil
		switch {
		case d.Cmd == "mend":
		case text(d, "disk", "") == "kept":
			s.c.node(id).failing = writeKept
		case text(d, "disk", "") == "lost":
			s.c.node(id).failing = writeLost
		case text(d, "disk", "") == "readonly":
			s.c.node(id).refusing = errors.New("read-only file system")
		case text(d, "disk", "") == "full":
			s.c.broken[id] = &messaging.RemoteError{Code: messaging.CodeOverloaded, Message: "the disk is full"}
		default:
			s.c.broken[id] = &messaging.RemoteError{Message: "disk on fire"}
		}
	}
}

// pages shows what every node would answer on its own.
func (s *scenario) pages(d *datadriven.TestData) {
	for _, n := range s.c.nodes {
		page, err := n.engine.Read(nil, s.command(d))
		if err != nil {
			s.t.Fatal(err)
		}
		s.c.printf("%d: %s", n.id, rowsOf(page))
	}
}

func (s *scenario) hints(d *datadriven.TestData) {
	for _, n := range s.c.nodes {
		for _, o := range s.c.nodes {
			if k := n.hints.Pending(o.id); k > 0 {
				s.c.printf("%d has %d for %d", n.id, k, o.id)
			}
		}
	}
}

func (s *scenario) stats(d *datadriven.TestData) {
	n := s.c.node(ring.NodeID(number(d, "at", 1)))
	s.show("", n.coord.Stats())
	s.show("Hints", n.hints.Stats())
	s.show("Batches", n.batches.Stats())
	s.show("Paxos.", n.proposer.Stats())
	s.show("Listing.", n.parts.lister.Stats())
}

// show prints the counts that are not zero, with a prefix before each name.
func (s *scenario) show(prefix string, counts any) {
	for _, f := range strings.Fields(strings.Trim(fmt.Sprintf("%+v", counts), "{}")) {
		if !strings.HasSuffix(f, ":0") {
			s.c.printf("%s%s", prefix, f)
		}
	}
}

// replicas shows who holds the keys.
func (s *scenario) replicas(d *datadriven.TestData) {
	for _, w := range words(d) {
		k := row.NewPartitionKey([]byte(w))
		set := s.c.nodes[0].topology.Placement(s.c.table.Replication).Replicas(k.Token)
		s.c.printf("%s: %v", w, set.Natural)
	}
}

// ring gives nodes a new topology: ring epoch=2 owners=4 at=(1,2); with leaves=1 phase=switching node 1 is
// about to leave it.
func (s *scenario) ring(d *datadriven.TestData) {
	t := s.c.ring(uint64(number(d, "epoch", 2)), s.o.datacenters, number(d, "owners", len(s.c.nodes)))
	if leaver := number(d, "leaves", 0); leaver > 0 {
		o := &ring.Operation{ID: t.Epoch(), Kind: ring.Leave, Node: ring.NodeID(leaver), Phase: ring.Streaming}
		if text(d, "phase", "streaming") == "switching" {
			o.Phase, o.Switched = ring.Switching, t.Epoch()
		}
		t.Node(o.Node).State = ring.Leaving
		t = ring.NewMovingTopology(t.Epoch(), t.Epoch(), t.Nodes(), []*ring.Operation{o})
	}
	for _, id := range list(d, "at") {
		n, err := strconv.Atoi(id)
		if err != nil {
			s.t.Fatal(err)
		}
		s.c.node(ring.NodeID(n)).topology = t
	}
}
