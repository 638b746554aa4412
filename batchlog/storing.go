package batchlog

import (
	"errors"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant"
	"cqld/ring"
)

// step takes an event and appends its effects. It neither sends, locks, waits nor calls back.
func (s *storing) step(ev storeEvent, out []storeEffect) []storeEffect {
	// Counted even when the operation is over, because a handover answers only after its last request.
	if ev.kind == storeAnswered {
		if s.open--; s.open == 0 && s.settled {
			s.settled = false
			out = append(out, storeEffect{kind: effectAnswer, err: s.outcome})
		}
		return out
	}
	if s.over {
		return out
	}
	switch ev.kind {
	case storeBegun:
		// The timer is armed first, so that it is set before an answer can come.
		return s.ask(ev.now, s.arm(ev.now, out))
	case storeKept:
		h := ev.holder
		switch {
		// An earlier request to the same holder was answered after all.
		case h.state == holderHas:
			return out
		case ev.err == nil:
			h.state = holderHas
		default:
			h.err, h.state = ev.err, holderRefused
			if mayRetry(ev.err) {
				h.state = holderSilent
			}
			// Only ErrNotSent proves that the holder does not have the batch.
			h.uncertain = h.uncertain || !errors.Is(ev.err, coordinator.ErrNotSent)
		}
	case storeTicked:
		switch {
		// A timeout, because a holder may apply the batch later.
		case ev.now >= s.deadline && s.uncertain():
			return s.fail(out)
		case ev.now >= s.deadline:
			// No candidate has been sent the batch, or all have refused it for certain.
			return s.refuse(nil, out)
		}
		s.replaceLate(ev.now)
		out = s.arm(ev.now, out)
	case storeFailed:
		return s.end(ev.err, out)
	case storeAnswered:
	}
	return s.proceed(ev.now, out)
}

// replaceLate marks holders that are late, so that ask contacts other candidates. If no other candidate is left, silent
// holders may be contacted again.
func (s *storing) replaceLate(now time.Duration) {
	spare := false
	for _, h := range s.candidates {
		late := h.state == holderPending && (now-h.requestedAt >= s.l.limits.Spare || !s.alive(h.node))
		// The answer of a late holder still counts. Only one more candidate is contacted in its place.
		h.spared = h.spared || late
		spare = spare || h.state == holderSpare && s.alive(h.node)
	}
	// If no other candidate is left, a node that did not answer is contacted again.
	for _, h := range s.candidates {
		if h.state == holderSilent && !spare && s.alive(h.node) {
			h.state, h.spared = holderSpare, false
		}
	}
}

// arm appends the time of the next tick.
func (s *storing) arm(now time.Duration, out []storeEffect) []storeEffect {
	return append(out, storeEffect{kind: effectArm, after: max(min(s.deadline-now, s.l.limits.Spare), 0)})
}

// ask marks candidates as asked: as many as are needed if all candidates that are not late answer.
func (s *storing) ask(now time.Duration, out []storeEffect) []storeEffect {
	// Late holders are not counted, so other candidates are contacted too.
	missing := s.need
	for _, h := range s.candidates {
		if h.state == holderHas || h.state == holderPending && !h.spared {
			missing--
		}
	}
	for _, h := range s.candidates {
		// Candidates are in order of preference.
		if missing > 0 && h.state == holderSpare && s.alive(h.node) {
			h.state, h.requestedAt = holderPending, now
			s.open++
			out = append(out, storeEffect{kind: effectKeep, holder: h, body: s.encoded})
			missing--
		}
	}
	return out
}

// alive reports whether a node may be asked. This node is always alive to itself.
func (s *storing) alive(node ring.NodeID) bool {
	return node == s.l.view.Self() || s.l.view.Alive(node)
}

// mayRetry reports whether a holder that failed with err may be asked again: it was unreachable, or its answer was
// lost. An overloaded or failing holder is not contacted again.
func mayRetry(err error) bool {
	var overloaded *coordinator.Overloaded
	return errors.Is(err, coordinator.ErrNoReply) || errors.Is(err, coordinator.ErrNotSent) &&
		!errors.As(err, &overloaded)
}

