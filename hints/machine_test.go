package hints

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/invariant/invarianttest"
	"cqld/ring"
	"cqld/row"
)

var errDisk = errors.New("disk")

// stepper executes steps of a machine, and writes their effects as text.
type stepper struct {
	m        machine
	records  []*record
	delivery *delivery
	number   uint64
}

// newStepper returns a machine without records on disk.
func newStepper() *stepper {
	limits := Limits{BytesPerNode: 100, Bytes: 150, BufferBytes: 50, BytesPerSecond: 10}
	s := &stepper{m: machine{limits: limits.withDefaults(), nodes: map[ring.NodeID]*queue{}}}
	s.step(event{kind: eventScanned, nodes: map[ring.NodeID]*queue{}, known: true})
	return s
}

func (s *stepper) step(ev event) string {
	s.m.checkEvent(&ev)
	out := s.m.step(&ev, nil)
	s.m.check(&ev)
	var text []string
	for i := range out {
		text = append(text, s.describe(&out[i]))
	}
	return strings.Join(text, ", ")
}

// describe formats an effect, and remembers the contents of its event.
func (s *stepper) describe(e *effect) string {
	switch e.kind {
	case effectScan:
		return fmt.Sprintf("scan after %v", e.after)
	case effectArm:
		s.number = e.number
		return fmt.Sprintf("arm %d %v", e.node, e.after)
	case effectDisarm:
		return fmt.Sprintf("disarm %d", e.node)
	case effectWake:
		s.number = e.number
		return fmt.Sprintf("wake %d", e.node)
	case effectArmFlush:
		return fmt.Sprintf("arm flush %d", e.node)
	case effectFlush:
		return fmt.Sprintf("flush %d", e.node)
	case effectWrite:
		s.records = append(s.records, e.record)
		return fmt.Sprintf("write %d/%d %s", e.record.node, e.record.sequence, e.record.value)
	case effectLoad:
		s.delivery = e.delivery
		return fmt.Sprintf("load %d", e.delivery.node)
	case effectSend:
		return "send"
	case effectSift:
		return "sift"
	case effectReroute:
		return "reroute"
	case effectTransfer:
		return "transfer"
	case effectRemove:
		return "remove"
	case effectSettle:
		return fmt.Sprintf("settle %d", e.generation)
	case effectAnswer:
		return fmt.Sprintf("answer %d %v", len(e.stored), e.err)
	case effectLose:
		return fmt.Sprintf("lose %d", len(e.mutations))
	case effectLoseRecord:
		return fmt.Sprintf("lose %s", e.record.value)
	case effectReport:
		return fmt.Sprintf("report %s", e.what)
	case effectArmCheck:
		return "arm check"
	}
	return "unknown"
}

func done(error) {}

// add buffers a hint for node 2.
func (s *stepper) add(hint string) string {
	mutations := make([]*row.Mutation, 1)
	return s.step(event{kind: eventHinted, node: 2, hint: []byte(hint), mutations: mutations, stored: done})
}

// write writes the buffer of node 2 as a record, with an outcome.
func (s *stepper) write(err error) string {
	s.step(event{kind: eventFlushed, node: 2})
	return s.step(event{kind: eventWritten, record: s.records[len(s.records)-1], err: err})
}

// loaded is the event after the records of the delivery were read: as many as given, with a mutation each.
func (s *stepper) loaded(records int, ev event) string {
	d := s.delivery
	for i := range records {
		d.keys = append(d.keys, recordKey(d.node, uint64(i)))
		d.sizes, d.size = append(d.sizes, 10), d.size+10
		d.mutations = append(d.mutations, &row.Mutation{})
	}
	d.generation, d.rerouting = 7, 8
	ev.kind, ev.delivery, ev.permitted = eventRead, d, true
	return s.step(ev)
}

// withRecord returns a stepper with one record for node 2.
func withRecord() *stepper {
	s := newStepper()
	s.add("a")
	s.write(nil)
	return s
}

// delivering returns a stepper with two records of 10 bytes for node 2, whose delivery is being read.
func delivering() *stepper {
	s := newStepper()
	for range 2 {
		s.add("0123456789")
		s.write(nil)
	}
	s.step(event{kind: eventCameUp, node: 2})
	s.step(event{kind: eventDue, node: 2, number: s.number})
	return s
}

