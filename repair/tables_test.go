package repair_test

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"testing"
	"time"

	"cqld/hints"
	"cqld/internal/testclock"
	"cqld/internal/wire"
	"cqld/jobs"
	"cqld/repair"
	"cqld/ring"
	"cqld/schema"
)

// operator is an operator of node 1, who repairs a table in three parts, as if they were tables.
type operator struct {
	*world
	registry *jobs.Registry
	repairer *repair.Repairer
	plan     repair.Plan
	id       string
	summary  repair.Summary
	err      error
}

func newOperator(t *testing.T, plan repair.Plan) *operator {
	o := &operator{world: newWorld(t, 3, 3, "BLOCKING", 0, hints.Limits{}), plan: plan}
	for i, r := range []ring.Range{{Start: ring.MinToken, End: -1 << 62}, {Start: -1 << 62, End: 1 << 61},
		{Start: 1 << 61, End: ring.MinToken}} {
		o.plan.Targets = append(o.plan.Targets, repair.Target{Name: fmt.Sprint("ks.t", i), Table: o.table.StorageID,
			Range: r})
	}
	o.open()
	return o
}

// open starts the process of node 1.
func (o *operator) open() {
	var err error
	if o.registry, err = jobs.Open(jobs.Options{Clock: o.clock, Store: o.nodes[0].engine,
		OnError: func(err error) { o.t.Error(err) }}); err != nil {
		o.t.Fatal(err)
	}
	o.repairer = o.nodes[0].repairer(repair.Limits{})
}

// crash ends the process of node 1: its messages and timers are lost, and the next process reads the store.
func (o *operator) crash() {
	o.flight = nil
	now := o.clock.Monotonic()
	*o.clock = testclock.Clock{}
	o.clock.Skip(now)
	o.open()
}

func (o *operator) work(j *jobs.Job) {
	o.id = j.ID()
	o.repairer.StartTables(j, o.plan, func(s repair.Summary, err error) {
		o.summary, o.err = s, err
		j.End(err)
	})
}

func (o *operator) start() {
	if _, err := o.registry.Start(jobs.Spec{Kind: jobs.Repair, Target: "ks.t", Unit: jobs.Ranges,
		Resumable: o.plan.Keep}, o.work); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operator) resume() {
	if _, err := o.registry.Resume(o.id, o.work); err != nil {
		o.t.Fatal(err)
	}
}

func (o *operator) job() jobs.Snapshot {
	s, err := o.registry.Get(o.id)
	if err != nil {
		o.t.Fatal(err)
	}
	return s
}

// scatter writes each row to only one replica.
func (o *operator) scatter(rnd *rand.Rand, rows int) {
	for i := range rows {
		o.put(o.nodes[rnd.IntN(3)], o.insert(fmt.Sprint("key", i), "a", "value", 7))
	}
}

// interrupt cancels the repair, or kills the process, at random times, and resumes it each time until it is done. It
// calls disturb after each crash.
func (o *operator) interrupt(rnd *rand.Rand, disturb func()) (interrupted int) {
	o.start()
	for range 10_000 {
		s := o.job()
		if s.State == jobs.Done {
			return interrupted
		}
		switch k := rnd.IntN(100); {
		case s.State.Ended():
			interrupted++
			before := s.Done
			o.resume()
			if s = o.job(); s.State == jobs.Running && s.Total > 0 && s.Done < before {
				o.t.Fatalf("attempt %d begins at range %d; the one before ended at %d", s.Attempt, s.Done, before)
			}
		case k < 2:
			if err := o.registry.Cancel(o.id); err != nil {
				o.t.Fatal(err)
			}
			if s = o.job(); s.State != jobs.Cancelled || !errors.Is(o.err, repair.ErrCancelled) {
				o.t.Fatalf("cancelled: %+v, %v", s, o.err)
			}
		case k < 4:
			o.crash()
			disturb()
		case k < 20:
			o.clock.Advance(100 * time.Millisecond)
		default:
			o.deliver(1 + rnd.IntN(3))
		}
	}
	o.t.Fatal("the repair does not end")
	return 0
}

