package rebalance

import (
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"cqld/messaging"
	"cqld/ring"
	"cqld/storage/failure"
)

// streamSteps executes steps of the sessions of node 1, which streams from node 2 with one slot, and writes their
// effects as text.
type streamSteps struct {
	m     streamMachine
	v     *view
	count uint64 // of truncations on this node
	now   time.Duration
	open  []streamEffect // whose event has not come yet
}

func newStreamSteps(t testing.TB, slots int) *streamSteps {
	catalog, _ := testCatalog(t)
	s := &streamSteps{now: time.Hour, v: &view{self: 1, schema: catalog, topology: ring.NewTopology(5,
		[]*ring.Node{{ID: 1, Datacenter: "dc1"}, {ID: 2, Datacenter: "dc1"}})}}
	limits := Limits{SessionsMax: slots}.withDefaults()
	s.m = streamMachine{view: s.v, limits: &limits, sessions: map[string]*session{}}
	return s
}

func (s *streamSteps) step(ev streamEvent) string {
	ev.now, ev.count = s.now, s.count
	out := s.m.step(&ev, nil)
	s.m.check()
	var text []string
	for i := range out {
		if out[i].number != 0 {
			s.open = append(s.open, out[i])
		}
		text = append(text, describeStream(&out[i]))
	}
	return strings.Join(text, ", ")
}

// describeStream returns an effect as text.
func describeStream(e *streamEffect) string {
	switch e.kind {
	case streamLoad:
		return "load " + e.session.ID
	case streamRequestBlock:
		first := ""
		if e.first {
			first = "first "
		}
		return strings.TrimSpace(fmt.Sprintf("request %s%s", first, e.position))
	case streamWrite:
		return "write"
	case streamAbort:
		return "abort"
	case streamPause:
		return fmt.Sprint("pause ", e.after)
	case streamProgress:
		return fmt.Sprint("progress ", e.bytes)
	case streamFinish:
		var failed *SessionError
		if err := e.err; errors.As(err, &failed) {
			return fmt.Sprint("finish ", e.session.ID, " ", failed.Err)
		}
		return "finish " + e.session.ID
	}
	return "unknown"
}

// start starts a session.
func (s *streamSteps) start(id string) string {
	return s.step(streamEvent{kind: streamStarted, session: &session{Session: Session{ID: id, Source: 2}}})
}

func (s *streamSteps) cancel(id string) string {
	return s.step(streamEvent{kind: streamCancelled, id: id})
}

// answer delivers the event of the last outstanding effect.
func (s *streamSteps) answer(ev streamEvent) string {
	e := s.open[len(s.open)-1]
	s.open = s.open[:len(s.open)-1]
	ev.session, ev.number, ev.kind = e.session, e.number, streamEventOf(e.kind)
	if e.kind == streamPause {
		s.now += e.after
	}
	if e.kind == streamWrite {
		ev.reply = e.reply
	}
	return s.step(ev)
}

// streamEventOf returns the event of an effect.
func streamEventOf(k streamEffectKind) streamEventKind {
	//exhaustive:ignore
	switch k {
	case streamLoad:
		return streamLoaded
	case streamRequestBlock:
		return streamAnswered
	case streamWrite:
		return streamWritten
	case streamPause:
		return streamResumed
	}
	panic("no event")
}

func (s *streamSteps) loaded(p streamPosition) string { return s.answer(streamEvent{position: p}) }
func (s *streamSteps) failed(err error) string        { return s.answer(streamEvent{err: err}) }

// block delivers a block, after which the range continues at next.
func (s *streamSteps) block(next string) string {
	r := &streamReply{total: 100}
	if next != "" {
		r.next = []byte(next)
	}
	return s.answer(streamEvent{reply: r})
}

// written delivers the end of a write of 10 bytes.
func (s *streamSteps) written(committed bool) string {
	return s.answer(streamEvent{added: 10, committed: committed})
}

