package hints

import (
	"errors"
	"fmt"
	"time"

	"cqld/coordinator"
	"cqld/internal/wire"
	"cqld/ring"
	"cqld/row"
)

// deliver passes an event to the machine and performs the effects.
func (h *Hints) deliver(ev *event) {
	out := h.step(ev)
	for i := range out {
		h.perform(&out[i])
	}
}

// step executes a step of the machine, and sets the timers of replays.
func (h *Hints) step(ev *event) []effect {
	ev.now = h.clock.Monotonic()
	h.mu.Lock()
	defer h.mu.Unlock()
	m := &h.mu.machine
	m.checkEvent(ev)
	out := m.step(ev, nil)
	m.check(ev)
	for i := range out {
		//exhaustive:ignore
		switch e := &out[i]; e.kind {
		case effectArm:
			// The timer is set under the lock, so that a Disarm of a later step finds it.
			h.mu.timers[e.node] = h.clock.After(e.after, h.dueLater(e.node, e.number))
		case effectDisarm:
			if timer := h.mu.timers[e.node]; timer != nil {
				timer.Stop() // if it has fired, the number of its event is void
			}
		}
	}
	return out
}

// dueLater returns a function that delivers eventDue in a goroutine that may wait for the disk.
func (h *Hints) dueLater(node ring.NodeID, number uint64) func() {
	return func() { h.run(func() { h.deliver(&event{kind: eventDue, node: node, number: number}) }) }
}

// perform performs an effect without the lock.
func (h *Hints) perform(e *effect) {
	r, d, o := e.record, e.delivery, e.handOver
	//exhaustive:enforce
	switch e.kind {
	case effectArm, effectDisarm: // step has set or stopped the timer
	case effectScan:
		h.clock.After(e.after, func() { h.run(h.load) })
	case effectWake:
		h.dueLater(e.node, e.number)()
	case effectArmFlush:
		h.clock.After(h.limits.Flush, h.flushLater(e.node))
	case effectFlush:
		h.flushLater(e.node)()
	case effectWrite:
		h.write(r)
	case effectLoad:
		h.read(d)
	case effectSend:
		h.send(d)
	case effectSift:
		h.sift(d)
	case effectReroute:
		h.reroute(d)
	case effectTransfer:
		h.transfer(d)
	case effectRemove:
		h.run(func() { h.remove(d) })
	case effectSettle:
		h.c.EndSending(e.generation)
	case effectAnswer:
		for _, f := range e.stored {
			f(e.err)
		}
	case effectLose:
		for _, m := range e.mutations {
			h.lostOne(m)
		}
	case effectLoseRecord:
		h.lostRecord(r.value)
	case effectReport:
		h.report(e)
	case effectArmCheck:
		h.clock.After(handOverRetry, func() { h.run(func() { h.checkHandOver(o) }) })
	}
}

// flushLater returns a function that delivers eventFlushed in a goroutine that may wait for the disk.
func (h *Hints) flushLater(node ring.NodeID) func() {
	return func() { h.run(func() { h.deliver(&event{kind: eventFlushed, node: node}) }) }
}

// write writes a record and syncs it.
func (h *Hints) write(r *record) {
	err := h.store.SetLocal(recordKey(r.node, r.sequence), r.value, true)
	h.deliver(&event{kind: eventWritten, record: r, err: err})
}

// lostOne reports a mutation that will not be delivered to OnLost.
func (h *Hints) lostOne(m *row.Mutation) {
	if f := h.onLost.Load(); f != nil {
		(*f)(m.Table, m.Key.Token)
	}
}

// lostRecord reports all mutations of a record.
func (h *Hints) lostRecord(value []byte) {
	for c := wire.NewCursor(value); c.Len() > 0 && c.Err() == nil; {
		if e := consumeEntry(&c); c.Err() == nil {
			h.lostOne(e.mutation)
		}
	}
}

// report reports a failure of the disk.
func (h *Hints) report(e *effect) {
	if e.what == "" {
		h.onError(e.err)
		return
	}
	h.onError(fmt.Errorf("hints: hints for node %s are %s: %w", h.view.Topology().NameOf(e.node), e.what, e.err))
}

// read begins the generation of a delivery, unless hints may not be replayed now, and reads its records.
func (h *Hints) read(d *delivery) {
	ev := &event{kind: eventRead, delivery: d, permitted: h.c.MayReplay()}
	if ev.permitted {
		d.generation = h.c.BeginSending()
		ev.err = h.readRecords(d)
		ev.alive, ev.former, ev.moving, ev.leaves = h.view.Alive(d.node), h.former(d.node), h.moving(), h.leaves()
	}
	h.deliver(ev)
}

// errEnough ends a scan.
var errEnough = errors.New("enough")

