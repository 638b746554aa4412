package scenario

import (
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/ring"
	"cqld/schema"
	"cqld/search"
)

// Run plays the scenario files of a directory. The output of a command is everything that happened since the previous
// command. A line "1>2 …" is a message that arrived. Messages are delivered, and time passes, only by commands:
//
//	cluster nodes=4 rf=4 | dcs=(a,a,b) factors=(a:2,b:1) [racks=(r1,r1,r2)] [owners=3]
//	        [speculative_retry=…] [read_repair=NONE] [write_ordering=quorum] [hints=none]
//	write|delete|static … [at=1] [cl=QUORUM] [timeout=2s]    requests of coordinator at
//	read k [limit= per= reversed from= to= v=] | scan | batch | truncate
//	apply node=2 …                                           changes one replica only
//	deliver [1>2 2<>3] [n=1], drop, cut, heal, hold, release, tick
//	                                                         the network and the time
//	clock node=(1,2) ahead=-1h                               the wall clocks of nodes
//	down, up, away, back, break [disk=full|readonly|kept|lost], fix
//	                                                         nodes
//	awaits, arrived                                          whether nodes await the first heartbeat of a new node
//	count k a=1 static=1 | logged                            additions to counters; a logged batch
//	twice, restart                                           deliver a message again; a new process
//	cas k a=x if=y|none [local] [contention=1s], paxos k     a conditional update; the acceptors' states
//	floor 5 [node=(1,2)] | forget [look] | settle k          raises the low bound of ballots; steps of a purge
//	have a b node=(1,2) [static], gone | list [limit= from= to=]
//	                                                         partitions of one replica; a listing of keys
//	search v=x|s=x [limit= key= reversed more]               a search by an index; more continues the last one
//	handover 3                                               a leaving node hands over its batches and hints
//	counters, batches                                        show shards, and the content of batch holders
//	pages, hints, stats, replicas, ring                      show state; ring gives nodes a new topology
func Run(t *testing.T, dir string) {
	datadriven.Walk(t, dir, func(t *testing.T, path string) {
		s := &script{t: t}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			// A file may have several clusters, one after the other.
			if d.Cmd == "cluster" {
				s.start(d)
				return "ok\n"
			}
			f := commands[d.Cmd]
			if f == nil {
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			f(s, d)
			return s.c.Take()
		})
	})
}

// script is a file that is being played. It is used by one test, in one goroutine.
type script struct {
	// searched is where the last search ended; nil means that it cannot be continued.
	searched search.Position
	t        *testing.T
	// c is the cluster of the last line cluster; nil before the first.
	c *Cluster
}

// commands are the commands of scenario files, besides cluster.
var commands = map[string]func(*script, *datadriven.TestData){
	"write": (*script).write, "delete": (*script).write, "static": (*script).write, "batch": (*script).batch,
	"apply": (*script).apply, "read": (*script).read, "scan": (*script).read, "truncate": (*script).truncate,
	"deliver": (*script).deliver, "drop": (*script).drop, "cut": (*script).cut, "heal": (*script).heal,
	"hold": (*script).hold, "release": (*script).hold, "tick": (*script).tick,
	"clock": (*script).clock,
	"down":  (*script).live, "up": (*script).live, "away": (*script).reach, "back": (*script).reach,
	"awaits": (*script).awaits, "arrived": (*script).awaits,
	"break": (*script).breaks, "fix": (*script).breaks,
	"count": (*script).count, "logged": (*script).logged, "twice": (*script).twice, "restart": (*script).restart,
	"counters": (*script).counters, "batches": (*script).batches, "handover": (*script).handover,
	"have": (*script).have, "gone": (*script).have, "list": (*script).list, "search": (*script).search,
	"cas": (*script).cas, "paxos": (*script).paxos,
	"floor": (*script).floor, "forget": (*script).forget, "settle": (*script).settle,
	"pages": (*script).pages, "hints": (*script).hints, "stats": (*script).stats,
	"replicas": (*script).replicas, "ring": (*script).ring,
}

