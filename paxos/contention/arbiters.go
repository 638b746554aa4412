package contention

import (
	"sync"
	"time"

	"cqld/coordinator/latency"
	"cqld/ring"
)

// Arbiters tracks the response times of the nodes that a coordinator asks for turns, and which of them did not
// respond. A coordinator avoids an unresponsive one for a while, long before the failure detector notices that it is
// dead. The zero value is empty. Its methods may be called concurrently.
type Arbiters struct {
	waits  latency.Peers
	mu     sync.Mutex
	silent map[ring.NodeID]time.Duration // until when each is avoided
	heard  map[ring.NodeID]time.Duration // when each answered last
}

// Usable reports whether to ask an arbiter. After a while, one request tries an unresponsive one again.
func (k *Arbiters) Usable(node ring.NodeID, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, silent := k.silent[node]
	if silent && now < until {
		return false
	}
	// The caller is the one that tries; others keep avoiding the node meanwhile.
	if silent {
		k.silent[node] = now + avoided
	}
	return true
}

// Timeout returns how long to wait for an arbiter before another one is asked, unless the arbiter answers others
// meanwhile.
func (k *Arbiters) Timeout(node ring.NodeID, now time.Duration) time.Duration {
	return max(timeoutTrips*k.waits.Of(node, now), timeoutLeast)
}

// Answered records an arbiter's response time, even if no request waited for it by then.
func (k *Arbiters) Answered(node ring.NodeID, took, now time.Duration) {
	k.waits.Record(node, took, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	// An answer ends the avoidance at once, even if it came too late for its request.
	delete(k.silent, node)
	if k.heard == nil {
		k.heard = map[ring.NodeID]time.Duration{}
	}
	// The map is bounded, because over time a cluster may use any number of node identifiers.
	if _, known := k.heard[node]; known || len(k.heard) < heardMax {
		k.heard[node] = now
	}
}

// HeardSince reports whether an arbiter has answered a request, of any partition, at a time or later. If it has, a
// missing answer means that others have the partition's turn, not that the arbiter is dead: another arbiter would grant
// the turn a second time.
func (k *Arbiters) HeardSince(node ring.NodeID, since time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	at, ok := k.heard[node]
	return ok && at >= since
}

// Silent records that an arbiter did not answer in time.
func (k *Arbiters) Silent(node ring.NodeID, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silent == nil {
		k.silent = map[ring.NodeID]time.Duration{}
	}
	// Beyond the bound the node is not recorded, so the next request waits for it again.
	if len(k.silent) < silentMax {
		k.silent[node] = now + avoided
	}
}