// proceed decides on the states of the candidates, and asks the next candidates.
func (s *storing) proceed(now time.Duration, out []storeEffect) []storeEffect {
	has, open, blocked := 0, 0, 0
	var refusal error
	for _, h := range s.candidates {
		alive := s.alive(h.node)
		switch {
		case h.state == holderHas:
			has++
		case h.state == holderRefused:
			refusal = h.err
			if alive {
				blocked++
			}
		// A spare, pending or silent candidate may still store the batch.
		case alive:
			open++
		}
	}
	// The order matters: enough holders decide before a refusal does.
	switch {
	case has < s.need && (has == 0 || open+blocked > 0): // not enough; one suffices if no other candidate is alive
		switch {
		case open > 0:
			return s.ask(now, out)
		case s.uncertain():
			return s.fail(out)
		}
		return s.refuse(refusal, out)
	case s.handed:
		return s.end(nil, out)
	}
	invariant.Check(has > 0, "a batch is written that no node has")
	for _, h := range s.candidates {
		// Holders that may receive the batch late must remove it, too.
		if h.mayHave() {
			s.holders = append(s.holders, h.node)
		}
	}
	s.over, s.encoded = true, nil
	return append(out, storeEffect{kind: effectEnd}, storeEffect{kind: effectWrite})
}

// uncertain reports whether a candidate has the batch, or may have it.
func (s *storing) uncertain() bool { return slices.ContainsFunc(s.candidates, (*holder).mayHave) }

func (h *holder) mayHave() bool {
	return h.uncertain || h.state == holderHas || h.state == holderPending
}

// refuse ends the operation when certainly no node stores the batch.
func (s *storing) refuse(err error, out []storeEffect) []storeEffect {
	var overloaded *coordinator.Overloaded
	// Overloaded is passed on unchanged, because the client may retry later. Other refusals become Unavailable.
	if !errors.As(err, &overloaded) {
		s.l.c.Note(coordinator.EventUnavailable)
		err = &coordinator.Unavailable{Consistency: ring.One, Required: 1}
	}
	return s.end(err, out)
}

// fail ends the operation with a timeout: too few nodes store the batch, but those that do will apply it.
func (s *storing) fail(out []storeEffect) []storeEffect {
	s.l.c.Note(coordinator.EventWriteTimeout)
	// The level of the error shows how many holders were required.
	level := ring.Two
	if s.need == 1 {
		level = ring.One
	}
	// Only certain copies count, as in the error of a write.
	received := 0
	for _, h := range s.candidates {
		if h.state == holderHas {
			received++
		}
	}
	return s.end(&coordinator.WriteTimeout{
		Consistency: level,
		Received:    received,
		BlockFor:    s.need,
		Type:        coordinator.WriteBatchLog,
	}, out)
}

// end answers the client.
func (s *storing) end(err error, out []storeEffect) []storeEffect {
	s.over, s.encoded = true, nil
	out = append(out, storeEffect{kind: effectEnd})
	// The caller of a handover calls EndSending on the answer, so no request may be outstanding then.
	if s.handed && s.open > 0 {
		s.settled, s.outcome = true, err
		return out
	}
	return append(out, storeEffect{kind: effectAnswer, err: err})
}

// check stops the program if an invariant is broken:
//
//  1. No more holders are needed than there are candidates.
//  2. Each pending holder has a request without an answer.
//
// proceed checks that a batch is written only after a node has it on disk.
func (s *storing) check() {
	if s.over {
		return
	}
	// open may be larger: a request ends with storeAnswered, which follows storeKept.
	pending := 0
	for _, h := range s.candidates {
		if h.state == holderPending {
			pending++
		}
	}
	if s.need > len(s.candidates) {
		invariant.Fail("a batch needs more holders than there are candidates")
	}
	if pending > s.open {
		invariant.Fail("a holder of a batch is pending without a request")
	}
}
