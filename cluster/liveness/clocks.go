package liveness

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
)

// Clock skew can let an older write win. A node whose clock differs from most other clocks by more than clockOut must
// not serve clients; beyond clockAlarm it logs a warning.
const (
	clockAlarm = 100 * time.Millisecond
	clockOut   = 500 * time.Millisecond
	// clockSamples is the number of heartbeats of a peer that are considered: the one with the shortest transit time
	// is the most accurate. At four a second they cover the last 2 s.
	clockSamples = 8
)

// Clocks compares this node's clock with its peers' clocks, using the times in heartbeats.
type Clocks struct {
	mu    sync.Mutex
	peers map[ring.NodeID]*clockSample
	// ahead is the offset of this node's clock from the median of the others, in ns. out reports whether most of them
	// differ by more than clockOut.
	ahead atomic.Int64
	out   atomic.Bool
}

// clockSample contains the latest differences of one peer's clock to this node's, in µs.
type clockSample struct {
	differences [clockSamples]int64
	n           int
}

// Note records a peer's time when it sent a heartbeat, and this node's time now.
func (o *Clocks) Note(peer ring.NodeID, theirs, ours int64) {
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.peers == nil {
		o.peers = map[ring.NodeID]*clockSample{}
	}
	s := o.peers[peer]
	if s == nil {
		s = &clockSample{}
		o.peers[peer] = s
	}
	s.differences[s.n%clockSamples] = theirs - ours
	s.n++
}

// Evaluate compares the clocks of the peers that are alive. It reports whether the state has become worse.
func (o *Clocks) Evaluate(alive func(ring.NodeID) bool) (alarm bool) {
	o.mu.Lock()
	var differences []int64
	beyond := 0
	for id, s := range o.peers {
		if !alive(id) {
			delete(o.peers, id) // after a restart, its clock may be different
			continue
		}
		// With fewer samples, one slow message could look like clock skew.
		if s.n < clockSamples {
			continue
		}
		d := slices.Max(s.differences[:]) // transit time only makes a difference smaller
		differences = append(differences, d)
		if d > clockOut.Microseconds() || d < -clockOut.Microseconds() {
			beyond++
		}
	}
	o.mu.Unlock()
	// Without samples, for example in a single-node cluster, there is nothing to compare, and this node serves.
	if len(differences) == 0 {
		o.ahead.Store(0)
		o.out.Store(false)
		return false
	}
	slices.Sort(differences)
	// The median is robust against one wrong clock.
	ahead := -time.Duration(differences[len(differences)/2]) * time.Microsecond
	o.ahead.Store(int64(ahead))
	o.out.Store(beyond*2 > len(differences)+1) // this node counts as agreeing with itself
	return ahead > clockAlarm || ahead < -clockAlarm
}

// Offset returns how far this node's clock is ahead of most others, and whether the difference is too large to serve
// clients: its writes could lose against earlier writes, or could never be overwritten.
func (o *Clocks) Offset() (ahead time.Duration, tooFar bool) {
	return time.Duration(o.ahead.Load()), o.out.Load()
}
