package cputime

import (
	"runtime"
	"sync"
	"time"
)

// gaugeEvery is the shortest period over which a Gauge measures. The times of the machine advance by 10 ms.
const gaugeEvery = 500 * time.Millisecond

// A Gauge measures which share of the processors is in use: of the machine's, by all processes (Linux only), or of the
// processors that this process may use, by this process, whichever is more. The second is what a container with a limit
// sees, and the only one on other systems. The zero value is ready. It is safe for concurrent use.
type Gauge struct {
	mu   sync.Mutex
	last reading
	busy float64
}

// reading is what the system has counted at one moment.
type reading struct {
	at             time.Time
	process        time.Duration
	busy, all      time.Duration // of the machine
	machine, valid bool
}

// Busy returns the share of the processors, between 0 and 1, that was in use during the last half second or longer; 0
// at the first call. It makes two system calls at most every half second.
func (g *Gauge) Busy() float64 {
	g.mu.Lock()
	defer g.mu.Unlock()
	if now := time.Now(); !g.last.valid || now.Sub(g.last.at) >= gaugeEvery {
		next := reading{at: now, process: Process(), valid: true}
		next.busy, next.all, next.machine = machine()
		g.busy, g.last = next.since(&g.last, runtime.GOMAXPROCS(0)), next
	}
	return g.busy
}

// since returns the share of the processors that was in use between two readings. This process may use only some of the
// processors.
func (r *reading) since(last *reading, processors int) float64 {
	if !last.valid {
		return 0
	}
	share := float64(r.process-last.process) / float64(processors) / float64(max(1, r.at.Sub(last.at)))
	if r.machine && last.machine && r.all > last.all {
		share = max(share, float64(r.busy-last.busy)/float64(r.all-last.all))
	}
	return min(max(share, 0), 1)
}
