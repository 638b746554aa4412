package counters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/schema"
)

// stepView is the view of node 1, which is not a replica: nodes 2 to 4 are. Node 5 belongs to another data center.
type stepView struct {
	topology *ring.Topology
	dead     map[ring.NodeID]bool
}

func (*stepView) Self() ring.NodeID                 { return 1 }
func (*stepView) Schema() *schema.Schema            { return schema.Empty() }
func (v *stepView) Topology() *ring.Topology        { return v.topology }
func (v *stepView) Alive(node ring.NodeID) bool     { return !v.dead[node] }
func (*stepView) PaxosFloor(schema.StorageID) int64 { return 0 }

// move assigns the tokens to nodes, at the next epoch.
func (v *stepView) move(nodes ...ring.NodeID) {
	epoch := uint64(1)
	if v.topology != nil {
		epoch = v.topology.Epoch() + 1
	}
	var members []*ring.Node
	for i, id := range nodes {
		dc := "dc1"
		if id == 5 {
			dc = "dc2"
		}
		members = append(members, &ring.Node{ID: id, Datacenter: dc, Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(i+1) << 60}})
	}
	v.topology = ring.NewTopology(epoch, members)
}

// newUpdating returns the machine of an update at QUORUM of three replicas.
func newUpdating() (*updating, *stepView) {
	v := &stepView{dead: map[ring.NodeID]bool{}}
	v.move(2, 3, 4)
	c := &Counters{view: v, localDC: "dc1", c: coordinator.New(coordinator.Options{View: v,
		Clock: new(testclock.Clock), LocalDatacenter: "dc1", Limits: coordinator.Limits{PlansMax: 3}})}
	u := new(updating)
	u.init(c, &schema.Table{Replication: ring.Replication{Class: ring.Simple, Factor: 3}}, ring.Quorum, 0)
	return u, v
}

// updateAnswers returns the answers of a leader by their names in scripts. The first answers mean that it counted
// nothing.
func updateAnswers() (names []string, errs map[string]error) {
	errs = map[string]error{
		"refuses": &coordinator.NotReplica{}, "unreachable": coordinator.ErrNotSent,
		"short": &coordinator.Unavailable{Required: 2}, "overloaded": &coordinator.Overloaded{},
		"counts": nil, "silent": coordinator.ErrNoReply, "late": &coordinator.WriteTimeout{Received: 1},
		"fails": &coordinator.WriteFailure{Received: 1}, "breaks": &coordinator.ReplicaFailure{Reason: 1},
	}
	return []string{"refuses", "unreachable", "short", "overloaded", "counts", "silent", "late", "fails",
		"breaks"}, errs
}

// updateEffectsText renders effects.
func updateEffectsText(out []updateEffect) string {
	var words []string
	for _, e := range out {
		switch e.kind {
		case updateLead:
			words = append(words, fmt.Sprintf("lead %d", e.node))
		case updateArm:
			words = append(words, "arm "+e.after.String())
		case updatePause:
			words = append(words, "pause "+e.after.String())
		case updateNote:
			words = append(words, fmt.Sprintf("note %d", e.note))
		case updateReply:
			words = append(words, strings.TrimPrefix(fmt.Sprintf("reply %T", e.err), "*coordinator."))
		}
	}
	return strings.ReplaceAll(strings.Join(words, ", "), "*coordinator.", "")
}

