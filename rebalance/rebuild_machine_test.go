package rebalance

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// rebuildSteps executes steps of a machine of n sessions, and writes their effects as text.
func rebuildSteps(n int) (*rebuildMachine, func(*rebuildEvent) string) {
	var sessions []Session
	for i := range n {
		sessions = append(sessions, Session{ID: fmt.Sprint(i)})
	}
	m := newRebuildMachine(sessions)
	return &m, func(ev *rebuildEvent) string {
		out := m.step(ev, nil)
		m.check()
		var text []string
		for _, e := range out {
			switch e.kind {
			case effectStart:
				text = append(text, "start "+e.session.ID)
			case effectCancel:
				text = append(text, "cancel "+e.session.ID)
			case effectProgress:
				text = append(text, fmt.Sprintf("%d/%d", e.completed, e.all))
			case effectFinish:
				text = append(text, fmt.Sprint("finish ", e.err))
			}
		}
		return strings.Join(text, ", ")
	}
}

// TestStepsOfARebuild lists the effects of each event.
func TestStepsOfARebuild(t *testing.T) {
	cancel := &rebuildEvent{kind: rebuildCancelled}
	ended := func(session string) *rebuildEvent { return &rebuildEvent{kind: rebuildSessionEnded, session: session} }
	failed := func(session string) *rebuildEvent {
		return &rebuildEvent{kind: rebuildSessionEnded, session: session, err: errNoSource}
	}
	type step struct {
		ev   *rebuildEvent
		want string
	}
	for name, test := range map[string]struct {
		sessions int
		steps    []step
	}{
		"nothing to stream": {0, []step{{&rebuildEvent{}, "finish <nil>"}, {cancel, ""}}},
		"all succeed": {2, []step{{&rebuildEvent{}, "start 0, start 1"}, {ended("1"), "1/2"}, {ended("1"), ""},
			{ended("0"), "2/2, finish <nil>"}, {failed("0"), ""}}},
		"one fails": {2, []step{{&rebuildEvent{}, "start 0, start 1"}, {failed("0"), "0/2"},
			{ended("1"), "1/2, finish 1 of 2 ranges could not be fetched: " + errNoSource.Error()}}},
		"cancelled": {2, []step{{&rebuildEvent{}, "start 0, start 1"}, {cancel, "cancel 0, cancel 1"}, {cancel, ""},
			{failed("1"), "0/2"}, {failed("0"), "0/2, finish " + ErrCancelled.Error()}}},
		"cancelled too late": {1, []step{{&rebuildEvent{}, "start 0"}, {cancel, "cancel 0"},
			{ended("0"), "1/1, finish <nil>"}}},
	} {
		_, do := rebuildSteps(test.sessions)
		for i, s := range test.steps {
			if got := do(s.ev); got != s.want {
				t.Errorf("%s, step %d: %q, want %q", name, i, got, s.want)
			}
		}
	}
}

// TestRebuildsEndInAnyOrder ends sessions in random orders, with failures, second ends and a cancellation. No more than
// sessionsAhead run, each starts once, and the rebuild ends once.
func TestRebuildsEndInAnyOrder(t *testing.T) {
	for seed := range uint64(500) {
		rnd := rand.New(rand.NewPCG(seed, 3))
		n := rnd.IntN(5 * sessionsAhead)
		m, do := rebuildSteps(n)
		do(&rebuildEvent{kind: rebuildBegun})
		failures, started := 0, map[string]bool{}
		for events := 0; !m.finished; events++ {
			if len(m.running) > sessionsAhead || events > 100*(n+1) {
				t.Fatalf("seed %d: %d sessions run after %d events", seed, len(m.running), events)
			}
			if rnd.IntN(200) == 0 {
				do(&rebuildEvent{kind: rebuildCancelled})
				continue
			}
			ev := &rebuildEvent{kind: rebuildSessionEnded, session: fmt.Sprint(rnd.IntN(n))}
			runs := slices.ContainsFunc(m.running, func(p Session) bool { return p.ID == ev.session })
			if rnd.IntN(10) == 0 {
				ev.err = errors.New("disk")
			}
			if runs && started[ev.session] {
				t.Fatalf("seed %d: session %s runs again", seed, ev.session)
			}
			if runs {
				started[ev.session] = true
				if ev.err != nil {
					failures++
				}
			}
			if got := do(ev); strings.Contains(got, "finish") != m.finished {
				t.Fatalf("seed %d: %s", seed, got)
			}
		}
		if !m.cancelled && m.failed != failures {
			t.Errorf("seed %d: %d sessions failed, %d are reported", seed, failures, m.failed)
		}
	}
}
