package counters

import (
	"cqld/internal/invariant"
	"cqld/ring"
)

// Invariants of the machines. The package comment has 1 to 3.
//
// Of an update at its coordinator:
//
//  4. The update is sent to a leader only while no other leader may count it.
//  5. A plan sends the update to a node once.
//  6. The epochs of plans do not decrease.
//  7. Until the client is answered, the answer of a leader or the end of a pause is awaited.
//
// Of the updates of a partition at their leader:
//
//  8. A partition has one queue, and one group at a time may change its shard.
//  9. If updates wait, the end of a group or a timer is awaited, which leads them.
//  10. A group has updates of one partition and one level, and each update is answered once.
//  11. The new sums are replicated after they are on this node's disk.

// check checks invariant 7 after a step.
func (u *updating) check() {
	invariant.Check(u.state != updateIdle, "counter: no event but the deadline would answer the client")
}

// checkPlan checks invariants 4 to 6.
func (u *updating) checkPlan(leader ring.NodeID, epoch uint64) {
	invariant.Check(u.state == updateIdle, "counter: a leader is asked while another one may count")
	invariant.Check(!u.wasTried(leader), "counter: a plan asks a node twice")
	invariant.Check(epoch >= u.epoch, "counter: a plan is older than the one before")
}

// checkLocked checks invariants 8 and 9 after a step. An idle queue was removed from its stripe.
func (q *queue) checkLocked() {
	busy := q.stripe.busy[q.key] == q
	invariant.Check(busy == (q.state != queueIdle), "counter: a partition has two queues")
	invariant.Check(len(q.waiting) == 0 || q.state != queueIdle, "counter: updates wait for no event")
	invariant.Check(len(q.waiting) > 0 || q.state != queueScheduled, "counter: a group of no updates is due")
}

// checkTake checks invariant 8 before a group begins.
func (q *queue) checkTake() {
	invariant.Check(q.state != queueLeading, "counter: a partition has two groups")
	invariant.Check(len(q.waiting) > 0, "counter: a group without updates is led")
}

// checkPassed checks invariant 8 before the next group is permitted.
func (q *queue) checkPassed() {
	invariant.Check(q.state == queueLeading, "counter: a group of a partition ends twice")
}

// check checks invariant 10 after a step.
func (g *leading) check() {
	invariant.Check((g.state == groupOver) == (g.updates == nil), "counter: a group ends without an answer")
	invariant.Check((g.state == groupReading) == (g.cmd != nil), "counter: a group reads nothing")
}

// checkUpdate checks invariant 10 before an update is added to the change.
func (g *leading) checkUpdate(u *ledUpdate) {
	invariant.Check(u.same(g.updates[0]) && u.Consistency == g.level,
		"counter: updates of different partitions or levels are led together")
}

// checkReplicate checks invariant 11.
func (g *leading) checkReplicate() {
	invariant.Check(g.durable, "counter: a sum is sent before it is on the leader's disk")
}
