package rebalance

import (
	"errors"
	"fmt"
	"maps"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/schema"
)

// dropPhase is the running part of a decision.
type dropPhase uint8

const (
	dropIdle       dropPhase = iota
	dropConfirming           // the metadata
	dropSearching            // for data
	dropAsking               // replicas
	dropFencing              // until requests that were admitted before have ended
	dropRemoving             // data, under the fence
	dropUnfencing            // after the removal or a failure
	dropReporting            // to the metadata log
	dropPausing              // after a failure
)

// dropMachine is the state machine of Drops. A step changes the state and returns effects; it neither locks, waits nor
// calls back, and reads snapshots of the schema and the ring.
type dropMachine struct {
	view    coordinator.View
	closed  bool
	phase   dropPhase
	numbers uint64 // of effects
	// awaited is the number of the effects of the present phase; zero if there is no decision. All questions have one
	// number.
	awaited uint64
	// asked are calls of Cleanup that wait for a decision that starts after the call; current wait for the present one.
	asked, current []*cleanup
	failures       int  // consecutive decisions that failed
	checking       bool // a check of gained ranges is scheduled
	fenced         bool // requests are refused
	decision       dropDecision
}

// dropDecision is the decision under way, from its confirmation on.
type dropDecision struct {
	unclean uint64 // the epoch since which this node is unclean; zero means that an operator requested the decision
	// Replicas must have applied epoch before they answer.
	epoch  uint64 // of the confirmed metadata
	items  []dropItem
	former map[string]*FormerData // by keyspace, as confirmed
	// left is the reason why data of former replications stay; nil means that none do.
	left error
	// failed is why data stay that should be removed; nil if all units are.
	failed   error
	leftover map[string]bool // the keyspaces of such data
	holdings []*holding
	open     []ring.NodeID // nodes without an answer
	units    []dropUnit    // that are not removed yet
	// partly reports that this node gained some of the ranges after they were listed.
	partly    bool
	done, all int // units of tables
}

// enter begins a phase, and returns the number of its effects.
func (m *dropMachine) enter(phase dropPhase) uint64 {
	m.numbers++
	m.phase, m.awaited = phase, m.numbers
	return m.numbers
}

// await appends an effect whose event continues the decision in a phase.
func (m *dropMachine) await(phase dropPhase, e dropEffect, out []dropEffect) []dropEffect {
	e.number = m.enter(phase)
	return append(out, e)
}

// step takes an event and appends its effects.
func (m *dropMachine) step(ev *dropEvent, out []dropEffect) []dropEffect {
	//exhaustive:ignore
	switch ev.kind {
	case dropRequested:
		return m.requested(ev.cleanup, out)
	case dropCancelled:
		return m.cancel(ev.cleanup, out)
	case dropStopped:
		return m.stop(out)
	case dropGained, dropChecked:
		return m.gained(ev, out)
	}
	if ev.number != m.awaited || ev.number == 0 {
		return out // a second event of an effect, or an event after the stop
	}
	switch {
	case ev.kind == dropUnfenced:
		return m.unfenced(out)
	case m.closed:
		// The removal under way has ended. The rest of the data stays, and the next process decides again.
		return m.unfence(nil, out)
	}
	//exhaustive:ignore
	switch ev.kind {
	case dropConfirmed:
		return m.confirmed(ev, out)
	case dropSearched:
		return m.searched(ev, out)
	case dropAnswered:
		return m.answered(ev, out)
	case dropFenced:
		return m.remove(ev, out)
	case dropRemoved:
		if ev.err != nil {
			return m.unfence(ev.err, out)
		}
		return m.next(out)
	case dropReported:
		if ev.err != nil {
			return m.end(ev.err, true, out)
		}
		return m.end(m.decision.left, false, out)
	case dropResumed:
		return m.confirm(out)
	}
	return out
}

