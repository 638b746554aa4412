package hints

import (
	"errors"
	"maps"
	"slices"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/ring"
)

// machine is the state machine of all hints of this node. step is a pure function of the state and the event: it
// neither sends, locks, waits nor calls back. Hints is its shell.
type machine struct {
	limits   Limits
	rand     env.Rand // jitter of replay; nil means none
	closed   bool
	loaded   bool   // the records of an earlier process are known
	refusing bool   // no new hints are stored
	bytes    int64  // of all nodes
	numbers  uint64 // of Arm and Wake
	stats    Stats
	nodes    map[ring.NodeID]*queue
}

// queue is the state of the hints for one node.
type queue struct {
	node     ring.NodeID
	sequence uint64 // of the next record
	// records counts the records on disk, and writing counts the records that are being written. A replay may remove a
	// record before its eventWritten, so that records is briefly negative.
	records    int
	writing    int
	bytes      int64         // in records, writing and buffer
	buffer     []byte        // a flush is scheduled while it has content
	stored     []func(error) // called when the buffer is written
	removed    uint64        // records removed in this process
	due        uint64        // number of the awaited event due; 0 means none
	delivery   *delivery     // under way
	reported   bool          // a failure was reported
	reportedAt time.Duration // monotonic
}

// step takes an event and appends its effects.
func (m *machine) step(ev *event, out []effect) []effect {
	switch ev.kind {
	case eventScanned:
		return m.scanned(ev, out)
	case eventHinted:
		return m.hinted(ev, out)
	case eventFlushed:
		return m.flush(m.nodes[ev.node], out)
	case eventWritten:
		return m.written(ev, out)
	case eventCameUp:
		return m.wake(m.nodes[ev.node], out)
	case eventDue:
		return m.due(ev, out)
	case eventRead:
		return m.read(ev, out)
	case eventAnswered:
		return m.answered(ev, out)
	case eventSifted:
		return m.sifted(ev, out)
	case eventRerouted:
		if ev.err != nil {
			return m.pause(ev.delivery, m.limits.Retry, out)
		}
		return append(out, effect{kind: effectRemove, delivery: ev.delivery})
	case eventRemoved:
		return m.removed(ev, out)
	case eventLeaving:
		return m.leaving(ev, out)
	case eventChecked:
		return m.checkHandOver(ev, out)
	case eventAccepted:
		m.refusing = !ev.accept
	case eventStopped:
		return m.stop(out)
	}
	return out
}

// scanned handles the result of the scan of records on disk. Until a scan has succeeded, no hint is accepted: it
// could overwrite a record, or get a mark that a truncation has used.
func (m *machine) scanned(ev *event, out []effect) []effect {
	switch {
	case m.closed:
		return out
	case ev.err != nil:
		out = append(out, effect{kind: effectReport, err: ev.err})
		return append(out, effect{kind: effectScan, after: m.limits.Retry})
	case !ev.known:
		return append(out, effect{kind: effectScan, after: m.limits.Retry})
	}
	// No hint was accepted before, so nothing is lost by replacing the map.
	m.nodes, m.loaded = ev.nodes, true
	for _, node := range slices.Sorted(maps.Keys(m.nodes)) {
		m.bytes += m.nodes[node].bytes
		out = m.schedule(m.nodes[node], m.limits.Retry, out)
	}
	return out
}

// hinted buffers a hint, unless a limit is reached.
func (m *machine) hinted(ev *event, out []effect) []effect {
	q, size := m.queue(ev.node), int64(len(ev.hint))
	full := q.bytes+size > m.limits.BytesPerNode || m.bytes+size > m.limits.Bytes
	if ev.hint == nil || full || m.closed || m.refusing || !m.loaded {
		m.stats.Lost++
		out = append(out, effect{kind: effectLose, mutations: ev.mutations})
		return append(out, effect{kind: effectAnswer, stored: callbacks(ev.stored), err: ErrLost})
	}
	if len(q.buffer) == 0 {
		out = append(out, effect{kind: effectArmFlush, node: q.node})
	}
	q.buffer = append(q.buffer, ev.hint...)
	q.bytes += size
	m.bytes += size
	m.stats.Stored++
	if ev.leaves { // it is stored nevertheless, for as long as this node is a member
		out = append(out, effect{kind: effectAnswer, stored: callbacks(ev.stored), err: ErrLost})
	} else if ev.stored != nil {
		q.stored = append(q.stored, ev.stored)
	}
	if len(q.buffer) >= m.limits.BufferBytes {
		out = append(out, effect{kind: effectFlush, node: q.node})
	}
	return out
}

