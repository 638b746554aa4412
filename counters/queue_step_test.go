package counters

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/row"
)

// newLedUpdate returns an update of a partition.
func newLedUpdate(partition string, level ring.Consistency) *ledUpdate {
	m := &row.Mutation{}
	m.Reset(1, row.NewPartitionKey([]byte(partition)))
	return &ledUpdate{Update: Update{Mutation: m, Consistency: level}, deadline: time.Second}
}

// newQueue returns the queue of a partition in a state, with waiting updates.
func newQueue(state queueState, waiting ...*ledUpdate) *queue {
	s := &stripe{busy: map[key]*queue{}}
	q := &queue{stripe: s, key: key{1, "a"}, state: state, waiting: waiting}
	if state != queueIdle {
		s.busy[q.key] = q
	}
	return q
}

// play delivers an event as the shell does.
func (q *queue) play(ev queueEvent) []queueEffect {
	ev.limit = 2
	if ev.kind == queueArrived && q.state == queueIdle {
		q.stripe.busy[q.key] = q
	}
	return q.stepLocked(&ev, nil)
}

// TestStepsOfAQueue checks the effects of each event. "adds 7 one" is the arrival of update 7 at a level; "due 1 at 2s"
// is the timer with number 1. A group has two updates at most. The partition stays busy while a group may change its
// shard: a second group would read the sum that the first one changes.
func TestStepsOfAQueue(t *testing.T) {
	for name, lines := range map[string]string{
		"one": "adds 1 one -> lead 1\npassed -> forget\nadds 2 one -> lead 2",
		"more": "adds 1 one -> lead 1\nadds 2 one ->\nadds 3 one ->\nadds 4 one ->\npassed -> schedule 1\n" +
			"due 1 -> lead 2 3\npassed -> schedule 2\ndue 2 -> lead 4\npassed -> forget",
		"levels": "adds 1 one -> lead 1\nadds 2 one ->\nadds 3 two ->\nadds 4 one ->\npassed -> schedule 1\n" +
			"due 1 -> lead 2\npassed -> schedule 2\ndue 2 -> lead 3\npassed -> schedule 3\ndue 3 -> lead 4",
		"arrival while scheduled": "adds 1 one -> lead 1\nadds 2 one ->\npassed -> schedule 1\nadds 3 one ->\n" +
			"due 1 -> lead 2 3",
		"a timer twice": "adds 1 one -> lead 1\nadds 2 one ->\npassed -> schedule 1\ndue 1 -> lead 2\ndue 1 ->\n" +
			"adds 3 one ->\npassed -> schedule 2\ndue 1 ->\ndue 2 -> lead 3",
		"timed out": "adds 1 one -> lead 1\nadds 2 one ->\nadds 3 long ->\npassed -> schedule 1\n" +
			"due 1 at 2s -> lead 3, no reply 2",
		"all timed out": "adds 1 one -> lead 1\nadds 2 one ->\nadds 3 one ->\npassed -> schedule 1\n" +
			"due 1 at 2s -> forget, no reply 2 3",
		"timed out, and more": "adds 1 one -> lead 1\nadds 2 one ->\nadds 3 one ->\nadds 4 one ->\n" +
			"passed -> schedule 1\ndue 1 at 2s -> schedule 2, no reply 2 3\ndue 2 at 2s -> forget, no reply 4",
		"a panic of a timer": "adds 1 one -> lead 1\nadds 2 one ->\nadds 3 two ->\npassed -> schedule 1\n" +
			"fails -> failed 2 3, forget\ndue 1 ->\nadds 4 one -> lead 4",
		"a panic besides a group": "adds 1 one -> lead 1\nadds 2 one ->\nfails ->\npassed -> schedule 1",
	} {
		t.Run(name, func(t *testing.T) {
			q, numbers := newQueue(queueIdle), map[*ledUpdate]int{}
			for line := range strings.Lines(lines) {
				event, want, _ := strings.Cut(line, "->")
				words := strings.Fields(event)
				ev, number := queueEvent{}, 0
				if len(words) > 1 {
					if _, err := fmt.Sscan(words[1], &number); err != nil {
						t.Fatal(err)
					}
				}
				switch words[0] {
				case "adds":
					level := ring.One
					if words[2] == "two" {
						level = ring.Two
					}
					ev.update = newLedUpdate("a", level)
					if words[2] == "long" {
						ev.update.deadline = time.Minute
					}
					numbers[ev.update] = number
				case "passed":
					ev.kind = queuePassed
				case "due":
					if ev.kind, ev.number = queueDue, uint32(number); len(words) > 2 {
						ev.now = 2 * time.Second
					}
				case "fails":
					ev.kind, ev.err = queueFailed, errors.New("injected")
				}
				var got []string
				for _, e := range q.play(ev) {
					text := [...]string{"lead", "failed", "schedule", "forget"}[e.kind]
					if errors.Is(e.err, coordinator.ErrNoReply) {
						text = "no reply"
					}
					if e.kind == queueSchedule {
						text += fmt.Sprint(" ", e.number)
					}
					for _, u := range e.updates {
						text += fmt.Sprint(" ", numbers[u])
					}
					got = append(got, text)
				}
				if got := strings.Join(got, ", "); got != strings.TrimSpace(want) {
					t.Errorf("%s-> %s, want %s", event, got, strings.TrimSpace(want))
				}
			}
		})
	}
}

