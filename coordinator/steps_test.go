package coordinator

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/coordinator/resolve"
	"cqld/internal/invariant"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// stepView is the view of node 1 of a ring of three replicas.
type stepView struct {
	schema   *schema.Schema
	topology *ring.Topology
	dead     map[ring.NodeID]bool
}

func (*stepView) Self() ring.NodeID                 { return 1 }
func (v *stepView) Schema() *schema.Schema          { return v.schema }
func (v *stepView) Topology() *ring.Topology        { return v.topology }
func (v *stepView) Alive(node ring.NodeID) bool     { return !v.dead[node] }
func (*stepView) PaxosFloor(schema.StorageID) int64 { return 0 }

// newStepView returns a view with table ks.t.
func newStepView(t *testing.T) (*stepView, *schema.Table) {
	t.Helper()
	options := schema.DefaultOptions()
	options.SpeculativeRetry = "10ms"
	s := schema.Empty()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 3}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: options,
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: types.Native(types.Text)}}},
	} {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	var members []*ring.Node
	for i := range 3 {
		members = append(members, &ring.Node{ID: ring.NodeID(i + 1), Datacenter: "dc1", Rack: "r1",
			State: ring.Normal, Tokens: []ring.Token{ring.Token(i) << 60}})
	}
	v := &stepView{schema: s, topology: ring.NewTopology(1, members), dead: map[ring.NodeID]bool{}}
	return v, s.Table("ks", "t")
}

// newOrdering returns an ordering of two parts at QUORUM.
func newOrdering(t *testing.T) (*ordering, *stepView) {
	v, table := newStepView(t)
	c := New(Options{View: v, Clock: new(testclock.Clock), LocalDatacenter: "dc1"})
	o := &ordering{c: c, kind: WriteSimple, deadline: time.Second, left: 2, newest: row.NoTimestamp}
	for i := range 2 {
		o.parts = append(o.parts, &orderPart{
			cmd:   &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte{byte(i)})},
			table: table,
			level: ring.Quorum,
		})
	}
	return o, v
}

