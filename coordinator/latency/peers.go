package latency

import (
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
)

// Peers is a moving average of how long each node takes to answer reads. The zero value has met none.
type Peers struct{ nodes sync.Map } // ring.NodeID → *peerLatency

type peerLatency struct{ average, updated atomic.Int64 } // nanoseconds

// halfLife is how fast an average that is not renewed falls: a node that was slow is tried
// again.
const halfLife = 10 * time.Second

// Record takes one answer's time: an eighth of the average is the newest.
func (p *Peers) Record(node ring.NodeID, d, now time.Duration) {
	v, ok := p.nodes.Load(node)
	if !ok {
		v, _ = p.nodes.LoadOrStore(node, new(peerLatency))
	}
	l := v.(*peerLatency)
	if old := l.average.Load(); old != 0 {
		d = (7*time.Duration(old) + d) / 8 // two at once may lose one: no harm
	}
	l.average.Store(int64(d))
	l.updated.Store(int64(now))
}

// Of is the average; 0 for a node not met yet, so that it is tried.
func (p *Peers) Of(node ring.NodeID, now time.Duration) time.Duration {
	v, ok := p.nodes.Load(node)
	if !ok {
		return 0
	}
	l := v.(*peerLatency)
	age := max(now-time.Duration(l.updated.Load()), 0)
	return time.Duration(l.average.Load()) >> min(age/halfLife, 62)
}

// Step is how much faster a node must be to be preferred: small differences would make all
// coordinators prefer the same replica, and then the next.
const Step = 500 * time.Microsecond