// stepCase is the last of some steps, with its effects.
type stepCase struct {
	name, want string
	last       func() string
}

// TestSteps lists the effects of each event, in each state that matters.
func TestSteps(t *testing.T) {
	for _, c := range slices.Concat(bufferCases(), recordCases(), replayCases(), answerCases(), handOverCases()) {
		if got := c.last(); got != c.want {
			t.Errorf("%s: %q, want %q", c.name, got, c.want)
		}
	}
}

func bufferCases() []stepCase {
	lost := " " + ErrLost.Error()
	return []stepCase{
		{"the first hint", "arm flush 2", func() string { return newStepper().add("a") }},
		{"the second hint waits for the same flush", "", func() string {
			s := newStepper()
			s.add("a")
			return s.add("b")
		}},
		{"a full buffer", "arm flush 2, flush 2", func() string { return newStepper().add(strings.Repeat("a", 50)) }},
		{"more than a node may have", "lose 1, answer 1" + lost, func() string {
			s := newStepper()
			s.add(strings.Repeat("a", 60))
			return s.add(strings.Repeat("a", 41))
		}},
		{"a hint that is not allowed", "lose 0, answer 0" + lost,
			func() string { return newStepper().step(event{kind: eventHinted, node: 2}) }},
		{"a hint of a node that leaves", "arm flush 2, answer 1" + lost, func() string {
			ev := event{kind: eventHinted, node: 2, hint: []byte("a"), stored: done, leaves: true}
			return newStepper().step(ev)
		}},
		{"refused by an operator", "lose 1, answer 1" + lost, func() string {
			s := newStepper()
			s.step(event{kind: eventAccepted})
			return s.add("a")
		}},
	}
}

func recordCases() []stepCase {
	return []stepCase{
		{"a flush", "write 2/0 ab", func() string {
			s := newStepper()
			s.add("a")
			s.add("b")
			return s.step(event{kind: eventFlushed, node: 2})
		}},
		{"a flush of an empty buffer", "", func() string {
			s := newStepper()
			s.add("a")
			s.step(event{kind: eventFlushed, node: 2})
			return s.step(event{kind: eventFlushed, node: 2})
		}},
		{"a record is written", "arm 2 1s, answer 2 <nil>", func() string {
			s := newStepper()
			s.add("a")
			s.add("b")
			return s.write(nil)
		}},
		{"a record is not written", "report not stored, lose a, answer 1 disk", func() string {
			s := newStepper()
			s.add("a")
			return s.write(errDisk)
		}},
		{"the second failure in a minute", "lose b, answer 1 disk", func() string {
			s := newStepper()
			s.add("a")
			s.write(errDisk)
			s.add("b")
			return s.write(errDisk)
		}},
		{"stopped with a buffer", "disarm 2, write 2/1 b", func() string {
			s := withRecord()
			s.add("b")
			return s.step(event{kind: eventStopped})
		}},
		{"records of an earlier process", "arm 2 1s, arm 3 1s", func() string {
			return newStepper().step(event{kind: eventScanned, known: true, nodes: map[ring.NodeID]*queue{
				3: {node: 3, records: 1, bytes: 5, sequence: 9},
				2: {node: 2, records: 2, bytes: 6, sequence: 4},
			}})
		}},
		{"truncations are not known", "scan after 1s",
			func() string { return newStepper().step(event{kind: eventScanned}) }},
		{"the records cannot be scanned", "report , scan after 1s",
			func() string { return newStepper().step(event{kind: eventScanned, err: errDisk, known: true}) }},
	}
}

