package request

import (
	"context"
	"errors"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/auth"
	"cqld/coordinator"
	"cqld/internal/env"
	"cqld/listing"
	"cqld/paxos"
	"cqld/ring"
	"cqld/row"
	"cqld/schema"
)

// manualClock is a clock that the test advances; its timers fire immediately.
type manualClock struct{ now atomic.Int64 }

func (c *manualClock) Now() time.Time           { return time.Unix(0, c.now.Load()) }
func (c *manualClock) Monotonic() time.Duration { return time.Duration(c.now.Load()) }
func (c *manualClock) After(d time.Duration, f func()) env.Timer {
	c.now.Add(int64(d))
	f()
	return nil
}

// scripted is a coordinator that returns the results set by the test, and records its calls.
type scripted struct {
	asked    []string
	page     []byte
	err      error
	applied  bool
	timeout  time.Duration // of the last operation
	trace    coordinator.Trace
	hold     chan struct{} // if set, reads complete after it was closed, or when they are canceled
	canceled atomic.Int64
}

func (s *scripted) note(what string, timeout time.Duration, trace coordinator.Trace) {
	s.asked, s.timeout, s.trace = append(s.asked, what), timeout, trace
}

func (s *scripted) Write(req *coordinator.WriteRequest, done func(error)) {
	s.note("write", req.Timeout, req.Trace)
	done(s.err)
}

// scriptedCounters adapts a scripted coordinator to Counters.
type scriptedCounters struct{ *scripted }

func (s scriptedCounters) Update(req *coordinator.WriteRequest, done func(error)) {
	s.note("count", req.Timeout, req.Trace)
	done(s.err)
}

// scriptedBatches adapts a scripted coordinator to Batches.
type scriptedBatches struct{ *scripted }

func (s scriptedBatches) Write(req *coordinator.WriteRequest, done func(error)) {
	s.note("batch", req.Timeout, req.Trace)
	done(s.err)
}

func (s *scripted) CAS(req *paxos.CASRequest, done func(bool, []byte, error)) {
	s.note("cas", req.Timeout, req.Trace)
	done(s.applied, s.page, s.err)
}

func (s *scripted) Read(req *coordinator.ReadRequest, done func([]byte, error)) {
	s.note("read", req.Timeout, req.Trace)
	if s.hold == nil {
		done(s.page, s.err)
		return
	}
	var once sync.Once
	req.Cancel.OnCancel(func() {
		once.Do(func() {
			s.canceled.Add(1)
			done(nil, env.ErrCanceled)
		})
	})
	go func() {
		<-s.hold
		once.Do(func() {
			page := slices.Clone(s.page)
			done(page, s.err)
			clear(page) // the page is valid only until done returns
		})
	}()
}

func (s *scripted) List(req *listing.Request, done func(*listing.Result, error)) {
	s.note("list", req.Timeout, req.Trace)
	if s.err != nil {
		done(nil, s.err)
		return
	}
	done(&listing.Result{Keys: [][]byte{s.page}}, nil)
}

func (s *scripted) Truncate(_ *schema.Table, timeout time.Duration, done func(error)) {
	s.note("truncate", timeout, nil)
	done(s.err)
}

func newExecutor(s *scripted, change ...func(*Options)) (*Executor, *manualClock) {
	clock := &manualClock{}
	clock.now.Store(int64(time.Hour))
	o := Options{Coordinator: s, Lister: s, Batches: scriptedBatches{s}, Counters: scriptedCounters{s}, Proposer: s,
		Clock: clock}
	for _, f := range change {
		f(&o)
	}
	return New(o), clock
}

