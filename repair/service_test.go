package repair

import (
	"slices"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"

	"cqld/internal/testclock"
	"cqld/ring"
	"cqld/schema"
)

// countedLosses is an Engine that only counts losses, and records which are lifted.
type countedLosses struct {
	Engine
	last   uint64
	lifted []uint64
}

// LastLoss implements Engine.
func (e *countedLosses) LastLoss() uint64 { return e.last }

// Lift implements Engine.
func (e *countedLosses) Lift(_ schema.StorageID, _ ring.Range, loss uint64) error {
	e.lifted = append(e.lifted, loss)
	return nil
}

// TestNoticeLiftsLossesBeforeItsSession loses files between the steps of sessions. A notice lifts the losses before the
// first step of its session, and none if the session is unknown.
func TestNoticeLiftsLossesBeforeItsSession(t *testing.T) {
	engine := openEngine(t, vfs.NewMem())
	defer engine.Close()
	history, err := OpenHistory(engine, &testclock.Clock{}, 0)
	if err != nil {
		t.Fatal(err)
	}
	losses := &countedLosses{last: 3}
	s := &Service{o: ServiceOptions{Engine: losses, History: history}}
	s.mu.losses = map[uint64]uint64{}
	s.begin(1)
	losses.last = 4
	s.begin(1) // its second step
	s.begin(2)
	losses.last = 5
	for _, session := range []uint64{1, 2, 9} {
		if err := s.repaired(&Notice{Session: session, Table: 7, Tokens: ring.FullRange(), Until: 1}); err != nil {
			t.Fatal(err)
		}
	}
	if want := []uint64{3, 4}; !slices.Equal(losses.lifted, want) {
		t.Errorf("the losses up to %v were lifted, want %v", losses.lifted, want)
	}
}
