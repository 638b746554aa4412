package replica

import (
	"sync"
	"sync/atomic"
)

// gate counts the mutations between the look at the topology and the engine. It is no lock: enter never waits, so
// that a mutation may be admitted by the outcome of another one while a stream waits for both.
//
// Mutations enter in the current phase. wait begins the next phase and waits for those of the one before.
type gate struct {
	phase   atomic.Uint64
	inside  [2]atomic.Int64 // by the parity of the phase
	waiting sync.Mutex      // held by wait: one at a time
	empty   chan struct{}   // of capacity 1: the phase that wait waits for may be empty
}

func newGate() *gate { return &gate{empty: make(chan struct{}, 1)} }

// enter returns the phase that leave wants.
func (g *gate) enter() uint64 {
	for {
		p := g.phase.Load()
		g.inside[p&1].Add(1)
		if g.phase.Load() == p {
			return p
		}
		g.leave(p) // wait began a phase meanwhile and may have missed this one
	}
}

func (g *gate) leave(p uint64) {
	if g.inside[p&1].Add(-1) == 0 && g.phase.Load() != p {
		select {
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// wait returns when all that entered before have left.
func (g *gate) wait() {
	g.waiting.Lock()
	defer g.waiting.Unlock()
	p := g.phase.Add(1) - 1
	for g.inside[p&1].Load() > 0 {
		<-g.empty
	}
}
