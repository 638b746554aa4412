package repair_test

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/hints"
	"cqld/messaging"
	"cqld/repair"
	"cqld/ring"
	"cqld/row"
)

// TestRepairScenarios executes the scenarios in testdata. A command's output contains all events; a line "1>2 …" is a
// message that was delivered. Messages are delivered only by commands:
//
//	cluster nodes=3 rf=3 [read_repair=NONE] [step=]  step is how many bytes one step of hashing scans; nodes 1 and 2
//	                                                 are in dc1, all others in dc2
//	apply node=(1,2) k1 a=x b=y ts=10 | delete k1 [a] [from=a to=c] | static k1 x      changes these replicas only
//	fill node=(1,2) rows=100 [skip=7]                rows key0…, all but every skip-th on the last node
//	down, up, away, deliver [n=]                     nodes and the network
//	repair [at=1] [name=x] [leaf_bytes=] [rounds=]   repairs the table; only=(1,2) and dc=dc1 restrict it
//	cancel                                           the last one
//	settle [verbs]                                   delivers all messages, runs timers for 20 s; prints the requests
//	                                                 of repairs only, and counts them if verbs is given
//	repaired                                         the time up to which each node considers the ring repaired
//	roots, pages k1                                  whether all nodes have the same hashes; what each has
func TestRepairScenarios(t *testing.T) {
	datadriven.Walk(t, "testdata", func(t *testing.T, path string) {
		s := &scenarioRun{}
		commands := map[string]func(*datadriven.TestData){"apply": s.apply, "fill": s.fill, "down": s.live,
			"up": s.live, "away": s.leave,
			"deliver": s.deliver, "repair": s.repair, "cancel": s.cancel, "settle": s.settle, "repaired": s.until,
			"roots": s.compare, "pages": s.pages}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				readRepair := "BLOCKING"
				d.MaybeScanArgs(t, "read_repair", &readRepair)
				s.world = newWorld(t, number(t, d, "nodes", 3), number(t, d, "rf", 3), readRepair,
					int64(number(t, d, "step", 0)), hints.Limits{})
				return "ok\n"
			}
			f := commands[d.Cmd]
			if f == nil {
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			s.t = t
			f(d)
			return s.take()
		})
	})
}

// scenarioRun is the state of a scenario: a world with its last repair.
type scenarioRun struct {
	*world
	last *repair.Run
}

func number(t testing.TB, d *datadriven.TestData, name string, otherwise int) int {
	d.MaybeScanArgs(t, name, &otherwise)
	return otherwise
}

// named returns the nodes in an argument or, without one, in the line.
func (s *scenarioRun) named(d *datadriven.TestData, arg string) (nodes []*node) {
	for _, a := range d.CmdArgs {
		ids := a.Vals
		if arg == "" {
			ids = []string{a.Key}
		} else if a.Key != arg {
			continue
		}
		for _, id := range ids {
			var i int
			if _, err := fmt.Sscan(id, &i); err != nil {
				s.t.Fatal(err)
			}
			nodes = append(nodes, s.nodes[i-1])
		}
	}
	return nodes
}

func (s *scenarioRun) apply(d *datadriven.TestData) {
	m := s.mutation(d)
	for _, n := range s.named(d, "node") {
		s.put(n, m)
	}
}

// mutation parses a line of apply.
func (s *scenarioRun) mutation(d *datadriven.TestData) *row.Mutation {
	kind, from, to := "write", "", ""
	var bare []string
	for _, a := range d.CmdArgs {
		switch {
		case len(a.Vals) > 0:
		case a.Key == "delete" || a.Key == "static":
			kind = a.Key
		default:
			bare = append(bare, a.Key)
		}
	}
	ts := int64(number(s.t, d, "ts", 1))
	d.MaybeScanArgs(s.t, "from", &from)
	d.MaybeScanArgs(s.t, "to", &to)
	deletion := row.Deletion{Timestamp: ts, LocalTime: s.clock.Now().Unix()}
	m, r := &row.Mutation{}, row.NewRow()
	m.Reset(s.table.StorageID, row.NewPartitionKey([]byte(bare[0])))
	switch {
	case kind == "static":
		r.Cells = append(r.Cells, row.Cell{Column: s.table.Column("s").ID, Timestamp: ts, Value: []byte(bare[1])})
		m.AddHeader(r)
	case kind == "delete" && from != "":
		m.AddRangeTombstone(row.RangeTombstone{Start: []byte(from), End: row.After([]byte(to)), Deletion: deletion})
	case kind == "delete":
		r.Clustering, r.Deletion = []byte(bare[1]), deletion
		m.AddRow(r)
	default:
		for _, a := range d.CmdArgs {
			if len(a.Vals) == 1 && len(a.Key) == 1 {
				m.Append(s.insert(bare[0], a.Key, a.Vals[0], ts))
			}
		}
	}
	return m
}

