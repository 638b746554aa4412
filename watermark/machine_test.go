package watermark

import (
	"errors"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/internal/guard"
	"cqld/internal/invariant"
	"cqld/ring"
	"cqld/schema"
)

// sum is a sequence of numbers. It reads each odd one by a Fetch before the operation ends. It is its own Host, which
// records the effects.
type sum struct {
	m        *Machine[int, int]
	taken    []int
	fetching int
	unfit    int  // reservations that failed
	broken   bool // an invariant is broken
	explodes bool // the next step panics

	performed []Effect[int, int]
	finished  []error
	perform   func(*Effect[int, int])
}

func (s *sum) Replan() error {
	s.m.NewPlan()
	s.m.Plan.Add(members(1, 2, 3, 4))
	return s.m.Plan.Complete()
}

func (s *sum) Advance(out []Effect[int, int]) ([]Effect[int, int], Progress, error) {
	if s.explodes {
		panic("injected")
	}
	to := s.m.Plan.Reached()
	if s.m.Plan.Compare(to, s.m.Plan.Mark()) > 0 {
		for _, n := range s.m.Plan.Nodes() {
			for len(n.Entries) > 0 && s.m.Plan.Compare(Position{Key: key(n.Entries[0])}, to) <= 0 {
				if e := n.Entries[0]; !slices.Contains(s.taken, e) {
					s.taken = append(s.taken, e)
					if e%2 == 1 {
						s.fetching++
						out = append(out, Effect[int, int]{Kind: Fetch, Body: e})
					}
				}
				n.Entries = n.Entries[1:]
			}
		}
		s.m.Plan.SetMark(to)
	}
	switch {
	case s.m.Plan.Mark().Place != AfterAll:
		return out, NeedsPages, nil
	case s.fetching > 0:
		return out, NeedsAnswers, nil
	}
	return out, Complete, nil
}

func (s *sum) Request(Position) int                   { return -1 }
func (s *sum) Fetched(_ int, _ []byte, e error) error { s.fetching--; return e }
func (s *sum) Memory(arrived []int) int               { return 10 * (len(s.taken) + len(arrived)) }
func (s *sum) NoMemory(err error) error               { s.unfit++; return err }
func (s *sum) Fetching() int                          { return s.fetching }
func (s *sum) Scanned(int, int)                       {}
func (s *sum) MayRecover() bool                       { return false }
func (s *sum) Failure() error                         { return s.m.Plan.Failure(false) }
func (s *sum) Conclude()                              {}
func (s *sum) Check()                                 { invariant.Check(!s.broken, "injected") }
func (s *sum) Finish(err error)                       { s.finished = append(s.finished, err) }
func (s *sum) Perform(e *Effect[int, int]) {
	s.performed = append(s.performed, *e)
	if s.perform != nil {
		s.perform(e)
	}
}

// stopped is a clock that the test moves. It keeps the timers that were set.
type stopped struct {
	now    time.Duration
	timers []*timer
}

type timer struct {
	after   time.Duration
	f       func()
	stopped bool
}

func (t *timer) Stop() bool                   { t.stopped = true; return true }
func (s *stopped) Now() time.Time             { return time.Unix(0, 0).Add(s.now) }
func (s *stopped) Monotonic() time.Duration   { return s.now }
func (v ringOfFour) Topology() *ring.Topology { return &ring.Topology{} }
func (s *stopped) After(d time.Duration, f func()) env.Timer {
	t := &timer{after: d, f: f}
	s.timers = append(s.timers, t)
	return t
}

type ringOfFour struct{ fourNodes }

func newSum(s *sum, grow coordinator.Grow, g *guard.Guard) (*Operation[int, int], *stopped) {
	clock, view := &stopped{}, ringOfFour{}
	op := &Operation[int, int]{}
	s.m = &op.Machine
	c := coordinator.New(coordinator.Options{View: view, Clock: clock})
	op.Init(&Config[int, int]{
		Sequence: s,
		Host:     s,
		Plan: Options{
			Coordinator: c,
			View:        view,
			Table:       &schema.Table{Replication: ring.Replication{Class: ring.Simple, Factor: 4}},
			Consistency: ring.Quorum,
		},
		Mark:    Position{Place: BeforeAll},
		Clock:   clock,
		Timeout: time.Second,
		Grow:    grow,
		Guard:   g,
		Where:   "test",
	})
	return op, clock
}

