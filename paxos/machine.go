package paxos

import (
	"errors"
	"math"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/paxos/ballot"
	"cqld/ring"
)

// machine is the state machine of a round, which executes conditional changes and serial reads of a partition
// together, from their first attempt to their answers. A step changes the state and returns effects. It neither sends,
// waits nor calls back. It uses the view, and the proposer's ballots, queues, counters and knowledge of partitions,
// each of which has a lock of its own that is held for an instant.
//
//	idle ──▶ preparing ──▶ prepared ──▶ accepting ──▶ committing ──▶ over
//	  ▲   turn    │     missing commit,   │ │ nothing     │
//	  │           │     read, conditions ─┘ ▼ changes     │
//	  └── pause ◀─┴──────────┴────────── settling ◀───────┘ a proposal of another one
type machine struct {
	attempts

	history       ballot.History // of the changes up to prior
	foundProposal bool           // another proposer has changed the partition
	// superseding means that an empty change is proposed only to make proposals in doubt void.
	superseding bool
	reread      bool             // the page was not sent with the promises
	commitLevel ring.Consistency // phaseCommitting
	early       bool             // phaseCommitting: the members have been answered
	absent      int              // voters that have not confirmed the missing commit
	plans       int
	checked     checkpoint
}

// step takes an event and appends its effects.
func (m *machine) step(ev *event, out []effect) []effect {
	m.now = ev.now
	switch {
	case ev.kind == eventPanicked:
		// A panic is handled first: members must be answered in any state.
		return m.abandon(out, ev.err)
	case ev.kind == eventGranted:
		start := false
		// A grant is handled even after the end of the round, because the turn must then be returned.
		if out, start = m.granted(ev, out); start {
			m.join()
		}
		return m.proceed(out, start)
	case m.over:
		return out
	}
	switch ev.kind {
	case eventBegun:
		return m.begun(out)
	case eventCanceled:
		return m.cancel(ev.member, out)
	case eventNoTurn:
		// Requests for turns have numbers of their own, which noTurn compares.
		return m.proceed(m.noTurn(ev.attempt, out))
	case eventAlarm:
		return m.alarmed(ev.alarm, out)
	}
	// An answer to an earlier attempt. Its ballot is no longer proposed, so the answer changes nothing.
	if ev.attempt != m.attempt {
		return out
	}
	switch {
	case ev.kind == eventPromised:
		// Promises are handled in any phase: the last ones may show that nothing is in progress (decline).
		return m.promised(ev, out)
	case ev.kind == eventAccepted && m.phase == phaseAccepting:
		return m.voted(ev, out)
	case ev.kind == eventBrought && m.phase == phasePreparedWork:
		return m.brought(ev, out)
	case ev.kind == eventRead && m.phase == phasePreparedWork:
		return m.pageRead(ev, out)
	case ev.kind == eventEvaluated && m.phase == phasePreparedWork:
		return m.evaluated(&ev.verdict, out)
	case ev.kind == eventCommitted && m.phase == phaseCommitting:
		return m.committed(ev.err, out)
	case ev.kind == eventAlone && m.phase == phaseCommitting:
		return m.aloneEnded(ev, out)
	}
	return out
}

// alarmed handles an alarm that has fired.
func (m *machine) alarmed(number int, out []effect) []effect {
	a := m.alarm
	// The timer fired while another event replaced the alarm, or ended its phase.
	if number != a.number || m.phase != a.phase {
		return out
	}
	m.disarm()
	switch a.kind {
	case alarmLate:
		// Some of the voters that did not answer may have accepted.
		m.doubt()
		return m.fail(out, m.timedOut(m.lagging))
	case alarmSlow:
		return m.outvoted(out)
	case alarmSettle:
		// The last voters may hold proposals: an empty one makes them void.
		return m.propose(out, m.ballot, nil)
	case alarmResume:
		return m.proceed(m.acquireTurn(out))
	case alarmCommit:
		return m.commit(out, m.commitLevel)
	case alarmTurn:
		return m.proceed(m.lateTurn(out))
	}
	return out
}

