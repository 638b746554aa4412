package watermark

import (
	"errors"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/ring"
)

// EventKind is the kind of an Event.
type EventKind uint8

const (
	// Started is the first event.
	Started EventKind = iota
	// Paged is the answer of a node to Ask.
	Paged
	// Fetched is the answer to Fetch.
	Fetched
	// Reserved is the outcome of Reserve. It follows in the same critical section.
	Reserved
	// Ticked is the end of the time of Arm.
	Ticked
	// Resumed is the end of the time of Pause.
	Resumed
)

// Event is an input of a Machine.
type Event[E, Q any] struct {
	Kind EventKind
	Now  time.Duration // monotonic
	// Topology is the current topology, from which a new plan is derived.
	Topology *ring.Topology

	Node *Node[E] // Paged: the node of the Ask
	Page Page[E]  // Paged

	Body   Q      // Fetched: the Body of the Fetch
	Answer []byte // Fetched
	Bytes  int    // Reserved: the Bytes of the Reserve
	Err    error  // Paged, Fetched and Reserved
}

// EffectKind is the kind of an Effect.
type EffectKind uint8

const (
	// Ask requests the next page of Node, with the request in Body. Its event is Paged.
	Ask EffectKind = iota
	// Fetch requests what the sequence needs besides pages, by Body. Its event is Fetched.
	Fetch
	// Reserve makes the memory of the operation Bytes large. The Operation performs it before it unlocks, because
	// coordinator.Grow is not called concurrently or after the end. Its event is Reserved. A step has at most one.
	Reserve
	// Arm sets the timer. Its event is Ticked.
	Arm
	// Pause waits for a newer topology. Its event is Resumed.
	Pause
	// Finish ends the operation, with Err if it is not nil. No event has an effect after it.
	Finish
)

// Effect is an output of a Machine, which the Operation performs without the lock.
type Effect[E, Q any] struct {
	Kind  EffectKind
	Node  *Node[E] // Ask
	Epoch uint64   // Ask: of the topology of the plan
	Body  Q
	After time.Duration // Arm, Pause
	Bytes int           // Reserve
	Err   error         // Finish
}

// Progress is what a sequence can do next.
type Progress uint8

const (
	// NeedsPages means that the watermark must move.
	NeedsPages Progress = iota
	// NeedsAnswers means that the sequence waits for Fetched or Reserved, and needs no pages until then.
	NeedsAnswers
	// Complete means that the result is complete.
	Complete
)

// Sequence is the part of the machine that differs between operations. Like Machine.Step, its methods change the
// sequence and return effects; they neither send, lock, wait, nor call back. E is the type of an entry, and Q the
// type of the Body of effects.
type Sequence[E, Q any] interface {
	// Replan adds replica sets of the machine's new Topology to its plan, and completes that. The sequence continues
	// from the plan's mark.
	Replan() error
	// Advance moves the mark to the position that the plan has reached, takes the entries up to it, and appends effects
	// of the kinds Fetch and Reserve.
	Advance(out []Effect[E, Q]) (_ []Effect[E, Q], p Progress, err error)
	// Request returns the Body of an Ask for the page after from.
	Request(from Position) Q
	// Fetched handles an answer to Fetch.
	Fetched(body Q, answer []byte, err error) error
	// Memory returns the bytes that the operation uses including the arrived entries.
	Memory(arrived []E) int
	// NoMemory handles the failure of a Reserve that Advance requested. It returns an error if the operation cannot
	// continue.
	NoMemory(err error) error
	// Fetching returns the number of answers to Fetch that are outstanding.
	Fetching() int
	// Scanned records the number of entries that a node examined for a page, and for all its pages.
	Scanned(page, all int)
	// MayRecover reports whether failed nodes may answer another plan.
	MayRecover() bool
	// Failure returns the error of an operation that cannot continue; nil means that a partial result is returned.
	Failure() error
	// Conclude makes the result.
	Conclude()
	// Check stops the program if an invariant is broken.
	Check()
}

