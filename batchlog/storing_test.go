package batchlog

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// aliveView is the view of node 1, which considers some nodes dead.
type aliveView struct {
	coordinator.View
	dead map[ring.NodeID]bool
}

// still is a clock that does not move.
type still struct{ env.Clock }

func (still) Now() time.Time           { return time.Unix(1, 0) }
func (still) Monotonic() time.Duration { return 0 }

func (aliveView) Self() ring.NodeID           { return 1 }
func (v aliveView) Alive(id ring.NodeID) bool { return !v.dead[id] }

// newStoring returns a storing of node 1 with the candidates 2, 3 and 4. Two of them must store the batch.
func newStoring(handed bool, view aliveView) *storing {
	l := &Log{view: view, c: coordinator.New(coordinator.Options{View: view, Clock: still{}}),
		limits: Limits{}.withDefaults()}
	s := &storing{l: l, deadline: time.Second, encoded: []byte("batch"), need: 2, handed: handed}
	for id := ring.NodeID(2); id <= 4; id++ {
		s.candidates = append(s.candidates, &holder{node: id})
	}
	return s
}

func effectsOf(out []storeEffect) string {
	var names []string
	for _, e := range out {
		switch e.kind {
		case effectKeep:
			names = append(names, fmt.Sprintf("keep %d", e.holder.node))
		case effectArm:
			names = append(names, "arm")
		case effectEnd:
			names = append(names, "end")
		case effectWrite:
			names = append(names, "write")
		case effectAnswer:
			_, name, _ := strings.Cut(fmt.Sprintf("%T", e.err), ".")
			names = append(names, strings.TrimSpace("answer "+name))
		}
	}
	return strings.Join(names, ", ")
}

// TestStepsOfAStoring checks the effects of each event. Steps need no lock, clock or other nodes.
func TestStepsOfAStoring(t *testing.T) {
	const begun = "begin -> arm, keep 2, keep 3\n"
	for name, test := range map[string]struct {
		handed bool
		lines  string
	}{
		"stored":  {lines: begun + "has 2 ->\nanswered ->\nhas 3 -> end, write\nanswered ->"},
		"refused": {lines: begun + "refuses 2 -> keep 4\nhas 3 ->\nhas 4 -> end, write"},
		"late":    {lines: begun + "has 2 ->\ntick 400 -> arm, keep 4\nhas 4 -> end, write\nhas 3 ->"},
		"asked again": {lines: begun + "silent 2 -> keep 4\nhas 3 ->\nsilent 4 ->\ntick 400 -> arm, keep " +
			"2\nhas 2 -> end, write"},
		"one is alive":     {lines: begun + "has 2 ->\ndies 3 ->\ndies 4 ->\ntick 100 -> arm, end, write"},
		"certainly stored": {lines: begun + "has 2 ->\nrefuses 3 -> keep 4\nrefuses 4 -> end, answer WriteTimeout"},
		"nowhere": {lines: begun + "unsent 2 -> keep 4\nunsent 3 ->\nunsent 4 ->\ntick 1000 -> end, answer " +
			"Unavailable"},
		"in doubt": {lines: begun + "tick 1000 -> end, answer WriteTimeout\nhas 2 ->"},
		"a panic":  {lines: begun + "has 2 ->\npanics -> end, answer errorString\nhas 3 ->"},
		"handed over": {handed: true, lines: begun + "has 2 ->\nanswered ->\nhas 3 -> end\n" +
			"answered -> answer"},
	} {
		t.Run(name, func(t *testing.T) {
			view := aliveView{dead: map[ring.NodeID]bool{}}
			s := newStoring(test.handed, view)
			for line := range strings.Lines(test.lines) {
				event, want, _ := strings.Cut(line, "->")
				words := strings.Fields(event)
				number := 0
				if len(words) > 1 {
					_, _ = fmt.Sscan(words[1], &number)
				}
				ev := storeEvent{}
				switch words[0] {
				case "begin":
				case "dies":
					view.dead[ring.NodeID(number)] = true
					continue
				case "answered":
					ev.kind = storeAnswered
				case "panics":
					ev.kind, ev.err = storeFailed, errors.New("panic")
				case "tick":
					ev.kind, ev.now = storeTicked, time.Duration(number)*time.Millisecond
				default:
					ev.kind, ev.holder = storeKept, s.candidates[number-2]
					ev.err = map[string]error{"refuses": errors.New("disk"), "silent": coordinator.ErrNoReply,
						"unsent": coordinator.ErrNotSent}[words[0]]
				}
				got := effectsOf(s.step(ev, nil))
				s.check()
				if got != strings.TrimSpace(want) {
					t.Errorf("%s -> %s, want %s", strings.TrimSpace(event), got, want)
				}
			}
		})
	}
}

// TestStoringEndsOnce plays events in any order: answers, failures, deaths and ticks. The invariants hold after each
// step. A storing ends once, and writes only a batch that has its holders.
func TestStoringEndsOnce(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 4))
		view := aliveView{dead: map[ring.NodeID]bool{}}
		s := newStoring(r.IntN(2) == 0, view)
		open := s.step(storeEvent{}, nil)
		ended := 0
		for steps := range 2000 {
			if s.check(); len(open) == 0 {
				break
			}
			i := r.IntN(len(open))
			e := open[i]
			open = slices.Delete(open, i, i+1)
			now := time.Duration(steps) * 50 * time.Millisecond
			if r.IntN(10) == 0 {
				view.dead[ring.NodeID(2+r.IntN(3))] = r.IntN(2) == 0
			}
			switch e.kind {
			case effectKeep:
				ev := storeEvent{kind: storeKept, now: now, holder: e.holder}
				if r.IntN(3) == 0 {
					ev.err = []error{errors.New("disk"), coordinator.ErrNoReply, coordinator.ErrNotSent}[r.IntN(3)]
				}
				if seed%10 == 0 { // this node cannot send
					ev.err = coordinator.ErrNotSent
				}
				open = s.step(storeEvent{kind: storeAnswered, now: now}, s.step(ev, open))
			case effectArm:
				if !s.over {
					open = s.step(storeEvent{kind: storeTicked, now: now}, open)
				}
			case effectEnd:
			case effectWrite, effectAnswer:
				ended++
				ends[effectsOf([]storeEffect{e})]++
			}
		}
		if ended != 1 {
			t.Fatalf("seed %d: ended %d times", seed, ended)
		}
	}
	for _, end := range []string{"write", "answer", "answer WriteTimeout", "answer Unavailable"} {
		if ends[end] < 10 {
			t.Errorf("%d end with %s: %v", ends[end], end, ends)
		}
	}
}
