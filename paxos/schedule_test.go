package paxos_test

import (
	"errors"
	"flag"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/mutant"
	"cqld/internal/tier"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/scenario"
)

var scheduleSeeds = flag.Int("schedules", 0, "how many random schedules of conditional changes are played; 0: as "+
	"many as fit into the tests")

// casSchedule contains several clients that change one row conditionally, through coordinators of four nodes, while
// messages are delivered in any order, lost or duplicated, processes restart, writes fail, and node 1 leaves the ring.
// In a quarter of the schedules, node 1 is the only replica, and does not leave. Values are unique, so that the decided
// changes form a chain.
type casSchedule struct {
	*scenario.Cluster
	rnd     *rand.Rand
	key     row.PartitionKey
	step    int
	clients []string // the value that each saw last
	busy    []bool
	calls   []*casCall
	values  int
	stage   int // of the ring's change
	known   map[ring.NodeID]int
}

// casCall is one request and its answer.
type casCall struct {
	at, client int // node and client
	from, to   string
	begin, end int // steps; end is -1 without an answer
	reads      bool
	seen       string // value returned by a read, or by a change whose condition did not hold
	applied    bool
	void       bool // the change was certainly not made
	text       string
}

const casUnset = "none"

func newCASSchedule(t testing.TB, seed uint64) *casSchedule {
	o := scenario.Options{Datacenters: slices.Repeat([]string{"dc1"}, 4), Owners: 4,
		Replication: ring.Replication{Class: ring.Simple, Factor: 3}}
	if seed%4 == 3 {
		o.Owners, o.Replication.Factor = 1, 1
	}
	c := scenario.New(t, o)
	s := &casSchedule{Cluster: c, rnd: rand.New(rand.NewPCG(seed, 1)), key: row.NewPartitionKey([]byte("k1")),
		clients: slices.Repeat([]string{casUnset}, 5), busy: make([]bool, 5), known: map[ring.NodeID]int{}}
	c.Clock.Advance(time.Duration(1+s.rnd.IntN(100)) * time.Microsecond)
	return s
}

func (s *casSchedule) command() *row.ReadCommand {
	return &row.ReadCommand{Table: s.Table.StorageID, Key: s.key, Slices: []row.Slice{row.ExactRow([]byte("a"))},
		StaticCounts: true,
		Now:          s.Clock.Now().Unix()}
}

// call sends a request of a client: a serial read, or a change of the value that the client last saw to a new one.
func (s *casSchedule) call(client int, at ring.NodeID, reads bool) *casCall {
	s.values++
	x := &casCall{at: int(at), client: client, from: s.clients[client], to: fmt.Sprint("v", s.values), begin: s.step,
		end: -1, reads: reads}
	s.calls, s.busy[client] = append(s.calls, x), true
	levels := []ring.Consistency{ring.Quorum, ring.One, ring.All, ring.Any}
	req := &paxos.CASRequest{Command: s.command(), Serial: ring.Serial, Consistency: levels[s.rnd.IntN(len(levels))],
		Contention: time.Second, Timeout: 2 * time.Second}
	req.Update = func(page []byte, timestamp int64) (*row.Mutation, bool, error) {
		if scenario.ValueIn(page) != x.from {
			return nil, false, nil
		}
		m := &row.Mutation{}
		m.Reset(s.Table.StorageID, s.key)
		scenario.AddRow(m, s.Table, "a", x.to, timestamp)
		return m, true, nil
	}
	answer := func(applied bool, page []byte, err error) {
		if x.end >= 0 {
			s.T.Errorf("two answers to %v", x)
		}
		x.end, s.busy[client], x.text = s.step, false, scenario.FormatError(err)
		var timeout *coordinator.WriteTimeout
		switch {
		case err == nil && applied:
			x.applied, s.clients[client] = true, x.to
		case err == nil:
			x.seen, x.void = scenario.ValueIn(page), true
			s.clients[client] = x.seen
		default:
			x.void = errors.As(err, &timeout) && timeout.Type == coordinator.WriteCAS
		}
	}
	if reads {
		s.Node(at).Proposer.Read(&coordinator.ReadRequest{Command: req.Command, Consistency: ring.Serial,
			Timeout: 2 * time.Second},
			func(page []byte, err error) { answer(false, page, err) })
		return x
	}
	s.Node(at).Proposer.CAS(req, answer)
	return x
}

