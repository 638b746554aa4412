package repair

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/schema"
)

// TestInvariantsFire breaks the invariants of repairs, each as a bug in a step would.
func TestInvariantsFire(t *testing.T) {
	r := &Repairer{clock: &testclock.Clock{}, limits: Limits{}.withDefaults()}
	job := func() *Run { return &Run{r: r, left: []ring.Range{{Start: 0, End: 10}}, report: Report{Ranges: 1}} }
	replicas := []ring.NodeID{1, 2}
	compared := func() *unit {
		return &unit{j: job(), r: r, nodes: replicas, set: ring.ReplicaSet{Natural: replicas}}
	}
	range10 := ring.Range{Start: 0, End: 10}
	span := func(lower, upper uint64, until int64) repairedSpan { return repairedSpan{lower, upper, until} }
	for name, breaks := range map[string]func(){
		"range that is lost": func() {
			j := job()
			j.left = nil
			j.check()
		},
		"two units": func() {
			j := job()
			j.unit = &unit{}
			j.check()
		},
		"success before the end": func() { job().end(nil) },
		"more ends than jobs":    func() { (&counts{}).ended(&Report{}, nil) },
		"notice before the purge": func() {
			u := compared()
			u.purge = &purge{}
			u.notify()
		},
		"notice before the leaves": func() {
			u := compared()
			u.differing = []ring.Range{range10}
			u.notify()
		},
		"notice of a comparison": func() {
			u := compared()
			u.j.job.Urgent = true
			u.notify()
		},
		"notice of one replica": func() {
			u := compared()
			u.nodes = u.nodes[:1]
			u.notify()
		},
		"states removed too early": func() { (&purge{u: compared(), clean: cleanRounds - 1}).forget() },
		"hashed twice": func() {
			compared().stepped(&tree{leaves: 1}, &treeNode{}, HashStep{}, nil)
		},
		"leaf of another range": func() { checkLeaves(range10, []ring.Range{{Start: 5, End: 15}}) },
		"leaves in reverse":     func() { checkLeaves(range10, []ring.Range{{Start: 5, End: 10}, {Start: 0, End: 5}}) },
		"empty span":            func() { checkSpans([]repairedSpan{span(5, 5, 1)}) },
		"overlapping spans":     func() { checkSpans([]repairedSpan{span(0, 6, 1), span(5, 9, 2)}) },
		"less repaired":         func() { checkAdded([]repairedSpan{span(0, 9, 1)}, span(3, 5, 2)) },
		"partly repaired":       func() { checkAdded([]repairedSpan{span(4, 9, 2)}, span(3, 5, 2)) },
		"retained too much":     func() { checkRetained([]repairedSpan{span(0, 9, 1)}, []repairedSpan{span(0, 5, 1)}) },
		"retained for later":    func() { checkRetained([]repairedSpan{span(0, 5, 2)}, []repairedSpan{span(0, 5, 1)}) },
		"chunk that is not dirty": func() {
			d := dirty{tables: map[schema.StorageID]*dirtyTable{7: {}}}
			d.repaired(7, 3, 4, nil, 0, 0)
		},
		"session without bound": func() {
			s := &Service{o: ServiceOptions{Clock: &testclock.Clock{}}}
			s.mu.began = map[uint64]int64{1: 0}
			s.begin(2)
		},
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}