// begun begins the round. A request that is canceled after it has left the queue and before it has its round is found
// in neither, so it is answered here.
func (m *machine) begun(out []effect) []effect {
	for _, x := range m.members {
		if errors.Is(x.req.Cancel.Err(), env.ErrCanceled) {
			if out = m.cancel(x, out); m.over {
				return out
			}
		}
	}
	return m.proceed(m.acquireTurn(out))
}

// join adds requests that arrived while the round waited for its first turn.
func (m *machine) join() {
	// The outcomes of later attempts belong to the present members.
	if m.attempt > 0 {
		return
	}
	if members := m.c.queues.regroup(m.partition, m.unanswered(), &m.c.limits); len(members) > 0 {
		m.enroll(members)
	}
}

// proceed starts an attempt unless the round waits for a turn.
func (m *machine) proceed(out []effect, start bool) []effect {
	if !start {
		return out
	}
	return m.start(out)
}

// start starts an attempt with a new ballot.
func (m *machine) start(out []effect) []effect {
	if err := m.plan(); err != nil {
		if m.c.coordinator.MayArrive(err, math.MaxInt64) { // again determines which members have time left
			m.lacking = err
			return m.again(out, CauseUnavailable, coordinator.ArrivalPause)
		}
		return m.fail(out, err)
	}
	if out = m.expire(out, m.now); m.over { // all the time was spent in the queue or in a pause
		return out
	}
	m.attempt++
	// The fields of an attempt are reset.
	m.outcomes, m.reread, m.superseding, m.lagging = nil, false, false, 0
	m.proposal, m.previous = ballot.Proposal{}, ballot.Ballot{}
	if m.alone() {
		return m.decideAlone(out)
	}
	m.phase = phasePreparing
	m.enterStage(StagePrepare, m.now)
	// A round with proposals in doubt needs promises: they show the outcome.
	if last, ok := m.c.lastBallots.remove(m.partition, m.topology.Epoch(), m.serial); ok && len(m.own) == 0 {
		m.previous, m.prior, m.history = last.ballot, last.prior, last.history
		// The ballot must be after the one on which it rests, even if the clock moved back.
		m.seen = max(m.seen, last.ballot.Micros)
	}
	m.ballot = m.c.ballot(m.seen, m.span())
	// The timer is set before the requests are sent, because this node's acceptor may answer synchronously.
	m.await()
	return append(out, effect{
		kind:     effectPrepare,
		attempt:  m.attempt,
		nodes:    m.open(),
		epoch:    m.topology.Epoch(),
		ballot:   m.ballot,
		previous: m.previous,
		cmd:      m.cmd,
		timeout:  m.timeout,
		trace:    m.tracer(),
	})
}

// plan determines the voters. It returns an error, before anything is sent, if too few of them are alive.
func (m *machine) plan() error {
	c := m.c
	m.topology = c.view.Topology()
	m.poll.reset(c.electorateOf(m.topology, m.table, m.cmd.Key.Token, m.serial), m.serial == ring.All, c)
	if m.alone() {
		return nil
	}
	// If too few voters are alive, failing before any promise avoids outvoting other proposers in vain.
	if alive := m.invite(); m.hopeless() {
		c.counts.unavailable.Add(1)
		return &coordinator.Unavailable{Consistency: m.serial, Required: m.voters.required(), Alive: alive}
	}
	return nil
}

// abandon ends the round after an event or an effect has panicked.
func (m *machine) abandon(out []effect, err error) []effect {
	// If the panic came between setting members and outcomes, the two may not match.
	if (m.phase == phaseAccepting || m.phase == phaseCommitting) && len(m.outcomes) == len(m.members) {
		m.own = append(m.own, doubtful{proposal: m.proposal, outcomes: m.outcomes}) // it may be decided
	}
	// The answers to requests that are outstanding are ignored.
	m.attempt++
	return m.conclude(out, nil, err)
}
