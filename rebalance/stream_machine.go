package rebalance

import (
	"errors"
	"slices"
	"strings"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/invariant"
	"cqld/messaging"
	"cqld/storage"
	"cqld/storage/failure"
)

// streamMachine is the state machine of all sessions that stream to this node. A step changes the state and returns
// effects; it neither locks, waits nor calls back, and reads snapshots of the schema and the ring.
//
//	waiting ──▶ load ──▶ request ──▶ write ── the last block ──▶ ended
//	                     ▲ ▲   └──▶ pause │
//	                     │ └──────────┘   │
//	                     └────────────────┘
type streamMachine struct {
	view   coordinator.View
	limits *Limits
	// sessions contains all sessions that have not ended, by ID, including those in waiting; active counts the
	// others.
	sessions map[string]*session
	waiting  []*session
	active   int
	numbers  uint64        // of effects
	now      time.Duration // of the present event
	closed   bool
}

// session is the state of a Session. It belongs to its machine, except file and timer.
type session struct {
	Session
	progress func(bytes int64)
	done     func(error)

	state SessionState
	// awaited is the number of the effect whose event continues the session; zero before its slot and after its end.
	awaited uint64
	bytes   int64 // of entries received, durable or not
	total   int64 // estimate of the source
	// since is the time of the source's last answer, or of the session's start (monotonic). Retries end RetryFor
	// after it.
	since time.Duration
	fails int
	err   error // of the last attempt
	begun bool  // the source has replied since Start
	// partial reports that there may be an incomplete file.
	partial bool
	// after is the position of the next block, and kept the position to which a failure returns.
	after  []byte
	kept   []byte // the durable value of after
	stored int64  // the durable value of bytes
	count  uint64 // of the table's truncations when the last block was requested

	// The lock of Streams guards file and timer. A write removes the file from the session while it uses it.
	file  *storage.Ingestion
	timer env.Timer
}

// step takes an event and appends its effects.
func (m *streamMachine) step(ev *streamEvent, out []streamEffect) []streamEffect {
	m.now = ev.now
	q := ev.session
	switch {
	case ev.kind == streamStarted:
		return m.start(q, out)
	case ev.kind == streamCancelled:
		if q = m.sessions[ev.id]; q == nil {
			return out
		}
		return m.end(q, ErrCancelled, out)
	case ev.kind == streamStopped:
		return m.stop(out)
	case q.state == SessionEnded:
		// The session has ended during the write, which left the file to this event.
		if ev.kind == streamWritten && !ev.committed {
			return append(out, streamEffect{kind: streamAbort, session: q})
		}
		return out
	case q.awaited != ev.number:
		return out
	}
	q.awaited = 0
	//exhaustive:ignore
	switch ev.kind {
	case streamLoaded:
		return m.loaded(q, ev, out)
	case streamAnswered:
		return m.answered(q, ev, out)
	case streamWritten:
		return m.written(q, ev, out)
	}
	return m.fetch(q, ev, out) // after a pause
}

// await appends an effect whose event continues a session.
func (m *streamMachine) await(q *session, e streamEffect, out []streamEffect) []streamEffect {
	m.numbers++
	e.session, e.number, q.awaited = q, m.numbers, m.numbers
	return append(out, e)
}

// start adds a session unless one with its ID is running: two would store their positions in one record.
func (m *streamMachine) start(q *session, out []streamEffect) []streamEffect {
	if m.closed || m.sessions[q.ID] != nil {
		err := failureOf(m.view, q.Session, errors.New("the session is already under way, or the node is stopping"))
		return append(out, streamEffect{kind: streamFinish, session: q, err: err})
	}
	q.state = SessionWaiting
	m.sessions[q.ID] = q
	m.waiting = append(m.waiting, q)
	return m.admit(out)
}

// admit starts waiting sessions up to SessionsMax.
func (m *streamMachine) admit(out []streamEffect) []streamEffect {
	for !m.closed && m.active < m.limits.SessionsMax && len(m.waiting) > 0 {
		q := m.waiting[0]
		m.waiting = slices.Delete(m.waiting, 0, 1)
		m.active++
		q.since, q.state = m.now, SessionFetching
		out = m.await(q, streamEffect{kind: streamLoad}, out)
	}
	return out
}

// stop ends all sessions.
func (m *streamMachine) stop(out []streamEffect) []streamEffect {
	m.closed = true
	var all []*session
	for _, q := range m.sessions {
		all = append(all, q)
	}
	slices.SortFunc(all, func(a, b *session) int { return strings.Compare(a.ID, b.ID) })
	for _, q := range all {
		out = m.end(q, ErrCancelled, out)
	}
	return out
}

// loaded handles the position that an earlier process stored.
func (m *streamMachine) loaded(q *session, ev *streamEvent, out []streamEffect) []streamEffect {
	if ev.err != nil {
		return m.end(q, ev.err, out)
	}
	p := &ev.position
	q.bytes, q.stored, q.after, q.kept = p.bytes, p.bytes, p.after, p.after
	if p.ended {
		return m.end(q, nil, out)
	}
	return m.fetch(q, ev, out)
}

