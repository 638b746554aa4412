package history

import (
	"fmt"

	"cqld/ring"
)

// WriteLevels returns the levels at which clients write. SERIAL and LOCAL_SERIAL are levels of reads only.
func WriteLevels() []ring.Consistency {
	return []ring.Consistency{ring.Any, ring.One, ring.Two, ring.Three, ring.Quorum, ring.All, ring.LocalQuorum,
		ring.EachQuorum, ring.LocalOne}
}

// ReadLevels returns the levels at which clients read.
func ReadLevels() []ring.Consistency {
	return append(WriteLevels()[1:], ring.Serial, ring.LocalSerial)
}

// LevelAt is a consistency level at a coordinator's data center.
type LevelAt struct {
	Level      ring.Consistency
	Datacenter string
}

// groups returns how many replicas of each data center, and of all, have answered at least when a request succeeds.
func (a LevelAt) groups(r ring.Replication) (each []int, all int) {
	// All replicas are one group.
	if !r.ByDatacenter() {
		if a.Level != ring.Any {
			all = a.Level.BlockFor(r, a.Datacenter)
		}
		return []int{0}, all
	}
	each = make([]int, len(r.Datacenters))
	for i, f := range r.Datacenters {
		switch {
		case a.Level == ring.EachQuorum, a.Level.IsLocal() && f.Datacenter == a.Datacenter:
			each[i] = ring.QuorumOf(f.Factor)
			if a.Level == ring.LocalOne {
				each[i] = 1
			}
		}
		all += each[i]
	}
	switch {
	// The sum of the groups is all that these levels guarantee: ANY guarantees none, because a hint suffices.
	case a.Level == ring.Any || a.Level.IsLocal() || a.Level == ring.EachQuorum:
	default:
		all = a.Level.BlockFor(r, a.Datacenter)
	}
	return each, all
}

// Overlaps reports whether any replicas that answer at a overlap with any replicas that answer at b.
func (a LevelAt) Overlaps(b LevelAt, r ring.Replication) bool {
	eachA, allA := a.groups(r)
	eachB, allB := b.groups(r)
	// Two sets that are larger together than the whole have a common member. The same holds in each data center.
	if allA+allB > r.Total() {
		return true
	}
	for i := range eachA {
		have := r.Total()
		if r.ByDatacenter() {
			have = r.Datacenters[i].Factor
		}
		if eachA[i]+eachB[i] > have {
			return true
		}
	}
	return false
}

// LevelCall is a write or a deletion, or a read that returned it and therefore stored it on as many replicas as
// answered.
type LevelCall struct {
	// Stamp is the timestamp and the value of the write, unique in the history of the row.
	Stamp    int64
	Deletion bool
	Level    LevelAt
	Call     int64
	// Returned is 0 while the outcome is unknown.
	Returned int64
	// Dropped means that the call certainly had no effect.
	Dropped bool
	// Read means a read, whose Level is the level at which it stored the value again.
	Read bool
}

// Levels is the history of one row that clients write, delete and read at all consistency levels. A read must return a
// value that was written and, if the levels and data centers of two requests make their replicas overlap, nothing older
// than a value that was acknowledged or read before.
type Levels struct {
	Key         int
	Replication ring.Replication
	Calls       []*LevelCall
}

// Lossy reports whether an acknowledged write may be lost with a disk: fewer than a quorum acknowledged it.
func (h *Levels) Lossy(c *LevelCall) bool {
	return !c.Level.Overlaps(LevelAt{ring.Quorum, c.Level.Datacenter}, h.Replication)
}

// Least returns the newest write that a read which begins now must return, or a newer one; nil means none. losing means
// that a disk may have lost data.
func (h *Levels) Least(at LevelAt, losing bool) (newest *LevelCall) {
	for _, c := range h.Calls {
		if c.Returned != 0 && c.Level.Overlaps(at, h.Replication) && !(losing && h.Lossy(c)) &&
			(newest == nil || c.Stamp > newest.Stamp) {
			newest = c
		}
	}
	return newest
}

// Judge compares the value that a read returned, 0 for none, with the required one, and adds the read to the history
// with the next time of tick. It returns a violation, or an empty text.
func (h *Levels) Judge(at LevelAt, call, found int64, least *LevelCall, tick func() int64) string {
	for _, c := range h.Calls {
		switch {
		case c.Read || c.Dropped && c.Stamp != found || c.Deletion != (found == 0) || found != 0 && c.Stamp != found:
			continue
		case c.Dropped:
			return fmt.Sprintf("level %d: a read at %s finds %d, whose write was refused", h.Key, at.Level, found)
		case least == nil || c.Stamp >= least.Stamp:
			h.see(at, c, found, tick)
			return ""
		case found != 0:
			return fmt.Sprintf("level %d: a read at %s in %s, called at %d, finds %d, but %+v was acknowledged or "+
				"read before", h.Key, at.Level, at.Datacenter, call, found, *least)
		}
	}
	if found != 0 || least != nil {
		return fmt.Sprintf("level %d: a read at %s in %s, called at %d, finds %d, and must find %+v", h.Key, at.Level,
			at.Datacenter, call, found, least)
	}
	return ""
}

// see records that a read has returned a value: later reads whose level overlaps with its own must return it, too. This
// holds only for reads that repair: their level overlaps with itself.
func (h *Levels) see(at LevelAt, c *LevelCall, found int64, tick func() int64) {
	if found == 0 || at.Level.IsSerial() || !at.Overlaps(at, h.Replication) {
		return
	}
	h.Calls = append(h.Calls, &LevelCall{Stamp: c.Stamp, Level: at, Call: c.Call, Returned: tick(), Read: true})
}
