package counters

import (
	"errors"
	"math"
	"slices"

	"cqld/coordinator"
	"cqld/ring"
	"cqld/schema"
)

// updating is the state machine of the update of one partition at its coordinator. One leader at a time has the update.
//
//	begun ─ plan ─▶ asked ─ counted, or may be counted ─▶ over
//	          ▲      │ the node did nothing ──▶ ask the next replica
//	          │      └ no replica is left, and a newer topology may help ─┐
//	          └── resumed ── paused ◀─────────────────────────────────────┘
type updating struct {
	c     *Counters // for its view, its limits and the latencies of its coordinator
	table *schema.Table
	token ring.Token
	level ring.Consistency

	state   updateState
	refused bool   // a node of this plan answered that it is not a replica
	number  uint32 // of the awaited event, if asked or paused
	plans   int32  // plans that found no leader
	epoch   uint64 // of the current plan
	tried   []ring.NodeID
	backing [3]ring.NodeID // of tried, so that a usual update allocates none
}

// updateState is the state of an updating.
type updateState uint8

const (
	updateIdle   updateState = iota // only before the first event, and inside of a step
	updateAsked                     // a leader has the update, and may have counted it
	updatePaused                    // no node has the update
	updateOver                      // the client is answered
)

// init prepares an updating for its first event.
func (u *updating) init(c *Counters, table *schema.Table, level ring.Consistency, token ring.Token) {
	u.c, u.table, u.level, u.token = c, table, level, token
	u.tried = u.backing[:0]
}

// step takes an event and appends its effects. It neither sends, locks, waits nor calls back.
func (u *updating) step(ev *updateEvent, out []updateEffect) []updateEffect {
	if u.state == updateOver {
		return out
	}
	switch ev.kind {
	case updateBegun:
		if out = u.plan(ev.topology, out); u.state != updateOver {
			out = append(out, updateEffect{kind: updateArm, after: ev.after})
		}
	case updateAnswered:
		// An answer that is not awaited is a duplicate: a later request may be in progress.
		if u.state == updateAsked && ev.number == u.number {
			u.state = updateIdle
			return u.answered(ev, out)
		}
	case updateResumed:
		if u.state == updatePaused && ev.number == u.number {
			u.state = updateIdle
			return u.plan(ev.topology, out)
		}
	case updateTicked:
		// A leader may have counted the update, or may still receive it.
		return u.timeout(out)
	}
	return out
}

// plan asks the leader in a topology.
func (u *updating) plan(t *ring.Topology, out []updateEffect) []updateEffect {
	leader, ok := u.leader(t)
	if !ok {
		return u.unled(out)
	}
	u.checkPlan(leader, t.Epoch())
	u.tried, u.epoch = append(u.tried, leader), t.Epoch()
	return append(out, updateEffect{kind: updateLead, number: u.await(updateAsked), node: leader, epoch: u.epoch})
}

// await enters a state that ends with an event, and returns the number of the event.
func (u *updating) await(s updateState) uint32 {
	// Each awaited event has its own number, so that a duplicate has no effect.
	u.number++
	u.state = s
	return u.number
}

// leader returns this node if it is a replica, and otherwise the nearest live replica to which the current plan has not
// sent the update.
func (u *updating) leader(t *ring.Topology) (best ring.NodeID, found bool) {
	c, self, least := u.c, u.c.view.Self(), int64(math.MaxInt64)
	for _, node := range coordinator.ReplicasOf(self, t, u.table, u.token).Natural {
		switch {
		case u.wasTried(node):
			continue
		case node == self:
			return node, true
		case !c.view.Alive(node):
			continue
		}
		local := false
		if n := t.Node(node); n != nil {
			local = n.Datacenter == c.localDC
		}
		if !local && u.level.IsLocal() && u.table.Replication.ByDatacenter() {
			// The leader's acknowledgement would not count in this data center.
			continue
		}
		rank := c.c.LatencyRank(node)
		if !local {
			rank += math.MaxInt32 // after all nodes of this data center
		}
		if rank < least {
			best, least, found = node, rank, true
		}
	}
	return best, found
}

// wasTried reports whether the current plan has sent the update to a node. Such a node has certainly not counted it.
func (u *updating) wasTried(node ring.NodeID) bool { return slices.Contains(u.tried, node) }

// unled is called when no (further) replica can lead the update; nothing was done so far. Replicas that refuse know a
// different topology, which this node will know soon.
func (u *updating) unled(out []updateEffect) []updateEffect {
	again := u.refused && u.c.c.MayReplan(int(u.plans)+1)
	pause := coordinator.ReplanPause << u.plans
	u.plans++
	u.tried, u.refused = u.tried[:0], false
	if again {
		return append(out, updateEffect{kind: updateNote, note: coordinator.EventReplan},
			updateEffect{kind: updatePause, number: u.await(updatePaused), after: pause})
	}
	out = append(out, updateEffect{kind: updateNote, note: coordinator.EventUnavailable})
	return u.reply(&coordinator.Unavailable{Consistency: u.level, Required: u.blockFor()}, out)
}

// answered handles the answer of the leader. The update is sent to another leader only if this leader certainly counted
// nothing.
func (u *updating) answered(ev *updateEvent, out []updateEffect) []updateEffect {
	if ev.err == nil { // before the variables that errors.As lets escape
		return u.reply(nil, out)
	}
	var refusal *coordinator.NotReplica
	var unavailable *coordinator.Unavailable
	var overloaded *coordinator.Overloaded
	var timeout *coordinator.WriteTimeout
	var failure *coordinator.WriteFailure
	var replica *coordinator.ReplicaFailure
	err := ev.err
	switch {
	case ev.arrives:
		// The same leader may be tried again, because nothing was sent.
		u.tried = u.tried[:0]
		return append(out, updateEffect{
			kind:   updatePause,
			number: u.await(updatePaused),
			after:  coordinator.ArrivalPause,
		})
	case errors.As(err, &unavailable), errors.As(err, &overloaded), errors.As(err, &timeout), errors.As(err, &failure):
		return u.reply(err, out)
	case errors.Is(err, coordinator.ErrNotSent):
		u.refused = u.refused || errors.As(err, &refusal)
		return u.plan(ev.topology, out)
	case errors.As(err, &replica):
		return u.reply(&coordinator.WriteFailure{
			Consistency: u.level,
			BlockFor:    u.blockFor(),
			Type:        coordinator.WriteCounter,
			Failures:    []coordinator.NodeFailure{{Node: u.tried[len(u.tried)-1], Reason: replica.Reason}},
		}, out)
	}
	return u.timeout(out)
}

// timeout ends the update with an unknown outcome.
func (u *updating) timeout(out []updateEffect) []updateEffect {
	out = append(out, updateEffect{kind: updateNote, note: coordinator.EventWriteTimeout})
	return u.reply(&coordinator.WriteTimeout{
		Consistency: u.level,
		BlockFor:    u.blockFor(),
		Type:        coordinator.WriteCounter,
	}, out)
}

// blockFor returns how many acknowledgements the level requires, for errors.
func (u *updating) blockFor() int { return u.level.BlockFor(u.table.Replication, u.c.localDC) }

// reply ends the update.
func (u *updating) reply(err error, out []updateEffect) []updateEffect {
	u.state = updateOver
	return append(out, updateEffect{kind: updateReply, err: err})
}
