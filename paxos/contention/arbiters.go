package contention

import (
	"sync"
	"time"

	"cqld/coordinator/latency"
	"cqld/ring"
)

// Arbiters is what a coordinator knows of the other nodes that it asks for turns: how long each takes to answer, and
// which were silent. A silent one is avoided for a while, long before the failure detector notices that it is dead. The
// zero value knows none; its methods may be called concurrently.
type Arbiters struct {
	waits  latency.Peers
	mu     sync.Mutex
	silent map[ring.NodeID]time.Duration // until when each is avoided
}

// Usable says whether an arbiter is to be asked. One that was silent is tried by one request after a while.
func (k *Arbiters) Usable(node ring.NodeID, now time.Duration) bool {
	k.mu.Lock()
	defer k.mu.Unlock()
	until, silent := k.silent[node]
	if silent && now < until {
		return false
	}
	if silent {
		k.silent[node] = now + avoided
	}
	return true
}

// Patience is how long to wait for an arbiter before another one is asked.
func (k *Arbiters) Patience(node ring.NodeID, now time.Duration) time.Duration {
	return max(patienceWaits*k.waits.Of(node, now), patienceLeast)
}

// Answered notes that an arbiter took so long to answer, even if nothing waited for it any more.
func (k *Arbiters) Answered(node ring.NodeID, took, now time.Duration) {
	k.waits.Record(node, took, now)
	k.mu.Lock()
	defer k.mu.Unlock()
	delete(k.silent, node)
}

// Silent notes that an arbiter did not answer in time.
func (k *Arbiters) Silent(node ring.NodeID, now time.Duration) {
	k.mu.Lock()
	defer k.mu.Unlock()
	if k.silent == nil {
		k.silent = map[ring.NodeID]time.Duration{}
	}
	if len(k.silent) < silentMax {
		k.silent[node] = now + avoided
	}
}