// play executes one random step.
func (s *casSchedule) play() {
	s.step++
	ticks := []time.Duration{0, time.Microsecond, 3 * time.Microsecond, time.Millisecond, 5 * time.Millisecond,
		40 * time.Millisecond, 700 * time.Millisecond}
	n := len(s.Flight)
	switch p := s.rnd.IntN(1000); {
	case p < 100:
		client := s.rnd.IntN(len(s.clients))
		if !s.busy[client] {
			s.call(client, ring.NodeID(1+s.rnd.IntN(4)), s.rnd.IntN(4) == 0)
		}
	case p < 180:
		s.Clock.Advance(ticks[s.rnd.IntN(len(ticks))])
	case p < 200:
		s.moveRing()
	case p < 203:
		s.restart(ring.NodeID(1 + s.rnd.IntN(4)))
	case p < 207:
		s.Node(ring.NodeID(1 + s.rnd.IntN(4))).Failing = scenario.WriteKept + scenario.WriteFault(s.rnd.IntN(2))
	case n == 0:
	case p < 230:
		i := s.rnd.IntN(n)
		s.Flight = slices.Delete(s.Flight, i, i+1)
	case p < 240:
		s.Flight = append(s.Flight, s.Flight[s.rnd.IntN(n)])
	case p < 270:
		s.Cluster.Deliver(20, nil)
	default:
		i := s.rnd.IntN(n)
		s.Flight[0], s.Flight[i] = s.Flight[i], s.Flight[0]
		s.Cluster.Deliver(1, nil)
	}
}

// restart restarts a node's process: its clients get no answers, and the disk persists.
func (s *casSchedule) restart(id ring.NodeID) {
	s.Clock.Skip(time.Microsecond)
	s.Node(id).Start()
	for _, x := range s.calls {
		if x.end < 0 && x.at == int(id) {
			s.busy[x.client] = false
		}
	}
}

// moveRing decommissions node 1: it starts a phase, or a node receives one. Node 4 gets the data of node 1 when node 1
// knows that it leaves; then the ring switches.
func (s *casSchedule) moveRing() {
	if s.Options.Owners == 1 {
		return
	}
	behind := s.Nodes[s.rnd.IntN(len(s.Nodes))]
	if s.known[behind.ID] < s.stage {
		s.known[behind.ID]++
		behind.Ring = s.topologyAt(s.known[behind.ID])
		return
	}
	switch {
	case s.stage == 0 && s.rnd.IntN(3) == 0:
		s.stage = 1
	case s.stage == 1 && s.known[1] == 1 && s.known[4] == 1 && s.rnd.IntN(6) == 0:
		s.transfer()
		s.stage = 2
	case s.stage == 2 && s.rnd.IntN(6) == 0:
		s.stage = 3
	}
}

func (s *casSchedule) topologyAt(stage int) *ring.Topology {
	t := s.Topology(uint64(1+stage), s.Options.Datacenters, 4)
	switch stage {
	case 0:
		return t
	case 3:
		return ring.NewTopology(t.Epoch(), slices.DeleteFunc(slices.Clone(t.Nodes()),
			func(n *ring.Node) bool { return n.ID == 1 }))
	}
	o := &ring.Operation{ID: 2, Kind: ring.Leave, Node: 1, Phase: ring.Streaming}
	if stage == 2 {
		o.Phase, o.Switched = ring.Switching, t.Epoch()
	}
	t.Node(1).State = ring.Leaving
	return ring.NewMovingTopology(t.Epoch(), t.Epoch(), t.Nodes(), []*ring.Operation{o})
}

// transfer copies the rows and the Paxos state of node 1 to node 4. Node 4 then restarts and reads them.
func (s *casSchedule) transfer() {
	for _, table := range []schema.StorageID{s.Table.StorageID, schema.Initial().Table("system", "paxos").StorageID} {
		page, err := s.Node(1).Engine.Read(nil, &row.ReadCommand{Table: table, Key: s.key,
			Slices: []row.Slice{row.AllRows()}, Repair: new(row.Repair)})
		if err != nil {
			s.T.Fatal(err)
		}
		var p row.PageReader
		var x row.Row
		for p.Reset(page); p.NextPartition(); {
			m := &row.Mutation{}
			m.Reset(table, s.key)
			for p.NextRow(&x) {
				m.AddRow(&x)
			}
			failed := func(err error) {
				if err != nil {
					s.T.Fatal(err)
				}
			}
			failed(s.Node(4).Engine.Apply([]*row.Mutation{m}, true, failed))
		}
	}
	s.restart(4)
}

// end completes the change of the ring and all requests, and executes a last read, which it returns.
func (s *casSchedule) end() string {
	for s.stage > 0 && s.stage < 3 || slices.ContainsFunc(s.Nodes,
		func(n *scenario.Node) bool { return s.known[n.ID] < s.stage }) {
		s.moveRing()
		s.settle(1)
	}
	s.settle(200)
	for range 10 {
		s.step++
		s.busy[0] = false
		x := s.call(0, 2, true)
		if s.settle(100); x.text == "ok" {
			return x.seen
		}
	}
	return "unreadable"
}