// TestInterruptedRepairContinues repairs with cancellations and crashes: when the job is done, the replicas are equal.
func TestInterruptedRepairContinues(t *testing.T) {
	interrupted := 0
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := newOperator(t, repair.Plan{Keep: true})
		o.scatter(rnd, 40)
		interrupted += o.interrupt(rnd, func() {})
		if equal, rows := o.roots(); !equal || rows != 40 {
			t.Fatalf("seed %d: the repair is done, and the replicas differ, or have %d rows", seed, rows)
		}
		if s := o.job(); s.Total == 0 || s.Done != s.Total || s.Error != "" {
			t.Fatalf("seed %d: %+v", seed, s)
		}
		if err := o.nodes[0].engine.ScanLocal([]byte("repair/job/"), func(key, _ []byte) error {
			return fmt.Errorf("%q was not removed", key)
		}); err != nil {
			t.Fatalf("seed %d: %v", seed, err)
		}
	}
	if interrupted < 40 {
		t.Errorf("only %d interruptions", interrupted)
	}
}

// TestPositionAheadOfRepairIsDetected sets the stored position to the end of its target after each crash. The test
// above must detect this.
func TestPositionAheadOfRepairIsDetected(t *testing.T) {
	for seed := range uint64(40) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := newOperator(t, repair.Plan{Keep: true})
		o.scatter(rnd, 40)
		o.interrupt(rnd, func() {
			engine := o.nodes[0].engine
			var key, value []byte
			if err := engine.ScanLocal([]byte("repair/job/"), func(k, v []byte) error {
				key, value = bytes.Clone(k), bytes.Clone(v)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
			if key == nil {
				return
			}
			end := value[12:20] // of the range
			value = append(value[:len(value)-8], end...)
			if c := wire.NewCursor(value); c.Uint32() != uint32(o.table.StorageID) {
				t.Fatalf("a position has another form: %x", value)
			}
			if err := engine.SetLocal(key, value, false); err != nil {
				t.Fatal(err)
			}
		})
		if equal, _ := o.roots(); !equal {
			return
		}
	}
	t.Error("40 seeds do not find a position that is ahead of the repair")
}

// TestRepairReportsSkippedRangesAfterCrash stops a replica while one range is repaired, and kills the process two
// ranges later. The position is after the skipped range, so only the checkpoint contains it.
func TestRepairReportsSkippedRangesAfterCrash(t *testing.T) {
	o := newOperator(t, repair.Plan{Keep: true, SkipDown: true})
	o.plan.Targets = []repair.Target{{Name: "ks.t", Table: o.table.StorageID, Range: ring.FullRange()}}
	o.start()
	o.deliver(10) // a range takes eight messages
	o.nodes[0].blinks = 1
	o.deliver(20)
	before := o.job()
	o.crash()
	o.resume()
	o.pass(5 * time.Second)
	s := o.job()
	if s.State != jobs.Done || s.Done != s.Total || before.Done < 3 {
		t.Fatalf("%+v, before the crash %+v", s, before)
	}
	if o.summary.Skipped != 1 {
		t.Errorf("%d ranges are reported as skipped", o.summary.Skipped)
	}
}

// TestDroppedTablesAreLeftOut drops the table during its repair.
func TestDroppedTablesAreLeftOut(t *testing.T) {
	o := newOperator(t, repair.Plan{Keep: true})
	o.scatter(rand.New(rand.NewPCG(1, 1)), 10)
	o.start()
	o.deliver(5)
	s, err := schema.Apply(o.schema, &schema.DropTable{Keyspace: "ks", Table: "t"})
	if err != nil {
		t.Fatal(err)
	}
	o.schema = s
	o.pass(time.Minute)
	if s := o.job(); s.State != jobs.Done || len(o.summary.LeftOut) == 0 || o.summary.LeftOut[0] != "ks.t0" {
		t.Fatalf("%+v, %+v, %v", s, o.summary, o.err)
	}
}

func TestForgottenJobsLeaveNoPositions(t *testing.T) {
	o := newOperator(t, repair.Plan{Keep: true})
	o.start()
	o.deliver(30)
	if err := o.registry.Cancel(o.id); err != nil {
		t.Fatal(err)
	}
	positions := func() (n int) {
		if err := o.nodes[0].engine.ScanLocal([]byte("repair/job/"),
			func(_, _ []byte) error { n++; return nil }); err != nil {
			t.Fatal(err)
		}
		return n
	}
	if positions() == 0 {
		t.Fatal("no position to forget")
	}
	if err := o.repairer.ForgetTables("1" + o.id); err != nil || positions() == 0 {
		t.Fatalf("the position of another job was forgotten, %v", err)
	}
	if err := o.repairer.ForgetTables(o.id); err != nil || positions() != 0 {
		t.Errorf("%d positions are left, %v", positions(), err)
	}
}
