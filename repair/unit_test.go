package repair

import (
	"testing"

	"cqld/ring"
	"cqld/schema"
)

// stepTest is a script of events with the effects that are expected.
type stepTest struct {
	name    string
	prepare func(s *stepper)
	script  string
	change  func(s *stepper) // after script; nil means none
	after   string           // after change
}

func playAll(t *testing.T, tests []stepTest) {
	for _, test := range tests {
		t.Run(test.name, func(t *testing.T) {
			s := newStepper(t, 3)
			if test.prepare != nil {
				test.prepare(s)
			}
			s.play(test.script)
			if test.change != nil {
				test.change(s)
				s.play(test.after)
			}
		})
	}
}

// begun starts a comparison of three replicas, and equal lets them have the same hashes.
const (
	begun = `start -> load
		load -> progress, hash 1, hash 2, hash 3
		`
	equal = `hash 1 5 | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 a
		`
	differing = `hash 1 5 | hash 2 6 | hash 3 5 -> spend 10, spend 10, spend 10 a
		resume a -> read (0, 100]
		`
)

// TestStepsOfAComparison lists the effects of each event of a job without Paxos state.
func TestStepsOfAComparison(t *testing.T) {
	playAll(t, []stepTest{
		{name: "equal replicas", script: begun + equal + `
			resume a -> notify 1, notify 2, notify 3
			notify 2 | notify 1 ->
			notify 3 -> store (0, 100], progress, finish ok`},
		{name: "a difference", script: begun + differing + `
			read more -> spend 0 b
			resume b -> read (0, 100]
			read -> hash 1, hash 2, hash 3
			hash 1 6 | hash 2 6 | hash 3 6 -> spend 10, spend 10, spend 10 c
			resume c -> notify 1, notify 2, notify 3
			notify 1 | notify 2 | notify 3 -> store (0, 100], progress, finish ok 1 differing`},
		{name: "a difference that stays", script: begun + differing + `
			read -> hash 1, hash 2, hash 3
			hash 1 6 | hash 2 7 | hash 3 6 -> spend 10, spend 10, spend 10 b
			resume b -> read (0, 100]
			read -> hash 1, hash 2, hash 3
			hash 1 6 | hash 2 8 | hash 3 6 -> spend 10, spend 10, spend 10 c
			resume c -> notify 1, notify 2, notify 3
			notify 1 | notify 2 | notify 3 -> store (0, 100], progress, finish ok 1 differing 1 unsettled`},
		{name: "a large range", script: begun + `
			hash 1 5 >x | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 a
			resume a -> hash 1 of 3, hash 2 of 3, hash 3 of 3
			hash 1 1,2 >x -> spend 10 b
			hash 2 1,2,3 ->  spend 10
			resume b -> hash 1 of 3 after x
			hash 1 0,0,3 | hash 3 1,9,9 -> spend 10, spend 10 c
			resume c -> read (34, 67]
			read -> hash 1, hash 2, hash 3
			hash 1 2 | hash 2 2 >y | hash 3 2 -> spend 10, spend 10 d, spend 10
			resume d -> hash 2 after y
			hash 2 0 -> spend 10 e
			resume e -> read (67, 100]`},
		{name: "hashes of a leaf that does not exist", script: begun + `hash 2 foreign -> finish Failed
			hash 1 5 ->`},
		{name: "two ranges", prepare: func(s *stepper) {
			s.rest = []ring.Range{{Start: 0, End: 100}, {Start: 100, End: 200}}
		}, script: begun + equal + `
			resume a -> notify 1, notify 2, notify 3
			notify 1 | notify 2 | notify 3 -> store (0, 100], progress, hash 1, hash 2, hash 3`},
		{name: "a range that becomes two", prepare: func(s *stepper) {
			s.rest = []ring.Range{{Start: 0, End: 100}, {Start: 100, End: 200}}
		}, script: begun + equal + `
			resume a -> notify 1, notify 2, notify 3
			notify 1 | notify 2 ->`,
			change: func(s *stepper) {
				nodes := stepNodes()
				nodes[1].Tokens = append(nodes[1].Tokens, 150)
				s.v.topology = ring.NewTopology(2, nodes)
			}, after: `notify 3 -> store (0, 100], progress, hash 2, hash 1, hash 3
			hash 1 5 | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 b
			resume b -> notify 2, notify 1, notify 3
			notify 1 | notify 2 | notify 3 -> store (100, 150], progress, hash 1, hash 2, hash 3`},
		{name: "no range", prepare: func(s *stepper) { s.rest = nil }, script: `start -> load
			load -> progress, finish ok`},
		{name: "some replicas", prepare: func(s *stepper) { s.m.job.Scope.Nodes = []ring.NodeID{1, 2} },
			script: `start -> load
			load -> progress, hash 1, hash 2
			hash 1 5 | hash 2 6 -> spend 10, spend 10 a
			resume a -> read (0, 100] at [1 2]
			read -> hash 1, hash 2
			hash 1 6 | hash 2 6 -> spend 10, spend 10 b
			resume b -> store (0, 100], progress, finish ok 1 differing`},
		{name: "a lost hint", prepare: func(s *stepper) { s.m.job.Urgent = true }, script: begun + equal + `
			resume a -> store (0, 100], progress, finish ok`},
	})
}

