package rebalance

import (
	"testing"

	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
)

// TestInvariantsFire breaks the invariants of range movements, each as a bug in a caller would.
func TestInvariantsFire(t *testing.T) {
	r := func(start, end ring.Token) ring.Range { return ring.Range{Start: start, End: end} }
	streaming := func(active int, sessions ...*session) *streamMachine {
		m := &streamMachine{limits: &Limits{SessionsMax: 1}, active: active, sessions: map[string]*session{}}
		for _, q := range sessions {
			m.sessions[q.ID] = q
		}
		return m
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
			streaming(1, &session{Session: Session{ID: "s"}}).end(&session{Session: Session{ID: "s"}}, nil, nil)
		},
		"more ends than sessions": func() {
			q := &session{Session: Session{ID: "s"}}
			streaming(0, q).end(q, nil, nil)
		},
		"durable before it was received": func() {
			streaming(1, &session{state: SessionFetching, awaited: 1, bytes: 1, stored: 2}).check()
		},
		"session without an event": func() { streaming(1, &session{state: SessionWriting}).check() },
		"session without a slot":   func() { streaming(0, &session{state: SessionFetching, awaited: 1}).check() },
		"more sessions than slots": func() {
			streaming(2, &session{state: SessionFetching, awaited: 1}, &session{Session: Session{ID: "s"},
				state: SessionFetching, awaited: 2}).check()
		},
		"free slot": func() {
			m := streaming(0, &session{state: SessionWaiting})
			m.waiting = []*session{{}}
			m.check()
		},
		"block that was not held": func() { (&Streams{}).release() },
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
