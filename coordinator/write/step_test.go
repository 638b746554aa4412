package write

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/types"
)

// view is the view of node 1 of a ring of four replicas.
type view struct {
	schema   *schema.Schema
	topology *ring.Topology
	set      ring.ReplicaSet
	dead     map[ring.NodeID]bool
	arriving bool
}

func (*view) Self() ring.NodeID             { return 1 }
func (v *view) Schema() *schema.Schema      { return v.schema }
func (v *view) Topology() *ring.Topology    { return v.topology }
func (v *view) Alive(node ring.NodeID) bool { return !v.dead[node] }

// newMachine returns a machine for a write of n mutations at a level, and its view.
func newMachine(t *testing.T, level ring.Consistency, n int) (*Machine, *view) {
	t.Helper()
	text := types.Native(types.Text)
	s := schema.Empty()
	for _, c := range []schema.Change{
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: 4}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: []schema.ColumnSpec{{Name: "k", Kind: schema.PartitionKey, Type: text}}},
	} {
		var err error
		if s, err = schema.Apply(s, c); err != nil {
			t.Fatal(err)
		}
	}
	v := &view{
		schema:   s,
		topology: ring.NewTopology(1, nil),
		set:      ring.ReplicaSet{Natural: []ring.NodeID{1, 2, 3, 4}},
		dead:     map[ring.NodeID]bool{},
	}
	c := &Config{
		View:                   v,
		Replicas:               func(*ring.Topology, *schema.Table, ring.Token) ring.ReplicaSet { return v.set },
		PlansMax:               3,
		HintsKept:              true,
		SatisfyAny:             func() bool { return true },
		AwaitingFirstHeartbeat: func() bool { return v.arriving },
		ArrivalPause:           20 * time.Millisecond,
		ReplanPause:            10 * time.Millisecond,
	}
	mutations := make([]*row.Mutation, n)
	for i := range mutations {
		mutations[i] = new(row.Mutation)
		mutations[i].Reset(s.Table("ks", "t").StorageID, row.NewPartitionKey([]byte{byte(i)}))
	}
	w := new(Machine)
	w.Reset(c, mutations, level)
	w.Deadline = time.Second
	return w, v
}

// written renders effects.
func written(w *Machine, out []Effect) string {
	var words []string
	for _, e := range out {
		switch e.Kind {
		case Send:
			words = append(words, fmt.Sprintf("send %d", e.Target.Node))
		case Apply:
			words = append(words, "apply")
		case Hint:
			words = append(words, fmt.Sprintf("hint %d", e.Target.Node))
		case Note:
			words = append(words, fmt.Sprintf("note %d", e.Target.Node))
		case Reply:
			name := []string{"ok", "timeout", "failure", "unavailable", "unknown table"}[w.Outcome.Kind]
			if w.Outcome.Kind != Success && w.Outcome.Kind != UnknownTable {
				name += fmt.Sprintf(" %d/%d", w.Outcome.Received, w.Outcome.Required)
			}
			words = append(words, "reply "+name)
		case Arm:
			words = append(words, "arm")
		case Pause:
			words = append(words, "pause")
		case Replan:
			words = append(words, fmt.Sprintf("replan %s", e.After))
		}
	}
	return strings.Join(words, ", ")
}

// play plays a scenario: a line is an event and its effects.
func play(t *testing.T, w *Machine, v *view, lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		event, want, _ := strings.Cut(line, "->")
		words := strings.Fields(event)
		number := 0
		if len(words) > 1 {
			if _, err := fmt.Sscan(words[1], &number); err != nil {
				t.Fatal(err)
			}
		}
		ev := Event{Now: 100 * time.Millisecond}
		if i := slices.IndexFunc(w.targets, func(x *Target) bool { return x.Node == ring.NodeID(number) }); i >= 0 {
			ev.Target = w.targets[i]
		}
		switch words[0] {
		case "begin":
			ev.Kind = Begun
		case "dies", "lives":
			v.dead[ring.NodeID(number)] = words[0] == "dies"
			continue
		case "arrives":
			v.arriving = true
			continue
		case "moves":
			v.set = ring.ReplicaSet{Natural: []ring.NodeID{1, 2, 3, 5}}
			continue
		case "drops":
			v.schema = schema.Empty()
			continue
		case "tick":
			ev.Kind = Ticked
		case "resume":
			ev.Kind = Resumed
		case "stored", "lost":
			ev.Kind, ev.Plan = Hinted, int32(w.plans)
			if words[0] == "lost" {
				ev.Answer = Silent
			}
		default:
			answers := map[string]Answer{"acks": Acknowledges, "silent": Silent, "disowns": Disowns, "refuses": Refuses}
			answer, ok := answers[words[0]]
			if !ok {
				t.Fatalf("unknown event %s", line)
			}
			ev.Kind, ev.Answer, ev.Reason = Answered, answer, 4
		}
		out := w.Step(&ev, nil)
		w.Check()
		if got := written(w, out); got != strings.TrimSpace(want) {
			t.Errorf("%s-> %s, want %s", event, got, strings.TrimSpace(want))
		}
	}
}