// TestStepsAfterFailures lists the effects of failures, refusals, deaths and cancellations.
func TestStepsAfterFailures(t *testing.T) {
	dead := func(s *stepper) { s.v.dead[2] = true }
	dropped := func(s *stepper) {
		next, err := schema.Apply(s.v.schema, &schema.DropTable{Keyspace: "ks", Table: "t"})
		if err != nil {
			s.t.Fatal(err)
		}
		s.v.schema = next
	}
	playAll(t, []stepTest{
		{name: "a dead replica", prepare: dead, script: `start -> load
			load -> progress, finish Unavailable`},
		{name: "a dead replica is skipped", prepare: func(s *stepper) {
			dead(s)
			s.m.job.SkipDown = true
		}, script: `start -> load
			load -> progress, progress, finish ok 1 skipped`},
		{name: "a replica fails", script: begun + `hash 2 fails -> pause 1s a
			hash 1 5 | hash 3 5 -> spend 10, spend 10
			resume a -> hash 2
			hash 2 fails -> pause 2s b
			resume b -> hash 2
			hash 2 fails -> finish Failed`},
		{name: "a success between failures", script: begun + `
			hash 1 5 >x | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 a
			resume a -> hash 1 of 3, hash 2 of 3, hash 3 of 3
			hash 1 fails -> pause 1s b
			resume b -> hash 1 of 3
			hash 1 1 >x -> spend 10 c
			resume c -> hash 1 of 3 after x
			hash 1 fails -> pause 1s d`},
		{name: "a read fails", script: begun + differing + `read fails -> pause 1s b
			resume b -> read (0, 100]
			read fails -> pause 2s c
			resume c -> read (0, 100]
			read fails -> finish Failed 1 differing`},
		{name: "a notice fails", script: begun + equal + `
			resume a -> notify 1, notify 2, notify 3
			notify 1 | notify 2 fails | notify 3 -> pause 1s b
			resume b -> notify 2
			notify 2 fails -> pause 2s c
			resume c -> notify 2
			notify 2 fails -> store (0, 100], progress, finish ok 1 unnoticed`},
		{name: "a replica refuses", script: begun + `hash 1 5 -> spend 10
			hash 2 refuses -> pause 1s a
			hash 3 5 ->
			resume a -> progress, hash 1, hash 2, hash 3
			hash 2 refuses -> pause 2s b
			resume b -> progress, hash 1, hash 2, hash 3
			hash 2 refuses -> pause 4s c
			resume c -> progress, hash 1, hash 2, hash 3
			hash 2 refuses -> finish Failed`},
		{name: "a truncation", script: begun + `hash 2 truncating -> pause 1s a
			resume a | hash 2 truncating -> hash 2, pause 1s b
			resume b | hash 2 truncating -> hash 2, pause 1s c
			resume c | hash 2 truncating -> hash 2, pause 1s d
			resume d -> hash 2`},
		{name: "an unknown table", prepare: dropped, script: `start -> finish UnknownTable`},
		{name: "a table that is dropped before the position is read", script: `start -> load`, change: dropped,
			after: `load -> finish UnknownTable`},
		{name: "a table that is dropped before a step", script: begun, change: dropped,
			after: `hash 2 fails -> finish UnknownTable`},
		{name: "a table that is dropped before a page", script: begun + differing, change: dropped,
			after: `read truncating -> finish UnknownTable 1 differing`},
		{name: "a table that is dropped before the next range", script: begun + "hash 2 refuses -> pause 1s a",
			change: dropped, after: `resume a -> progress, finish UnknownTable`},
	})
}

