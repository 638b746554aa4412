package coordinator_test

import (
	"bytes"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/schema"
)

// aheadClock is a testclock.Clock whose wall clock is ahead of its monotonic clock by a duration that the test changes.
type aheadClock struct {
	testclock.Clock
	ahead time.Duration
}

func (k *aheadClock) Now() time.Time { return k.Clock.Now().Add(k.ahead) }

// TestMarksDoNotDependOnClocks truncates a table while the wall clock is an hour ahead or behind, and then corrects the
// clock, or vice versa. Hints of writes that began before this node applied the truncation are void, and later ones are
// not, even after a restart. Batches that were stored before the node applied the truncation are void.
func TestMarksDoNotDependOnClocks(t *testing.T) {
	for _, ahead := range [][4]time.Duration{{0, time.Hour, time.Hour, 0}, {time.Hour, 0, 0, 0},
		{0, -time.Hour, -time.Hour, 0}, {0, 0, time.Hour, 0},
		{time.Hour, 0, -time.Hour, 2 * time.Hour}} {
		t.Run(fmt.Sprint(ahead), func(t *testing.T) { testMarks(t, ahead) })
	}
}

// testMarks sets how far the clock is ahead before, while preparing, while applying, and after.
func testMarks(t *testing.T, ahead [4]time.Duration) {
	const table, other = schema.StorageID(7), schema.StorageID(8)
	clock, store := &aheadClock{}, &localStore{}
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return &faultyReplica{} })
	start := func() *coordinator.Coordinator {
		return coordinator.New(coordinator.Options{View: view, Replicas: view, Clock: clock, Store: store})
	}
	c := start()
	type written struct {
		name         string
		began        time.Duration
		hint, stored int64
		void         bool
	}
	var all []*written
	write := func(name string, void bool) {
		clock.Advance(time.Second)
		all = append(all, &written{name: name, began: clock.Monotonic(), hint: c.HintMark(table, clock.Monotonic()),
			stored: c.StoredMark(), void: void})
		clock.Advance(time.Second)
	}
	check := func(when string) {
		t.Helper()
		for _, w := range all {
			late := c.HintMark(table, w.began)
			if c.Void(table, w.hint) != w.void || c.Void(table, w.stored) != w.void {
				t.Errorf("%s: the hint and the batch of a write %s are void: %v, %v, want %v", when, w.name,
					c.Void(table, w.hint), c.Void(table, w.stored), w.void)
			}
			if when == "afterwards" && c.Void(table, late) != w.void {
				t.Errorf("%s: a late hint of a write %s is void: %v, want %v", when, w.name, c.Void(table, late),
					w.void)
			}
			if c.Void(other, w.hint) || c.Void(other, w.stored) {
				t.Errorf("%s: the truncation of one table makes hints of another void", when)
			}
		}
	}
	follow := func(phase coordinator.TruncationPhase) {
		err := error(coordinator.ErrNoReply)
		c.FollowTruncation(coordinator.Truncation{Table: table, ID: 1, Phase: phase}, func(e error) { err = e })
		if err != nil {
			t.Fatal(phase, err)
		}
	}
	clock.ahead = ahead[0]
	write("before", true)
	clock.ahead = ahead[1]
	follow(coordinator.TruncationPrepare)
	write("between the phases", true)
	clock.ahead = ahead[2]
	follow(coordinator.TruncationApply)
	write("after it was applied here", false)
	follow(coordinator.TruncationEnd)
	clock.ahead = ahead[3]
	write("after", false)
	check("afterwards")
	c = start()
	check("restarted")
	write("after the restart", false)
	check("after the restart")
	for _, w := range all {
		w.void = true
	}
	follow(coordinator.TruncationPrepare)
	check("again")
}

// localStore is a coordinator.LocalStore in memory. It fails while failing.
type localStore struct {
	records map[string][]byte
	failing bool
}

func (s *localStore) SetLocal(key, value []byte, _ bool) error {
	if s.failing {
		return errors.New("the disk fails")
	}
	if s.records == nil {
		s.records = map[string][]byte{}
	}
	s.records[string(key)] = bytes.Clone(value)
	return nil
}

func (s *localStore) ScanLocal(prefix []byte, f func(key, value []byte) error) error {
	for _, key := range slices.Sorted(maps.Keys(s.records)) {
		if strings.HasPrefix(key, string(prefix)) {
			if err := f([]byte(key), s.records[key]); err != nil {
				return err
			}
		}
	}
	return nil
}

// TestTruncationsThatAreNotOnDiskMakeNothingVoid makes the disk fail while a node prepares a truncation: after a
// restart with a clock that was set back, the next truncation makes all earlier hints void.
func TestTruncationsThatAreNotOnDiskMakeNothingVoid(t *testing.T) {
	const table = schema.StorageID(7)
	clock, store := &aheadClock{ahead: time.Hour}, &localStore{failing: true}
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return &faultyReplica{} })
	o := coordinator.Options{View: view, Replicas: view, Clock: clock, Store: store}
	c := coordinator.New(o)
	prepare := func() (err error) {
		c.FollowTruncation(coordinator.Truncation{Table: table, ID: 1, Phase: coordinator.TruncationPrepare},
			func(e error) { err = e })
		return err
	}
	if prepare() == nil {
		t.Error("a truncation was prepared that is not on disk")
	}
	clock.Advance(time.Second)
	mark := c.HintMark(table, clock.Monotonic())
	if c.Void(table, mark) {
		t.Error("a hint is void after a truncation that was not prepared")
	}
	store.failing, clock.ahead = false, -time.Hour
	c = coordinator.New(o)
	if err := prepare(); err != nil || !c.Void(table, mark) {
		t.Errorf("a hint from before a truncation is void: %v; %v", c.Void(table, mark), err)
	}
}
