package search

import (
	"errors"
	"fmt"
	"slices"
	"testing"
	"time"

	"cqld/internal/testclock"
	"cqld/schema"
	"cqld/storage/index"
)

// keeper is a Keeper that records calls.
type keeper struct {
	pending []index.Work
	steps   int // of each build
	graphs  index.Graphs
	wrapped bool
	err     error
	calls   []string
}

func (k *keeper) call(format string, args ...any) {
	k.calls = append(k.calls, fmt.Sprintf(format, args...))
}

func (k *keeper) Pending([]schema.StorageID) []index.Work { return k.pending }

func (k *keeper) Build(table, id schema.StorageID) (more bool, err error) {
	k.call("build %d.%d", table, id)
	if k.err == nil {
		if k.steps--; k.steps <= 0 {
			k.pending = k.pending[1:]
		}
	}
	return k.steps > 0, k.err
}

func (k *keeper) DropIndex(table, id schema.StorageID) error {
	k.call("drop %d.%d", table, id)
	if k.err == nil {
		k.pending = k.pending[1:]
	}
	return k.err
}

func (k *keeper) Progress(_, _ schema.StorageID) index.Progress { return index.Progress{} }

func (k *keeper) Rebuild(table, id schema.StorageID) error {
	k.call("rebuild %d.%d", table, id)
	return k.err
}

func (k *keeper) Sweep(n int, _ int64) (removed int, wrapped bool, err error) {
	k.call("sweep %d", n)
	return 0, k.wrapped, k.err
}

func (k *keeper) Refresh(_ []schema.StorageID, n int) (index.Graphs, error) {
	k.call("refresh %d", n)
	return k.graphs, nil
}

func newTestBuilder(k *keeper) (*Builder, *testclock.Clock) {
	clock := new(testclock.Clock)
	b := NewBuilder(BuilderOptions{Keeper: k, Clock: clock, Run: func(f func()) { f() },
		Tables: func() []schema.StorageID { return []schema.StorageID{7} },
		Limits: BuilderLimits{BuildPause: time.Second, SweepEntries: 5, SweepPause: time.Second, SweepRest: time.Hour,
			RefreshVectors: 3,
			RefreshPause:   100 * time.Millisecond, RefreshRest: time.Minute, Retry: 10 * time.Second}})
	return b, clock
}

func (k *keeper) expect(t *testing.T, what string, want ...string) {
	t.Helper()
	if !slices.Equal(k.calls, want) {
		t.Errorf("%s: %q, want %q", what, k.calls, want)
	}
	k.calls = nil
}

// TestBuilderBuildsAndDropsFirst expects one step at a time, with rests between, and the sweep only when nothing is
// pending.
func TestBuilderBuildsAndDropsFirst(t *testing.T) {
	k := &keeper{pending: []index.Work{{Table: 7, Index: 1}, {Table: 7, Index: 2, Drop: true}}, steps: 2, wrapped: true}
	b, clock := newTestBuilder(k)
	clock.Advance(time.Minute)
	k.expect(t, "before Start")
	b.Start()
	clock.Advance(0)
	k.expect(t, "at once", "build 7.1")
	clock.Advance(999 * time.Millisecond)
	k.expect(t, "during the rest")
	clock.Advance(time.Millisecond)
	k.expect(t, "after the rest", "build 7.1")
	clock.Advance(time.Second)
	k.expect(t, "after the build", "drop 7.2")
	clock.Advance(time.Second)
	k.expect(t, "after all work", "refresh 3", "sweep 5")
	clock.Advance(59 * time.Minute)
	k.expect(t, "while the sweep rests")
	k.pending, k.steps = []index.Work{{Table: 7, Index: 3}}, 1
	b.Start()
	clock.Advance(0)
	k.expect(t, "after the schema has changed", "build 7.3")
	b.Close()
	clock.Advance(time.Hour)
	k.expect(t, "after Close")
}

// TestBuilderTriesAgain expects that failed work is tried again after a longer rest.
func TestBuilderTriesAgain(t *testing.T) {
	k := &keeper{pending: []index.Work{{Table: 7, Index: 1}}, steps: 1, err: errors.New("disk")}
	b, clock := newTestBuilder(k)
	b.Start()
	clock.Advance(9 * time.Second)
	k.expect(t, "the first attempt", "build 7.1")
	clock.Advance(time.Second)
	k.expect(t, "the second attempt", "build 7.1")
	k.err = nil
	clock.Advance(10 * time.Second)
	k.expect(t, "the third attempt", "build 7.1")
}

// TestBuilderFillsGraphsBetweenSweeps expects that vectors that wait are added more often than the sweep runs.
func TestBuilderFillsGraphsBetweenSweeps(t *testing.T) {
	k := &keeper{graphs: index.Graphs{Any: true, More: true}}
	b, clock := newTestBuilder(k)
	b.Start()
	clock.Advance(250 * time.Millisecond)
	k.expect(t, "while vectors wait", "refresh 3", "sweep 5", "refresh 3", "refresh 3")
	k.graphs.More = false
	clock.Advance(100 * time.Millisecond)
	k.expect(t, "when none waits any more", "refresh 3")
	clock.Advance(650 * time.Millisecond)
	k.expect(t, "when the sweep is due", "refresh 3", "sweep 5")
}
