package coordinator_test

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"

	"cqld/coordinator"
	"cqld/hints"
	"cqld/ring"
	"cqld/simulation/scenario"
)

// slowHints is a store that cannot be read at first; later, reading it blocks until another goroutine has made
// progress.
type slowHints struct {
	noHints
	scans atomic.Int64
	free  chan struct{}
	read  chan bool
}

func (h *slowHints) ScanLocal(prefix []byte, _ func(k, v []byte) error) error {
	if string(prefix) != "hint/" {
		return nil
	}
	switch h.scans.Add(1) {
	case 1:
		return errors.New("not yet")
	case 2:
		select {
		case <-h.free:
			h.read <- true
		case <-time.After(time.Minute):
			h.read <- false
		}
	}
	return nil
}

// TestHintScanDoesNotBlock uses hints while those of an earlier process are being read.
func TestHintScanDoesNotBlock(t *testing.T) {
	view := newFakeView(t, 1, 1, func(ring.NodeID) coordinator.Replica { return &faultyReplica{} })
	store := &slowHints{free: make(chan struct{}), read: make(chan bool, 1)}
	c := scenario.NewParts(scenario.PartsOptions{Coordinator: coordinator.Options{View: view, Replicas: view,
		Clock: realClock{time.Now()}}, Store: store,
		Hints: hints.Options{Limits: hints.Limits{Retry: time.Millisecond}}})
	for began := time.Now(); store.scans.Load() < 2; time.Sleep(time.Millisecond) {
		if time.Since(began) > time.Minute {
			t.Fatal("hints that could not be read are not read again")
		}
	}
	c.Hints.Pending(2)
	close(store.free)
	if !<-store.read {
		t.Error("Pending waits for the disk")
	}
	c.Close()
}