// TestQueuesLeadEachUpdateOnce delivers events in any order, including repeated timers, and panics. Each update is led
// or answered once, one group runs at a time, and no update remains.
func TestQueuesLeadEachUpdateOnce(t *testing.T) {
	led, answered := 0, 0
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 3))
		q, groups, left := newQueue(queueIdle), 0, 1+r.IntN(20)
		var seen, arrived []*ledUpdate
		var open []queueEvent
		now := time.Duration(0)
		step := func(ev queueEvent) {
			ev.now = now
			for _, e := range q.play(ev) {
				switch e.kind {
				case queueLead:
					if groups++; groups > 1 {
						t.Fatalf("seed %d: two groups at a time", seed)
					}
					seen, led = append(seen, e.updates...), led+len(e.updates)
					open = append(open, queueEvent{kind: queuePassed})
				case queueAnswer:
					seen, answered = append(seen, e.updates...), answered+len(e.updates)
				case queueSchedule:
					for range 1 + r.IntN(2) {
						open = append(open, queueEvent{kind: queueDue, number: e.number})
					}
				case queueForget:
					// The next update would get another queue, to which old timers do not belong.
					open = open[:0]
				}
			}
		}
		for left > 0 || len(open) > 0 {
			now += time.Duration(r.IntN(100)) * time.Millisecond
			switch {
			case left > 0 && (len(open) == 0 || r.IntN(3) > 0):
				left--
				u := newLedUpdate("a", ring.Consistency(1+r.IntN(2)))
				u.deadline = now + time.Duration(r.IntN(1000))*time.Millisecond
				arrived = append(arrived, u)
				step(queueEvent{update: u})
			case r.IntN(20) == 0:
				step(queueEvent{kind: queueFailed, err: errors.New("injected")})
			default:
				i := r.IntN(len(open))
				ev := open[i]
				open = slices.Delete(open, i, i+1)
				if ev.kind == queuePassed {
					groups--
				}
				step(ev)
			}
		}
		if len(seen) != len(arrived) || len(q.waiting) > 0 || q.state != queueIdle {
			t.Fatalf("seed %d: %d of %d updates, %d wait, state %d", seed, len(seen), len(arrived), len(q.waiting),
				q.state)
		}
		for _, u := range arrived {
			if i := slices.Index(seen, u); i < 0 || slices.Contains(seen[i+1:], u) {
				t.Fatalf("seed %d: an update was led %d times", seed, i)
			}
		}
	}
	if led < 1000 || answered < 1000 {
		t.Errorf("%d updates were led, %d were answered", led, answered)
	}
}