// TestSteps checks the effects of each event. Node 1 is this node.
func TestSteps(t *testing.T) {
	const sent = "begin -> arm, send 2, send 3, send 4, apply\n"
	for name, test := range map[string]struct {
		level ring.Consistency
		set   func(*Machine)
		lines string
		idle  bool
	}{
		"quorum": {lines: sent + "acks 1 ->\nacks 2 ->\nacks 3 -> reply ok\nacks 4 ->", idle: true},
		"traced": {set: func(w *Machine) { w.Traced = true }, lines: sent +
			"acks 1 -> note 1\nsilent 2 -> note 2, hint 2\nacks 3 -> note 3\nacks 4 -> note 4, reply ok", idle: true},
		"a node fails":   {lines: sent + "refuses 2 -> hint 2\nacks 1 ->\nacks 3 ->\nacks 4 -> reply ok", idle: true},
		"two nodes fail": {lines: sent + "refuses 2 -> hint 2\nsilent 3 -> hint 3, reply failure 0/3"},
		"two are silent": {lines: sent + "silent 2 -> hint 2\nacks 1 ->\nsilent 3 -> hint 3, reply timeout 1/3"},
		"a node is down": {lines: "dies 3\nbegin -> arm, send 2, hint 3, send 4, apply\n" +
			"acks 1 ->\nacks 2 ->\nacks 4 -> reply ok", idle: true},
		"too few live": {lines: "dies 3\ndies 2\nbegin -> reply unavailable 2/3", idle: true},
		"dropped":      {lines: "drops\nbegin -> reply unknown table", idle: true},
		"a timeout":    {lines: sent + "acks 1 ->\ntick -> hint 2, hint 3, hint 4, reply timeout 1/3\nacks 2 ->"},
		"a late answer": {lines: sent + "acks 1 ->\nacks 2 ->\nacks 3 -> reply ok\n" +
			"tick -> hint 4\nacks 4 ->", idle: true},
		"applied before": {set: func(w *Machine) { w.Applied = true }, lines: "" +
			"begin -> arm, send 2, send 3, send 4\n" +
			"acks 2 ->\nacks 3 -> reply ok\nacks 4 ->", idle: true},
		"applied and one": {level: ring.One, set: func(w *Machine) { w.Applied = true }, lines: "" +
			"begin -> arm, send 2, send 3, send 4, reply ok"},
		"arrival": {lines: "" +
			"dies 3\ndies 4\narrives\nbegin -> pause\nlives 3\nresume -> arm, send 2, send 3, hint 4, apply"},
		"planned again": {lines: sent + "disowns 4 ->\nacks 1 ->\ndisowns 3 -> replan 10ms\nacks 2 ->\nmoves\n" +
			"resume -> send 2, send 3, send 5, apply\n" +
			"acks 5 ->\nacks 2 ->\nacks 1 -> reply ok\nacks 3 ->", idle: true},
		"planned again after success": {lines: sent + "disowns 4 ->\nacks 1 ->\nacks 3 ->\n" +
			"acks 2 -> reply ok, replan 10ms\nmoves\nresume -> send 2, send 3, send 5, apply\nacks 5 ->\nacks 2 ->\n" +
			"acks 1 ->\nsilent 3 -> hint 3", idle: true},
		"no more plans": {lines: sent + "disowns 4 ->\ndisowns 3 -> replan 10ms\n" +
			"resume -> send 2, send 3, send 4, apply\n" +
			"disowns 4 ->\ndisowns 3 -> replan 20ms\nresume -> send 2, send 3, send 4, apply\n" +
			"disowns 4 -> hint 4\ndisowns 3 -> hint 3, reply timeout 0/3"},
		"the deadline passes in a pause": {lines: sent + "disowns 4 ->\ndisowns 3 -> replan 10ms\n" +
			"tick -> hint 1, hint 2, hint 3, hint 4, reply timeout 0/3\nresume ->"},
		"no plan the second time": {lines: sent + "disowns 4 ->\ndisowns 3 -> replan 10ms\ndies 2\ndies 3\n" +
			"resume -> hint 1, hint 2, hint 3, hint 4, reply timeout 0/3"},
		"a hint satisfies any": {set: func(w *Machine) { w.Level = ring.Any }, lines: "" +
			"dies 1\ndies 2\ndies 3\ndies 4\n" +
			"begin -> arm, hint 2, hint 3, hint 4, apply\nrefuses 1 -> hint 1\nstored 2 -> reply ok\nstored 3 ->\n" +
			"stored 4 ->\nstored 1 ->", idle: true},
		"lost hints": {set: func(w *Machine) { w.Level = ring.Any }, lines: "dies 2\ndies 3\ndies 4\n" +
			"begin -> arm, hint 2, hint 3, hint 4, apply\nlost 2 ->\nlost 3 ->\nrefuses 1 -> hint 1\nlost 4 ->\n" +
			"lost 1 -> reply failure 0/1", idle: true},
		"a hint that settles": {set: func(w *Machine) { w.Settles = true }, lines: sent + "silent 2 -> hint 2\n" +
			"acks 1 ->\nacks 3 ->\nacks 4 -> reply ok\nstored 2 ->", idle: true},
	} {
		t.Run(name, func(t *testing.T) {
			level := test.level
			if level == 0 {
				level = ring.Quorum
			}
			w, v := newMachine(t, level, 1)
			if test.set != nil {
				test.set(w)
			}
			play(t, w, v, test.lines)
			if w.Idle() != test.idle {
				t.Errorf("idle %v, %d answers are outstanding", w.Idle(), w.open)
			}
		})
	}
}

