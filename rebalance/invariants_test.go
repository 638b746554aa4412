package rebalance

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
)

// TestInvariantsFire breaks the invariants of range movements, each as a bug in a caller would.
func TestInvariantsFire(t *testing.T) {
	r := func(start, end ring.Token) ring.Range { return ring.Range{Start: start, End: end} }
	streams := func() *Streams {
		s := &Streams{}
		s.mu.sessions = map[string]*session{}
		return s
	}
	moving := func(v *movement) *moveMachine { return &moveMachine{movements: map[uint64]*movement{1: v}} }
	for name, breaks := range map[string]func(){
		"ring goes back": func() {
			m := &moveMachine{view: &view{self: 1}, epoch: 8}
			m.step(&moveEvent{kind: moveReconciled, topology: ring.NewTopology(7, nil)}, nil)
		},
		"session that did not begin": func() {
			v := (&moveMachine{}).newMovement(&ring.Operation{})
			v.streamed(&moveTask{}, nil, nil)
		},
		"movement that waits for nothing": func() { moving(&movement{}).check() },
		"movement reported too early": func() {
			moving(&movement{reported: true, queued: make([]*gainedRange, 1)}).check()
		},
		"session that waits for nothing": func() { moving(&movement{running: []*moveTask{{}}}).check() },
		"too many sessions": func() {
			v := &movement{compare: true}
			for range comparesAhead + 1 {
				v.running = append(v.running, &moveTask{number: 1})
			}
			moving(v).check()
		},
		"session with the id of another": func() {
			s := streams()
			s.mu.sessions["s"] = &session{}
			s.leave(&session{Session: Session{ID: "s"}, streams: s})
		},
		"more ends than sessions": func() {
			s := streams()
			q := &session{Session: Session{ID: "s"}, streams: s}
			s.mu.sessions["s"] = q
			s.leave(q)
		},
		"durable before it was received": func() { (&session{streams: streams(), bytes: 1, stored: 2}).returnBytes() },
		"block that was not held":        func() { streams().release() },
		"session of a rebuild is lost": func() {
			(&rebuildMachine{all: 2, queued: make([]Session, 1)}).check()
		},
		"decision that waits for nothing":   func() { (&dropMachine{phase: dropConfirming}).check() },
		"decision that waits for no answer": func() { (&dropMachine{phase: dropAsking, awaited: 1}).check() },
		"fence that stays":                  func() { (&dropMachine{fenced: true}).check() },
		"operator who waits for nothing":    func() { (&dropMachine{asked: make([]*cleanup, 1)}).check() },
		"more confirmations than replicas": func() {
			m := &dropMachine{phase: dropAsking, awaited: 1}
			m.decision.open = []ring.NodeID{2}
			m.decision.holdings = []*holding{{replicas: []ring.NodeID{2}, yes: 1}}
			m.step(&dropEvent{kind: dropAnswered, number: 1, node: 2, answers: []byte{1}}, nil)
		},
		"gap in a held range": func() { checkGaps([]ring.Range{r(0, 10)}, []ring.Range{r(5, 20)}) },
		"gap that wraps":      func() { checkGaps(nil, []ring.Range{r(20, 5)}) },
		"part of another":     func() { checkParts(r(0, 10), []ring.Range{r(5, 20)}) },
		"parts in reverse":    func() { checkParts(r(0, 10), []ring.Range{r(5, 10), r(0, 3)}) },
		"parts not joined":    func() { checkParts(r(0, 10), []ring.Range{r(0, 5), r(5, 10)}) },
	} {
		t.Run(name, func(t *testing.T) { invarianttest.Fires(t, breaks, "") })
	}
}
