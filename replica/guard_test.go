package replica

import (
	"io"
	"log/slog"
	"testing"

	"cqld/internal/guard"
	"cqld/row"
	"cqld/storage/failure"
)

// fullEngine is an engine on a full disk: it refuses every write but those of Forget.
type fullEngine struct {
	engine
	forgotten, committed int
}

func (e *fullEngine) Apply([]*row.Mutation, bool, func(error)) error { return failure.ErrDiskFull }
func (e *fullEngine) Queue([]*row.Mutation, bool, func(error)) error { return failure.ErrDiskFull }
func (e *fullEngine) Commit()                                        { e.committed++ }
func (e *fullEngine) Forget(ms []*row.Mutation, _ bool, done func(error)) error {
	e.forgotten += len(ms)
	done(nil)
	return nil
}

// TestGuardedEngineRemovesOnFullDisk removes data through a guarded engine, as a node's replica does.
func TestGuardedEngineRemovesOnFullDisk(t *testing.T) {
	e := &fullEngine{}
	g := guard.New(slog.New(slog.NewTextHandler(io.Discard, nil)))
	l := NewLocal(GuardReads(e, g), &view{}, nil)
	if err := l.Remove([]*row.Mutation{sampleMutation("k")}, func(err error) {
		if err != nil {
			t.Error(err)
		}
	}); err != nil || e.forgotten != 1 {
		t.Errorf("%d mutations were removed: %v", e.forgotten, err)
	}
	if l.Commit(); e.committed != 1 {
		t.Errorf("%d commits", e.committed)
	}
}

// TestWritesAllocateNothing applies a mutation to an engine that allocates nothing itself.
func TestWritesAllocateNothing(t *testing.T) {
	if raceEnabled {
		t.Skip("pools forget under the race detector")
	}
	l, mutations, ended := NewLocal(&engine{}, &view{}, nil), []*row.Mutation{sampleMutation("k")}, 0
	done := func(error) { ended++ }
	write := func() {
		if err := l.Write(mutations, true, done); err != nil {
			t.Error(err)
		}
	}
	if n := testing.AllocsPerRun(100, write); n > 0 || ended != 101 {
		t.Errorf("%v allocations, %d writes ended", n, ended)
	}
}
