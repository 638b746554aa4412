package load

import (
	"bytes"
	"cmp"
	"maps"
	"slices"
	"sync"
	"time"

	"cqld/internal/env"
	"cqld/ring"
)

// Reports exchanges the measurements of the nodes of a cluster: it decides when this node sends a report, and keeps the
// last report of each other node. All methods are safe for concurrent use.
type Reports struct {
	meter *Meter
	clock env.Clock

	mu       sync.Mutex
	members  []*ring.Node  // by id
	own      []byte        // the last report of this node
	sent     time.Duration // when own was made
	changed  bool          // the ring has changed since
	received map[ring.NodeID]received
	refused  int64
}

// received is the last report of a node, which is immutable. It is decoded when it is read: its ranges count as soon as
// this node has the sender's ring, and no longer when the ring has changed.
type received struct {
	report []byte
	at     time.Duration // monotonic
}

// NewReports returns an exchange of the measurements of meter, which has no reports yet.
func NewReports(meter *Meter, clock env.Clock) *Reports {
	return &Reports{meter: meter, clock: clock, received: map[ring.NodeID]received{}}
}

// interval returns the time between two reports in a ring with the given number of members.
func interval(members int) time.Duration {
	return max(reportEvery, time.Duration(members)*reportEveryMember)
}

// Beat is called for each heartbeat that is sent to all other nodes. It updates the averages if it is time, and returns
// a report to append to the heartbeat, or nil if none is due. The caller must not change it.
func (r *Reports) Beat() []byte {
	r.meter.Beat()
	r.mu.Lock()
	defer r.mu.Unlock()
	now := r.clock.Monotonic()
	if r.own != nil && !r.changed && now-r.sent < interval(len(r.members)) {
		return nil
	}
	r.own, r.sent, r.changed = r.meter.AppendReport(nil, len(r.members)), now, false
	return r.own
}

// Last returns the last report that Beat returned, for a node that has just been connected. nil means that there is
// none. The caller must not change it.
func (r *Reports) Last() []byte {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.own
}

// Receive keeps a report of another node. One that cannot be decoded is counted and ignored: the load of a node decides
// nothing that must not fail. It does not keep b.
func (r *Reports) Receive(from ring.NodeID, b []byte) {
	_, err := decodeReport(b, r.meter.layout.Load(), entriesMax)
	r.mu.Lock()
	defer r.mu.Unlock()
	// The sender may have been removed meanwhile.
	if err != nil || !isMember(r.members, from) {
		r.refused++
		return
	}
	r.received[from] = received{report: bytes.Clone(b), at: r.clock.Monotonic()}
}

// isMember searches for a node in members, which are ordered by id.
func isMember(members []*ring.Node, id ring.NodeID) bool {
	_, ok := slices.BinarySearchFunc(members, id, func(n *ring.Node, id ring.NodeID) int {
		return cmp.Compare(n.ID, id)
	})
	return ok
}

// Retain sets the members of a new ring, ordered by id, and forgets the reports of other nodes. members must not
// change. The next Beat returns a report, because the last one has ranges of the former ring.
func (r *Reports) Retain(members []*ring.Node) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.members, r.changed = members, true
	maps.DeleteFunc(r.received, func(id ring.NodeID, _ received) bool { return !isMember(members, id) })
}

// Refused returns the number of reports that could not be used.
func (r *Reports) Refused() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.refused
}

// All returns the last report of each other node that is not too old, and the report of this node for self, which is as
// recent as its last beat. The caller owns the reports.
func (r *Reports) All(self ring.NodeID) map[ring.NodeID]*Report {
	s, l := r.meter.snapshot()
	out := map[ring.NodeID]*Report{self: s.report()}
	r.mu.Lock()
	now, last, most := r.clock.Monotonic(), maps.Clone(r.received), reportsMissed*interval(len(r.members))
	r.mu.Unlock()
	for id, x := range last {
		// A report that was decoded when it came has an error only if it names ranges beyond the current ring.
		if decoded, err := decodeReport(x.report, l, entriesMax); err == nil && id != self && now-x.at <= most {
			out[id] = decoded
		}
	}
	return out
}

// report returns the snapshot in the form of a report, with all ranges and without the error of one.
func (s *Snapshot) report() *Report {
	r := &Report{Host: s.Host, Sum: reported(s.Sum), Held: len(s.Ranges)}
	for i := range s.Ranges {
		x := &s.Ranges[i]
		e := RangeReport{Tokens: x.Tokens, Reported: reported(x.Figures)}
		if h := x.Hottest; h != nil {
			e.Hottest = HotKey{Table: h.Table, Token: h.Token, Share: min(1, h.Charge/e.Charge)}
		}
		r.Ranges = append(r.Ranges, e)
	}
	return r
}
