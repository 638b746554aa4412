package repair

import (
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/paxos/acceptor"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
	"cqld/simulation/testcluster"
	"cqld/types"
)

// stepView is the view of node 1 of three nodes, all of them replicas of table ks.t.
type stepView struct {
	schema   *schema.Schema
	topology *ring.Topology
	dead     map[ring.NodeID]bool
	lowBound int64
}

func (*stepView) Self() ring.NodeID                   { return 1 }
func (v *stepView) Schema() *schema.Schema            { return v.schema }
func (v *stepView) Topology() *ring.Topology          { return v.topology }
func (v *stepView) Alive(node ring.NodeID) bool       { return !v.dead[node] }
func (v *stepView) PaxosFloor(schema.StorageID) int64 { return v.lowBound }

// stepper executes steps of a machine, and writes their effects as text.
type stepper struct {
	t       testing.TB
	v       *stepView
	m       machine
	limits  Limits
	rest    []ring.Range
	numbers map[string]uint64 // of the last effect with a name
	pauses  int
	now     time.Time
}

func newStepper(t testing.TB, factor int) *stepper {
	v := &stepView{dead: map[ring.NodeID]bool{}, schema: testcluster.Catalog(t,
		&schema.CreateKeyspace{Keyspace: "ks", Replication: ring.Replication{Class: ring.Simple, Factor: factor}},
		&schema.CreateTable{Keyspace: "ks", Table: "t", ID: schema.UUID{1}, Options: schema.DefaultOptions(),
			Columns: testcluster.Columns(types.Native(types.Text))})}
	v.topology = ring.NewTopology(1, stepNodes())
	s := &stepper{t: t, v: v, limits: Limits{LeafBytes: 100, Attempts: 3, Rounds: 2}.withDefaults(),
		rest: []ring.Range{{Start: 0, End: 100}}, numbers: map[string]uint64{}, now: time.Unix(1_000_000, 0)}
	s.m = machine{view: v, limits: &s.limits, sessions: new(atomic.Uint64),
		job: Job{Table: v.schema.Table("ks", "t").StorageID}}
	return s
}

// stepNodes returns three nodes with one token each. The replicas of the tokens 0 to 1000 are nodes 1, 2 and 3.
func stepNodes() (nodes []*ring.Node) {
	for id := range ring.NodeID(3) {
		nodes = append(nodes, &ring.Node{ID: id + 1, Datacenter: "dc1", Rack: "r1", State: ring.Normal,
			Tokens: []ring.Token{ring.Token(id+1) * 1000}})
	}
	return nodes
}

// step returns the effects of an event as text.
func (s *stepper) step(ev *event) string {
	ev.now = s.now
	out := s.m.step(ev, nil)
	s.m.check()
	var text []string
	for i := range out {
		text = append(text, s.describe(&out[i]))
	}
	return strings.Join(text, ", ")
}

// describe returns an effect as text, and remembers its number. Pauses are named by letters, in their order.
func (s *stepper) describe(e *effect) string {
	text := s.named(e)
	if e.number == 0 {
		return text
	}
	if e.kind == effectPause || e.kind == effectSpend {
		name := string(rune('a' + s.pauses))
		s.pauses++
		s.numbers["resume "+name] = e.number
		return text + " " + name
	}
	words := strings.Fields(text)
	s.numbers[words[0]] = e.number
	if e.node != 0 {
		s.numbers[strings.Join(words[:2], " ")] = e.number
	}
	return text
}

func (s *stepper) named(e *effect) string {
	switch e.kind {
	case effectLoad:
		return "load"
	case effectScan:
		return "scan"
	case effectRaise:
		return "raise"
	case effectPause:
		return fmt.Sprint("pause ", e.after)
	case effectSpend:
		return fmt.Sprint("spend ", e.bytes)
	case effectHash:
		text := fmt.Sprint("hash ", e.node)
		if e.hash.Leaves > 1 {
			text += fmt.Sprint(" of ", e.hash.Leaves)
		}
		if e.hash.After != nil {
			text += " after " + string(e.hash.After)
		}
		return text
	case effectRead:
		if e.only != nil {
			return fmt.Sprint("read ", e.leaf.Tokens, " at ", e.only)
		}
		return fmt.Sprint("read ", e.leaf.Tokens)
	case effectPurge:
		text := fmt.Sprint("list ", e.node)
		if e.purge.Forget {
			text = fmt.Sprint("forget ", e.node)
		}
		if e.purge.After != nil {
			text += " after " + string(e.purge.After.Bytes)
		}
		return text
	case effectSettle:
		return "settle " + string(e.key.Bytes)
	case effectNotify:
		if e.notice.Until == 0 {
			return fmt.Sprint("notify ", e.node, " of nothing")
		}
		return fmt.Sprint("notify ", e.node)
	case effectStore:
		return fmt.Sprint("store ", e.tokens)
	case effectProgress:
		return "progress"
	case effectFinish:
		return "finish " + s.outcome(e)
	}
	return "unknown"
}