func replayCases() []stepCase {
	return []stepCase{
		{"the node comes up", "disarm 2, wake 2",
			func() string { return withRecord().step(event{kind: eventCameUp, node: 2}) }},
		{"a node without hints comes up", "",
			func() string { return newStepper().step(event{kind: eventCameUp, node: 2}) }},
		{"the node comes up during a delivery", "",
			func() string { return delivering().step(event{kind: eventCameUp, node: 2}) }},
		{"a timer that was stopped too late", "", func() string {
			s := withRecord()
			old := s.number
			s.step(event{kind: eventCameUp, node: 2})
			return s.step(event{kind: eventDue, node: 2, number: old})
		}},
		{"a timer after the stop", "", func() string {
			s := withRecord()
			s.step(event{kind: eventStopped})
			return s.step(event{kind: eventDue, node: 2, number: s.number})
		}},
		{"replay is not permitted", "arm 2 1s", func() string {
			s := delivering()
			return s.step(event{kind: eventRead, delivery: s.delivery})
		}},
		{"the disk cannot be read", "report not read, replay is tried again, arm 2 1s, settle 7",
			func() string { return delivering().loaded(0, event{alive: true, err: errDisk}) }},
		{"the node is dead", "arm 2 1s, settle 7", func() string { return delivering().loaded(2, event{}) }},
		{"the node is alive", "send", func() string { return delivering().loaded(2, event{alive: true}) }},
		{"all hints are void", "remove", func() string { return delivering().loaded(0, event{}) }},
		{"the node has left", "sift", func() string { return delivering().loaded(2, event{former: true}) }},
		{"ranges move", "sift", func() string { return delivering().loaded(2, event{alive: true, moving: true}) }},
		{"ranges move, and the node is dead", "arm 2 1s, settle 7",
			func() string { return delivering().loaded(2, event{moving: true}) }},
		{"this node leaves", "sift", func() string { return delivering().loaded(2, event{leaves: true}) }},
	}
}

func answerCases() []stepCase {
	answer := func(err error) string {
		s := delivering()
		s.loaded(2, event{alive: true})
		return s.step(event{kind: eventAnswered, delivery: s.delivery, err: err, epoch: 5})
	}
	remove := func(records, count int, err error) string {
		s := delivering()
		s.loaded(records, event{alive: true}) // each has 10 bytes; 10 bytes a second are delivered
		return s.step(event{kind: eventRemoved, delivery: s.delivery, count: count, err: err})
	}
	other := func(kind eventKind, leaves bool, err error) string {
		s := delivering()
		s.loaded(2, event{former: true})
		return s.step(event{kind: kind, delivery: s.delivery, leaves: leaves, err: err})
	}
	return []stepCase{
		{"acknowledged", "remove", func() string { return answer(nil) }},
		{"not acknowledged", "arm 2 1s, settle 7", func() string { return answer(errDisk) }},
		{"refused by a node with this ring", "sift",
			func() string { return answer(&coordinator.NotReplica{Epoch: 5}) }},
		{"refused by a node with a later ring", "arm 2 1s, settle 7",
			func() string { return answer(&coordinator.NotReplica{Epoch: 6}) }},
		{"removed", "lose 0, settle 7", func() string { return remove(2, 2, nil) }},
		{"removed, and there are more", "lose 0, arm 2 1s, settle 7", func() string { return remove(1, 1, nil) }},
		{"one of two removed", "report delivered but not removed, they are sent again, arm 2 1s, settle 7",
			func() string { return remove(2, 1, errDisk) }},
		{"rerouted", "reroute", func() string { return other(eventSifted, false, nil) }},
		{"transferred", "settle 8, transfer", func() string { return other(eventSifted, true, nil) }},
		{"other nodes have them", "remove", func() string { return other(eventRerouted, false, nil) }},
		{"other nodes failed", "arm 2 1s, settle 7", func() string { return other(eventRerouted, false, errDisk) }},
		{"void before they are rerouted", "settle 8, remove", func() string {
			s := delivering()
			s.loaded(2, event{former: true})
			s.delivery.mutations = nil
			return s.step(event{kind: eventSifted, delivery: s.delivery})
		}},
	}
}

func handOverCases() []stepCase {
	leave := func(s *stepper, stays bool) string {
		return s.step(event{kind: eventLeaving, handOver: &handOver{done: done}, stays: stays})
	}
	return []stepCase{
		{"no handover of a node that stays", "answer 1 " + errStays.Error(),
			func() string { return leave(newStepper(), true) }},
		{"a handover without hints", "answer 1 <nil>", func() string { return leave(newStepper(), false) }},
		{"a handover", "disarm 2, wake 2, arm check", func() string { return leave(withRecord(), false) }},
		{"a handover of a buffer", "arm check", func() string {
			s := newStepper()
			s.add("a")
			return leave(s, false)
		}},
	}
}

