package coordinator_test

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/cockroachdb/datadriven"

	"cqld/coordinator/repair"
	"cqld/messaging"
	"cqld/replica"
	"cqld/ring"
	"cqld/storage"
)

// TestRepairStories plays the stories in testrepair, with the commands of TestScenarios and these:
//
//	repair [at=1] [name=x] [leaf_bytes=] [rounds=]   repairs the table
//	cancel                                           the last one
//	fill node=(1,2) rows=100 [skip=7]                rows key0…, all but every skip-th on the last node
//	settle [verbs]                                   everything is delivered, timers run for 20 s; tells of requests of
//	                                                 repair only, and counts them when verbs are wanted
//	repaired                                         until when each node knows the ring to be repaired
//	roots                                            whether all nodes have the same hashes
func TestRepairStories(t *testing.T) {
	datadriven.Walk(t, "testrepair", func(t *testing.T, path string) {
		s := &repairStory{scenario: scenario{t: t}}
		datadriven.RunTest(t, path, func(t *testing.T, d *datadriven.TestData) string {
			if d.Cmd == "cluster" {
				s.start(d)
				s.attach(int64(number(d, "step", 0)))
				return "ok\n"
			}
			own := map[string]func(*datadriven.TestData){"repair": s.repair, "cancel": s.cancel, "fill": s.fill, "settle": s.settle,
				"repaired": s.repaired, "roots": s.roots}
			if f := own[d.Cmd]; f != nil {
				f(d)
				return s.c.take()
			}
			f := commands[d.Cmd]
			if f == nil {
				d.Fatalf(t, "no command %q", d.Cmd)
			}
			f(&s.scenario, d)
			return s.c.take()
		})
	})
}

// repairStory is a scenario whose nodes have repairs.
type repairStory struct {
	scenario
	peers     []*replica.Repairs
	repaireds []*replica.Repaired
	last      *repair.Run
	counts    map[string]int
}

// repairPost carries the requests of repairs.
type repairPost struct {
	n *node
	s *repairStory
}

func (p *repairPost) Send(ring.NodeID, messaging.Verb, []byte)     {}
func (p *repairPost) Handle(v messaging.Verb, h messaging.Handler) { p.n.handlers[v] = h }

func (p *repairPost) Request(to ring.NodeID, verb messaging.Verb, payload []byte, timeout time.Duration, reply messaging.Reply) {
	c, from := p.n.c, p.n.id
	name := map[messaging.Verb]string{messaging.VerbMerkle: "hash", messaging.VerbRepaired: "repaired"}[verb]
	p.s.counts[name]++
	if c.away[to] {
		reply(nil, messaging.ErrUnreachable)
		return
	}
	answered := false
	answer := func(payload []byte, err error) {
		if !answered {
			answered = true
			reply(payload, err)
		}
	}
	c.clock.After(timeout, func() { answer(nil, messaging.ErrTimeout) })
	payload = slices.Clone(payload)
	c.post(link{from, to}, name, func() {
		c.node(to).handlers[verb](from, payload, func(payload []byte, err error) {
			payload = slices.Clone(payload)
			c.post(link{to, from}, name+" ok", func() { answer(payload, err) })
		})
	})
}

func (s *repairStory) attach(step int64) {
	s.counts = map[string]int{}
	s.peers, s.repaireds = nil, nil
	for _, n := range s.c.nodes {
		repaired, err := replica.OpenRepaired(n.engine)
		if err != nil {
			s.t.Fatal(err)
		}
		s.repaireds = append(s.repaireds, repaired)
		s.peers = append(s.peers, replica.NewRepairs(replica.RepairOptions{Local: replica.NewLocal(n.engine, n, nil), Engine: n.engine,
			Transport: &repairPost{n, s}, Clock: s.c.clock, Run: func(f func()) { f() }, Repaired: repaired, StepBytes: step}))
	}
}