// requested starts a decision unless one is running. When that one ends, it starts another for requests that arrived
// after its confirmation.
func (m *dropMachine) requested(c *cleanup, out []dropEffect) []dropEffect {
	switch {
	case m.closed && c == nil:
		return out
	case m.closed:
		return append(out, dropEffect{kind: effectAnswer, cleanups: []*cleanup{c}, err: errDropsClosed})
	case c != nil:
		m.asked = append(m.asked, c)
	}
	if m.phase != dropIdle {
		return out
	}
	return m.confirm(out)
}

// cancel ends a request. The decision continues for other requests, or stops before it drops if there are none.
func (m *dropMachine) cancel(c *cleanup, out []dropEffect) []dropEffect {
	if !slices.Contains(m.asked, c) && !slices.Contains(m.current, c) {
		return out // it has ended
	}
	is := func(o *cleanup) bool { return o == c }
	m.asked, m.current = slices.DeleteFunc(m.asked, is), slices.DeleteFunc(m.current, is)
	return append(out, dropEffect{kind: effectAnswer, cleanups: []*cleanup{c}, err: ErrCancelled})
}

// stop ends the decision. A fence and the removal of a unit that are under way are awaited, because the fence must be
// removed after them.
func (m *dropMachine) stop(out []dropEffect) []dropEffect {
	m.closed = true
	if waiting := slices.Concat(m.current, m.asked); len(waiting) > 0 {
		out = append(out, dropEffect{kind: effectAnswer, cleanups: waiting, err: errDropsClosed})
	}
	m.current, m.asked = nil, nil
	if m.fenced {
		return out
	}
	return m.idle(out)
}

// idle ends the decision without a successor.
func (m *dropMachine) idle(out []dropEffect) []dropEffect {
	m.phase, m.awaited, m.decision = dropIdle, 0, dropDecision{}
	return out
}

// gained schedules a check of gained ranges, and reports its result. One check is scheduled at a time: it sees all
// notices of repairs that arrived before it runs.
func (m *dropMachine) gained(ev *dropEvent, out []dropEffect) []dropEffect {
	if ev.kind == dropGained {
		if !m.checking && !m.closed {
			m.checking = true
			out = append(out, dropEffect{kind: effectCheck, after: gainedDelay})
		}
		return out
	}
	m.checking = false
	for _, g := range ev.repaired {
		if !m.closed {
			out = append(out, dropEffect{kind: effectRegain, keyspace: g.Keyspace, epoch: g.Changed})
		}
	}
	return out
}

// confirm is the first step of a decision.
func (m *dropMachine) confirm(out []dropEffect) []dropEffect {
	// Requests from before the confirmation are answered by this decision; later ones need a new confirmation.
	m.current, m.asked = append(m.current, m.asked...), nil
	return m.await(dropConfirming, dropEffect{kind: effectConfirm}, out)
}

// confirmed handles the list of ranges that this node does not hold by the confirmed metadata.
func (m *dropMachine) confirmed(ev *dropEvent, out []dropEffect) []dropEffect {
	m.decision = dropDecision{unclean: ev.unclean, epoch: ev.epoch, items: ev.items, former: ev.former,
		leftover: map[string]bool{}}
	switch {
	case !ev.member: // data of a former member are not dropped
		return m.end(nil, false, out)
	case m.unwanted():
		return m.end(nil, false, out)
	case ev.operations > 1: // the outcome of one may change the ranges that the other assigns to this node
		return m.end(fmt.Errorf("rebalance: %d operations change the ring", ev.operations), true, out)
	}
	m.decision.limit(m.current)
	return m.await(dropSearching, dropEffect{kind: effectSearch, items: m.decision.items}, out)
}

// unwanted reports whether another decision has dropped everything, or all requests were cancelled.
func (m *dropMachine) unwanted() bool { return m.decision.unclean == 0 && len(m.current) == 0 }

// searched handles the list of ranges with data.
func (m *dropMachine) searched(ev *dropEvent, out []dropEffect) []dropEffect {
	if ev.err != nil {
		return m.end(ev.err, true, out)
	}
	m.decision.items = ev.items
	return m.ask(out)
}