// Machine is the state machine of an operation. Step is a pure function of the state and the event. An Operation
// serializes the events, performs the effects, and gives the Machine to one goroutine at a time.
type Machine[E, Q any] struct {
	// Plan is the current plan, and Topology is the topology from which it is derived.
	Plan     Plan[E]
	Topology *ring.Topology
	Present  *ring.Topology // at the event
	Now      time.Duration  // of the event; monotonic, as Began and Deadline
	Began    time.Duration
	Deadline time.Duration
	// Bounded means that memory must be reserved; Held is the reserved memory.
	Bounded bool
	Held    int

	seq     Sequence[E, Q]
	o       Options
	plans   int // the number of the current plan: answers to Asks of earlier plans are ignored
	replans int
	pausing bool // until Resumed
	refused bool // a node of this plan answered coordinator.NotReplica
	over    bool // after Finish
	waits   bool // parked waits for Reserved
	// parked is a page whose memory is not reserved yet. waits is set only within a critical section.
	parked  Event[E, Q] // Paged
	checked Position    // the mark of the last check
}

// Reset prepares a machine for an operation of seq that begins at mark.
func (m *Machine[E, Q]) Reset(seq Sequence[E, Q], o Options, mark Position) {
	*m = Machine[E, Q]{seq: seq, o: o, checked: mark}
	m.Plan.SetMark(mark)
}

// NewPlan begins an empty plan for the current topology. Answers to the nodes of the previous plan are ignored.
func (m *Machine[E, Q]) NewPlan() {
	m.refused, m.Topology = false, m.Present
	m.NextPlan()
}

// NextPlan begins an empty plan for the topology of the previous one.
func (m *Machine[E, Q]) NextPlan() {
	m.plans++
	o := m.o
	o.Topology = m.Topology
	m.Plan.Reset(o, m.Plan.Mark())
	m.Plan.number = m.plans
}

// Step takes an event and appends its effects.
func (m *Machine[E, Q]) Step(ev *Event[E, Q], out []Effect[E, Q]) []Effect[E, Q] {
	if m.over {
		return out
	}
	m.Now, m.Present = ev.Now, ev.Topology
	// The timer runs once, so the events that end or start it set it again.
	armed := ev.Kind == Started || ev.Kind == Ticked
	switch ev.Kind {
	case Started:
		if err := m.seq.Replan(); err != nil {
			return m.finish(out, err)
		}
	case Paged:
		// A page of an earlier plan, whose entries were discarded.
		if ev.Node.plan != m.plans || m.pausing {
			return out
		}
		if errors.Is(ev.Err, env.ErrCanceled) {
			return m.finish(out, ev.Err)
		}
		// The page waits in parked until its memory is reserved, within the same critical section.
		if need := m.missing(ev); need > 0 {
			m.parked, m.waits = *ev, true
			return append(out, Effect[E, Q]{Kind: Reserve, Bytes: need})
		}
		m.take(ev)
	case Reserved:
		if err := m.reserved(ev); err != nil {
			return m.finish(out, err)
		}
	case Fetched:
		if err := m.seq.Fetched(ev.Body, ev.Answer, ev.Err); err != nil {
			return m.finish(out, err)
		}
	case Ticked:
		if m.Now >= m.Deadline {
			return m.finish(out, m.seq.Failure())
		}
		// Further nodes are queried in addition to late nodes.
		m.Plan.Speculate(m.Now)
	case Resumed:
		m.pausing = false
		if err := m.seq.Replan(); err != nil {
			return m.finish(out, err)
		}
	}
	if !m.pausing {
		out = m.advance(out)
	}
	if armed && !m.over {
		out = append(out, Effect[E, Q]{Kind: Arm, After: m.untilTick()})
	}
	return out
}

// missing returns the memory that must be reserved before a page is taken, or 0.
func (m *Machine[E, Q]) missing(ev *Event[E, Q]) int {
	if !m.Bounded || ev.Err != nil {
		return 0
	}
	if need := m.seq.Memory(ev.Page.Entries); need > m.Held {
		return need
	}
	return 0
}

// reserved handles the outcome of Reserve, and then the page that waited for it.
func (m *Machine[E, Q]) reserved(ev *Event[E, Q]) error {
	// Either a page waits for the memory, or Advance has requested it.
	page := m.waits
	m.waits = false
	switch {
	case ev.Err == nil:
		m.Held = ev.Bytes
	case page:
		return ev.Err
	default:
		return m.seq.NoMemory(ev.Err)
	}
	if page {
		m.take(&m.parked)
		m.parked = Event[E, Q]{}
	}
	return nil
}