// received starts session a and receives a block, which is in the incomplete file.
func (s *streamSteps) received() string {
	s.start("a")
	s.loaded(streamPosition{})
	s.block("k")
	return s.written(false)
}

// TestStepsOfStreams lists the effects of each event, in each state that matters.
func TestStepsOfStreams(t *testing.T) {
	for _, cases := range [][]streamCase{receivedCases(), lostCases(), truncatedCases(), streamEndCases()} {
		for _, c := range cases {
			t.Run(c.name, func(t *testing.T) {
				if got := c.last(newStreamSteps(t, 1)); got != c.want {
					t.Errorf("%q, want %q", got, c.want)
				}
			})
		}
	}
}

// streamCase is a sequence of steps, and the effects of the last one.
type streamCase struct {
	name, want string
	last       func(s *streamSteps) string
}

func receivedCases() []streamCase {
	return []streamCase{
		{"start", "load a", func(s *streamSteps) string { return s.start("a") }},
		{"no free slot", "", func(s *streamSteps) string {
			s.start("a")
			return s.start("b")
		}},
		{"the same session", "finish a the session is already under way, or the node is stopping",
			func(s *streamSteps) string {
				s.start("a")
				return s.start("a")
			}},
		{"from the beginning", "request first", func(s *streamSteps) string {
			s.start("a")
			return s.loaded(streamPosition{})
		}},
		{"from a position", "request first k", func(s *streamSteps) string {
			s.start("a")
			return s.loaded(streamPosition{bytes: 7, after: []byte("k")})
		}},
		{"complete before", "finish a", func(s *streamSteps) string {
			s.start("a")
			return s.loaded(streamPosition{ended: true})
		}},
		{"position not readable", "finish a disk", func(s *streamSteps) string {
			s.start("a")
			return s.failed(errDisk)
		}},
		{"a block", "write", func(s *streamSteps) string {
			s.start("a")
			s.loaded(streamPosition{})
			return s.block("k")
		}},
		{"the next block", "progress 10, request k", (*streamSteps).received},
		{"the last block", "progress 20, finish a", func(s *streamSteps) string {
			s.received()
			s.block("")
			return s.written(true)
		}},
		{"the next session", "progress 20, finish a, load b", func(s *streamSteps) string {
			s.start("a")
			s.start("b")
			s.loaded(streamPosition{})
			s.block("k")
			s.written(false)
			s.block("")
			return s.written(true)
		}},
	}
}

func lostCases() []streamCase {
	return []streamCase{
		{"a lost block", "pause 100ms", func(s *streamSteps) string {
			s.received()
			return s.failed(messaging.ErrTimeout)
		}},
		{"the same block again", "request k", func(s *streamSteps) string {
			s.received()
			s.failed(messaging.ErrTimeout)
			return s.answer(streamEvent{})
		}},
		{"lost twice", "pause 200ms", func(s *streamSteps) string {
			s.received()
			s.failed(messaging.ErrTimeout)
			s.answer(streamEvent{})
			return s.failed(errStreamChecksum)
		}},
		{"lost for too long", "abort, finish a " + messaging.ErrTimeout.Error(), func(s *streamSteps) string {
			s.received()
			s.now += 3 * time.Minute
			return s.failed(messaging.ErrTimeout)
		}},
		{"the source has left", "abort, finish a " + messaging.ErrTimeout.Error(), func(s *streamSteps) string {
			s.received()
			s.v.topology = ring.NewTopology(6, s.v.topology.Nodes()[:1])
			return s.failed(messaging.ErrTimeout)
		}},
		{"the source fails", "abort, finish a disk", func(s *streamSteps) string {
			s.received()
			return s.failed(errDisk)
		}},
		{"the write fails", "abort, finish a disk", func(s *streamSteps) string {
			s.received()
			s.block("l")
			return s.failed(errDisk)
		}},
		{"the disk is full", "abort, pause 100ms", func(s *streamSteps) string {
			s.received()
			s.block("l")
			return s.failed(failure.ErrDiskFull)
		}},
		{"from the stored position", "request j", func(s *streamSteps) string {
			s.start("a")
			s.loaded(streamPosition{})
			s.block("j")
			s.written(true)
			s.block("k")
			s.written(false)
			s.block("l")
			s.failed(failure.ErrDiskFull)
			return s.answer(streamEvent{})
		}},
		{"a late answer", "", func(s *streamSteps) string {
			s.start("a")
			s.loaded(streamPosition{})
			e := s.open[len(s.open)-1]
			s.block("k")
			return s.step(streamEvent{kind: streamAnswered, session: e.session, number: e.number})
		}},
	}
}

