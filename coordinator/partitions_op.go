package coordinator

import (
	"errors"
	"fmt"
	"slices"
	"sync"
	"time"

	"cqld/coordinator/quorum"
	"cqld/internal/env"
	"cqld/internal/wire"
	"cqld/ring"
)

// partitionsOp lists partition keys in their own order. Whoever is asked tells, in that order, which of its
// partitions live; how far it has come is its mark. For every set of replicas that some token has, the
// level must be met: as many of them as it asks for must have a mark at a key or behind it before
// anything is said about the keys up to there. The least such key of all sets is the watermark: up to it,
// a key is in the answer if any node told it.
//
//	node 1   a c e │        mark e     {1 2 3} two of three: c
//	node 2   a b c │        mark c     {2 3 4} two of three: e
//	node 3   (slow)                    watermark c: a b c are in the answer
//	node 4   b d e f │      mark f
//
// Nodes that stand at the watermark, or before it, are asked on, as many as are needed.
type partitionsOp struct {
	c        *Coordinator
	req      *PartitionsRequest
	limit    int
	started  time.Duration
	deadline time.Duration

	mu       sync.Mutex
	done     func(*Partitions, error) // nil once called
	busy     bool                     // someone is in advance
	again    bool                     // and has something new to look at
	topology *ring.Topology
	plans    int
	pausing  bool // until the next plan
	refused  bool
	quotas   []partitionsQuota
	nodes    []*partitionsNode // nearest first
	timer    env.Timer
	cancel   *env.Cancel // of the steps
	unhook   func() bool // from the request's Cancel

	at     keyMark // the watermark
	answer Partitions
	bytes  int // of the keys in it
}

// keyMark is a place in a walk over keys: at a key, before all, or behind all.
type keyMark struct {
	key   []byte
	place int8 // -1 before all, 0 at key, 1 behind all
}

// partitionsQuota is a set of nodes of which some must have told.
type partitionsQuota struct {
	need  int
	nodes []*partitionsNode
}

// partitionsNode is one node of a plan.
type partitionsNode struct {
	node    ring.NodeID
	state   partitionsState
	asked   bool // once at least
	slow    bool // asked long ago: others are asked, too
	sent    time.Duration
	err     error
	mark    keyMark
	keys    [][]byte // told and behind the watermark
	scanned int
}

func (n *partitionsNode) at() ring.NodeID { return n.node }

type partitionsState uint8

const (
	partitionsReady  partitionsState = iota // may be asked
	partitionsOpen                          // was asked
	partitionsFailed                        // failed, or does not live
)

func (c *Coordinator) listPartitions(req *PartitionsRequest, limit int, done func(*Partitions, error)) {
	if n := c.reading.Add(1); n > c.limits.ReadsInFlight {
		c.reading.Add(-1)
		c.counts.overloaded.Add(1)
		done(nil, &Overloaded{What: "too many reads in flight"})
		return
	}
	now := c.clock.Monotonic()
	op := &partitionsOp{
		c: c, req: req, limit: limit, done: done, started: now, deadline: now + req.Timeout, at: keyMark{place: -1},
	}
	op.cancel = req.Cancel.Child(c.clock, op.deadline)
	if req.Cancel != nil {
		op.unhook = req.Cancel.OnCancel(op.canceled)
	}
	op.mu.Lock()
	if op.done == nil { // it is canceled already
		op.mu.Unlock()
		return
	}
	err := op.planLocked()
	if err != nil {
		op.finishLocked(err)
		return
	}
	op.mu.Unlock()
	op.advance()
	op.arm()
}

// compare compares places in the order of the walk.
func (op *partitionsOp) compare(a, b keyMark) int {
	if a.place != 0 || b.place != 0 {
		return int(a.place) - int(b.place)
	}
	return compareKeys(a.key, b.key, op.req.Reversed)
}

// planLocked finds the sets of replicas at the present topology, and which of their nodes live.
func (op *partitionsOp) planLocked() error {
	c := op.c
	op.plans++
	op.refused, op.topology = false, c.view.Topology()
	op.quotas, op.nodes = nil, nil
	replication := op.req.Table.Replication
	if replication.Class == ring.Local {
		op.addQuotas(ring.ReplicaSet{Natural: []ring.NodeID{c.view.Self()}})
	} else {
		known := map[string]bool{}
		var key []byte
		for _, r := range op.topology.Placement(replication).Ranges(ring.FullRange()) {
			if key = appendReaders(key[:0], &r.Replicas); !known[string(key)] {
				known[string(key)] = true
				op.addQuotas(r.Replicas)
			}
		}
	}
	for i := range op.quotas {
		q, alive := &op.quotas[i], 0
		for _, n := range q.nodes {
			if n.state != partitionsFailed {
				alive++
			}
		}
		if alive < q.need {
			c.counts.unavailable.Add(1)
			return &Unavailable{Consistency: op.req.Consistency, Required: q.need, Alive: alive}
		}
	}
	sortByProximity(c, op.topology, c.view.Self(), op.nodes, (*partitionsNode).at)
	return nil
}