// take adds a page, or the failure of a node, to the plan.
func (m *Machine[E, Q]) take(ev *Event[E, Q]) {
	if ev.Err != nil {
		var refusal *coordinator.NotReplica
		m.refused = m.refused || errors.As(ev.Err, &refusal)
	}
	m.Plan.Take(ev.Node, ev.Node.from, &ev.Page, ev.Err)
	if ev.Err == nil {
		m.seq.Scanned(ev.Page.Scanned, ev.Node.Scanned)
	}
}

// advance proceeds as far as possible without another event.
func (m *Machine[E, Q]) advance(out []Effect[E, Q]) []Effect[E, Q] {
	out, progress, err := m.seq.Advance(out)
	switch {
	case err != nil:
		return m.finish(out, err)
	case progress == Complete:
		return m.finish(out, nil)
	case progress == NeedsAnswers:
		return out
	}
	// ok is false if too many nodes have failed. Answers to Fetch may still complete the result.
	asked, ok := m.Plan.Needed()
	if !ok && m.seq.Fetching() == 0 {
		return m.giveUp(out)
	}
	SelfLast(asked, m.o.View.Self())
	for _, n := range asked {
		from := n.Position
		// Entries up to the mark are already in the result.
		if m.Plan.Compare(from, m.Plan.Mark()) < 0 {
			from = m.Plan.Mark()
		}
		n.from = from
		n.Sent(m.Now)
		out = append(out, Effect[E, Q]{
			Kind:  Ask,
			Node:  n,
			Epoch: m.Topology.Epoch(),
			Body:  m.seq.Request(from),
		})
	}
	return out
}

// giveUp is called when the nodes of the plan can no longer move the watermark. If another plan may succeed, the
// machine pauses before it; otherwise the operation ends.
func (m *Machine[E, Q]) giveUp(out []Effect[E, Q]) []Effect[E, Q] {
	// Another plan can succeed only if the conditions have changed.
	outdated := m.refused || m.seq.MayRecover() || m.Present.Moved() > m.Topology.Epoch()
	if !outdated || !m.o.Coordinator.MayReplan(m.replans+1) {
		return m.finish(out, m.seq.Failure())
	}
	m.pausing = true
	m.replans++
	m.o.Coordinator.Note(coordinator.EventReplan)
	return append(out, Effect[E, Q]{Kind: Pause, After: coordinator.ReplanPause << (m.replans - 1)})
}

// untilTick returns the time until the deadline, or until further nodes are queried because others are late.
func (m *Machine[E, Q]) untilTick() time.Duration {
	wait := m.Deadline - m.Now
	if after, ok := m.Plan.SpeculateAfter(); ok {
		wait = min(wait, after)
	}
	return max(wait, 0)
}

// finish ends the operation. Without an error, the sequence makes its result first.
func (m *Machine[E, Q]) finish(out []Effect[E, Q], err error) []Effect[E, Q] {
	if err == nil {
		m.seq.Conclude()
	}
	m.over = true
	return append(out, Effect[E, Q]{Kind: Finish, Err: err})
}

// Check stops the program if an invariant is broken:
//
//  1. The watermark does not move back (invariant 3 of package listing, 4 of package search).
//  2. No replica set needs more answers than it has members.
//  3. The operation waits for a page, an answer, or the end of a pause. Otherwise only its deadline would end it.
func (m *Machine[E, Q]) Check() {
	// After the end nothing is awaited, and a parked page is not part of the state yet.
	if m.over || m.waits {
		return
	}
	mark := m.Plan.Mark()
	if m.Plan.Compare(mark, m.checked) < 0 {
		invariant.Fail("the watermark moved back")
	}
	m.checked = mark
	for i := range m.Plan.quotas {
		q := &m.Plan.quotas[i]
		if q.need > len(q.nodes) {
			invariant.Fail("a replica set needs more answers than it has members")
		}
	}
	if !m.pausing && m.seq.Fetching() == 0 && !m.Plan.waiting() {
		invariant.Fail("an operation waits for no event but its deadline")
	}
	m.seq.Check()
}