// TestStepsOfAnUpdate checks the effects of each event. The number of an answer or a resume is the number of the
// request or pause that it follows.
func TestStepsOfAnUpdate(t *testing.T) {
	const begun = "begin -> lead 2, arm 1s\n"
	timeout := fmt.Sprintf("note %d, reply WriteTimeout", coordinator.EventWriteTimeout)
	unavailable := fmt.Sprintf("note %d, reply Unavailable", coordinator.EventUnavailable)
	replan := fmt.Sprintf("note %d, pause ", coordinator.EventReplan)
	for name, lines := range map[string]string{
		"counted":                     begun + "counts 1 -> reply <nil>\ntick ->\ncounts 1 ->",
		"this node is a replica":      "moves 2 1 3\nbegin -> lead 1, arm 1s\ncounts 1 -> reply <nil>",
		"the first replica is down":   "dies 2\nbegin -> lead 3, arm 1s\ncounts 1 -> reply <nil>",
		"no replica is alive":         "dies 2\ndies 3\ndies 4\nbegin -> " + unavailable,
		"another data center is last": "moves 5 3 4\nbegin -> lead 3, arm 1s",
		"a local level stays":         "local\nmoves 5\nbegin -> " + unavailable,
		"the next replica": begun + "unreachable 1 -> lead 3\nunreachable 2 -> lead 4\n" +
			"counts 3 -> reply <nil>",
		"none is reached": begun + "unreachable 1 -> lead 3\nunreachable 2 -> lead 4\n" +
			"unreachable 3 -> " + unavailable,
		"it may be counted": begun + "silent 1 -> " + timeout,
		"too few answers":   begun + "late 1 -> reply WriteTimeout",
		"a failed replica":  begun + "fails 1 -> reply WriteFailure",
		"a failed leader":   begun + "breaks 1 -> reply WriteFailure",
		"too few live":      begun + "short 1 -> reply Unavailable",
		"overloaded":        begun + "overloaded 1 -> reply Overloaded",
		"the deadline":      begun + "tick -> " + timeout + "\ncounts 1 ->\nunreachable 1 ->",
		"an answer twice": begun + "unreachable 1 -> lead 3\nunreachable 1 ->\ncounts 1 ->\n" +
			"counts 2 -> reply <nil>",
		"a resume that is not awaited": begun + "resume 1 ->\ncounts 1 -> reply <nil>",
		"a first heartbeat": begun + "arrives 1 -> pause 20ms\nshort 1 ->\nresume 2 -> lead 2\nresume 2 ->\n" +
			"counts 3 -> reply <nil>",
		"a newer ring": begun + "refuses 1 -> lead 3\nrefuses 2 -> lead 4\nrefuses 3 -> " + replan + "10ms\n" +
			"moves 3 4 5\nresume 4 -> lead 3\ncounts 5 -> reply <nil>",
		"no newer ring": begun + "refuses 1 -> lead 3\nrefuses 2 -> lead 4\nrefuses 3 -> " + replan + "10ms\n" +
			"dies 3\ndies 4\nresume 4 -> lead 2\nrefuses 5 -> " + replan + "20ms\nresume 6 -> lead 2\n" +
			"refuses 7 -> " + unavailable,
		"the deadline in a pause": begun + "arrives 1 -> pause 20ms\ntick -> " + timeout + "\nresume 2 ->",
	} {
		t.Run(name, func(t *testing.T) {
			u, v := newUpdating()
			for line := range strings.Lines(lines) {
				event, want, _ := strings.Cut(line, "->")
				words := strings.Fields(event)
				var numbers []ring.NodeID
				for _, w := range words[1:] {
					n := ring.NodeID(0)
					if _, err := fmt.Sscan(w, &n); err != nil {
						t.Fatal(err)
					}
					numbers = append(numbers, n)
				}
				ev := updateEvent{topology: v.topology, after: time.Second}
				if len(numbers) > 0 {
					ev.number = uint32(numbers[0])
				}
				_, errs := updateAnswers()
				switch words[0] {
				case "dies":
					v.dead[numbers[0]] = true
					continue
				case "moves":
					v.move(numbers...)
					continue
				case "local":
					u.level = ring.LocalQuorum
					u.table = &schema.Table{Replication: ring.NewNetworkTopology(
						ring.DatacenterFactor{Datacenter: "dc2", Factor: 1})}
					continue
				case "begin":
				case "tick":
					ev.kind = updateTicked
				case "resume":
					ev.kind = updateResumed
				case "arrives":
					ev.kind, ev.err, ev.arrives = updateAnswered, errs["short"], true
				default:
					err, ok := errs[words[0]]
					if !ok {
						t.Fatalf("unknown event %s", line)
					}
					ev.kind, ev.err = updateAnswered, err
				}
				out := u.step(&ev, nil)
				u.check()
				if got := updateEffectsText(out); got != strings.TrimSpace(want) {
					t.Errorf("%s-> %s, want %s", event, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// TestUpdatesAreCountedOnce plays events in any order: answers of each kind, also twice and late, deaths, moves of the
// ring, and the deadline. At most one leader counts the update, the client is answered once, and the answer is correct.
func TestUpdatesAreCountedOnce(t *testing.T) {
	names, errs := updateAnswers()
	outcomes := map[string]int{}
	for seed := range uint64(5000) {
		r := rand.New(rand.NewPCG(seed, 9))
		u, v := newUpdating()
		counted, replies, asked := 0, 0, 0
		var reply error
		var open []updateEvent // that may come
		step := func(ev updateEvent) {
			ev.topology = v.topology
			out := u.step(&ev, nil)
			u.check()
			for _, e := range out {
				switch e.kind {
				case updateLead:
					asked++
					kind := r.IntN(len(names))
					answer := updateEvent{kind: updateAnswered, number: e.number, err: errs[names[kind]]}
					answer.arrives = names[kind] == "short" && r.IntN(2) == 0
					if kind >= slices.Index(names, "counts") { // it counted the update, or may have
						counted++
					}
					for range 1 + r.IntN(2) {
						open = append(open, answer)
					}
				case updateArm:
					open = append(open, updateEvent{kind: updateTicked})
				case updatePause:
					open = append(open, updateEvent{kind: updateResumed, number: e.number})
				case updateReply:
					replies++
					reply = e.err
				case updateNote:
				}
			}
		}
		for step(updateEvent{kind: updateBegun}); len(open) > 0; {
			switch r.IntN(6) {
			case 0:
				v.dead[ring.NodeID(2+r.IntN(4))] = r.IntN(2) == 0
			case 1:
				v.move([][]ring.NodeID{{2, 3, 4}, {1, 3, 4}, {5, 4, 3}}[r.IntN(3)]...)
			}
			i := r.IntN(len(open))
			ev := open[i]
			open = slices.Delete(open, i, i+1)
			if ev.kind == updateTicked && len(open) > 0 && r.IntN(4) > 0 {
				open = append(open, ev) // deadlines are later than most answers
				continue
			}
			step(ev)
		}
		if replies != 1 || counted > 1 || u.state != updateOver {
			t.Fatalf("seed %d: %d replies, counted %d times by %d leaders", seed, replies, counted, asked)
		}
		if reply == nil && counted != 1 || errors.Is(reply, coordinator.ErrNotSent) && counted != 0 {
			t.Fatalf("seed %d: the answer is %v, and the update was counted %d times", seed, reply, counted)
		}
		outcomes[fmt.Sprintf("%T", reply)]++
	}
	if len(outcomes) != 5 {
		t.Errorf("outcomes %v", outcomes)
	}
}
