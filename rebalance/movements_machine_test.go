package rebalance

import (
	"fmt"
	"strings"
	"testing"

	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
)

// deadView is the metadata of a test node, and the nodes that it considers dead.
type deadView struct {
	view
	dead map[ring.NodeID]bool
}

func (v *deadView) Alive(id ring.NodeID) bool { return !v.dead[id] }

// moveSteps executes steps of the machine of node 1, which joins node 2 and gains two ranges of one table and of the
// Paxos states, and writes their effects as text.
type moveSteps struct {
	m    moveMachine
	v    *deadView
	open []moveEffect // whose event has not come yet
}

// newMoveSteps returns steps of an operation in a phase.
func newMoveSteps(t testing.TB, o ring.Operation) *moveSteps {
	catalog, _ := testCatalog(t)
	s := &moveSteps{v: &deadView{view: view{self: 1, schema: catalog, topology: moveTopology(o)},
		dead: map[ring.NodeID]bool{}}}
	s.m = moveMachine{view: s.v, leafBytes: 100, deadAfter: 2 * movementRetry, movements: map[uint64]*movement{}}
	return s
}

func streamingOperation() ring.Operation { return ring.Operation{Phase: ring.Streaming} }

func switchingOperation() ring.Operation {
	return ring.Operation{Phase: ring.Switching, Switched: 8, Known: true, Streamed: []ring.NodeID{1}}
}

func (s *moveSteps) step(ev moveEvent) string {
	out := s.m.step(&ev, nil)
	s.m.check()
	var text []string
	for i := range out {
		e := &out[i]
		if e.number != 0 {
			s.open = append(s.open, *e)
		}
		text = append(text, describeMove(e))
	}
	return strings.Join(text, ", ")
}

// describeMove returns an effect as text.
func describeMove(e *moveEffect) string {
	switch e.kind {
	case effectStream:
		what := "a" // the range of negative tokens
		if e.session.Range.Start > 0 {
			what = "b"
		}
		if e.session.Table == schema.PaxosTable {
			what = "states of " + what
		}
		if strings.Contains(e.session.ID, "/again/") {
			what = "part of " + what
		}
		return "stream " + what
	case effectHash:
		return fmt.Sprintf("hash %d/%d", e.node, e.request.Leaves)
	case effectForget:
		return fmt.Sprintf("forget %d", len(e.sessions))
	case effectReport:
		return fmt.Sprintf("report %d", len(e.short))
	case effectPause:
		return "pause"
	case effectNote:
		return "note"
	case effectHandOver:
		return fmt.Sprintf("hand over %d", e.operation)
	case effectHanded:
		return fmt.Sprintf("handed %d", e.operation)
	}
	return "unknown"
}

// reconcile delivers the topology of the view.
func (s *moveSteps) reconcile() string {
	return s.step(moveEvent{kind: moveReconciled, topology: s.v.topology})
}

// end delivers a topology without the operation.
func (s *moveSteps) end() string {
	s.v.topology = ring.NewTopology(10, s.v.topology.Nodes())
	return s.reconcile()
}

// answer delivers the event of the first outstanding effect.
func (s *moveSteps) answer(err error, hashes repair.HashStep) string {
	e := s.open[0]
	s.open = s.open[1:]
	return s.step(moveEvent{kind: eventOf(e.kind), movement: e.movement, task: e.task, number: e.number, err: err,
		hashes: hashes})
}

// eventOf returns the event of an effect.
func eventOf(k moveEffectKind) moveEventKind {
	//exhaustive:ignore
	switch k {
	case effectStream:
		return moveStreamed
	case effectHash:
		return moveHashed
	case effectReport:
		return moveReported
	case effectPause:
		return moveResumed
	}
	panic("no event")
}

// leaf is a step of hashes of one leaf.
func leaf(sum uint64) repair.HashStep {
	return repair.HashStep{Leaves: []int{0}, Hashes: []repair.LeafHash{{Sum: [2]uint64{sum, 0}, Rows: 1}}, Size: 500}
}

// moveCase is the last of some steps, with its effects.
type moveCase struct {
	name, want string
	last       func(t *testing.T) string
}

// TestStepsOfMovements lists the effects of each event, in each state that matters.
func TestStepsOfMovements(t *testing.T) {
	for _, cases := range [][]moveCase{streamCases(), comparisonCases(), moveEndCases(), handOverCases()} {
		for _, c := range cases {
			if got := c.last(t); got != c.want {
				t.Errorf("%s: %q, want %q", c.name, got, c.want)
			}
		}
	}
}

// started returns the steps after the first topology with an operation.
func started(t *testing.T, o ring.Operation) *moveSteps {
	s := newMoveSteps(t, o)
	s.reconcile()
	return s
}

