package latency

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
)

// Peers contains a moving average of each node's response times to reads. The zero value is empty.
type Peers struct{ nodes sync.Map } // ring.NodeID → *peerLatency

// peerLatency has the average as of the time updated. The two are stored one after the other, so a reader may see a
// new average with an old time, which only makes it age.
type peerLatency struct{ average, updated atomic.Int64 } // nanoseconds

// halfLife is the half-life of an average without new samples, so that a node that was slow is tried again.
const halfLife = 10 * time.Second

// Record adds a response time, with a weight of one eighth.
func (p *Peers) Record(node ring.NodeID, d, now time.Duration) {
	v, ok := p.nodes.Load(node)
	if !ok {
		v, _ = p.nodes.LoadOrStore(node, new(peerLatency))
	}
	l := v.(*peerLatency)
	if old := l.average.Load(); old != 0 {
		d = (7*time.Duration(old) + d) / 8 // a concurrent update may be lost, which is harmless
	}
	l.average.Store(int64(d))
	l.updated.Store(int64(now))
}

// Of returns the average; 0 for a node without samples, so that it is tried.
func (p *Peers) Of(node ring.NodeID, now time.Duration) time.Duration {
	v, ok := p.nodes.Load(node)
	if !ok {
		return 0
	}
	l := v.(*peerLatency)
	// A concurrent update may be later than now, so the difference is clamped at zero.
	age := max(now-time.Duration(l.updated.Load()), 0)
	// The average halves with each half-life. More than 62 of them would shift the sign.
	return time.Duration(l.average.Load()) >> min(age/halfLife, 62)
}

// Step is how much faster a node must be to be preferred: with smaller differences, all coordinators would prefer the
// same replica, and then the next.
const Step = 500 * time.Microsecond
