package cluster

import (
	"cmp"
	"math"
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Failure detection: how often a node says that it lives, and when its silence counts.
const (
	heartbeatEvery = 100 * time.Millisecond
	// phiDown is the suspicion at which a peer is down. With heartbeats every 100 ms it is reached
	// after 8·ln 10·mean ≈ 1.8 s of silence; a broken stream is noticed at once.
	phiDown = 8
	// intervalMin keeps a burst of heartbeats from making the detector nervous.
	intervalMin = heartbeatEvery
)

// detector is this node's own opinion of who is alive: phi-accrual over heartbeats (Hayashibara et
// al. 2004, with exponentially distributed intervals, as Cassandra has it) and the loss of the
// stream to a peer.
type detector struct {
	clock  env.Clock
	self   atomic.Uint64
	alive  atomic.Pointer[map[ring.NodeID]bool] // never changed in place
	change func(id ring.NodeID, up bool)

	telling sync.Mutex // one evaluation at a time, so that changes are told in their order

	mu    sync.Mutex
	peers map[ring.NodeID]*peerHealth
}

type peerHealth struct {
	connected bool
	beats     int
	last      time.Duration // monotonic
	mean      float64       // of the intervals, ns; exponentially weighted
}

func newDetector(clock env.Clock, change func(ring.NodeID, bool)) *detector {
	d := &detector{clock: clock, change: change, peers: map[ring.NodeID]*peerHealth{}}
	d.alive.Store(&map[ring.NodeID]bool{})
	return d
}

// Alive is the present opinion. A node always believes in itself.
func (d *detector) Alive(id ring.NodeID) bool {
	return uint64(id) == d.self.Load() || (*d.alive.Load())[id]
}

func (d *detector) health(id ring.NodeID) *peerHealth {
	h := d.peers[id]
	if h == nil {
		h = &peerHealth{mean: float64(heartbeatEvery)}
		d.peers[id] = h
	}
	return h
}

// heartbeat says that a peer was heard.
func (d *detector) heartbeat(id ring.NodeID) {
	now := d.clock.Monotonic()
	d.mu.Lock()
	h := d.health(id)
	if h.beats > 0 {
		interval := math.Max(float64(now-h.last), float64(intervalMin))
		h.mean += (math.Min(interval, float64(10*heartbeatEvery)) - h.mean) / 10
	}
	h.beats++
	h.last = now
	d.mu.Unlock()
	d.evaluate()
}

// connected says that this node's stream to a peer came up or broke.
func (d *detector) connected(id ring.NodeID, up bool) {
	d.mu.Lock()
	h := d.health(id)
	h.connected = up
	if !up {
		h.beats = 0 // it must be heard anew
	}
	d.mu.Unlock()
	d.evaluate()
}

// forget drops a peer that is no member any more.
func (d *detector) forget(id ring.NodeID) {
	d.mu.Lock()
	delete(d.peers, id)
	d.mu.Unlock()
	d.evaluate()
}

// evaluate forms the opinions anew and reports those that changed, also of peers it forgot.
func (d *detector) evaluate() {
	type opinion struct {
		id ring.NodeID
		up bool
	}
	d.telling.Lock()
	defer d.telling.Unlock()
	var changed []opinion
	now := d.clock.Monotonic()
	d.mu.Lock()
	old := *d.alive.Load()
	next := make(map[ring.NodeID]bool, len(d.peers))
	for id, h := range d.peers {
		up := h.connected && h.beats > 0 && phi(now-h.last, h.mean) < phiDown
		next[id] = up
		if up != old[id] {
			changed = append(changed, opinion{id, up})
		}
	}
	for id, up := range old {
		if d.peers[id] == nil && up {
			changed = append(changed, opinion{id, false})
		}
	}
	slices.SortFunc(changed, func(a, b opinion) int { return cmp.Compare(a.id, b.id) })
	if len(changed) > 0 || len(next) != len(old) {
		d.alive.Store(&next)
	}
	d.mu.Unlock()
	for _, c := range changed {
		d.change(c.id, c.up)
	}
}

// phi is how surprising a silence is: -log10 of the chance that the next heartbeat is still to come.
func phi(silence time.Duration, mean float64) float64 {
	return float64(silence) / mean * math.Log10E
}
