package liveness

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

// Failure detection: the interval of heartbeats, and the silence after which a node counts as down.
const (
	// HeartbeatEvery is a quarter of a second because heartbeats are most of the work of an idle ring: all nodes send
	// them to all others.
	HeartbeatEvery = 250 * time.Millisecond
	// phiDown is the suspicion level at which a peer is considered down. With heartbeats every 250 ms it is reached
	// after 3.2·ln 10·mean ≈ 1.84 s of silence: seven heartbeats. The end of a stream is detected immediately.
	phiDown = 3.2
	// intervalMin bounds the mean interval from below, so a burst of heartbeats does not make the detector too
	// sensitive.
	intervalMin = HeartbeatEvery
	// localPauseMax is the time between two observations beyond which this process itself must have been paused, for
	// example by SIGSTOP or its hypervisor: normally it evaluates at every heartbeat of a peer, and four times a
	// second. It is shorter than the silence after which a peer counts as down, so a shorter pause cannot mark a peer
	// as down. Cassandra's MAX_LOCAL_PAUSE is 5 s, with conviction after 18 s.
	localPauseMax = time.Second
)

// Detector decides which nodes this node considers alive: phi-accrual over heartbeats (Hayashibara et al. 2004, with
// exponentially distributed intervals, as in Cassandra) and the end of the stream to a peer.
//
// Alive is lock-free, because every request calls it for every replica. mu guards the heartbeat records. telling is
// acquired before mu.
type Detector struct {
	clock  env.Clock
	self   atomic.Uint64
	alive  atomic.Pointer[map[ring.NodeID]bool] // replaced, never modified
	change func(id ring.NodeID, up bool)

	telling sync.Mutex // held during an evaluation, so that changes are reported in order

	mu    sync.Mutex
	peers map[ring.NodeID]*peerHealth
	// observed is the time of the last observation, and resumed the end of the last pause of this process; both are
	// monotonic, and zero before the first.
	observed, resumed time.Duration
}

type peerHealth struct {
	// connected means that this node's stream to the peer is open, and beats counts the heartbeats since it opened.
	connected bool
	beats     int
	last      time.Duration // monotonic
	mean      float64       // mean interval in ns, exponentially weighted
}

// NewDetector returns a detector that considers all peers down. change is called, in order, when the view of a peer
// changes.
func NewDetector(clock env.Clock, change func(ring.NodeID, bool)) *Detector {
	d := &Detector{clock: clock, change: change, peers: map[ring.NodeID]*peerHealth{}}
	d.alive.Store(&map[ring.NodeID]bool{})
	return d
}

// Self returns this node's id; zero before it is a member.
func (d *Detector) Self() ring.NodeID { return ring.NodeID(d.self.Load()) }

// SetSelf sets this node's id.
func (d *Detector) SetSelf(id ring.NodeID) { d.self.Store(uint64(id)) }

// Alive returns the current view. A node always considers itself alive.
func (d *Detector) Alive(id ring.NodeID) bool {
	return uint64(id) == d.self.Load() || (*d.alive.Load())[id]
}

// health returns the record of a peer, and adds one with the expected interval. The caller holds mu.
func (d *Detector) health(id ring.NodeID) *peerHealth {
	h := d.peers[id]
	if h == nil {
		h = &peerHealth{mean: float64(HeartbeatEvery)}
		d.peers[id] = h
	}
	return h
}

// observe returns the monotonic time. If the last observation is too long ago, it records that this process was paused
// until now. The caller holds mu.
func (d *Detector) observe() (now time.Duration) {
	now = d.clock.Monotonic()
	// Before the first observation, no heartbeat can have been missed.
	if d.observed > 0 && now-d.observed > localPauseMax {
		d.resumed = now
	}
	d.observed = now
	return now
}

// Heartbeat records a heartbeat of a peer.
func (d *Detector) Heartbeat(id ring.NodeID) {
	d.mu.Lock()
	now := d.observe()
	h := d.health(id)
	// There is no interval before the first heartbeat of a stream, nor across a pause of this process. An interval is
	// capped at ten times the expected one, so one outage does not make the detector slow to notice the next.
	if h.beats > 0 && h.last >= d.resumed {
		interval := math.Max(float64(now-h.last), float64(intervalMin))
		h.mean += (math.Min(interval, float64(10*HeartbeatEvery)) - h.mean) / 10
	}
	h.beats++
	h.last = now
	// Unlocked first, because Evaluate acquires telling before mu.
	d.mu.Unlock()
	d.Evaluate()
}

// Connected records that this node's stream to a peer opened or ended.
func (d *Detector) Connected(id ring.NodeID, up bool) {
	d.mu.Lock()
	h := d.health(id)
	h.connected = up
	if !up {
		h.beats = 0 // down until the peer's next heartbeat
	}
	d.mu.Unlock()
	d.Evaluate()
}

// Lost reports whether the connection to a peer has ended, or the peer has been silent for silenceMax since this
// process was last paused.
func (d *Detector) Lost(id ring.NodeID) bool {
	d.mu.Lock()
	defer d.mu.Unlock()
	now := d.observe()
	h := d.peers[id]
	return h == nil || !h.connected || h.beats > 0 && now-max(h.last, d.resumed) > silenceMax
}

// Forget removes a peer that is no longer a member.
func (d *Detector) Forget(id ring.NodeID) {
	d.mu.Lock()
	delete(d.peers, id)
	d.mu.Unlock()
	d.Evaluate()
}

// Evaluate updates the views and reports changes, also for removed peers.
//
// After a pause of this process, heartbeats that peers sent in the meantime are still queued or in transit. As in
// Cassandra's failure detector, silence then does not mark a peer as down until localPauseMax has passed again.
func (d *Detector) Evaluate() {
	type opinion struct {
		id ring.NodeID
		up bool
	}
	d.telling.Lock()
	defer d.telling.Unlock()
	var changed []opinion
	d.mu.Lock()
	now := d.observe()
	resuming := d.resumed > 0 && now-d.resumed < localPauseMax
	old := *d.alive.Load()
	next := make(map[ring.NodeID]bool, len(d.peers))
	for id, h := range d.peers {
		// A peer that was down before the pause remains down until its next heartbeat.
		up := h.connected && h.beats > 0 && (phi(now-h.last, h.mean) < phiDown || resuming && old[id])
		next[id] = up
		if up != old[id] {
			changed = append(changed, opinion{id, up})
		}
	}
	// A removed peer has no record; it is reported as down.
	for id, up := range old {
		if d.peers[id] == nil && up {
			changed = append(changed, opinion{id, false})
		}
	}
	// Sorted, because the order of a map would make simulations unrepeatable.
	slices.SortFunc(changed, func(a, b opinion) int { return cmp.Compare(a.id, b.id) })
	// Most evaluations change nothing, and keep the map.
	if len(changed) > 0 || len(next) != len(old) {
		d.alive.Store(&next)
	}
	d.mu.Unlock()
	// mu is released, because callbacks may query the view. telling keeps the order of concurrent evaluations.
	for _, c := range changed {
		d.change(c.id, c.up)
	}
}

// phi returns the suspicion level of a silence: -log10 of the probability that a heartbeat arrives later than that.
func phi(silence time.Duration, mean float64) float64 {
	// With exponentially distributed intervals the probability is e^(-silence/mean).
	return float64(silence) / mean * math.Log10E
}
