package paxos

import (
	"slices"
	"time"

	"cqld/paxos/contention"
	"cqld/ring"
)

// Coordinators that change one partition at the same time outvote each other, and each failed attempt costs all of them
// round trips and syncs. After a contention, they therefore take turns for a while, which the partition's arbiter
// grants: its first live replica (package contention). A round keeps its turn from its first attempt to its end.

// turnWait is the state of a round's turn.
type turnWait struct {
	contention.Turn
	arbiter ring.NodeID
	since   time.Duration // when it was granted
	asked   int           // number of the request, to match answers
	waiting bool          // for the answer to this request
	waited  time.Duration // start of the present wait for the arbiter's answer
	until   time.Duration // when the round starts without a turn
	tried   []ring.NodeID // arbiters that this round has asked
}

// contender is a round that takes turns with rounds of other coordinators. Its methods report whether the round may
// start an attempt.
type contender struct {
	group
	turn        turnWait
	contentions int // attempts of this round that lost to other proposers
}

// acquireTurn asks for a turn if the partition is contended and the round has none.
func (m *contender) acquireTurn(out []effect) (_ []effect, start bool) {
	if m.turn.Ticket != 0 && m.now-m.turn.since >= m.turn.Kept {
		m.turn.Ticket = 0 // it has expired
	}
	// A round keeps its turn for all its attempts.
	if m.turn.Ticket != 0 || !m.c.contested.Has(m.partition, m.now) {
		return out, true
	}
	// Each wait may ask every arbiter again: responsive avoids the silent ones.
	m.turn.tried = nil
	m.enterStage(StageTurn, m.now)
	// Some of the members' time is left for the attempt itself.
	m.turn.until = m.now + min(contention.WaitMax, m.timeout, max(m.latestDeadline()-m.now, 0)/2)
	return m.askTurn(out)
}

// askTurn asks the partition's arbiter for a turn. If no arbiter is left, or the time for waiting is over, the round
// starts without a turn.
func (m *contender) askTurn(out []effect) (_ []effect, start bool) {
	arbiter, ok := m.arbiter()
	if !ok || m.now >= m.turn.until {
		return out, true
	}
	// With a new number, a turn that answers an earlier request is returned at once.
	m.turn.asked++
	m.turn.arbiter, m.turn.waiting = arbiter, true
	m.turn.tried = append(m.turn.tried, arbiter)
	// The alarm is set before the request, which this node's own arbiter may answer synchronously.
	m.awaitTurn()
	return append(m.note(out, "Waiting for the partition's turn"), effect{
		kind:    effectAskTurn,
		attempt: m.turn.asked,
		nodes:   []ring.NodeID{arbiter},
		timeout: m.turn.until - m.now,
	}), false
}

// awaitTurn arms the alarm of a wait for the arbiter.
func (m *contender) awaitTurn() {
	wait := m.turn.until - m.now
	if arbiter := m.turn.arbiter; arbiter != m.c.view.Self() {
		// This node's own arbiter cannot be silent, so only the end of the wait limits it.
		wait = min(wait, m.c.responsive.Timeout(arbiter, m.now))
	}
	m.turn.waited = m.now
	m.arm(alarmTurn, wait)
}

// lateTurn handles the alarm of an arbiter that did not answer in time. If it has answered other requests meanwhile,
// the round waits again.
func (m *contender) lateTurn(out []effect) (_ []effect, start bool) {
	// The arbiter is alive, and other coordinators have the turn. Another arbiter would grant the turn a second time.
	if m.now < m.turn.until && m.arbiterHeard() {
		m.awaitTurn()
		return out, false
	}
	return m.noTurn(m.turn.asked, out)
}

// arbiterHeard reports whether the arbiter has answered any request during the present wait.
func (m *contender) arbiterHeard() bool {
	return m.turn.arbiter == m.c.view.Self() || m.c.responsive.HeardSince(m.turn.arbiter, m.turn.waited)
}

// arbiter returns the first of the partition's replicas that this node considers alive and responsive, and that the
// round has not asked.
func (m *contender) arbiter() (ring.NodeID, bool) {
	view := m.c.view
	for _, node := range m.c.replicasOf(view.Topology(), m.table, m.cmd.Key.Token).Natural {
		// All coordinators go through the replicas in the same order, so that they ask the same arbiter while their
		// views agree.
		switch self := node == view.Self(); {
		case slices.Contains(m.turn.tried, node):
		case self, view.Alive(node) && m.c.responsive.Usable(node, m.now):
			return node, true
		}
	}
	return 0, false
}

// noTurn gives up on an arbiter whose request failed or was not answered in time, and asks the next one.
func (m *contender) noTurn(asked int, out []effect) (_ []effect, start bool) {
	if asked != m.turn.asked || !m.turn.waiting {
		return out, false
	}
	// The arbiter may still grant the turn. It is then returned.
	m.turn.asked++
	m.turn.waiting = false
	m.disarm()
	m.c.counts.arbitersFailed.Add(1)
	// An arbiter that has answered other requests is merely busy with this partition.
	if !m.arbiterHeard() {
		m.c.responsive.Silent(m.turn.arbiter, m.now)
	}
	return m.askTurn(out)
}

// granted handles a granted turn. The turn is returned at once if the round has started without it or has ended.
func (m *contender) granted(ev *event, out []effect) (_ []effect, start bool) {
	// An unused turn would delay all coordinators until it expires.
	if ev.attempt != m.turn.asked || !m.turn.waiting || m.over {
		return returned(out, ev.node, ev.turn), false
	}
	m.turn.asked++
	m.turn.waiting = false
	m.disarm()
	// Without a ticket, the arbiter lets the round start without a turn.
	if m.turn.Turn, m.turn.since = ev.turn, m.now; ev.turn.Ticket != 0 {
		m.c.counts.turns.Add(1)
	}
	if !ev.turn.Alone {
		// Another coordinator has had the turn, so the contention continues.
		m.c.contested.Note(m.partition, m.now)
		m.c.lastBallots.forget(m.partition) // another coordinator has settled later ones
	}
	return out, true
}

// contended records that other proposers change the partition at the same time.
func (m *contender) contended() {
	m.contentions++
	m.c.counts.contentions.Add(1)
	m.c.contested.Note(m.partition, m.now)
}

// passTurn returns the round's turn, if it has one.
func (m *contender) passTurn(out []effect) []effect {
	// The turn is cleared first, so that it is returned only once.
	t := m.turn.Turn
	m.turn.Turn = contention.Turn{}
	return returned(out, m.turn.arbiter, t)
}

// returned appends the effect that returns a turn to its arbiter.
func returned(out []effect, arbiter ring.NodeID, t contention.Turn) []effect {
	// Without a ticket there is no turn to return.
	if t.Ticket == 0 {
		return out
	}
	return append(out, effect{kind: effectPassTurn, nodes: []ring.NodeID{arbiter}, turn: t})
}

// passTurn returns a turn to the partition's arbiter.
func (c *Proposer) passTurn(arbiter ring.NodeID, partition string, t contention.Turn) {
	if arbiter == c.view.Self() {
		c.arbiter.Pass(partition, t.Ticket)
	} else {
		c.arbiters.Pass(arbiter, partition, t.Ticket)
	}
}