// fence is the step after the confirmations.
func (m *dropMachine) fence(out []dropEffect) []dropEffect {
	if m.unwanted() {
		return m.end(nil, false, out)
	}
	m.fenced = true
	return m.await(dropFencing, dropEffect{kind: effectFence, items: m.decision.items}, out)
}

// remove starts the removal of the ranges that this node still does not hold. The others stay.
func (m *dropMachine) remove(ev *dropEvent, out []dropEffect) []dropEffect {
	x := &m.decision
	x.partly = len(ev.items) != len(x.items)
	for _, item := range ev.items {
		for _, id := range item.tables {
			x.units = append(x.units, dropUnit{table: id, tokens: item.tokens})
			x.all++
		}
		// Paxos states follow the rows of their keyspace.
		if item.states {
			x.units = append(x.units, dropUnit{schema.PaxosTable, item.tokens, true, item.keyspace})
		}
	}
	return m.next(out)
}

// next removes the next unit. After a failure, the rest stays for the next decision.
func (m *dropMachine) next(out []dropEffect) []dropEffect {
	x := &m.decision
	if len(x.units) == 0 {
		return m.unfence(nil, out)
	}
	unit := x.units[0]
	x.units = x.units[1:]
	if !unit.states {
		out = append(out, dropEffect{kind: effectCount, cleanups: slices.Clone(m.current), done: x.done, all: x.all})
		x.done++
	}
	return m.await(dropRemoving, dropEffect{kind: effectDrop, unit: unit}, out)
}

// unfence admits requests again, after the removal or a failure. The decision is running until they are admitted: an
// effect of an ended decision could remove the fence of the next one.
func (m *dropMachine) unfence(failed error, out []dropEffect) []dropEffect {
	m.decision.failed = failed
	return m.await(dropUnfencing, dropEffect{kind: effectUnfence}, out)
}

// unfenced is the step after the fence was removed.
func (m *dropMachine) unfenced(out []dropEffect) []dropEffect {
	m.fenced = false
	switch {
	case m.closed:
		return m.idle(out)
	case m.decision.failed != nil:
		return m.end(m.decision.failed, true, out)
	}
	return m.report(out)
}

// report reports to the metadata log that the data are removed.
func (m *dropMachine) report(out []dropEffect) []dropEffect {
	x := &m.decision
	if x.partly {
		return m.end(errors.New("rebalance: the ring or a keyspace has changed since the decision"), true, out)
	}
	for _, name := range slices.Sorted(maps.Keys(x.former)) {
		if !x.leftover[name] {
			out = append(out, dropEffect{kind: effectSettle, keyspace: name, epoch: x.former[name].Epoch})
		}
	}
	if x.unclean == 0 {
		return m.end(x.left, false, out)
	}
	// Until the log has this, the node may not gain ranges. A failure repeats the decision, which then finds no data.
	return m.await(dropReporting, dropEffect{kind: effectClean, epoch: x.unclean}, out)
}

// end ends a decision. After a failure it is retried while this node is unclean.
func (m *dropMachine) end(err error, repeat bool, out []dropEffect) []dropEffect {
	again := repeat || len(m.asked) > 0 // requests in asked wait for the next decision
	// Failures are usual while replicas are down, so only some are logged.
	if m.failures++; err == nil {
		m.failures = 0
	}
	if again && m.failures%dropFailuresReported == 1 {
		out = append(out, dropEffect{kind: effectWarn, err: err})
	}
	if len(m.current) > 0 {
		out = append(out, dropEffect{kind: effectAnswer, cleanups: m.current, err: err})
	}
	m.current = nil
	out = m.idle(out)
	switch {
	case again:
		out = m.await(dropPausing, dropEffect{kind: effectRetry, after: dropRetry}, out)
	case err == nil:
		out = append(out, dropEffect{kind: effectReconcile})
	}
	return out
}

// leave records that an item is not dropped, because its replicas may lack data of a former replication.
func (x *dropDecision) leave(item *dropItem, reason string) {
	x.leftover[item.keyspace] = true
	x.left = fmt.Errorf("rebalance: range %s of keyspace %s was not dropped, because its replication was changed: %s",
		item.tokens, item.keyspace, reason)
}
