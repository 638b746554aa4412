package simulation

import (
	"testing"
	"time"
)

// overflowOptions changes the options so that hardly any hint is stored.
func overflowOptions(o *Options) {
	o.Workloads, o.FaultKinds, o.Points = []string{"overflow"}, []string{"isolate", "one-way", "halves"}, nil
	o.Faults, o.Factor, o.PaxosMargin = 20*time.Second, 3, 0
	o.HintLimits.BytesPerNode = 1 + int64(o.Seed%7)*100
}

// TestSimHintOverflow makes nodes miss more writes than hints can store, and checks the replicas when they are back.
func TestSimHintOverflow(t *testing.T) {
	n := max(2, *seeds/20)
	if testing.Short() {
		n = 2
	}
	total := runAlone(t, n, 100, overflowOptions)
	if lost := total.Stats.HintsLost; lost < uint64(20*n) {
		t.Errorf("only %d hints were lost in %d seeds", lost, n)
	}
}

// TestSimNeedsRepairAfterOverflow shows that the check finds rows that no repair restores.
func TestSimNeedsRepairAfterOverflow(t *testing.T) {
	mustFail(t, 0, 10, func(o *Options) {
		overflowOptions(o)
		o.Unsafe.NoAutoRepair = true
	}, "lacks a row")
}