// outcome formats the error of the job, and the unusual parts of its report.
func (s *stepper) outcome(e *effect) string {
	text, r := "ok", e.report
	if e.err != nil {
		text = e.err.Error()
		for _, t := range []any{new(*Failed), new(*Unavailable), new(*coordinator.UnknownTable)} {
			if errors.As(e.err, t) {
				_, text, _ = strings.Cut(fmt.Sprintf("%T", t), ".")
			}
		}
	}
	for _, x := range []struct {
		name string
		n    int
	}{{"skipped", r.Skipped}, {"moving", r.Moving}, {"differing", r.Differing}, {"unsettled", r.Unsettled},
		{"unnoticed", r.Unnoticed}, {"forgotten", r.Forgotten}, {"unpurged", r.Unpurged}} {
		if x.n > 0 {
			text += fmt.Sprint(" ", x.n, " ", x.name)
		}
	}
	return text
}

// event parses an event: the name of the effect to which it belongs, and its outcome.
//
//	start | cancel | load | raise | resume a
//	scan yes|no|fails
//	hash 2 5 [x]     node 2 has hash 5 of the first leaf; the next step is after x
//	hash 2 5,6 | hash 2 foreign
//	read [more]
//	list 2 [k] [>x] | forget 2 [k] [>x]    proposals for partition k are not decided; the next page is after x
//	settle | notify 2
//	… fails | refuses | truncating         instead of an outcome
func (s *stepper) event(line string) *event {
	words := strings.Fields(line)
	if len(words) == 0 {
		s.t.Fatalf("no event in %q", line)
	}
	name, rest := words[0], words[1:]
	if len(rest) > 0 && strings.Contains("resume hash list forget notify", name) {
		name, rest = name+" "+rest[0], rest[1:]
	}
	kinds := map[string]eventKind{"start": eventStarted, "cancel": eventCancelled, "load": eventLoaded,
		"scan": eventScanned, "raise": eventRaised, "resume": eventResumed, "hash": eventHashed, "read": eventRead,
		"list": eventPurged, "forget": eventPurged, "settle": eventSettled, "notify": eventNoticed}
	kind, known := kinds[words[0]]
	if !known {
		s.t.Fatalf("unknown event %q", line)
	}
	ev := &event{kind: kind, number: s.numbers[name], rest: s.rest, purged: acceptor.PurgeStep{Scanned: 7}}
	for _, word := range rest {
		switch word {
		case "fails":
			ev.err = errors.New("disk")
		case "refuses":
			ev.err = &coordinator.NotReplica{}
		case "truncating":
			ev.truncating = true
			if ev.err == nil {
				ev.err = errors.New("the table is being truncated")
			}
		case "yes", "more":
			ev.conditional, ev.more = true, true
		case "no":
		default:
			s.outcomeOf(ev, word)
		}
	}
	return ev
}

// outcomeOf parses a word of the outcome of a step.
func (s *stepper) outcomeOf(ev *event, word string) {
	next, isNext := strings.CutPrefix(word, ">")
	key := row.NewPartitionKey([]byte(next))
	switch {
	case ev.kind == eventPurged && isNext:
		ev.purged.Next = &key
	case ev.kind == eventPurged:
		ev.purged.Unsettled = append(ev.purged.Unsettled, row.NewPartitionKey([]byte(word)))
	case isNext:
		ev.hashes.Next, ev.hashes.Size = []byte(next), 350
	case word == "foreign":
		ev.hashes.Leaves, ev.hashes.Hashes = []int{1000}, make([]LeafHash, 1)
	default:
		for i, leaf := range strings.Split(word, ",") {
			var h LeafHash
			if _, err := fmt.Sscan(leaf, &h.Sum[0]); err != nil {
				s.t.Fatalf("%q: %v", word, err)
			}
			ev.hashes.Leaves, ev.hashes.Hashes = append(ev.hashes.Leaves, i), append(ev.hashes.Hashes, h)
		}
		ev.hashes.Scanned = 10
	}
}

// play executes the events of a script. Each line is an event, or several that are divided by "|" and have no effects
// except the last, and the effects that are expected.
func (s *stepper) play(script string) {
	s.t.Helper()
	for line := range strings.Lines(script) {
		events, want, _ := strings.Cut(line, "->")
		if strings.TrimSpace(events) == "" {
			continue
		}
		var got []string
		for _, event := range strings.Split(events, "|") {
			if text := s.step(s.event(event)); text != "" {
				got = append(got, text)
			}
		}
		if got := strings.Join(got, ", "); got != strings.TrimSpace(want) {
			s.t.Errorf("%s -> %s, want %s", strings.TrimSpace(events), got, strings.TrimSpace(want))
		}
	}
}