func (s *scenarioRun) fill(d *datadriven.TestData) {
	nodes, skip := s.named(d, "node"), number(s.t, d, "skip", 0)
	for i := range number(s.t, d, "rows", 100) {
		m := s.insert(fmt.Sprint("key", i%60), string(rune('0'+i/60)), strings.Repeat("value", 20), 5)
		for k, n := range nodes {
			if skip == 0 || i%skip != 0 || k < len(nodes)-1 {
				s.put(n, m)
			}
		}
	}
}

// live sets whether all other nodes consider the nodes alive.
func (s *scenarioRun) live(d *datadriven.TestData) {
	for _, of := range s.named(d, "") {
		for _, n := range s.nodes {
			n.down[of.id] = n != of && d.Cmd == "down"
		}
	}
}

func (s *scenarioRun) leave(d *datadriven.TestData) {
	for _, n := range s.named(d, "") {
		s.away[n.id] = true
	}
}

func (s *scenarioRun) deliver(d *datadriven.TestData) {
	s.world.deliver(number(s.t, d, "n", 1_000_000))
}

func (s *scenarioRun) repair(d *datadriven.TestData) {
	name := ""
	d.MaybeScanArgs(s.t, "name", &name)
	r := s.nodes[number(s.t, d, "at", 1)-1].repairer(repair.Limits{LeafBytes: int64(number(s.t, d, "leaf_bytes", 0)),
		Rounds: number(s.t, d, "rounds", 0), PageRows: uint32(number(s.t, d, "page", 0))})
	job := repair.Job{Name: name, Table: s.table.StorageID, Range: ring.FullRange()}
	for _, n := range s.named(d, "only") {
		job.Scope.Nodes = append(job.Scope.Nodes, n.id)
	}
	for _, a := range d.CmdArgs {
		if a.Key == "dc" {
			job.Scope.Datacenters = a.Vals
		}
	}
	s.last = r.Start(job, nil, func(r repair.Report, err error) {
		s.printf("repair: ranges %d of %d, leaves %d, differing %d, unsettled %d, rows %d, unnoticed %d, %v",
			r.RangesDone, r.Ranges,
			r.Leaves, r.Differing, r.Unsettled, r.Rows, r.Unnoticed, outcomeOf(err))
	})
}

func outcomeOf(err error) string {
	var down *repair.Unavailable
	var failed *repair.Failed
	switch {
	case err == nil:
		return "ok"
	case errors.As(err, &down):
		return fmt.Sprintf("nodes %v are down", down.Nodes)
	case errors.As(err, &failed):
		return fmt.Sprintf("failed at node %d: %v", failed.Node, failed.Err)
	}
	return err.Error()
}

func (s *scenarioRun) cancel(*datadriven.TestData) { s.last.Cancel() }

func (s *scenarioRun) settle(d *datadriven.TestData) {
	clear(s.counts)
	s.asked = nil
	kept := s.take()
	s.pass(20 * time.Second)
	notified := s.take()
	if kept != "ok\n" {
		s.printf("%s", strings.TrimSpace(kept))
	}
	for line := range strings.Lines(notified) {
		if strings.HasPrefix(line, "repair:") {
			s.printf("%s", strings.TrimSpace(line))
		}
	}
	if d.HasArg("verbs") {
		s.printf("requests to nodes %v", s.asked)
		s.printf("%d steps of hashing, %d notices to others", s.counts[messaging.VerbMerkle],
			s.counts[messaging.VerbRepaired])
	}
}

func (s *scenarioRun) until(*datadriven.TestData) {
	now := s.clock.Now().Unix()
	for _, n := range s.nodes {
		var all []string
		for k := range 8 {
			before := "never"
			if b := n.repaired.Before(s.table.StorageID, ring.MinToken+1+ring.Token(uint64(k)<<61)); b > 0 {
				before = fmt.Sprint(time.Duration(now-b) * time.Second)
			}
			if len(all) == 0 || all[len(all)-1] != before {
				all = append(all, before)
			}
		}
		s.printf("node %d: %s", n.id, strings.Join(all, " "))
	}
}

func (s *scenarioRun) compare(*datadriven.TestData) {
	equal, rows := s.roots()
	s.printf("equal %v, %d rows", equal, rows)
}

func (s *scenarioRun) pages(d *datadriven.TestData) {
	for _, n := range s.nodes {
		page, err := n.engine.Read(nil, &row.ReadCommand{Table: s.table.StorageID,
			Key:    row.NewPartitionKey([]byte(d.CmdArgs[0].Key)),
			Slices: []row.Slice{row.AllRows()}, StaticCounts: true, Now: s.clock.Now().Unix()})
		if err != nil {
			s.t.Fatal(err)
		}
		s.printf("%d: %s", n.id, rowsOf(page))
	}
}