// TestHandOverWaitsForARecordThatIsBeingWritten begins a handover while a record is on its way to the disk: the caller
// of Add has no answer yet, and would take the hint for the only copy of a write at ANY.
func TestHandOverWaitsForARecordThatIsBeingWritten(t *testing.T) {
	s := newStepper()
	s.add("a")
	s.step(event{kind: eventFlushed, node: 2})
	o := &handOver{done: done}
	if got := s.step(event{kind: eventLeaving, handOver: o}); got != "arm check" {
		t.Fatalf("while the record is being written: %q", got)
	}
	s.step(event{kind: eventWritten, record: s.records[0]})
	if got := s.step(event{kind: eventChecked, handOver: o}); got != "arm check" {
		t.Fatalf("before the record is delivered: %q", got)
	}
	s.step(event{kind: eventDue, node: 2, number: s.number})
	s.loaded(1, event{leaves: true})
	s.delivery.sizes[0], s.delivery.size = 1, 1
	s.step(event{kind: eventRemoved, delivery: s.delivery, count: 1})
	if got := s.step(event{kind: eventChecked, handOver: o}); got != "answer 1 <nil>" {
		t.Errorf("after the delivery: %q", got)
	}
}

// TestReplayMayRemoveARecordBeforeItIsKnown removes a record that a replay found before the event that it was written.
func TestReplayMayRemoveARecordBeforeItIsKnown(t *testing.T) {
	s := newStepper()
	s.add("0123456789")
	s.write(nil)
	s.add("0123456789")
	s.step(event{kind: eventFlushed, node: 2})
	s.step(event{kind: eventDue, node: 2, number: s.number})
	s.loaded(2, event{alive: true})
	s.step(event{kind: eventRemoved, delivery: s.delivery, count: 2})
	s.step(event{kind: eventWritten, record: s.records[1]})
	if q := s.m.nodes[2]; q.records != 0 || q.bytes != 0 || q.due != 0 {
		t.Errorf("%d records and %d bytes are left; due %d", q.records, q.bytes, q.due)
	}
}

// TestInvariantsFire breaks each invariant, as a bug in a step or in the shell would.
func TestInvariantsFire(t *testing.T) {
	for name, breaks := range map[string]func(s *stepper){
		"bytes given back twice": func(s *stepper) {
			s.m.release(s.m.nodes[2], 30)
			s.step(event{kind: eventCameUp, node: 2})
		},
		"record without bytes": func(s *stepper) {
			s.add("abc")
			s.m.release(s.m.nodes[2], 21)
			s.step(event{kind: eventCameUp, node: 2})
		},
		"removed twice": func(s *stepper) {
			s.loaded(2, event{alive: true})
			s.step(event{kind: eventRemoved, delivery: s.delivery, count: 2})
			s.step(event{kind: eventRemoved, delivery: s.delivery, count: 2})
		},
		"more removed than sent": func(s *stepper) {
			s.loaded(1, event{alive: true})
			s.step(event{kind: eventRemoved, delivery: s.delivery, count: 2})
		},
		"removed before it was written": func(s *stepper) {
			s.loaded(3, event{alive: true})
			s.step(event{kind: eventRemoved, delivery: s.delivery, count: 3})
		},
		"answered twice": func(s *stepper) {
			s.loaded(2, event{alive: true})
			s.step(event{kind: eventAnswered, delivery: s.delivery, err: errDisk})
			s.step(event{kind: eventAnswered, delivery: s.delivery, err: errDisk})
		},
		"written twice": func(s *stepper) { s.step(event{kind: eventWritten, record: s.records[0]}) },
		"not delivered": func(s *stepper) {
			s.m.nodes[2].delivery = nil
			s.step(event{kind: eventFlushed, node: 2})
		},
		"two deliveries": func(s *stepper) {
			s.m.nodes[2].due = 5
			s.step(event{kind: eventCameUp, node: 2})
		},
		"callback without a hint": func(s *stepper) {
			s.m.nodes[2].stored = []func(error){done}
			s.step(event{kind: eventCameUp, node: 2})
		},
		"stored before the records are known": func(s *stepper) {
			s.m.loaded = false
			s.step(event{kind: eventCameUp, node: 2})
		},
	} {
		t.Run(name, func(t *testing.T) {
			s := delivering()
			invarianttest.Fires(t, func() { breaks(s) }, "")
		})
	}
}