// script plays events to a Machine, without an Operation: steps are pure. Each line is an event and the effects that
// are expected of it.
func script(t *testing.T, m *Machine[int, int], lines string) {
	t.Helper()
	for line := range strings.Lines(lines) {
		event, want, _ := strings.Cut(line, "->")
		event, want = strings.TrimSpace(event), strings.TrimSpace(want)
		words := strings.Fields(event)
		ev := Event[int, int]{Topology: &ring.Topology{}}
		number := func(i int) (n int) {
			if _, err := fmt.Sscan(words[i], &n); err != nil {
				t.Fatalf("%s: %v", line, err)
			}
			return n
		}
		switch words[0] {
		case "start":
			ev.Kind = Started
		case "page", "last", "fails", "refuses", "canceled":
			ev.Kind = Paged
			for _, n := range m.Plan.Nodes() {
				if n.ID == ring.NodeID(number(1)) {
					ev.Node = n
				}
			}
			ev.Err = map[string]error{"fails": errors.New("disk"), "refuses": &coordinator.NotReplica{},
				"canceled": env.ErrCanceled}[words[0]]
			for i := range words[2:] {
				ev.Page.Entries = append(ev.Page.Entries, number(i+2))
				ev.Page.Last = key(number(i + 2))
			}
			ev.Page.More = words[0] == "page"
		case "fetched":
			ev.Kind, ev.Body = Fetched, number(1)
		case "reserved":
			ev.Kind, ev.Bytes = Reserved, number(1)
		case "no-memory":
			ev.Kind, ev.Err = Reserved, &coordinator.NeedsMemory{}
		case "tick":
			ev.Kind, ev.Now = Ticked, time.Duration(number(1))*time.Millisecond
		case "resume":
			ev.Kind = Resumed
		default:
			t.Fatalf("unknown event %q", line)
		}
		out := m.Step(&ev, nil)
		m.Check()
		if got := written(out); got != want {
			t.Errorf("%s -> %s, want %s", event, got, want)
		}
	}
}

func written(effects []Effect[int, int]) string {
	var out []string
	for _, e := range effects {
		switch e.Kind {
		case Ask:
			out = append(out, fmt.Sprintf("ask %d", e.Node.ID))
		case Fetch:
			out = append(out, fmt.Sprintf("fetch %d", e.Body))
		case Reserve:
			out = append(out, fmt.Sprintf("reserve %d", e.Bytes))
		case Arm:
			out = append(out, "arm")
		case Pause:
			out = append(out, "pause")
		case Finish:
			name := "ok"
			if e.Err != nil {
				_, name, _ = strings.Cut(fmt.Sprintf("%T", e.Err), ".")
			}
			out = append(out, "finish "+name)
		}
	}
	return strings.Join(out, ", ")
}

// TestStepsOfAMachine checks the effects of each event, at QUORUM of nodes 1 to 4. Node 2 is this node. Nodes that are
// contacted together are in the order of their distance, this node last.
func TestStepsOfAMachine(t *testing.T) {
	for name, test := range map[string]struct {
		bounded bool
		lines   string
	}{
		"pages": {lines: `start -> ask 1, ask 3, ask 2, arm
			last 1 2 4 ->
			last 3 2 ->
			last 2 4 6 -> finish ok
			last 4 8 -> `},
		"next pages": {lines: `start -> ask 1, ask 3, ask 2, arm
			page 1 2 ->
			page 3 4 ->
			last 2 4 -> ask 1
			last 1 4 -> ask 3
			last 3 -> finish ok`},
		"another node": {lines: `start -> ask 1, ask 3, ask 2, arm
			fails 3 -> ask 4
			last 1 ->
			last 2 ->
			last 4 -> finish ok`},
		"too many failures": {lines: `start -> ask 1, ask 3, ask 2, arm
			fails 3 -> ask 4
			fails 4 -> finish ReadFailure`},
		"a refusal": {lines: `start -> ask 1, ask 3, ask 2, arm
			refuses 3 -> ask 4
			fails 4 -> pause
			last 1 ->
			tick 10 -> arm
			resume -> ask 1, ask 3, ask 2
			last 1 ->
			last 3 ->
			last 2 -> finish ok`},
		"a timeout": {lines: `start -> ask 1, ask 3, ask 2, arm
			last 1 ->
			tick 1000 -> finish ReadTimeout
			last 2 -> `},
		"a cancelation": {lines: `start -> ask 1, ask 3, ask 2, arm
			canceled 1 -> finish errorString`},
		"rows are fetched": {lines: `start -> ask 1, ask 3, ask 2, arm
			last 1 1 ->
			last 3 ->
			last 2 3 -> fetch 3, fetch 1
			fetched 3 ->
			fetched 1 -> finish ok`},
		"memory": {bounded: true, lines: `start -> ask 1, ask 3, ask 2, arm
			last 1 2 4 -> reserve 20
			reserved 20 ->
			last 3 2 ->
			last 2 2 4 6 -> reserve 30
			no-memory -> finish NeedsMemory`},
	} {
		t.Run(name, func(t *testing.T) {
			s := &sum{}
			op, _ := newSum(s, nil, nil)
			op.Bounded = test.bounded
			script(t, &op.Machine, test.lines)
			if len(s.performed)+len(s.finished) > 0 {
				t.Error("a step performed an effect")
			}
		})
	}
}