// appendReaders appends what is the same for sets that are read from the same nodes. A ring of 4 nodes has 64
// ranges, and all of them come by for each listing.
func appendReaders(dst []byte, set *ring.ReplicaSet) []byte {
	for _, nodes := range [...][]ring.NodeID{set.Natural, set.Before} {
		var backing [8]ring.NodeID
		sorted := append(backing[:0], nodes...)
		slices.Sort(sorted)
		dst = wire.AppendUvarint(dst, uint64(len(sorted)))
		for _, id := range sorted {
			dst = wire.AppendUint64(dst, uint64(id))
		}
	}
	return dst
}

// addQuotas adds what the level asks for of one set of replicas, as a read of one token does (readOp).
func (op *partitionsOp) addQuotas(set ring.ReplicaSet) {
	c, level, replication := op.c, op.req.Consistency, op.req.Table.Replication
	var y quorum.Tally
	y.Reset(level, replication, op.topology, c.view.Self(), c.localDC)
	if !c.unsafe.ReadOneSide {
		y.JoinRead(set, level, replication)
	}
	members := slices.Clone(set.Natural)
	for _, id := range set.Before {
		if y.TwoSided() && !slices.Contains(members, id) {
			members = append(members, id)
		}
	}
	for i := range y.Quotas() {
		covering := &y.Quotas()[i]
		q := partitionsQuota{need: covering.Need}
		for _, id := range members {
			if y.Covers(covering, id) {
				q.nodes = append(q.nodes, op.find(id))
			}
		}
		op.quotas = append(op.quotas, q)
	}
}

// find is a node of the plan, new when it is met for the first time.
func (op *partitionsOp) find(id ring.NodeID) *partitionsNode {
	for _, n := range op.nodes {
		if n.node == id {
			return n
		}
	}
	n := &partitionsNode{node: id, mark: keyMark{place: -1}}
	if id != op.c.view.Self() && !op.c.view.Alive(id) {
		n.state, n.err = partitionsFailed, ErrNoReply
	}
	op.nodes = append(op.nodes, n)
	return n
}

// advance takes what was told into the answer, and asks on, until the answers of others are needed.
func (op *partitionsOp) advance() {
	op.mu.Lock()
	if op.again = true; op.busy {
		op.mu.Unlock()
		return
	}
	op.busy = true
	for op.again && op.done != nil && !op.pausing {
		op.again = false
		if op.mergeLocked() || op.enoughLocked() {
			op.finishLocked(nil)
			return
		}
		asks, ok := op.neededLocked()
		if !ok {
			if op.giveUpLocked() {
				return
			}
			break
		}
		plan := op.plans
		op.mu.Unlock()
		op.send(asks, plan)
		op.mu.Lock()
	}
	op.busy = false
	op.mu.Unlock()
}

// mergeLocked moves the watermark, and what was told up to there into the answer; true when that is all.
func (op *partitionsOp) mergeLocked() (finished bool) {
	to := keyMark{place: 1}
	for i := range op.quotas {
		if reached := op.reached(&op.quotas[i]); op.compare(reached, to) < 0 {
			to = reached
		}
	}
	if op.compare(to, op.at) <= 0 {
		return false
	}
	var told [][]byte
	rest := 0
	for _, n := range op.nodes {
		i := 0
		for i < len(n.keys) && op.compare(keyMark{key: n.keys[i]}, to) <= 0 {
			if op.compare(keyMark{key: n.keys[i]}, op.at) > 0 {
				told = append(told, n.keys[i])
			}
			i++
		}
		n.keys = n.keys[i:]
		rest += len(n.keys)
	}
	slices.SortFunc(told, func(a, b []byte) int { return compareKeys(a, b, op.req.Reversed) })
	told = slices.CompactFunc(told, func(a, b []byte) bool { return compareKeys(a, b, false) == 0 })
	op.at = to
	for _, key := range told {
		if len(op.answer.Keys) == op.limit || len(op.answer.Keys) > 0 && op.bytes+len(key) > op.c.limits.ResultBytes {
			op.answer.More, op.at = true, keyMark{key: op.answer.Keys[len(op.answer.Keys)-1]}
			return true
		}
		op.answer.Keys = append(op.answer.Keys, key)
		op.bytes += len(key)
	}
	op.answer.More = to.place != 1 || rest > 0
	return !op.answer.More || len(op.answer.Keys) == op.limit
}

// enoughLocked says whether what is known by now is an answer.
func (op *partitionsOp) enoughLocked() bool {
	return op.at.place == 0 && op.req.Patience > 0 && op.c.clock.Monotonic()-op.started >= op.req.Patience
}

