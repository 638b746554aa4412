package counters

import (
	"slices"
	"time"

	"cqld/coordinator"
)

// queue is the state machine of the updates of one partition at their leader. Updates run one group after the other,
// because each group reads the shard that the previous one wrote. Updates that arrive meanwhile wait, and are led
// together, with one read and one sync.
//
//	idle ─ arrived ─▶ leading ─ passed: none waits ─▶ idle, and removed from its stripe
//	                   ▲    │ passed: some wait
//	               due │    ▼
//	                  scheduled
type queue struct {
	stripe *stripe // whose lock guards the queue
	key    key

	state   queueState
	number  uint32 // of the awaited queueDue, if scheduled
	waiting []*ledUpdate
}

// queueState is the state of a queue.
type queueState uint8

const (
	queueIdle      queueState = iota // before the first update, and after the last
	queueLeading                     // a group may change the shard
	queueScheduled                   // a timer will begin the next group
)

// queueEventKind is the kind of a queueEvent.
type queueEventKind uint8

const (
	// queueArrived is an update of the partition.
	queueArrived queueEventKind = iota
	// queuePassed means that the next group may begin: the current group has written its sums, or has ended.
	queuePassed
	// queueDue follows queueSchedule.
	queueDue
	// queueFailed means that another event of the queue has panicked.
	queueFailed
)

// queueEvent is an input of a queue.
type queueEvent struct {
	kind   queueEventKind
	number uint32        // due
	limit  int           // arrived, due: of the updates of one group
	now    time.Duration // arrived, due; monotonic
	update *ledUpdate    // arrived
	err    error         // failed
}

// queueEffectKind is the kind of a queueEffect.
type queueEffectKind uint8

const (
	// queueLead begins a group of updates. The queue gets the event queuePassed from it, once.
	queueLead queueEffectKind = iota
	// queueAnswer answers updates with err. None of these updates was counted.
	queueAnswer
	// queueSchedule requests queueDue in another goroutine, because queuePassed may run on the committer's goroutine in
	// storage.
	queueSchedule
	// queueForget removes the queue from its stripe. It is performed with the lock, so that no update gets lost.
	queueForget
)

// queueEffect is an output of a queue.
type queueEffect struct {
	kind    queueEffectKind
	number  uint32       // schedule
	updates []*ledUpdate // lead, answer
	err     error        // answer
}

// queueEffects is the number of effects of a step that need no allocation.
const queueEffects = 2

// step takes an event and appends its effects. It neither locks, waits nor calls back.
func (q *queue) step(ev *queueEvent, out []queueEffect) []queueEffect {
	switch ev.kind {
	case queueArrived:
		if q.waiting = append(q.waiting, ev.update); q.state == queueIdle {
			return q.lead(ev, out)
		}
	case queuePassed:
		q.checkPassed()
		return q.pass(out)
	case queueDue:
		// The number of a timer before a failure is void.
		if q.state == queueScheduled && ev.number == q.number {
			return q.lead(ev, out)
		}
	case queueFailed:
		// A group in progress will call pass. Without one, no event would begin the next group.
		if q.state == queueScheduled {
			updates := q.waiting
			q.waiting = nil
			return q.pass(append(out, queueEffect{kind: queueAnswer, updates: updates, err: ev.err}))
		}
	}
	return out
}

// lead begins the next group. Updates whose requests have timed out are not counted.
func (q *queue) lead(ev *queueEvent, out []queueEffect) []queueEffect {
	updates := q.take(ev.limit)
	late := func(u *ledUpdate) bool { return u.deadline <= ev.now }
	if !slices.ContainsFunc(updates, late) { // almost always
		q.state = queueLeading
		return append(out, queueEffect{kind: queueLead, updates: updates})
	}
	var group, expired []*ledUpdate
	for _, u := range updates {
		if late(u) {
			expired = append(expired, u)
		} else {
			group = append(group, u)
		}
	}
	if len(group) > 0 {
		q.state = queueLeading
		out = append(out, queueEffect{kind: queueLead, updates: group})
	} else {
		out = q.pass(out)
	}
	// The error is not ErrNotSent, because the coordinator has stopped waiting and no other node may lead these
	// updates.
	return append(out, queueEffect{kind: queueAnswer, updates: expired, err: coordinator.ErrNoReply})
}

// take removes the first updates that have the same level, at most limit.
func (q *queue) take(limit int) []*ledUpdate {
	q.checkTake()
	n := 1
	for n < len(q.waiting) && n < limit && q.waiting[n].Consistency == q.waiting[0].Consistency {
		n++
	}
	// The capacity is cut off, so that the group and the queue append to different arrays.
	updates := q.waiting[:n:n]
	q.waiting = q.waiting[n:]
	return updates
}

// pass begins a group of the updates that have arrived meanwhile, or ends the queue.
func (q *queue) pass(out []queueEffect) []queueEffect {
	if len(q.waiting) == 0 {
		q.state = queueIdle
		return append(out, queueEffect{kind: queueForget})
	}
	q.state = queueScheduled
	q.number++
	return append(out, queueEffect{kind: queueSchedule, number: q.number})
}
