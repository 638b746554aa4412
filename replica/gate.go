package replica

import (
	"sync"
	"sync/atomic"
)

// gate counts the mutations between their admission by the topology and the engine. It is not a lock: enter never
// waits, because a mutation may be admitted in the callback of another one while a stream waits for both.
//
// Mutations enter the current phase. wait begins the next phase and waits for the mutations of the previous one.
type gate struct {
	phase   atomic.Uint64
	inside  [2]atomic.Int64 // by the parity of the phase
	waiting sync.Mutex      // held by wait, which runs once at a time
	empty   chan struct{}   // of capacity 1; signals that the phase for which wait waits may be empty
}

func newGate() *gate { return &gate{empty: make(chan struct{}, 1)} }

// enter returns the phase to pass to leave.
func (g *gate) enter() uint64 {
	for {
		p := g.phase.Load()
		g.inside[p&1].Add(1)
		if g.phase.Load() == p {
			return p
		}
		g.leave(p) // wait has begun a phase meanwhile and may not have counted this mutation
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

// wait returns when all mutations that entered before have left.
func (g *gate) wait() {
	g.waiting.Lock()
	defer g.waiting.Unlock()
	p := g.phase.Add(1) - 1
	for g.inside[p&1].Load() > 0 {
		<-g.empty
	}
}
