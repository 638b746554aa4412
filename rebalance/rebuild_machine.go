package rebalance

import (
	"slices"

	"cqld/internal/invariant"
)

// rebuildEventKind is the kind of an event of a rebuild.
type rebuildEventKind uint8

const (
	// rebuildBegun is the start of the rebuild.
	rebuildBegun rebuildEventKind = iota
	// rebuildSessionEnded is the end of a session.
	rebuildSessionEnded
	// rebuildCancelled is a call of the function that cancels.
	rebuildCancelled
)

// rebuildEvent is an input of a rebuildMachine.
type rebuildEvent struct {
	kind    rebuildEventKind
	session string // sessionEnded
	err     error  // sessionEnded
}

// rebuildEffectKind is the kind of an effect of a rebuild.
type rebuildEffectKind uint8

const (
	// effectStart starts a session. Its event is rebuildSessionEnded.
	effectStart rebuildEffectKind = iota
	// effectCancel ends a session early.
	effectCancel
	// effectProgress reports the number of completed sessions.
	effectProgress
	// effectFinish ends the rebuild.
	effectFinish
)

// rebuildEffect is an output of a rebuildMachine.
type rebuildEffect struct {
	kind           rebuildEffectKind
	session        Session // start, cancel
	completed, all int     // progress
	err            error   // finish
}

// rebuildMachine is the state machine of a Rebuild. A step changes the state and returns effects; it neither locks,
// waits nor calls back. A rebuild streams sessionsAhead sessions at a time until none is left.
type rebuildMachine struct {
	// all is completed + failed + running + queued at any time.
	all       int
	queued    []Session
	running   []Session
	completed int
	failed    int
	// The other errors are only counted.
	first     error // of the first session that failed
	cancelled bool
	finished  bool
}

func newRebuildMachine(sessions []Session) rebuildMachine {
	return rebuildMachine{all: len(sessions), queued: sessions}
}

// step takes an event and appends its effects.
func (m *rebuildMachine) step(ev *rebuildEvent, out []rebuildEffect) []rebuildEffect {
	if m.finished {
		return out
	}
	switch ev.kind {
	// proceed starts the first sessions, or finishes at once if there are none.
	case rebuildBegun:
	case rebuildSessionEnded:
		i := slices.IndexFunc(m.running, func(p Session) bool { return p.ID == ev.session })
		if i < 0 {
			return out // a second end
		}
		m.running = slices.Delete(m.running, i, i+1)
		m.count(ev.err)
		out = append(out, rebuildEffect{kind: effectProgress, completed: m.completed, all: m.all})
	case rebuildCancelled:
		if m.cancelled {
			return out
		}
		m.cancelled = true
		// Sessions that never start count as failed; running ones end with their own events.
		m.failed += len(m.queued)
		m.queued = nil
		for _, p := range m.running {
			out = append(out, rebuildEffect{kind: effectCancel, session: p})
		}
	}
	return m.proceed(out)
}

// count counts the end of a session.
func (m *rebuildMachine) count(err error) {
	if err == nil {
		m.completed++
		return
	}
	m.failed++
	if m.first == nil {
		m.first = err
	}
}

// proceed starts sessions while sessionsAhead allows, and finishes after the last one.
func (m *rebuildMachine) proceed(out []rebuildEffect) []rebuildEffect {
	for len(m.running) < sessionsAhead && len(m.queued) > 0 {
		p := m.queued[0]
		m.queued = m.queued[1:]
		m.running = append(m.running, p)
		out = append(out, rebuildEffect{kind: effectStart, session: p})
	}
	// Sessions are running, and their ends call proceed again.
	if len(m.running) > 0 {
		return out
	}
	m.finished = true
	e := rebuildEffect{kind: effectFinish}
	switch {
	// If all sessions completed in spite of a cancellation, the rebuild is complete.
	case m.failed > 0 && m.cancelled:
		e.err = ErrCancelled
	case m.failed > 0:
		e.err = &RebuildError{m.failed, m.all, m.first}
	}
	return append(out, e)
}

// check stops the program if a session was lost or counted twice, because the rebuild would be reported as complete, or
// if no event would continue the rebuild.
func (m *rebuildMachine) check() {
	invariant.Check(m.completed+m.failed+len(m.running)+len(m.queued) == m.all,
		"rebalance: a session of a rebuild is neither queued nor done")
	invariant.Check(m.finished == (len(m.running)+len(m.queued) == 0), "rebalance: a rebuild waits for no session")
}