func streamCases() []moveCase {
	answers := func(errs ...error) func(t *testing.T) string {
		return func(t *testing.T) (last string) {
			s := started(t, streamingOperation())
			for _, err := range errs {
				last = s.answer(err, repair.HashStep{})
			}
			return last
		}
	}
	const all = "stream a, stream b, stream states of a, stream states of b"
	return []moveCase{
		{"a join", "note, " + all, func(t *testing.T) string {
			return newMoveSteps(t, streamingOperation()).reconcile()
		}},
		{"the same topology", "", func(t *testing.T) string { return started(t, streamingOperation()).reconcile() }},
		{"one range is received", "", answers(nil)},
		{"all ranges are received", "note, report 0", answers(nil, nil, nil, nil)},
		{"reported", "", answers(nil, nil, nil, nil, nil)},
		{"not reported", "pause", answers(nil, nil, nil, nil, errDisk)},
		{"reported again", "note, report 0", answers(nil, nil, nil, nil, errDisk, nil)},
		{"one range fails", "note, pause", answers(errDisk)},
		{"two ranges fail during one pause", "note", answers(errDisk, errDisk)},
		{"after the pause", "stream a, stream states of b", answers(errDisk, nil, nil, errDisk, nil)},
		{"a session ends twice", "", func(t *testing.T) string {
			s := started(t, streamingOperation())
			e := s.open[0]
			s.answer(nil, repair.HashStep{})
			return s.step(moveEvent{kind: moveStreamed, movement: e.movement, task: e.task, number: e.number})
		}},
		{"the source is dead", "note, pause", func(t *testing.T) string {
			s := newMoveSteps(t, streamingOperation())
			s.v.dead[2] = true
			return s.reconcile()
		}},
		{"the source comes up", all, func(t *testing.T) string {
			s := newMoveSteps(t, streamingOperation())
			s.v.dead[2] = true
			s.reconcile()
			s.v.dead[2] = false
			return s.answer(nil, repair.HashStep{})
		}},
		{"the operator is informed", "note, pause", func(t *testing.T) (last string) {
			s := newMoveSteps(t, streamingOperation())
			s.v.dead[2] = true
			s.reconcile()
			for range stuckReported - 1 {
				last = s.answer(nil, repair.HashStep{})
			}
			return last
		}},
		{"forced, without a source", "note, note, report 0", func(t *testing.T) string {
			o := streamingOperation()
			o.Force = true
			s := newMoveSteps(t, o)
			s.v.dead[2] = true
			return s.reconcile()
		}},
	}
}

func comparisonCases() []moveCase {
	hashes := func(steps ...repair.HashStep) func(t *testing.T) string {
		return func(t *testing.T) (last string) {
			s := started(t, switchingOperation())
			s.open = s.open[:1] // of the first range
			for _, h := range steps {
				last = s.answer(nil, h)
			}
			return last
		}
	}
	more, foreign := leaf(1), leaf(1)
	more.Next, foreign.Leaves = []byte("k"), []int{1}
	return []moveCase{
		{"a comparison", "note, hash 2/1, hash 2/1", func(t *testing.T) string {
			return newMoveSteps(t, switchingOperation()).reconcile()
		}},
		{"the source has hashed", "hash 1/1", hashes(leaf(1))},
		{"equal", "", hashes(leaf(1), leaf(1))},
		{"different", "stream part of a", hashes(leaf(1), leaf(2))},
		{"the difference is received", "", hashes(leaf(1), leaf(2), repair.HashStep{})},
		{"larger than a step", "hash 2/5", hashes(more)},
		{"the next step", "hash 2/5", hashes(more, more)},
		{"another leaf than requested", "note, pause", hashes(foreign)},
		{"no hashes", "note, pause", func(t *testing.T) string {
			return started(t, switchingOperation()).answer(errDisk, repair.HashStep{})
		}},
		{"both are equal", "report 0", func(t *testing.T) (last string) {
			s := started(t, switchingOperation())
			for len(s.open) > 0 && last == "" || strings.HasPrefix(last, "hash") {
				last = s.answer(nil, leaf(1))
			}
			return last
		}},
	}
}

func moveEndCases() []moveCase {
	late := func(o func() ring.Operation, end func(s *moveSteps) string) func(t *testing.T) string {
		return func(t *testing.T) string {
			s := started(t, o())
			end(s)
			return s.answer(nil, leaf(1))
		}
	}
	stop := func(s *moveSteps) string { return s.step(moveEvent{kind: moveStopped}) }
	return []moveCase{
		{"the operation ends", "forget 4", func(t *testing.T) string { return started(t, streamingOperation()).end() }},
		{"a session ends after the operation", "", late(streamingOperation, (*moveSteps).end)},
		{"hashes after the operation", "", late(switchingOperation, (*moveSteps).end)},
		{"a session ends after the stop", "", late(streamingOperation, stop)},
		{"hashes after the stop", "", late(switchingOperation, stop)},
		{"a topology after the stop", "", func(t *testing.T) string {
			s := newMoveSteps(t, streamingOperation())
			stop(s)
			return s.reconcile()
		}},
		{"the next phase", "forget 4, note, hash 2/1, hash 2/1", func(t *testing.T) string {
			s := started(t, streamingOperation())
			s.v.topology = moveTopology(switchingOperation())
			return s.reconcile()
		}},
	}
}

func handOverCases() []moveCase {
	leaving := func(t *testing.T) *moveSteps {
		s := newMoveSteps(t, ring.Operation{})
		s.v.topology = ring.NewMovingTopology(9, 9, s.v.topology.Nodes(), []*ring.Operation{{ID: 8, Kind: ring.Leave,
			Node: 1, Phase: ring.Switching, Hands: true}})
		return s
	}
	handed := moveEvent{kind: moveHandedOver, operation: 8}
	return []moveCase{
		{"this node leaves", "hand over 8", func(t *testing.T) string { return leaving(t).reconcile() }},
		{"the hand-over began before", "", func(t *testing.T) string {
			s := leaving(t)
			s.reconcile()
			return s.reconcile()
		}},
		{"handed over", "handed 8", func(t *testing.T) string { return leaving(t).step(handed) }},
		{"the hand-over fails", "note", func(t *testing.T) string {
			failed := handed
			failed.err = errDisk
			return leaving(t).step(failed)
		}},
		{"handed over after the operation", "", func(t *testing.T) string {
			s := leaving(t)
			s.end()
			return s.step(handed)
		}},
	}
}