// TestMachineAlwaysWaitsForSomething plays events in any order, with failures, refusals, lack of memory and late
// answers. Check holds after each step, and every operation ends before its deadline if all answers come.
func TestMachineAlwaysWaitsForSomething(t *testing.T) {
	ends := map[string]int{}
	for seed := range uint64(3000) {
		r := rand.New(rand.NewPCG(seed, 9))
		s := &sum{}
		op, _ := newSum(s, nil, nil)
		op.Bounded = r.IntN(2) == 0
		open := op.Step(&Event[int, int]{Kind: Started, Topology: &ring.Topology{}}, nil)
		for steps := 0; !op.over; steps++ {
			op.Check()
			if len(open) == 0 || steps > 2000 {
				t.Fatalf("seed %d: nothing happens after %d events", seed, steps)
			}
			i := r.IntN(len(open))
			for j, e := range open { // this one follows at once
				if e.Kind == Reserve {
					i = j
				}
			}
			e := open[i]
			open = slices.Delete(open, i, i+1)
			ev := Event[int, int]{Now: time.Duration(steps), Topology: &ring.Topology{}}
			failed := r.IntN(40) == 0
			switch e.Kind {
			case Ask:
				ev.Kind, ev.Node = Paged, e.Node
				page := pageOf(&op.Plan, []int{1, 2, 3, 4, 5, 6, 7, 8}[r.IntN(3):], e.Node.from, 1+r.IntN(3))
				if ev.Page = *page; failed {
					ev.Page, ev.Err = Page[int]{}, []error{errors.New("disk"), &coordinator.NotReplica{}}[r.IntN(2)]
				}
			case Fetch:
				ev.Kind, ev.Body = Fetched, e.Body
			case Reserve:
				if ev.Kind, ev.Bytes = Reserved, e.Bytes; failed {
					ev.Err = &coordinator.NeedsMemory{}
				}
			case Arm:
				ev.Kind = Ticked
			case Pause:
				ev.Kind = Resumed
			case Finish:
			}
			open = op.Step(&ev, open)
		}
		ends[written(open[len(open)-1:])]++
	}
	for _, kind := range []string{"ok", "ReadFailure", "NeedsMemory"} {
		if ends["finish "+kind] < 10 {
			t.Errorf("%d operations end with %s: %v", ends["finish "+kind], kind, ends)
		}
	}
}

// TestAnswersDoNotNest performs Asks that are answered before Perform returns.
func TestAnswersDoNotNest(t *testing.T) {
	s, depth, deepest := &sum{}, 0, 0
	op, clock := newSum(s, nil, nil)
	s.perform = func(e *Effect[int, int]) {
		depth++
		deepest = max(deepest, depth)
		n := e.Node
		page := pageOf(&op.Plan, []int{2, 4, 6, 8, 10, 12, 14, 16, 18}, n.from, 1)
		op.Paged(n, *page, nil)
		depth--
	}
	op.Start()
	if deepest != 1 || len(s.finished) != 1 || s.finished[0] != nil || len(s.performed) < 27 {
		t.Errorf("depth %d, finished %v after %d effects", deepest, s.finished, len(s.performed))
	}
	if len(s.taken) != 9 || slices.ContainsFunc(clock.timers, func(t *timer) bool { return !t.stopped }) {
		t.Errorf("taken %v, timers %+v", s.taken, clock.timers)
	}
}

// TestPanicsEndAnOperationOnce causes a panic in a step, in an effect, and in the check of an invariant. The client
// gets one error, the lock is released, and the read is no longer in flight.
func TestPanicsEndAnOperationOnce(t *testing.T) {
	for name, explode := range map[string]func(*sum){
		"step":      func(s *sum) { s.explodes = true },
		"effect":    func(s *sum) { s.perform = func(*Effect[int, int]) { panic("injected") } },
		"invariant": func(s *sum) { s.broken = true },
	} {
		t.Run(name, func(t *testing.T) {
			var running sync.WaitGroup
			g := guard.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
			s := &sum{}
			op, clock := newSum(s, nil, g)
			explode(s)
			op.Start()
			running.Wait()
			for _, timer := range clock.timers {
				timer.f()
			}
			var panicked *guard.PanicError
			if len(s.finished) != 1 || !errors.As(s.finished[0], &panicked) || g.Counts()["test"] != 1 {
				t.Errorf("finished with %v, %v", s.finished, g.Counts())
			}
			if !op.mu.TryLock() {
				t.Error("the lock is left")
			}
		})
	}
}

// TestCanceledOperationPerformsNothing cancels an operation while its effects are performed.
func TestCanceledOperationPerformsNothing(t *testing.T) {
	s := &sum{}
	op, _ := newSum(s, nil, nil)
	s.perform = func(*Effect[int, int]) { op.End(env.ErrCanceled) }
	op.Start()
	if len(s.performed) != 1 || len(s.finished) != 1 || !errors.Is(s.finished[0], env.ErrCanceled) {
		t.Errorf("%d effects, finished %v", len(s.performed), s.finished)
	}
	if op.Cancel().Err() == nil {
		t.Error("the requests are not canceled")
	}
}
