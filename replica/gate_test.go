package replica

import (
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"cqld/internal/await"
)

// TestGateWaitsForThoseInside checks that wait returns after all mutations that entered before it have left, and before
// any mutation that enters while it waits has to leave.
func TestGateWaitsForThoseInside(t *testing.T) {
	g := newGate()
	before := g.enter()
	returned := make(chan struct{})
	go func() {
		g.wait()
		close(returned)
	}()
	await.Until(t, "wait begins", func() bool { return g.phase.Load() != before })
	after := g.enter() // does not block, and wait does not wait for it
	select {
	case <-returned:
		t.Fatal("wait has returned with a mutation inside")
	case <-time.After(20 * time.Millisecond):
	}
	g.leave(before)
	<-returned
	g.leave(after)
	g.wait()
}

// TestGateSeparatesTopologies runs mutations that read a number inside the gate against changes of the number, each
// followed by wait: after wait, no mutation may still use an earlier number.
func TestGateSeparatesTopologies(t *testing.T) {
	g := newGate()
	var epoch, settled atomic.Int64
	var running sync.WaitGroup
	stop := make(chan struct{})
	for range 8 {
		running.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				phase := g.enter()
				seen := epoch.Load()
				if got := settled.Load(); seen < got {
					t.Errorf("a mutation of epoch %d is inside after wait of epoch %d", seen, got)
				}
				g.leave(phase)
			}
		})
	}
	for range 2 {
		running.Go(func() {
			for range 2000 {
				now := epoch.Add(1)
				g.wait()
				for old := settled.Load(); old < now && !settled.CompareAndSwap(old, now); old = settled.Load() {
				}
			}
		})
	}
	time.AfterFunc(300*time.Millisecond, func() { close(stop) })
	running.Wait()
}