func truncatedCases() []streamCase {
	return []streamCase{
		{"truncated before the reply", "abort, request first", func(s *streamSteps) string {
			s.received()
			s.count++
			return s.block("l")
		}},
		{"truncated before the commit", "abort, request first", func(s *streamSteps) string {
			s.received()
			s.block("")
			s.count++
			return s.failed(errStreamTruncated)
		}},
		{"truncated before the next request", "progress 20, abort, request first", func(s *streamSteps) string {
			s.received()
			s.block("l")
			s.count++
			return s.written(false)
		}},
		{"truncated in a pause", "abort, request first", func(s *streamSteps) string {
			s.received()
			s.failed(messaging.ErrTimeout)
			s.count++
			return s.answer(streamEvent{})
		}},
		{"truncated after the last block", "progress 20, finish a", func(s *streamSteps) string {
			s.received()
			s.block("")
			s.count++
			return s.written(true)
		}},
		{"the table is dropped", "abort, finish a", func(s *streamSteps) string {
			s.received()
			s.block("l")
			return s.failed(&failure.UnknownTable{})
		}},
	}
}

func streamEndCases() []streamCase {
	const cancelled = "finish a rebalance: the stream was cancelled"
	return []streamCase{
		{"cancelled before its slot", "finish b rebalance: the stream was cancelled", func(s *streamSteps) string {
			s.start("a")
			s.start("b")
			return s.cancel("b")
		}},
		{"cancelled while it is loaded", cancelled + ", load b", func(s *streamSteps) string {
			s.start("a")
			s.start("b")
			return s.cancel("a")
		}},
		{"loaded after the end", "", func(s *streamSteps) string {
			s.start("a")
			s.cancel("a")
			return s.loaded(streamPosition{})
		}},
		{"cancelled during a request", "abort, " + cancelled, func(s *streamSteps) string {
			s.received()
			return s.cancel("a")
		}},
		{"answered after the end", "", func(s *streamSteps) string {
			s.received()
			s.cancel("a")
			return s.block("l")
		}},
		{"cancelled in a pause", "abort, " + cancelled, func(s *streamSteps) string {
			s.received()
			s.failed(messaging.ErrTimeout)
			return s.cancel("a")
		}},
		{"resumed after the end", "", func(s *streamSteps) string {
			s.received()
			s.failed(messaging.ErrTimeout)
			s.cancel("a")
			return s.answer(streamEvent{})
		}},
		{"cancelled during a write", cancelled, func(s *streamSteps) string {
			s.received()
			s.block("l")
			return s.cancel("a")
		}},
		{"written after the end", "abort", func(s *streamSteps) string {
			s.received()
			s.block("l")
			s.cancel("a")
			return s.written(false)
		}},
		{"committed after the end", "", func(s *streamSteps) string {
			s.received()
			s.block("")
			s.cancel("a")
			return s.written(true)
		}},
		{"cancelled after the end", "", func(s *streamSteps) string {
			s.received()
			s.cancel("a")
			return s.cancel("a")
		}},
		{"stop", "abort, " + cancelled + ", finish b rebalance: the stream was cancelled", func(s *streamSteps) string {
			s.received()
			s.start("b")
			return s.step(streamEvent{kind: streamStopped})
		}},
		{"start after the stop", "finish a the session is already under way, or the node is stopping",
			func(s *streamSteps) string {
				s.step(streamEvent{kind: streamStopped})
				return s.start("a")
			}},
	}
}