// fetch requests the next block.
func (m *streamMachine) fetch(q *session, ev *streamEvent, out []streamEffect) []streamEffect {
	// Rows that were received before the truncation must not be stored after it.
	if q.begun && ev.count != q.count {
		out = m.restart(q, out)
	}
	// The count is read together with the list of truncations, so that a truncation that begins later changes it.
	q.state, q.count = SessionFetching, ev.count
	return m.await(q, streamEffect{kind: streamRequestBlock, first: !q.begun, position: q.after,
		required: ev.required}, out)
}

// answered handles the reply of the source.
func (m *streamMachine) answered(q *session, ev *streamEvent, out []streamEffect) []streamEffect {
	if ev.err != nil {
		return m.failed(q, ev.err, out)
	}
	// The block may have been read before the truncation. It is discarded, together with all earlier blocks that were
	// not ingested.
	if ev.count != q.count {
		return m.fetch(q, ev, m.restart(q, out))
	}
	q.state, q.partial = SessionWriting, true
	return m.await(q, streamEffect{kind: streamWrite, reply: ev.reply, count: q.count, bytes: q.bytes}, out)
}

// written handles the end of the write of a block.
func (m *streamMachine) written(q *session, ev *streamEvent, out []streamEffect) []streamEffect {
	var unknown *failure.UnknownTable
	switch {
	// The truncation began between the reply and the commit of the file.
	case errors.Is(ev.err, errStreamTruncated):
		return m.fetch(q, ev, m.restart(q, out))
	case errors.As(ev.err, &unknown):
		return m.end(q, nil, m.discard(q, out)) // the table was dropped
	case ev.err != nil:
		return m.failed(q, ev.err, out)
	}
	q.bytes += ev.added
	q.after = ev.reply.next // in memory only, unless the file is committed
	if ev.committed {
		q.kept, q.stored, q.partial = q.after, q.bytes, false
	}
	// The session has made progress, so the next failure is retried for the whole of RetryFor again.
	q.begun, q.fails, q.err, q.since = true, 0, nil, m.now
	q.total = max(q.total, ev.reply.total)
	out = append(out, streamEffect{kind: streamProgress, session: q, bytes: q.bytes})
	if ev.reply.next == nil {
		return m.end(q, nil, out)
	}
	return m.fetch(q, ev, out)
}

// restart returns to the beginning of the range, because the table was truncated on this node.
func (m *streamMachine) restart(q *session, out []streamEffect) []streamEffect {
	q.kept, q.stored, q.begun = nil, 0, false
	return m.discard(q, out)
}

// discard discards the incomplete file and returns to the durable position.
func (m *streamMachine) discard(q *session, out []streamEffect) []streamEffect {
	if q.partial {
		q.partial = false
		out = append(out, streamEffect{kind: streamAbort, session: q})
	}
	q.bytes, q.after = q.stored, q.kept
	return out
}

// failed retries after a pause, or ends the session when a retry cannot succeed. A source that left the ring does not
// return: the session ends at once, and its range is streamed from another node.
func (m *streamMachine) failed(q *session, err error, out []streamEffect) []streamEffect {
	// The movement chooses another source for the range.
	left := m.view.Topology().Node(q.Source) == nil
	lost := errors.Is(err, messaging.ErrTimeout) || errors.Is(err, messaging.ErrUnreachable) ||
		errors.Is(err, messaging.ErrOverloaded) || errors.Is(err, errStreamNotYet) || errors.Is(err, errStreamChecksum)
	var remote *messaging.RemoteError
	lost = lost || errors.As(err, &remote) && remote.Code == messaging.CodeOverloaded
	lost = lost && !left
	// An operator may free space; other failures of this node do not pass.
	full := errors.Is(err, failure.ErrDiskFull)
	// After a lost block, the file is kept and the same block is requested again.
	if !lost {
		out = m.discard(q, out)
	}
	q.err = err
	// A session that has made progress lately may fail for the whole of RetryFor again.
	if !lost && !full || m.now-q.since > m.limits.RetryFor {
		return m.end(q, err, out)
	}
	q.state = SessionRetrying
	// The shift is bounded, so that it cannot overflow.
	pause := min(m.limits.RetryMin<<min(q.fails, 16), m.limits.RetryMax)
	q.fails++
	return m.await(q, streamEffect{kind: streamPause, after: pause}, out)
}

// end ends a session, and starts one that waits. A running write keeps the file, and its event discards it.
func (m *streamMachine) end(q *session, err error, out []streamEffect) []streamEffect {
	invariant.Check(m.sessions[q.ID] == q, "rebalance: a session has the id of another")
	// A waiting session was not counted as active.
	if waiting := slices.Index(m.waiting, q); waiting >= 0 {
		m.waiting = slices.Delete(m.waiting, waiting, waiting+1)
	} else {
		invariant.Check(m.active > 0, "rebalance: more sessions have ended than begun")
		m.active--
	}
	if writing := q.state == SessionWriting && q.awaited != 0; !writing {
		out = m.discard(q, out)
	}
	q.state, q.awaited = SessionEnded, 0
	delete(m.sessions, q.ID)
	if err != nil {
		err = failureOf(m.view, q.Session, err)
	}
	return m.admit(append(out, streamEffect{kind: streamFinish, session: q, err: err}))
}