// reached is how far as many nodes have told as the quota asks for.
func (op *partitionsOp) reached(q *partitionsQuota) keyMark {
	marks := make([]keyMark, 0, len(q.nodes))
	for _, n := range q.nodes {
		marks = append(marks, n.mark)
	}
	slices.SortFunc(marks, func(a, b keyMark) int { return op.compare(b, a) })
	if q.need == 0 {
		return keyMark{place: 1}
	}
	return marks[q.need-1]
}

// neededLocked are the nodes to be asked so that the watermark moves; not ok when it never will.
func (op *partitionsOp) neededLocked() (asks []*partitionsNode, ok bool) {
	for {
		var best *partitionsNode
		most := 0
		for _, n := range op.nodes {
			if n.state != partitionsReady || op.compare(n.mark, op.at) > 0 {
				continue
			}
			helps := 0
			for i := range op.quotas {
				if q := &op.quotas[i]; slices.Contains(q.nodes, n) && op.coming(q, false) < q.need {
					helps++
				}
			}
			// Who has told something already has less left to tell than one who has not.
			if helps > most || helps == most && helps > 0 && !best.asked && n.asked {
				best, most = n, helps
			}
		}
		if best == nil {
			break
		}
		best.state = partitionsOpen
		asks = append(asks, best)
	}
	for i := range op.quotas {
		if q := &op.quotas[i]; op.coming(q, true) < q.need {
			for _, n := range asks {
				n.state = partitionsReady
			}
			return nil, false
		}
	}
	return asks, true
}

// coming counts the nodes of a quota that have told of keys behind the watermark, or were asked to; those
// that are slow count only when patient.
func (op *partitionsOp) coming(q *partitionsQuota, patient bool) (n int) {
	for _, x := range q.nodes {
		if op.compare(x.mark, op.at) > 0 || x.state == partitionsOpen && (patient || !x.slow) {
			n++
		}
	}
	return n
}

// send asks nodes, this one last: it answers on the spot.
func (op *partitionsOp) send(asks []*partitionsNode, plan int) {
	c := op.c
	self := c.view.Self()
	slices.SortStableFunc(asks, func(a, b *partitionsNode) int {
		switch {
		case a.node == self && b.node != self:
			return 1
		case b.node == self && a.node != self:
			return -1
		}
		return 0
	})
	for _, n := range asks {
		op.mu.Lock()
		if op.done == nil { // the answer, which is the caller's now, came meanwhile
			op.mu.Unlock()
			return
		}
		from := n.mark
		if op.compare(from, op.at) < 0 {
			from = op.at
		}
		q := &PartitionsRead{
			Table: op.req.Table.StorageID, Span: op.req.Span, Reversed: op.req.Reversed, Limit: op.limit - len(op.answer.Keys),
			Now: op.req.Now, Dead: op.req.Dead, Moved: op.topology.Moved(), Cancel: op.cancel,
		}
		epoch := op.topology.Epoch()
		n.asked, n.sent = true, c.clock.Monotonic()
		op.mu.Unlock()
		if from.place == 0 {
			q.Span = q.Span.behind(from.key, q.Reversed)
		}
		if n.node == self {
			trace(op.req.Trace, self, "Listing partitions")
		} else {
			traceNode(op.req.Trace, self, "Sending listing of partitions to", n.node)
		}
		c.replica(n.node, op.req.Trace).Partitions(epoch, q, c.remaining(op.deadline), func(page *PartitionsPage, err error) {
			op.answered(n, plan, from, page, err)
		})
	}
}

// answered is the event of a node's answer, which began behind from.
func (op *partitionsOp) answered(n *partitionsNode, plan int, from keyMark, page *PartitionsPage, err error) {
	defer op.guarded()
	op.mu.Lock()
	if n.node != op.c.view.Self() {
		now := op.c.clock.Monotonic()
		op.c.peers.Record(n.node, now-n.sent, now)
	}
	if op.done == nil || plan != op.plans || op.pausing {
		op.mu.Unlock()
		return
	}
	mark := keyMark{place: 1}
	if err == nil && page.More {
		if mark = (keyMark{key: page.Last}); op.compare(mark, from) <= 0 {
			err = fmt.Errorf("coordinator: the partitions of node %s go back from %x", op.topology.NameOf(n.node), page.Last)
		}
	}
	if errors.Is(err, env.ErrCanceled) {
		op.finishLocked(err)
		return
	}
	n.slow = false
	if err != nil {
		var refusal *NotReplica
		op.refused = op.refused || errors.As(err, &refusal)
		n.state, n.err = partitionsFailed, err
	} else {
		n.state, n.mark = partitionsReady, mark
		n.keys = append(n.keys, page.Keys...)
		n.scanned += page.Scanned
		op.answer.Scanned = max(op.answer.Scanned, n.scanned)
	}
	op.mu.Unlock()
	op.advance()
}

