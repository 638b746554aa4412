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
		// The mutation is counted before the phase is read again, whereas wait changes the phase before it reads the
		// count, so one of the two notices the other.
		g.inside[p&1].Add(1)
		if g.phase.Load() == p {
			return p
		}
		g.leave(p) // wait has begun a phase meanwhile and may not have counted this mutation
	}
}

// leave ends the passage of a mutation that entered in phase p. If wait has begun the next phase meanwhile, the last
// mutation to leave signals it.
func (g *gate) leave(p uint64) {
	if g.inside[p&1].Add(-1) == 0 && g.phase.Load() != p {
		select {
		// The send never blocks: if a signal is pending, wait will read the count anyway.
		case g.empty <- struct{}{}:
		default:
		}
	}
}

// wait returns when all mutations that entered before have left.
func (g *gate) wait() {
	g.waiting.Lock()
	defer g.waiting.Unlock()
	// From here on, mutations are counted in the other element, so wait ends even under constant load.
	p := g.phase.Add(1) - 1
	// A signal may be left over from an earlier wait, or come from a mutation that entered and left again: the count
	// decides.
	for g.inside[p&1].Load() > 0 {
		<-g.empty
	}
}