// TestEveryWriteIsAnsweredOnce plays events in any order: answers of each kind, deaths, moves of the ring, and the
// deadline. The invariants hold after each step, the client is answered once, and every node that has not acknowledged
// the last plan has a hint at the end.
func TestEveryWriteIsAnsweredOnce(t *testing.T) {
	outcomes := map[OutcomeKind]int{}
	for seed := range uint64(4000) {
		r := rand.New(rand.NewPCG(seed, 7))
		level := []ring.Consistency{ring.One, ring.Quorum, ring.All, ring.Any}[r.IntN(4)]
		w, v := newMachine(t, level, 1+r.IntN(3))
		w.Settles, w.Applied, v.arriving = r.IntN(2) == 0, r.IntN(4) == 0, r.IntN(4) == 0
		for range r.IntN(3) {
			v.dead[ring.NodeID(2+r.IntN(3))] = true
		}
		replies := 0
		step := func(ev Event, open []Effect) []Effect {
			before := len(open)
			open = w.Step(&ev, open)
			w.Check()
			kept := open[:before]
			for _, e := range open[before:] {
				switch {
				case e.Kind == Reply:
					replies++
				case e.Kind == Note, e.Kind == Hint && !w.AwaitsHints():
				default:
					kept = append(kept, e)
				}
			}
			return kept
		}
		open := step(Event{Kind: Begun}, nil)
		for len(open) > 0 {
			i := r.IntN(len(open))
			e := open[i]
			open = slices.Delete(open, i, i+1)
			ev := Event{Now: time.Duration(r.IntN(1000)) * time.Millisecond, Target: e.Target, Plan: e.Plan}
			switch r.IntN(12) {
			case 0:
				v.dead[ring.NodeID(1+r.IntN(5))] = r.IntN(2) == 0
			case 1:
				v.set.Natural = []ring.NodeID{1, 2, 3, 4 + ring.NodeID(r.IntN(2))}
			}
			switch e.Kind {
			case Send, Apply:
				ev.Kind = Answered
				ev.Answer = []Answer{Acknowledges, Acknowledges, Acknowledges, Silent, Disowns, Refuses}[r.IntN(6)]
			case Hint:
				ev.Kind, ev.Answer = Hinted, []Answer{Acknowledges, Silent}[r.IntN(2)]
			case Arm:
				ev.Kind = Ticked
			case Pause, Replan:
				ev.Kind = Resumed
			case Note, Reply:
			}
			open = step(ev, open)
		}
		if replies != 1 || !w.Idle() {
			t.Fatalf("seed %d: %d replies, idle %v", seed, replies, w.Idle())
		}
		if hinted, _ := w.Settled(); hinted != !slices.ContainsFunc(w.targets, func(x *Target) bool {
			return x.State != Acked && !x.kept
		}) && len(w.targets) > 0 {
			t.Fatalf("seed %d: settled %v with %d targets", seed, hinted, len(w.targets))
		}
		outcomes[w.Outcome.Kind]++
	}
	for _, kind := range []OutcomeKind{Success, Timeout, Failure, Unavailable} {
		if outcomes[kind] < 20 {
			t.Errorf("outcome %d occurs %d times: %v", kind, outcomes[kind], outcomes)
		}
	}
}