// giveUpLocked fails the request, or plans its rest anew when a node refused; true when the request has
// ended, and mu is free.
func (op *partitionsOp) giveUpLocked() (ended bool) {
	c := op.c
	if !op.refused && !c.outdated(op.topology.Epoch()) || op.plans >= c.limits.PlansMax || c.unsafe.NoReplan {
		op.endLocked()
		return true
	}
	op.pausing = true
	c.counts.replans.Add(1)
	c.clock.After(replanPause<<(op.plans-1), op.replan)
	return false
}

// endLocked fails the request, unless what is known by now is an answer. It frees mu.
func (op *partitionsOp) endLocked() {
	if op.enoughLocked() {
		op.finishLocked(nil)
		return
	}
	op.finishLocked(op.failureLocked())
}

// replan goes on from the watermark, with the topology of now.
func (op *partitionsOp) replan() {
	defer op.guarded()
	op.mu.Lock()
	op.pausing = false
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	if err := op.planLocked(); err != nil {
		op.finishLocked(err)
		return
	}
	op.mu.Unlock()
	op.advance()
}

// failureLocked is the error that the present state means: the counts are those of a set of replicas for
// which the level is not met.
func (op *partitionsOp) failureLocked() error {
	received, blockFor := 0, 0
	for i := range op.quotas {
		q := &op.quotas[i]
		told := 0
		for _, n := range q.nodes {
			if op.compare(n.mark, op.at) > 0 {
				told++
			}
		}
		if told < q.need && (blockFor == 0 || told < received) {
			received, blockFor = told, q.need
		}
	}
	var failures []NodeFailure
	for _, n := range op.nodes {
		if n.state == partitionsFailed && !silent(n.err) {
			failures = append(failures, NodeFailure{Node: n.node, Reason: reasonOf(n.err)})
		}
	}
	data := len(op.answer.Keys) > 0
	if len(failures) > 0 {
		return &ReadFailure{Consistency: op.req.Consistency, Received: received, BlockFor: blockFor, Failures: failures, DataPresent: data}
	}
	op.c.counts.readTimeouts.Add(1)
	return &ReadTimeout{Consistency: op.req.Consistency, Received: received, BlockFor: blockFor, DataPresent: data}
}

// finishLocked answers; it frees mu.
func (op *partitionsOp) finishLocked(err error) {
	done, timer := op.done, op.timer
	op.done, op.timer = nil, nil
	answer := &op.answer
	switch {
	case err != nil:
		answer = nil
	case answer.More:
		answer.Reached = op.at.key
	}
	op.mu.Unlock()
	if timer != nil {
		timer.Stop()
	}
	op.c.reading.Add(-1)
	if op.unhook != nil {
		op.unhook()
	}
	done(answer, err)
	op.cancel.Cancel() // the steps of those whose answer is not needed
}

// canceled is the event that the caller does not wait for the answer any more.
func (op *partitionsOp) canceled() {
	defer op.guarded()
	op.mu.Lock()
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	op.finishLocked(env.ErrCanceled)
}

// arm starts the timer: for the deadline, or for the moment when others are asked as well.
func (op *partitionsOp) arm() {
	op.mu.Lock()
	defer op.mu.Unlock()
	if op.done == nil {
		return
	}
	wait := op.deadline - op.c.clock.Monotonic()
	if after, ok := op.patienceLocked(); ok {
		wait = min(wait, after)
	}
	op.timer = op.c.clock.After(max(wait, 0), op.tick)
}

// patienceLocked is how long a node may take before others are asked, too; not ok when there are none, or the
// table's speculative_retry says never.
func (op *partitionsOp) patienceLocked() (after time.Duration, ok bool) {
	spare := slices.ContainsFunc(op.nodes, func(n *partitionsNode) bool {
		return n.state == partitionsReady && op.compare(n.mark, op.at) <= 0
	})
	if !spare {
		return 0, false
	}
	return op.c.tables.Patience(op.req.Table)
}

// tick is the event of the timer.
func (op *partitionsOp) tick() {
	defer op.guarded()
	op.mu.Lock()
	op.timer = nil
	if op.done == nil {
		op.mu.Unlock()
		return
	}
	now := op.c.clock.Monotonic()
	if now >= op.deadline {
		op.endLocked()
		return
	}
	if after, ok := op.patienceLocked(); ok {
		for _, n := range op.nodes {
			if n.state == partitionsOpen && !n.slow && now-n.sent >= after {
				n.slow = true
				op.c.counts.speculated.Add(1)
			}
		}
	}
	op.mu.Unlock()
	op.advance()
	op.arm()
}
