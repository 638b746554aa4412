package rebalance

import (
	"sync"
	"testing"
	"time"

	"cqld/repair"
	"cqld/ring"
)

// heldHashes is a Hashes that responds when the test permits it.
type heldHashes struct {
	open []func(repair.HashStep, error)
}

func (h *heldHashes) Hash(_ ring.NodeID, _ *repair.HashRequest, _ time.Duration, done func(repair.HashStep, error)) {
	h.open = append(h.open, done)
}

// comparingWorld returns a world in which node 1 compares its ranges, and waits for hashes of the first ones. Only its
// source has rows.
func comparingWorld(t *testing.T) (*moveWorld, *heldHashes) {
	w := newMoveWorld(t, ring.Operation{Phase: ring.Switching, Switched: 8, Known: true, Streamed: []ring.NodeID{1}},
		0)
	h := &heldHashes{}
	w.moves.o.Hashes = h
	gained, _ := w.keys()
	w.write(2, gained...)
	w.moves.Reconcile(w.nodes[1].view.topology)
	if len(h.open) == 0 {
		t.Fatal("nothing is compared")
	}
	return w, h
}

// end ends the operation of the world.
func (w *moveWorld) end() { w.moves.Reconcile(ring.NewTopology(10, w.nodes[1].view.topology.Nodes())) }

// answer answers all outstanding requests with a hash.
func (h *heldHashes) answer(sum uint64) {
	open := h.open
	h.open = nil
	for _, done := range open {
		done(repair.HashStep{Leaves: []int{0}, Hashes: []repair.LeafHash{{Sum: [2]uint64{sum, 0}, Rows: 1}}}, nil)
	}
}

// TestAComparisonEndsWithItsOperation ends the operation, or closes the movements, while hashes are outstanding. No
// further hashes are requested, and no stream is started: its record would never be removed.
func TestAComparisonEndsWithItsOperation(t *testing.T) {
	for name, end := range map[string]func(*moveWorld){
		"ended": (*moveWorld).end, "closed": func(w *moveWorld) { w.moves.Close() },
	} {
		for _, answers := range []int{0, 1} { // before the end
			w, h := comparingWorld(t)
			for i := range answers {
				h.answer(uint64(i + 1))
			}
			end(w)
			for i := range 3 {
				h.answer(uint64(i + 5))
			}
			if len(h.open) != 0 || w.blocks != 0 || len(w.compared) != 0 || len(w.timers) != 0 {
				t.Errorf("%s after %d answers: %d hashes and %d blocks are requested, compared %v, %d timers", name,
					answers, len(h.open), w.blocks, w.compared, len(w.timers))
			}
		}
	}
}

// TestAnOperationEndsWhileSessionsStart ends the operation in one goroutine while differences start streams in another.
// The race detector finds accesses without the lock, and no session is under way after the end.
func TestAnOperationEndsWhileSessionsStart(t *testing.T) {
	for range 5 {
		w, h := comparingWorld(t)
		w.lose = true // the source does not respond, so a session stays in progress
		h.answer(1)
		var both sync.WaitGroup
		both.Go(func() { h.answer(2) })
		both.Go(w.end)
		both.Wait()
		if open := w.nodes[1].streams.Sessions(); len(open) != 0 {
			t.Errorf("%d sessions are under way after the end", len(open))
		}
	}
}