// callbacks returns f, which may be nil, as a list.
func callbacks(f func(error)) []func(error) {
	if f == nil {
		return nil
	}
	return []func(error){f}
}

// queue returns the queue of a node.
func (m *machine) queue(node ring.NodeID) *queue {
	q := m.nodes[node]
	if q == nil {
		q = &queue{node: node}
		m.nodes[node] = q
	}
	return q
}

// flush converts the buffer to a record, which is then written.
func (m *machine) flush(q *queue, out []effect) []effect {
	if len(q.buffer) == 0 {
		return out
	}
	// The record takes over the buffer and the callbacks; the next hint begins a new buffer.
	r := &record{node: q.node, sequence: q.sequence, value: q.buffer, stored: q.stored}
	q.buffer, q.stored = nil, nil
	q.sequence++
	q.writing++
	return append(out, effect{kind: effectWrite, record: r})
}

// written handles the result of the write of a record.
func (m *machine) written(ev *event, out []effect) []effect {
	r := ev.record
	q := m.nodes[r.node]
	q.writing--
	if ev.err == nil {
		q.records++
		out = m.schedule(q, m.limits.Retry, out)
	} else {
		m.release(q, int64(len(r.value)))
		m.stats.Lost++
		out = m.report(q, "not stored", ev, out)
		out = append(out, effect{kind: effectLoseRecord, record: r})
	}
	return append(out, effect{kind: effectAnswer, stored: r.stored, err: ev.err})
}

// release subtracts bytes from a queue and from the total.
func (m *machine) release(q *queue, size int64) {
	q.bytes -= size
	m.bytes -= size
}

// report reports a failure of the disk, at most once in reportEvery for each node.
func (m *machine) report(q *queue, what string, ev *event, out []effect) []effect {
	if q.reported && ev.now-q.reportedAt < reportEvery {
		return out
	}
	q.reported, q.reportedAt = true, ev.now
	return append(out, effect{kind: effectReport, node: q.node, what: what, err: ev.err})
}

// reportEvery is the minimal interval between reports about one node: replay tries again every Limits.Retry.
const reportEvery = time.Minute

// schedule schedules the next replay of q, unless one is scheduled or running.
func (m *machine) schedule(q *queue, after time.Duration, out []effect) []effect {
	if q.delivery != nil || q.due != 0 || q.records <= 0 || m.closed {
		return out
	}
	// Jitter keeps the nodes of a ring from replaying to a node all at the same moment.
	if m.rand != nil && after >= m.limits.Retry {
		after += time.Duration(m.rand.Uint64() % uint64(m.limits.Retry/4+1))
	}
	m.numbers++
	q.due = m.numbers
	return append(out, effect{kind: effectArm, node: q.node, number: q.due, after: after})
}

// wake replays the hints of a node at once, unless a replay is running.
func (m *machine) wake(q *queue, out []effect) []effect {
	// The end of a delivery under way schedules the next one.
	if q == nil || q.delivery != nil || q.records <= 0 || m.closed {
		return out
	}
	out = m.disarm(q, out)
	m.numbers++
	q.due = m.numbers
	return append(out, effect{kind: effectWake, node: q.node, number: q.due})
}

// disarm invalidates the awaited eventDue, if there is one.
func (m *machine) disarm(q *queue, out []effect) []effect {
	if q.due == 0 {
		return out
	}
	q.due = 0
	return append(out, effect{kind: effectDisarm, node: q.node})
}

// due begins a delivery.
func (m *machine) due(ev *event, out []effect) []effect {
	q := m.nodes[ev.node]
	// The timer was disarmed after it had fired.
	if q == nil || q.due != ev.number || m.closed {
		return out
	}
	if q.due = 0; q.records <= 0 {
		return out
	}
	// Events of a delivery need no number, because a node has one delivery at a time.
	q.delivery = &delivery{node: q.node}
	return append(out, effect{kind: effectLoad, delivery: q.delivery})
}

// read handles the records of a delivery, and decides to which nodes they are sent.
func (m *machine) read(ev *event, out []effect) []effect {
	d := ev.delivery
	q := m.nodes[d.node]
	switch {
	case !ev.permitted: // it has no generation that would end
		q.delivery = nil
		return m.schedule(q, m.limits.Retry, out)
	case ev.err != nil:
		return m.pause(d, m.limits.Retry, m.report(q, "not read, replay is tried again", ev, out))
	case len(d.mutations) == 0: // all mutations are void
		return append(out, effect{kind: effectRemove, delivery: d})
	// Other nodes get the mutations: the node has left, this node leaves, or ranges are moving.
	case ev.former || ev.leaves || ev.alive && ev.moving:
		return append(out, effect{kind: effectSift, delivery: d})
	case !ev.alive:
		return m.pause(d, m.limits.Retry, out)
	}
	return append(out, effect{kind: effectSend, delivery: d})
}