func (s *casSchedule) settle(rounds int) {
	for range rounds {
		s.step++
		s.Cluster.Deliver(math.MaxInt, nil)
		s.Clock.Advance(50 * time.Millisecond)
	}
}

// check compares all answers with the chain of changes that ends with the last value. It returns the violations.
func (s *casSchedule) check(last string) (wrong []string) {
	made := map[string]*casCall{}
	for _, x := range s.calls {
		if !x.reads {
			made[x.to] = x
		}
	}
	place, chain := map[string]int{casUnset: 0}, []*casCall{}
	for v := last; v != casUnset; v = made[v].from {
		if made[v] == nil || len(chain) > len(made) {
			return append(wrong, fmt.Sprintf("the value %q was not written", v))
		}
		chain = append(chain, made[v])
	}
	slices.Reverse(chain)
	for i, x := range chain {
		place[x.to] = i + 1
	}
	// effect returns the position of an answer in the chain; ok is false if it is unknown.
	effect := func(x *casCall) (at int, ok bool) {
		switch {
		case x.applied:
			at, ok = place[x.to]
		case x.seen != "":
			at, ok = place[x.seen]
		default:
			return 0, false
		}
		if !ok {
			wrong = append(wrong, fmt.Sprintf("not in the chain: %v", x))
		}
		return at, ok
	}
	for _, x := range s.calls {
		if _, in := place[x.to]; x.void && in && !x.reads {
			wrong = append(wrong, fmt.Sprintf("decided, but answered that it is not: %v", x))
		}
		at, ok := effect(x)
		if !ok {
			continue
		}
		for _, y := range s.calls {
			after, known := place[y.to]
			if !known || y.reads {
				if !y.reads && !y.void || y.seen == "" {
					continue
				}
				after, known = place[y.seen]
			}
			if known && x.end < y.begin && after < at {
				wrong = append(wrong, fmt.Sprintf("%v came before, and is later than %v", x, y))
			}
		}
	}
	return wrong
}

// String describes a call.
func (x *casCall) String() string {
	what := fmt.Sprintf("change %s to %s", x.from, x.to)
	if x.reads {
		what = "serial read"
	}
	result := x.text
	switch {
	case x.end < 0:
		result = "no answer"
	case x.applied:
		result = "applied"
	case x.seen != "":
		result = "there is " + x.seen
	}
	return fmt.Sprintf("[%d,%d] node %d: %s: %s", x.begin, x.end, x.at, what, result)
}

// playSchedule executes the schedule of a seed, and returns the violations.
func playSchedule(t testing.TB, seed uint64) (s *casSchedule, wrong []string) {
	s = newCASSchedule(t, seed)
	for range 200 + s.rnd.IntN(400) {
		s.play()
	}
	return s, s.check(s.end())
}

// TestConditionalChangesInRandomSchedules executes random schedules. The answers must be linearizable.
func TestConditionalChangesInRandomSchedules(t *testing.T) {
	n := *scheduleSeeds
	if n == 0 {
		if n = 1000; testing.Short() {
			n = 120
		}
	}
	applied := 0
	for seed := range uint64(n) {
		s, wrong := playSchedule(t, seed)
		for _, x := range s.calls {
			if x.applied {
				applied++
			}
		}
		if len(wrong) > 0 {
			var all []string
			for _, x := range s.calls {
				all = append(all, x.String())
			}
			t.Fatalf("seed %d: %s\nthe ring is at stage %d; all calls:\n%s", seed, strings.Join(wrong, "\n"), s.stage,
				strings.Join(all, "\n"))
		}
	}
	if applied < 2*n {
		t.Errorf("only %d changes applied in %d schedules", applied, n)
	}
}

// TestRandomSchedulesNeedSafeguards shows that the schedules detect a missing safeguard of conditional changes.
func TestRandomSchedulesNeedSafeguards(t *testing.T) {
	tier.Long(t)
	for name, keys := range map[string][]string{
		"a majority decides": {"paxos/one-vote-decides"},
		"a proposal in progress is finished": {"paxos/in-progress-not-finished",
			"paxos/serial-read-without-finishing"},
		"both sides of a change of the ring count": {"paxos/others-not-counted"},
	} {
		t.Run(name, func(t *testing.T) {
			mutant.Need(t, keys...)
			for seed := range uint64(1000) {
				if _, wrong := playSchedule(t, seed); len(wrong) > 0 {
					t.Logf("seed %d: %s", seed, wrong[0])
					return
				}
			}
			t.Error("no schedule shows that it is needed")
		})
	}
}