// operations returns all operations that an Executor sends to the coordinator.
func operations() map[string]func(e *Executor, r *Request) error {
	write := func(t coordinator.WriteType) func(e *Executor, r *Request) error {
		return func(e *Executor, r *Request) error {
			return e.Write(r, &coordinator.WriteRequest{Type: t, Timeout: time.Second})
		}
	}
	return map[string]func(e *Executor, r *Request) error{
		"write": write(coordinator.WriteSimple), "count": write(coordinator.WriteCounter),
		"batch": write(coordinator.WriteBatch),
		"read": func(e *Executor, r *Request) error {
			c, err := e.Read(r, &coordinator.ReadRequest{Timeout: time.Second})
			if err == nil {
				c.Release()
			}
			return err
		},
		"cas": func(e *Executor, r *Request) error {
			_, c, err := e.CAS(r, &paxos.CASRequest{Timeout: time.Second})
			if err == nil {
				c.Release()
			}
			return err
		},
		"list": func(e *Executor, r *Request) error {
			_, err := e.List(r, &listing.Request{Timeout: time.Second})
			return err
		},
		"truncate": func(e *Executor, r *Request) error { return e.Truncate(r, nil, time.Second) },
	}
}

func TestEachOperationCallsCoordinatorOnce(t *testing.T) {
	failure := errors.New("no replica answers")
	for name, do := range operations() {
		for _, err := range []error{nil, failure} {
			s := &scripted{err: err, applied: true}
			e, _ := newExecutor(s)
			if got := do(e, &Request{Context: t.Context()}); !errors.Is(got, err) {
				t.Errorf("%s: %v, want %v", name, got, err)
			}
			if !slices.Equal(s.asked, []string{name}) || s.timeout != time.Second {
				t.Errorf("%s: asked for %v within %v", name, s.asked, s.timeout)
			}
		}
	}
}

func TestNoRequestsWhileNotServingOrLate(t *testing.T) {
	refusal := errors.New("the clock is wrong")
	for name, do := range operations() {
		s := &scripted{}
		e, _ := newExecutor(s, func(o *Options) { o.Refuse = func() error { return refusal } })
		if err := do(e, &Request{Context: t.Context()}); !errors.Is(err, refusal) || s.asked != nil {
			t.Errorf("%s: %v, asked for %v", name, err, s.asked)
		}
		e, clock := newExecutor(s)
		r := &Request{Context: t.Context(), Deadline: clock.Monotonic()}
		if err := do(e, r); !errors.Is(err, context.DeadlineExceeded) || s.asked != nil {
			t.Errorf("%s after the deadline: %v, asked for %v", name, err, s.asked)
		}
		r.Deadline += 300 * time.Millisecond
		if err := do(e, r); err != nil || s.timeout != 300*time.Millisecond {
			t.Errorf("%s before the deadline: %v, timeout %v", name, err, s.timeout)
		}
		for k := range Kinds {
			if n := e.Stats().Kinds[k].Count.Load(); n > 1 {
				t.Errorf("%s: %d of kind %s are counted", name, n, k)
			}
		}
	}
}

type anyTrace struct{ coordinator.Trace }

func TestTheTraceReachesTheCoordinator(t *testing.T) {
	for name, do := range operations() {
		s, want := &scripted{}, &anyTrace{}
		e, _ := newExecutor(s)
		if err := do(e, &Request{Context: t.Context(), Trace: want}); err != nil ||
			s.trace != coordinator.Trace(want) && name != "truncate" {
			t.Errorf("%s: %v, trace %v", name, err, s.trace)
		}
	}
}

func TestPageIsCopiedAndCounted(t *testing.T) {
	s := &scripted{page: []byte("page"), hold: make(chan struct{})}
	e, _ := newExecutor(s)
	r := &Request{Context: t.Context()}
	first := e.Start(r, &coordinator.ReadRequest{Cancel: env.NewCancel(t.Context())})
	if first.Answered() {
		t.Error("a read is answered before the coordinator did")
	}
	close(s.hold)
	page, err := first.Wait(r)
	if err != nil || string(page) != "page" || r.Cost.Bytes != 4 || !first.Answered() {
		t.Fatalf("%q, %v, cost %+v", page, err, r.Cost)
	}
	first.Keep()
	first.Release()
	second, err := e.Read(r, &coordinator.ReadRequest{Cancel: env.NewCancel(t.Context())})
	if err != nil || r.Cost.Bytes != 8 {
		t.Fatal(err, r.Cost)
	}
	copy(second.Page(), "next")
	second.Release()
	if string(page) != "page" {
		t.Errorf("a page that was kept became %q", page)
	}
}