// answered handles the answer of the node. A refusal by a node with the same topology means that other nodes are the
// replicas. After a refusal by a node with a later topology, the delivery is repeated when this node has that
// topology, too.
func (m *machine) answered(ev *event, out []effect) []effect {
	d := ev.delivery
	var refusal *coordinator.NotReplica
	switch {
	case errors.As(ev.err, &refusal) && refusal.Epoch <= ev.epoch:
		return append(out, effect{kind: effectSift, delivery: d})
	case ev.err != nil:
		return m.pause(d, m.limits.Retry, out)
	}
	m.stats.Replayed += uint64(len(d.mutations))
	return append(out, effect{kind: effectRemove, delivery: d})
}

// sifted sends the valid mutations of a delivery to other nodes. If no answer is awaited, their generation
// (rerouting) ends here; otherwise it ends with the last answer, which may arrive after the end of the delivery.
func (m *machine) sifted(ev *event, out []effect) []effect {
	d := ev.delivery
	switch {
	case len(d.mutations) == 0:
		out = append(out, effect{kind: effectSettle, generation: d.rerouting})
		return append(out, effect{kind: effectRemove, delivery: d})
	case ev.leaves:
		out = append(out, effect{kind: effectSettle, generation: d.rerouting})
		return append(out, effect{kind: effectTransfer, delivery: d})
	}
	return append(out, effect{kind: effectReroute, delivery: d})
}

// removed handles the result of a removal. The next delivery follows at the rate of Limits.BytesPerSecond.
func (m *machine) removed(ev *event, out []effect) []effect {
	d := ev.delivery
	q := m.nodes[d.node]
	for _, size := range d.sizes[:ev.count] {
		q.records--
		q.removed++
		m.release(q, size)
	}
	if ev.err != nil {
		return m.pause(d, m.limits.Retry, m.report(q, "delivered but not removed, they are sent again", ev, out))
	}
	m.stats.Expired += uint64(d.void)
	m.stats.Lost += uint64(d.damaged)
	out = append(out, effect{kind: effectLose, mutations: d.expired})
	return m.pause(d, time.Duration(d.size*int64(time.Second)/m.limits.BytesPerSecond), out)
}

// pause ends a delivery; the next one follows after a pause.
func (m *machine) pause(d *delivery, after time.Duration, out []effect) []effect {
	q := m.nodes[d.node]
	q.delivery = nil
	out = m.schedule(q, after, out)
	return append(out, effect{kind: effectSettle, generation: d.generation})
}

// leaving begins a handover.
func (m *machine) leaving(ev *event, out []effect) []effect {
	o := ev.handOver
	o.left = map[ring.NodeID]uint64{}
	for _, node := range slices.Sorted(maps.Keys(m.nodes)) {
		q := m.nodes[node]
		records := q.records + q.writing
		if len(q.buffer) > 0 {
			records++
		}
		// Removals are counted, not records, because new hints may arrive during the handover.
		o.left[node] = q.removed + uint64(records)
		out = m.wake(q, out)
	}
	return m.checkHandOver(ev, out)
}

// checkHandOver ends a handover if others have all hints, and otherwise checks again after a pause.
func (m *machine) checkHandOver(ev *event, out []effect) []effect {
	o := ev.handOver
	done := []func(error){o.done}
	if ev.stays {
		return append(out, effect{kind: effectAnswer, stored: done, err: errStays})
	}
	// Records that the scan has not found yet would be lost with this node.
	waits := !m.loaded
	for node, all := range o.left {
		q := m.nodes[node]
		waits = waits || q != nil && q.removed < all && (q.records+q.writing > 0 || len(q.buffer) > 0)
	}
	switch {
	case m.closed:
		return out
	case waits:
		return append(out, effect{kind: effectArmCheck, handOver: o})
	}
	return append(out, effect{kind: effectAnswer, stored: done})
}

// stop writes buffered hints and stops replay.
func (m *machine) stop(out []effect) []effect {
	m.closed = true
	for _, node := range slices.Sorted(maps.Keys(m.nodes)) {
		q := m.nodes[node]
		out = m.disarm(q, out)
		out = m.flush(q, out)
	}
	return out
}