// TestLateEventsHaveNoEffect repeats answers, ends of pauses and cancellations, and brings answers to a range after it
// was started again.
func TestLateEventsHaveNoEffect(t *testing.T) {
	playAll(t, []stepTest{
		{name: "answers that come twice", script: begun + `hash 1 5 | hash 2 6 -> spend 10, spend 10
			hash 1 9 | hash 2 fails | hash 2 refuses ->
			hash 3 5 -> spend 10 a
			hash 3 fails ->
			resume a -> read (0, 100]
			resume a | hash 3 5 | load ->
			read -> hash 1, hash 2, hash 3
			read | read more | read fails ->
			hash 1 6 | hash 2 6 | hash 3 6 -> spend 10, spend 10, spend 10 b
			resume b -> notify 1, notify 2, notify 3
			notify 1 | notify 1 | notify 1 fails | notify 2 ->
			notify 3 -> store (0, 100], progress, finish ok 1 differing
			notify 3 | cancel | resume b ->`},
		{name: "pauses of a range that was started again", script: begun + `hash 1 fails -> pause 1s a
			hash 2 refuses -> pause 1s b
			resume a | hash 3 5 ->
			resume b -> progress, hash 1, hash 2, hash 3
			resume a | resume b ->`},
	})
	// A range that is started again has requests of the same names: these answers have the numbers of the first ones.
	s := newStepper(t, 3)
	s.play(begun + "hash 2 refuses -> pause 1s a")
	first := []uint64{s.numbers["hash 1"], s.numbers["hash 3"]}
	s.play("resume a -> progress, hash 1, hash 2, hash 3")
	for _, number := range first {
		if got := s.step(&event{kind: eventHashed, number: number}); got != "" {
			t.Errorf("a late answer has the effects %s", got)
		}
	}
	s.play("hash 1 5 | hash 2 5 | hash 3 5 -> spend 10, spend 10, spend 10 b")
}

// TestCancellationEndsEachPhase cancels a job after each event of a whole repair.
func TestCancellationEndsEachPhase(t *testing.T) {
	events := []string{"start", "load", "scan yes", "raise", "list 1 k", "resume b", "settle fails", "resume c",
		"settle", "list 2", "resume d", "list 3", "resume e"}
	for cancelled := range len(events) {
		s := newStepper(t, 3)
		s.m.mayRaise = true
		for i, e := range events[:cancelled+1] {
			s.step(s.event(e))
			if i == 2 {
				s.v.lowBound = s.m.raiseTo
			}
		}
		if s.m.over {
			t.Fatalf("the job has ended after %s", events[cancelled])
		}
		text := s.step(s.event("cancel"))
		if text != "finish repair: cancelled" {
			t.Errorf("after %s: %s", events[cancelled], text)
		}
		for name := range s.numbers {
			if got := s.step(s.event(name)); got != "" {
				t.Errorf("after %s and the cancellation, %s has the effects %s", events[cancelled], name, got)
			}
		}
	}
}