// serialReads counts the reads that a proposer receives.
type serialReads struct {
	scripted
	count int
}

func (p *serialReads) Read(_ *coordinator.ReadRequest, done func([]byte, error)) {
	p.count++
	done(nil, nil)
}

func TestTheProposerExecutesSerialReadsOfOnePartition(t *testing.T) {
	for _, c := range []struct {
		level  ring.Consistency
		key    row.PartitionKey
		serial bool
	}{
		{ring.Serial, row.NewPartitionKey([]byte("k")), true},
		{ring.LocalSerial, row.NewPartitionKey([]byte("k")), true},
		{ring.Serial, row.PartitionKey{}, false}, {ring.Quorum, row.NewPartitionKey([]byte("k")), false},
	} {
		s, p := &scripted{}, &serialReads{}
		e, _ := newExecutor(s, func(o *Options) { o.Proposer = p })
		call, err := e.Read(&Request{Context: t.Context()},
			&coordinator.ReadRequest{Command: &row.ReadCommand{Key: c.key}, Consistency: c.level})
		if err != nil {
			t.Fatal(err)
		}
		call.Release()
		if (p.count == 1) != c.serial || (len(s.asked) == 0) != c.serial {
			t.Errorf("%s of key %q: the proposer gets %d reads, the coordinator %v", c.level, c.key.Bytes, p.count,
				s.asked)
		}
	}
}

func TestTheEndOfTheContextCancelsARead(t *testing.T) {
	s := &scripted{hold: make(chan struct{})}
	defer close(s.hold)
	e, _ := newExecutor(s)
	ctx, cancel := context.WithCancel(t.Context())
	r := &Request{Context: ctx}
	c := e.Start(r, &coordinator.ReadRequest{Cancel: env.NewCancel(ctx)})
	cancel()
	if _, err := c.Wait(r); !errors.Is(err, context.Canceled) || s.canceled.Load() != 1 {
		t.Errorf("%v, %d reads are canceled", err, s.canceled.Load())
	}
	c.Release()
}

func TestUnappliedChangeHasPage(t *testing.T) {
	for _, applied := range []bool{true, false} {
		s := &scripted{page: []byte("rows"), applied: applied}
		e, _ := newExecutor(s)
		ok, c, err := e.CAS(&Request{Context: t.Context()}, &paxos.CASRequest{})
		if err != nil || ok != applied || (string(c.Page()) == "rows") == applied {
			t.Errorf("applied %v: %v, page %q, %v", applied, ok, c.Page(), err)
		}
		c.Release()
	}
}

func TestRequestsAreCountedAndSomeMeasured(t *testing.T) {
	s := &scripted{}
	e, _ := newExecutor(s)
	r := &Request{Context: t.Context()}
	const reads = 9*SampledReads + 1 // the first of each SampledReads is measured
	for range reads {
		for _, name := range []string{"write", "batch", "read"} {
			if err := operations()[name](e, r); err != nil {
				t.Fatal(err)
			}
		}
	}
	for _, c := range []struct {
		applied bool
		err     error
	}{{true, nil}, {true, nil}, {false, nil}, {false, errors.New("no node answers")}} {
		s.applied, s.err = c.applied, c.err
		_ = operations()["cas"](e, r)
	}
	stats := e.Stats()
	for k, want := range map[Kind][2]int64{KindWrite: {reads, 10}, KindRead: {reads, 10},
		KindBatch: {reads, reads}, KindCAS: {4, 4}, KindCounter: {0, 0}, KindListing: {0, 0}} {
		_, measured, _ := stats.Kinds[k].Latency.Octaves(0, 60)
		if got := [2]int64{stats.Kinds[k].Count.Load(), int64(measured)}; got != want {
			t.Errorf("%s: %d counted and measured, want %d", k, got, want)
		}
	}
	if a, n, f := stats.Applied.Load(), stats.NotApplied.Load(), stats.Failed.Load(); a != 2 || n != 1 || f != 1 {
		t.Errorf("%d applied, %d not, %d failed", a, n, f)
	}
	names := map[string]bool{"?": true}
	for k := range Kinds {
		if names[k.String()] {
			t.Errorf("kind %d is called %s", k, k)
		}
		names[k.String()] = true
	}
}

func TestWaitingAllocatesNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	page := make([]byte, 1000)
	s := &quiet{page: page}
	e := New(Options{Coordinator: s, Proposer: s, Clock: &manualClock{}})
	r := &Request{Context: t.Context(), Principal: auth.Principal{Name: "alice"}, Consistency: ring.Quorum}
	write, read := &coordinator.WriteRequest{}, &coordinator.ReadRequest{Command: &row.ReadCommand{}}
	needs := []auth.Requirement{{Permission: auth.Select, Resource: auth.Table("ks", "t")}}
	if n := testing.AllocsPerRun(200, func() {
		if err := e.Authorize(r, needs...); err != nil {
			t.Error(err)
		}
		if err := e.Write(r, write); err != nil {
			t.Error(err)
		}
		c, err := e.Read(r, read)
		if err != nil {
			t.Error(err)
		}
		c.Release()
	}); n > 0 {
		t.Errorf("%v allocations", n)
	}
}

// quiet is a coordinator that completes immediately and records nothing.
type quiet struct {
	scripted
	page []byte
}

func (q *quiet) Write(_ *coordinator.WriteRequest, done func(error))       { done(nil) }
func (q *quiet) Read(_ *coordinator.ReadRequest, done func([]byte, error)) { done(q.page, nil) }

// one denies one requirement, and counts its calls.
type one struct {
	denied auth.Requirement
	asked  int
}

func (o *one) Authorize(_ context.Context, p auth.Principal, need auth.Requirement) error {
	o.asked++
	if need == o.denied {
		return &auth.Denied{Principal: p, Requirement: need}
	}
	return nil
}

func TestAuthorizeStopsAtTheFirstDenial(t *testing.T) {
	on := func(p auth.Permission) auth.Requirement {
		return auth.Requirement{Permission: p, Resource: auth.Table("ks", "t")}
	}
	a := &one{denied: on(auth.Select)}
	e, _ := newExecutor(&scripted{}, func(o *Options) { o.Authorizer = a })
	r := &Request{Context: t.Context(), Principal: auth.Principal{Name: "alice"}}
	var denied *auth.Denied
	if err := e.Authorize(r, on(auth.Modify), on(auth.Select), on(auth.Alter)); !errors.As(err, &denied) ||
		a.asked != 2 ||
		denied.Principal.Name != "alice" || denied.Requirement != on(auth.Select) {
		t.Errorf("%v after %d requests", err, a.asked)
	}
	if err := e.Authorize(r); err != nil {
		t.Errorf("a request that needs nothing: %v", err)
	}
}

func TestPauseDuration(t *testing.T) {
	e, clock := newExecutor(&scripted{})
	before := clock.Monotonic()
	if e.Pause(time.Second); clock.Monotonic() != before+time.Second {
		t.Errorf("the pause took %v", clock.Monotonic()-before)
	}
}

func TestWithDeadlineTakesTheEarlier(t *testing.T) {
	e, clock := newExecutor(&scripted{})
	for _, c := range []struct{ left, timeout, want time.Duration }{
		{0, 0, 0}, {0, time.Hour, time.Hour}, {time.Hour, 0, time.Hour}, {time.Hour, 2 * time.Hour, time.Hour},
		{2 * time.Hour, time.Hour, time.Hour},
	} {
		r := &Request{Context: context.Background()}
		if c.left > 0 {
			r.Deadline = clock.Monotonic() + c.left
		}
		ctx, cancel := e.WithDeadline(r, c.timeout)
		deadline, ok := ctx.Deadline()
		if left := time.Until(deadline); ok != (c.want > 0) || ok && (left > c.want || left < c.want-time.Minute) {
			t.Errorf("%+v: %v", c, left)
		}
		cancel()
	}
}