// text returns an argument of a command. A command has each argument at most once.
func text(d *datadriven.TestData, name, otherwise string) string {
	if d.HasArg(name) {
		d.ScanArgs(scanner{}, name, &otherwise)
	}
	return otherwise
}

// scanner makes ScanArgs panic when it fails.
// A panic fails the test like Fatal, but also in helpers that have no testing.T.
type scanner struct{ testing.TB }

func (scanner) Helper()                           {}
func (scanner) Fatalf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }
func (scanner) Fatal(args ...any)                 { panic(fmt.Sprint(args...)) }
func (scanner) Errorf(format string, args ...any) { panic(fmt.Sprintf(format, args...)) }

// number returns an argument that is a number.
func number(d *datadriven.TestData, name string, otherwise int) int {
	n, err := strconv.Atoi(text(d, name, strconv.Itoa(otherwise)))
	if err != nil {
		panic(err)
	}
	return n
}

// duration returns an argument that is a duration.
func duration(d *datadriven.TestData, name, otherwise string) time.Duration {
	v, err := time.ParseDuration(text(d, name, otherwise))
	if err != nil {
		panic(err)
	}
	return v
}

// list returns the values of an argument.
func list(d *datadriven.TestData, name string) []string {
	for _, a := range d.CmdArgs {
		if a.Key == name {
			return a.Vals
		}
	}
	return nil
}

// words returns the arguments without a value.
func words(d *datadriven.TestData) (out []string) {
	for _, a := range d.CmdArgs {
		if len(a.Vals) == 0 {
			out = append(out, a.Key)
		}
	}
	return out
}

// start creates the cluster of a cluster line. Defaults are four nodes in one data center, all owners, and as many
// replicas as nodes, at most four.
func (s *script) start(d *datadriven.TestData) {
	o := Options{Datacenters: list(d, "dcs"), Racks: list(d, "racks")}
	if o.Datacenters == nil {
		for range number(d, "nodes", 4) {
			o.Datacenters = append(o.Datacenters, "dc1")
		}
	}
	o.Owners = number(d, "owners", len(o.Datacenters))
	o.Replication = ring.Replication{Class: ring.Simple, Factor: number(d, "rf", min(4, len(o.Datacenters)))}
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
		o.Replication = ring.NewNetworkTopology(all...)
	}
	// The tables of a cluster have the same options.
	o.Table = func(t *schema.Options) {
		t.SpeculativeRetry = strings.Join(strings.Fields(text(d, "speculative_retry", "NEVER")), "")
		t.ReadRepair = text(d, "read_repair", "BLOCKING")
		t.GCGraceSeconds = int32(number(d, "gc_grace", 864000))
		t.WriteOrdering = text(d, "write_ordering", "")
	}
	o.NoHints = text(d, "hints", "") == "none"
	// 0 means the default for each limit.
	o.HintLimits.BytesPerNode = int64(number(d, "hint_bytes", 0))
	o.BatchLimits.Bytes = int64(number(d, "batch_bytes", 0))
	o.CounterLimits.Names = number(d, "names", 0)
	o.Limits.WritesInFlight = int64(number(d, "writes", 0))
	o.Limits.ReadsInFlight = int64(number(d, "reads", 0))
	o.Limits.ResultBytes = number(d, "result_bytes", 0)
	o.ListingLimits.Bytes, o.SearchLimits.Bytes = o.Limits.ResultBytes, o.Limits.ResultBytes
	o.PageBytes = number(d, "page_bytes", 0)
	s.c = New(s.t, o)
}

// levels are the consistency levels that commands may name.
var levels = []ring.Consistency{ring.Any, ring.One, ring.Two, ring.Three, ring.Quorum, ring.All, ring.LocalQuorum,
	ring.EachQuorum, ring.Serial, ring.LocalSerial, ring.LocalOne, ring.NodeLocal}

// level returns the consistency level of a command. The default is QUORUM.
func level(d *datadriven.TestData) ring.Consistency {
	name := text(d, "cl", "QUORUM")
	for _, l := range levels {
		if l.String() == name {
			return l
		}
	}
	panic(fmt.Sprintf("no level %q", name))
}