// TestStepsOfAnOrdering checks the effects of each event: "answers 0 2 7" means that node 2 returns 7 for part 0.
func TestStepsOfAnOrdering(t *testing.T) {
	const begun = "begin -> arm 10ms, ask 0 [1 2], ask 1 [1 2]\n"
	for name, lines := range map[string]string{
		"written": begun + "answers 0 1 7 ->\nanswers 0 2 9 ->\nanswers 1 1 3 ->\nanswers 1 2 4 -> write 9\n" +
			"fails 0 3 ->",
		"a failure": begun + "fails 0 2 -> ask 0 [3]\nanswers 0 1 1 ->\nanswers 0 3 2 ->\n" +
			"answers 1 1 1 ->\nanswers 1 2 1 -> write 2",
		"failures": begun + "fails 0 2 -> ask 0 [3]\nfails 0 3 -> fail WriteFailure\nanswers 1 1 1 ->",
		"late": begun + "answers 0 1 1 ->\n" +
			"tick 10 -> arm 990ms, ask 0 [3], ask 1 [3]\nanswers 0 3 5 ->\nanswers 1 3 1 ->\nanswers 1 1 1 -> write 5",
		"a timeout": begun + "answers 0 1 1 ->\ntick 1000 -> fail WriteTimeout\nanswers 0 2 1 ->",
		"a refusal": begun + "refuses 0 2 -> ask 0 [3]\nrefuses 0 3 -> pause 0\nanswers 0 1 8 ->\n" +
			"resume 0 -> ask 0 [1 2]\nanswers 0 1 8 ->\nanswers 0 2 8 ->\nanswers 1 1 1 ->\nanswers 1 2 1 -> write 8",
		"unavailable": "dies 2\ndies 3\nbegin -> fail Unavailable\nanswers 0 1 1 ->",
	} {
		t.Run(name, func(t *testing.T) {
			o, v := newOrdering(t)
			for line := range strings.Lines(lines) {
				event, want, _ := strings.Cut(line, "->")
				var name string
				var a, b, newest int
				_, _ = fmt.Sscan(event, &name, &a, &b, &newest)
				ev := orderEvent{kind: orderAnswered, node: ring.NodeID(b), newest: int64(newest)}
				switch name {
				case "begin":
					ev.kind = orderBegun
				case "dies":
					v.dead[ring.NodeID(a)] = true
					continue
				case "tick":
					ev.kind, ev.now = orderTicked, time.Duration(a)*time.Millisecond
				case "resume":
					ev.kind = orderResumed
				case "fails":
					ev.err = errors.New("disk")
				case "refuses":
					ev.err = &NotReplica{}
				}
				if name != "begin" && name != "tick" {
					ev.part = o.parts[a]
					ev.plan = ev.part.plans
				}
				out := o.step(&ev, nil)
				o.checkInvariants()
				if got := orderEffects(o, out); got != strings.TrimSpace(want) {
					t.Errorf("%s-> %s, want %s", event, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// orderEffects renders effects.
func orderEffects(o *ordering, out []orderEffect) string {
	index := func(p *orderPart) int {
		if p == o.parts[0] {
			return 0
		}
		return 1
	}
	var words []string
	for _, e := range out {
		switch e.kind {
		case orderAsk:
			words = append(words, fmt.Sprintf("ask %d %v", index(e.part), e.nodes))
		case orderArm:
			words = append(words, fmt.Sprintf("arm %s", e.after))
		case orderPause:
			words = append(words, fmt.Sprintf("pause %d", index(e.part)))
		case orderFail:
			_, kind, _ := strings.Cut(fmt.Sprintf("%T", e.err), ".")
			words = append(words, "fail "+kind)
		case orderWrite:
			words = append(words, fmt.Sprintf("write %d", o.newest))
		}
	}
	return strings.Join(words, ", ")
}

// newReading returns a reading of one partition at QUORUM of three replicas.
func newReading(t *testing.T) *reading {
	v, table := newStepView(t)
	c := New(Options{View: v, Clock: new(testclock.Clock), LocalDatacenter: "dc1"})
	r := &reading{c: c, deadline: time.Second, whole: true}
	cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k"))}
	r.reset(&ReadRequest{Command: cmd, Consistency: ring.Quorum}, table, v.topology)
	r.set = ring.ReplicaSet{Natural: []ring.NodeID{1, 2, 3}}
	return r
}

// TestStepsOfAReading checks the effects of each event of a read at QUORUM of three replicas. Node 1 is this node.
func TestStepsOfAReading(t *testing.T) {
	const begun = "begin -> page 1, digest 2\n"
	for name, test := range map[string]struct {
		lines string
		over  bool
	}{
		"agree":         {begun + "digest 2 a ->\npage 1 a -> reply ok", true},
		"differ":        {begun + "page 1 a ->\ndigest 2 b -> mismatch, page 2", false},
		"another node":  {begun + "fails 2 -> digest 3\npage 1 a ->\ndigest 3 a -> reply ok", true},
		"page again":    {begun + "digest 2 a ->\nfails 1 -> page 3\npage 3 a -> reply ok", true},
		"two failures":  {begun + "fails 2 -> digest 3\nfails 3 -> reply ReadFailure", true},
		"speculation":   {begun + "tick 10 -> arm, speculate, page 3\npage 1 a ->\npage 3 a -> reply ok", true},
		"a timeout":     {begun + "page 1 a ->\ntick 1000 -> reply ReadTimeout\ndigest 2 a ->", true},
		"a cancelation": {begun + "cancel -> reply errorString\npage 1 a ->", true},
		"a refusal": {begun + "refuses 2 -> digest 3\nrefuses 3 -> pause\npage 1 a ->\n" +
			"resume -> page 1, digest 2", false},
	} {
		t.Run(name, func(t *testing.T) {
			r := newReading(t)
			sent := map[ring.NodeID]*readTarget{}
			for line := range strings.Lines(test.lines) {
				event, want, _ := strings.Cut(line, "->")
				var name, content string
				var number int
				_, _ = fmt.Sscan(event, &name, &number, &content)
				ev := readEvent{kind: readPaged, round: r.round, target: sent[ring.NodeID(number)]}
				switch name {
				case "begin":
					ev.kind = readBegun
				case "page":
					ev.page = []byte(content)
				case "digest":
					ev.kind, ev.digest = readDigested, row.DigestOf([]byte(content))
				case "fails":
					ev.err = errors.New("disk")
				case "refuses":
					ev.err = &NotReplica{}
				case "tick":
					ev.kind, ev.now = readTicked, time.Duration(number)*time.Millisecond
				case "resume":
					ev.kind = readResumed
				case "cancel":
					ev.kind = readCanceled
				}
				out := r.step(&ev, nil)
				r.checkInvariants()
				if got := readEffectsOf(r, out, sent); got != strings.TrimSpace(want) {
					t.Errorf("%s-> %s, want %s", event, got, strings.TrimSpace(want))
				}
			}
			if r.over != test.over {
				t.Errorf("over %v", r.over)
			}
		})
	}
}

// TestNothingIsAskedInAPause ends the timer of a read that waits for a newer topology. The answer of another replica
// could begin a second pause, whose end would find another request in the operation.
func TestNothingIsAskedInAPause(t *testing.T) {
	r := newReading(t)
	sent := map[ring.NodeID]*readTarget{}
	if got := readEffectsOf(r, r.step(&readEvent{kind: readBegun}, nil), sent); got != "page 1, digest 2" {
		t.Fatal(got)
	}
	// As while the ring changes: one side has refused, and the other one has a spare.
	r.pausing, r.round = true, r.round+1
	out := r.step(&readEvent{kind: readTicked, now: 10 * time.Millisecond}, nil)
	if got := readEffectsOf(r, out, sent); got != "arm" {
		t.Errorf("a tick in a pause: %s", got)
	}
	if got := readEffectsOf(r, r.step(&readEvent{kind: readResumed}, nil), sent); got != "page 1, digest 2" {
		t.Errorf("after the pause: %s", got)
	}
}

// TestResultWaitsForNoNeedlessRepair repairs one of three replicas after a read at QUORUM: two have the whole answer,
// so the result is returned at once, and a failure of the repair leaves no read that only its deadline would end.
func TestResultWaitsForNoNeedlessRepair(t *testing.T) {
	r := newReading(t)
	m := &row.Mutation{}
	m.Reset(r.cmd.Table, r.cmd.Key)
	out := r.repair([]resolve.Repairs{{Node: 1}, {Node: 2}, {Node: 3, Mutations: []*row.Mutation{m}}}, nil)
	if got := readEffectsOf(r, out, nil); got != "repair 3, reply ok" {
		t.Errorf("effects: %s", got)
	}
	r.step(&readEvent{kind: readRepaired, round: r.round, node: 3, err: errors.New("disk")}, nil)
	if r.checkInvariants(); !r.idle() {
		t.Error("the read is not idle after the repair's answer")
	}
}

// readEffectsOf renders effects, and records the targets of requests.
func readEffectsOf(r *reading, out []readEffect, sent map[ring.NodeID]*readTarget) string {
	var words []string
	for _, e := range out {
		switch e.kind {
		case readAsk:
			sent[e.target.node] = e.target
			what := "page"
			if e.digest {
				what = "digest"
			}
			words = append(words, fmt.Sprintf("%s %d", what, e.target.node))
		case readRepair:
			words = append(words, fmt.Sprintf("repair %d", e.repair.Node))
		case readSpeculate:
			words = append(words, "speculate")
		case readMismatch:
			words = append(words, "mismatch")
		case readArm:
			words = append(words, "arm")
		case readPause:
			words = append(words, "pause")
		case readReply:
			kind := "ok"
			if r.err != nil {
				_, kind, _ = strings.Cut(fmt.Sprintf("%T", r.err), ".")
			}
			words = append(words, "reply "+kind)
		}
	}
	return strings.Join(words, ", ")
}

// TestInvariantsFire breaks each invariant of an ordering, of a ranging and of a reading, as a bug in a step would.
func TestInvariantsFire(t *testing.T) {
	begun := func() *ordering {
		o, _ := newOrdering(t)
		o.step(&orderEvent{kind: orderBegun}, nil)
		o.checkInvariants()
		return o
	}
	started := func() *ranging {
		v, table := newStepView(t)
		c := New(Options{View: v, Clock: new(testclock.Clock), LocalDatacenter: "dc1"})
		cmd := &row.ReadCommand{Table: table.StorageID, Limits: row.Limits{Rows: 5}}
		cmd.Range.Tokens = ring.FullRange()
		r := &ranging{c: c, req: &ReadRequest{Command: cmd}, table: table, width: 1}
		if e := r.step(&rangeEvent{kind: rangeBegun}); e.kind != rangeStart {
			t.Fatalf("the first effect is %d", e.kind)
		}
		r.checkInvariants()
		return r
	}
	reads := func() *reading {
		v, table := newStepView(t)
		c := New(Options{View: v, Clock: new(testclock.Clock), LocalDatacenter: "dc1"})
		r := &reading{c: c, deadline: time.Second, whole: true}
		cmd := &row.ReadCommand{Table: table.StorageID, Key: row.NewPartitionKey([]byte("k"))}
		r.reset(&ReadRequest{Command: cmd, Consistency: ring.All}, table, v.topology)
		r.set = c.replicasOf(v.topology, table, cmd.Key.Token)
		if out := r.step(&readEvent{kind: readBegun}, nil); len(out) != 3 {
			t.Fatalf("%d effects", len(out))
		}
		r.checkInvariants()
		return r
	}
	for want, breaks := range map[string]func(){
		"answered twice":                  func() { r := reads(); r.open = -1; r.checkInvariants() },
		"nothing but the":                 func() { r := reads(); r.open = 0; r.checkInvariants() },
		"result before the end":           func() { r := reads(); r.err = ErrNoReply; r.checkInvariants() },
		"read: a replica was counted":     func() { r := reads(); r.tally.Quotas()[0].Open = -1; r.checkInvariants() },
		"parts without a quorum is wrong": func() { o := begun(); o.left = 1; o.checkInvariants() },
		"order: a replica was counted": func() {
			o := begun()
			o.parts[0].tally.Quotas()[0].Open = -1
			o.checkInvariants()
		},
		"no write follows": func() {
			o := begun()
			o.parts[0].tally.Quotas()[0].Got, o.parts[1].tally.Quotas()[0].Got, o.left = 2, 2, 0
			o.checkInvariants()
		},
		"taken before its start": func() { r := started(); r.taken = 2; r.checkInvariants() },
		"too many pieces":        func() { r := started(); r.taken = -20; r.checkInvariants() },
		"more rows":              func() { r := started(); r.counted = 5; r.checkInvariants() },
		"nothing is awaited":     func() { r := started(); r.started = 0; r.checkInvariants() },
	} {
		t.Run(want, func(t *testing.T) {
			defer func() {
				broken, _ := recover().(invariant.Violation)
				if !strings.Contains(broken.Message, want) {
					t.Errorf("got %q", broken.Message)
				}
			}()
			breaks()
		})
	}
}