func (s *repairStory) repair(d *datadriven.TestData) {
	at := s.c.node(ring.NodeID(number(d, "at", 1)))
	r := repair.NewRepairer(repair.Options{Coordinator: at.coord, View: at, Clock: lifeClock{s.c.clock, at.life}, Peers: s.peers[at.id-1], Store: at.engine,
		Limits: repair.Limits{LeafBytes: int64(number(d, "leaf_bytes", 0)), Rounds: number(d, "rounds", 0), Timeout: 2 * time.Second,
			PageRows: uint32(number(d, "page", 0))}})
	job := repair.Job{Name: text(d, "name", ""), Table: s.c.table.StorageID, Range: ring.FullRange()}
	s.last = r.Start(job, nil, func(r repair.Report, err error) {
		s.c.printf("repair: ranges %d of %d, leaves %d, differing %d, unsettled %d, rows %d, unnoticed %d, %v", r.RangesDone, r.Ranges,
			r.Leaves, r.Differing, r.Unsettled, r.Rows, r.Unnoticed, repairOutcome(err))
	})
}

func repairOutcome(err error) string {
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

func (s *repairStory) cancel(*datadriven.TestData) { s.last.Cancel() }

func (s *repairStory) fill(d *datadriven.TestData) {
	nodes := list(d, "node")
	for i := range number(d, "rows", 100) {
		skip := number(d, "skip", 0)
		for k, id := range nodes {
			if skip > 0 && i%skip == 0 && k == len(nodes)-1 {
				continue
			}
			s.apply(&datadriven.TestData{CmdArgs: []datadriven.CmdArg{{Key: "node", Vals: []string{id}}, {Key: fmt.Sprint("key", i%60)},
				{Key: string(rune('0' + i/60)), Vals: []string{strings.Repeat("value", 20)}}, {Key: "ts", Vals: []string{"5"}}}})
		}
	}
}

func (s *repairStory) settle(d *datadriven.TestData) {
	clear(s.counts)
	kept := s.c.take()
	for range 200 {
		s.c.deliver(100_000, nil)
		s.c.clock.tick(100 * time.Millisecond)
	}
	told := s.c.take()
	if kept != "ok\n" {
		s.c.printf("%s", strings.TrimSpace(kept))
	}
	for line := range strings.Lines(told) {
		if strings.HasPrefix(line, "repair:") {
			s.c.printf("%s", strings.TrimSpace(line))
		}
	}
	if d.HasArg("verbs") {
		s.c.printf("%d steps of hashing, %d notices to others", s.counts["hash"], s.counts["repaired"])
	}
}

func (s *repairStory) repaired(*datadriven.TestData) {
	now := s.c.clock.Now().Unix()
	for i, r := range s.repaireds {
		var all []string
		for k := range 8 {
			before := "never"
			if b := r.Before(s.c.table.StorageID, ring.MinToken+1+ring.Token(uint64(k)<<61)); b > 0 {
				before = fmt.Sprint(time.Duration(now-b) * time.Second)
			}
			if len(all) == 0 || all[len(all)-1] != before {
				all = append(all, before)
			}
		}
		s.c.printf("node %d: %s", i+1, strings.Join(all, " "))
	}
}

func (s *repairStory) roots(*datadriven.TestData) {
	var first storage.LeafHash
	equal := true
	for i, n := range s.c.nodes {
		var root storage.LeafHash
		for _, r := range []ring.Range{{Start: ring.MinToken, End: 0}, {Start: 0, End: ring.MinToken}} {
			cmd := &storage.HashCommand{Table: s.c.table.StorageID, Tokens: r, Leaves: 1, Now: s.c.clock.Now().Unix(), BytesMax: 1 << 40}
			if _, _, err := n.engine.Hash(cmd, func(_ int, h storage.LeafHash) { root.Add(h) }); err != nil {
				s.t.Fatal(err)
			}
		}
		if i == 0 {
			first = root
		}
		equal = equal && root == first
	}
	s.c.printf("equal %v, %d rows", equal, first.Rows)
}
