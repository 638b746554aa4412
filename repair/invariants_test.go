package repair

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
	"cqld/schema"
)

// neverLost is an Engine that has lost nothing.
type neverLost struct{ Engine }

// LastLoss implements Engine.
func (neverLost) LastLoss() uint64 { return 0 }

// TestInvariantsFire breaks the invariants of repairs, each as a bug in a step would.
func TestInvariantsFire(t *testing.T) {
	job := func() *machine {
		limits := Limits{}.withDefaults()
		return &machine{limits: &limits, begun: true, left: []ring.Range{{Start: 0, End: 10}},
			report: Report{Ranges: 1}}
	}
	replicas := []ring.NodeID{1, 2}
	compared := func() *unit {
		m := job()
		m.unit = &unit{m: m, table: &schema.Table{}, topology: &ring.Topology{}, nodes: replicas,
			set: ring.ReplicaSet{Natural: replicas}}
		return m.unit
	}
	range10 := ring.Range{Start: 0, End: 10}
	span := func(lower, upper uint64, until int64) repairedSpan { return repairedSpan{lower, upper, until} }
	for name, breaks := range map[string]func(){
		"range that is lost": func() {
			m := job()
			m.left = nil
			m.check()
		},
		"two units": func() {
			m := job()
			m.unit, m.restart.number = &unit{}, 1
			m.check()
		},
		"job that waits for nothing": func() { job().check() },
		"unit that waits for nothing": func() {
			u := compared()
			u.hash(phaseSizing, range10, 1, nil)
			u.m.check()
			u.tree = nil
			u.m.check()
		},
		"replica without a step": func() {
			u := compared()
			u.hash(phaseSizing, range10, 1, nil)
			u.tree.nodes[1].take(2)
			u.m.check()
		},
		"replica without a notice": func() {
			u := compared()
			u.notify(nil)
			u.notices[0].take(1)
			u.m.check()
		},
		"success before the end": func() { job().end(nil, nil) },
		"more ends than jobs":    func() { (&counts{}).ended(&Report{}, nil) },
		"notice before the purge": func() {
			u := compared()
			u.purge = &purge{}
			u.notify(nil)
		},
		"notice before the leaves": func() {
			u := compared()
			u.differing = []ring.Range{range10}
			u.notify(nil)
		},
		"notice of a comparison": func() {
			u := compared()
			u.m.job.Urgent = true
			u.notify(nil)
		},
		"notice of one replica": func() {
			u := compared()
			u.nodes = u.nodes[:1]
			u.notify(nil)
		},
		"second answer to a notice": func() { compared().noticed(&notified{done: true}, &event{}, nil) },
		"states removed too early": func() {
			u := compared()
			u.purge = &purge{clean: cleanRounds - 1}
			u.forget(nil)
		},
		"hashed twice":          func() { compared().hashed(&treeNode{done: true}, &event{kind: eventHashed}, nil) },
		"leaf of another range": func() { checkLeaves(range10, []ring.Range{{Start: 5, End: 15}}) },
		"leaves in reverse":     func() { checkLeaves(range10, []ring.Range{{Start: 5, End: 10}, {Start: 0, End: 5}}) },
		"empty span":            func() { checkSpans([]repairedSpan{span(5, 5, 1)}) },
		"overlapping spans":     func() { checkSpans([]repairedSpan{span(0, 6, 1), span(5, 9, 2)}) },
		"less repaired":         func() { checkAdded([]repairedSpan{span(0, 9, 1)}, span(3, 5, 2)) },
		"partly repaired":       func() { checkAdded([]repairedSpan{span(4, 9, 2)}, span(3, 5, 2)) },
		"retained too much":     func() { checkRetained([]repairedSpan{span(0, 9, 1)}, []repairedSpan{span(0, 5, 1)}) },
		"retained for later":    func() { checkRetained([]repairedSpan{span(0, 5, 2)}, []repairedSpan{span(0, 5, 1)}) },
		"chunk that is not dirty": func() {
			(&dirtyMachine{task: autoTask{number: 1, table: 7}, chunks: chunks{1},
				tables: map[schema.StorageID]*dirtyTable{7: {bits: chunks{2}}}}).check()
		},
		"table that is not dirty": func() {
			(&dirtyMachine{task: autoTask{number: 1, table: 7}, chunks: chunks{1}}).check()
		},
		"repair of no chunk": func() { (&dirtyMachine{task: autoTask{number: 1, table: 7}}).check() },
		"repair in a pause":  func() { (&dirtyMachine{task: autoTask{number: 1}, pause: 2}).check() },
		"dirty range that waits for nothing": func() {
			(&dirtyMachine{started: true, tables: map[schema.StorageID]*dirtyTable{7: {bits: chunks{1}}}}).check()
		},
		"schedule that waits for nothing": func() { (&scheduleMachine{started: true}).check() },
		"position that goes back":         func() { checkPosition(range10, 10) },
		"tables that wait for nothing":    func() { (&tablesMachine{}).check() },
		"success before the last table":   func() { checkTables(nil, 1) },
		"session without bound": func() {
			s := &Service{o: ServiceOptions{Engine: neverLost{}}}
			s.mu.losses = map[uint64]uint64{1: 0}
			s.begin(2)
		},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}