// world performs the effects of a machine in random order, with a disk and nodes that fail at random.
type world struct {
	m              machine
	rng            *rand.Rand
	events         []event // that are outstanding
	onDisk         map[ring.NodeID][]*record
	hints, answers int
}

// fails returns an error now and then, as long as hints come.
func (w *world) fails() error {
	if w.rng.IntN(4) == 0 && w.hints < 100 {
		return errDisk
	}
	return nil
}

func (w *world) do(ev event) {
	ev.now = time.Duration(w.hints) * time.Second
	w.m.checkEvent(&ev)
	out := w.m.step(&ev, nil)
	w.m.check(&ev)
	for i := range out {
		w.perform(&out[i])
	}
}

// perform makes the event of an effect outstanding.
func (w *world) perform(e *effect) {
	ev := event{node: e.node, number: e.number, record: e.record, delivery: e.delivery}
	switch e.kind {
	case effectArm, effectWake:
		ev.kind = eventDue
	case effectArmFlush, effectFlush:
		ev.kind = eventFlushed
	case effectWrite:
		ev.kind, ev.err = eventWritten, w.fails()
		if ev.err == nil {
			w.onDisk[e.record.node] = append(w.onDisk[e.record.node], e.record)
		}
	case effectLoad:
		w.load(e.delivery)
		ev.kind, ev.permitted = eventRead, w.rng.IntN(5) > 0
		ev.alive, ev.former = w.rng.IntN(2) == 0, w.rng.IntN(9) == 0
	case effectSend:
		ev.kind, ev.err = eventAnswered, w.fails()
	case effectSift:
		ev.kind = eventSifted
	case effectReroute:
		ev.kind, ev.err = eventRerouted, w.fails()
	case effectRemove:
		node := e.delivery.node
		ev.kind, ev.count = eventRemoved, len(e.delivery.keys)
		w.onDisk[node] = slices.Clone(w.onDisk[node][ev.count:])
	case effectAnswer:
		w.answers += len(e.stored)
		return
	default:
		return
	}
	w.events = append(w.events, ev)
}

// load fills a delivery with the records on disk.
func (w *world) load(d *delivery) {
	for _, r := range w.onDisk[d.node] {
		d.keys = append(d.keys, recordKey(r.node, r.sequence))
		d.sizes, d.size = append(d.sizes, int64(len(r.value))), d.size+int64(len(r.value))
		d.mutations = append(d.mutations, &row.Mutation{})
	}
}

// next does something at random.
func (w *world) next() {
	node := ring.NodeID(1 + w.rng.IntN(3))
	switch more := w.hints < 100; {
	case more && w.rng.IntN(3) == 0:
		w.hints++
		w.do(event{kind: eventHinted, node: node, hint: []byte("0123456789"), stored: done})
	case more && w.rng.IntN(5) == 0:
		w.do(event{kind: eventCameUp, node: node})
	case len(w.events) > 0:
		i := w.rng.IntN(len(w.events))
		ev := w.events[i]
		w.events = slices.Delete(w.events, i, i+1)
		w.do(ev)
	}
}

// TestEventsInAnyOrder makes events at random: invariants hold after each, and at the end every hint has an answer, is
// delivered, and its bytes are given back.
func TestEventsInAnyOrder(t *testing.T) {
	limits := Limits{BytesPerNode: 500, Bytes: 700, BufferBytes: 20}
	for seed := range uint64(300) {
		w := &world{rng: rand.New(rand.NewPCG(seed, 1)), onDisk: map[ring.NodeID][]*record{}}
		w.m = machine{limits: limits.withDefaults(), nodes: map[ring.NodeID]*queue{}}
		w.do(event{kind: eventScanned, nodes: map[ring.NodeID]*queue{}, known: true})
		for w.hints < 100 || len(w.events) > 0 {
			w.next()
		}
		if w.answers != w.hints || w.m.bytes != 0 {
			t.Fatalf("seed %d: %d answers to %d hints, %d bytes left", seed, w.answers, w.hints, w.m.bytes)
		}
	}
}