// readRecords reads the oldest records of a node, about Limits.BufferBytes, without void mutations.
func (h *Hints) readRecords(d *delivery) error {
	now := h.clock.Now()
	start := wire.AppendUint64([]byte(prefix), uint64(d.node))
	err := h.store.ScanLocal(start, func(key, value []byte) error {
		// At least one record is read, however large it is.
		if d.size > 0 && d.size+int64(len(value)) > int64(h.limits.BufferBytes) {
			return errEnough
		}
		d.keys = append(d.keys, append([]byte(nil), key...))
		d.sizes = append(d.sizes, int64(len(value)))
		d.size += int64(len(value))
		// The value is copied, because the mutations point into it and are sent after the scan.
		c := wire.NewCursor(append([]byte(nil), value...))
		for c.Len() > 0 {
			h.readHint(d, &c, now)
		}
		return nil
	})
	if errors.Is(err, errEnough) {
		err = nil
	}
	return err
}

// readHint reads one mutation of a record.
func (h *Hints) readHint(d *delivery, c *wire.Cursor, now time.Time) {
	catalog := h.view.Schema()
	e := consumeEntry(c)
	m := e.mutation
	table := catalog.TableByStorage(m.Table)
	switch {
	case c.Err() != nil: // damaged; the cursor is at its end
		d.damaged++
	// Expired mutations are reported as lost: the replica may still lack them.
	case e.expired(table, now):
		d.void++
		d.expired = append(d.expired, m)
	case catalog.Dropped(m.Table) || h.c.Void(m.Table, e.mark):
		d.void++
	default:
		d.mutations, d.marks = append(d.mutations, m), append(d.marks, e.mark)
		d.created = append(d.created, h.madeAt(&e, table, now))
	}
}

// former reports whether a node has left the ring, according to this node's topology.
func (h *Hints) former(node ring.NodeID) bool {
	t := h.view.Topology()
	return len(t.Nodes()) > 0 && t.Node(node) == nil
}

// moving reports whether ranges move. A node that gains a range may have compared its data with the hint's node
// already: it needs the hint, too.
func (h *Hints) moving() bool { return len(h.view.Topology().Operations()) > 0 }

// send sends a delivery to its node.
func (h *Hints) send(d *delivery) {
	done := func(err error) {
		h.deliver(&event{kind: eventAnswered, delivery: d, err: err, epoch: h.view.Topology().Epoch()})
	}
	replica := h.replicas.Replica(d.node)
	// Only a Remote can send with the verb of hints. Hints for this node itself are applied directly.
	remote, ok := replica.(coordinator.Remote)
	if !ok {
		replica.Apply(h.view.Topology().Epoch(), d.mutations, deliveryTimeout, done)
		return
	}
	request := remote.AppendMutations(nil, h.view.Topology().Epoch(), d.mutations)
	remote.ApplyEncoded(coordinator.ForHint, request, deliveryTimeout, done)
}

// deliveryTimeout bounds a delivery. No client waits for it.
const deliveryTimeout = 10 * time.Second

// sift removes the mutations of a delivery that a truncation has made void since they were read. It begins a second
// generation, which ends with the last answer to reroute; the delivery may end before.
func (h *Hints) sift(d *delivery) {
	d.rerouting, d.since = h.c.BeginSending(), h.clock.Monotonic()
	valid, created := d.mutations[:0:0], d.created[:0:0]
	for i, m := range d.mutations {
		if !h.c.Void(m.Table, d.marks[i]) {
			valid, created = append(valid, m), append(created, d.created[i])
		}
	}
	d.mutations, d.created = valid, created
	h.deliver(&event{kind: eventSifted, delivery: d, leaves: h.leaves()})
}

// reroute writes a delivery to the current replicas, because its node is no longer a replica of all of it, or because
// other nodes are becoming replicas.
func (h *Hints) reroute(d *delivery) {
	parts, generation := h.byAge(d), d.rerouting
	answered := gather(len(parts), func(err error) {
		h.deliver(&event{kind: eventRerouted, delivery: d, err: err})
	})
	// Settled may be called after the delivery has ended.
	settled := gather(len(parts), func(error) { h.c.EndSending(generation) })
	for _, p := range parts {
		h.c.Write(&coordinator.WriteRequest{
			Mutations:   p.mutations,
			Consistency: ring.One,
			Type:        coordinator.WriteSimple,
			Timeout:     deliveryTimeout,
			Since:       d.since,
			Created:     p.created,
			Settled:     func(coordinator.Settlement) { settled(nil) },
		}, answered)
	}
}

// remove removes the records of a delivery. The removal needs no sync: a hint may be delivered twice.
func (h *Hints) remove(d *delivery) {
	ev := &event{kind: eventRemoved, delivery: d}
	for _, k := range d.keys {
		// The records before this one are removed; ev.count is their number.
		if ev.err = h.store.DeleteLocal(k, false); ev.err != nil {
			break
		}
		ev.count++
	}
	h.deliver(ev)
}
