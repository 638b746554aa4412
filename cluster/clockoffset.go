package cluster

import (
	"slices"
	"sync"
	"sync/atomic"
	"time"

	"cqld/ring"
)

// Clocks that differ let an older write win. A node whose clock differs from those of most others by
// more than clockOut must not serve; beyond clockAlarm operators are told.
const (
	clockAlarm = 100 * time.Millisecond
	clockOut   = 500 * time.Millisecond
	// clockSamples is how many heartbeats of a peer are looked at: the one that was on its way for
	// the least time tells the most. At ten a second they are the last 1.6 s.
	clockSamples = 16
)

// clockOffsets compares this node's clock with its peers', by the times in their heartbeats.
type clockOffsets struct {
	mu    sync.Mutex
	peers map[ring.NodeID]*clockSample
	// ahead is how far this node's clock is before the others' median, in ns; out whether most of
	// them are beyond clockOut.
	ahead atomic.Int64
	out   atomic.Bool
}

// clockSample is the last differences seen of one peer, its clock less this one's, µs.
type clockSample struct {
	differences [clockSamples]int64
	n           int
}

// note takes a peer's time, as it was when the heartbeat left, and this node's now.
func (o *clockOffsets) note(peer ring.NodeID, theirs, ours int64) {
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

// evaluate judges by the peers that alive lets count; it says what changed for the worse.
func (o *clockOffsets) evaluate(alive func(ring.NodeID) bool) (alarm bool) {
	o.mu.Lock()
	var differences []int64
	beyond := 0
	for id, s := range o.peers {
		if !alive(id) {
			delete(o.peers, id) // its next heartbeats may be from another time
			continue
		}
		if s.n < clockSamples {
			continue
		}
		d := slices.Max(s.differences[:]) // time on the way makes a difference less
		differences = append(differences, d)
		if d > clockOut.Microseconds() || d < -clockOut.Microseconds() {
			beyond++
		}
	}
	o.mu.Unlock()
	if len(differences) == 0 {
		o.ahead.Store(0)
		o.out.Store(false)
		return false
	}
	slices.Sort(differences)
	ahead := -time.Duration(differences[len(differences)/2]) * time.Microsecond
	o.ahead.Store(int64(ahead))
	o.out.Store(beyond*2 > len(differences)+1) // this node itself is one of those who agree with it
	return ahead > clockAlarm || ahead < -clockAlarm
}

// ClockOffset is how far this node's clock is before those of most others, and whether that is too
// far to serve: then what it writes could lose against what was written before, or never be
// overwritten.
func (c *Cluster) ClockOffset() (ahead time.Duration, tooFar bool) {
	return time.Duration(c.clocks.ahead.Load()), c.clocks.out.Load()
}

// checkClocks is called on every tick.
func (c *Cluster) checkClocks() {
	was := c.clocks.out.Load()
	alarm := c.clocks.evaluate(c.Alive)
	ahead, out := c.ClockOffset()
	switch {
	case out && !was:
		c.opts.Logger.Error("clock differs too much from the other nodes; not serving clients", "ahead", ahead)
	case was && !out:
		c.opts.Logger.Info("clock is in sync with the other nodes again", "ahead", ahead)
	case alarm && c.ticks%clockAlarmEvery == 0:
		c.opts.Logger.Warn("clock differs from the other nodes", "ahead", ahead)
	}
}

// clockAlarmEvery is how many ticks lie between two warnings: a minute.
const clockAlarmEvery = uint64(time.Minute / tickEvery)
